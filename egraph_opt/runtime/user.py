"""Cost models of a user's own: a table of prices (TOML or JSON), or a class in a Python file."""

from __future__ import annotations

import dataclasses
import difflib
import importlib.util
import json
import math
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, cast

from egraph_opt.errors import UsageError
from egraph_opt.ops import operators
from egraph_opt.runtime.costs import Cost, CostModel, OnProgress, Quote, work
from egraph_opt.runtime.signature import FREE, Signature

MakeModel = Callable[[str], CostModel]
"""The cost model of a target."""


def load_cost_model(path: str | Path, target: str, make: MakeModel, **options: Any) -> CostModel:
    """The cost model in a file.

    ``.toml`` and ``.json`` files are tables: ``seconds`` has the price of an operator, whatever its size, or of one
    signature as ``costs show`` prints it; ``factors`` says how many times as much as elsewhere an operator costs; all
    else is priced by ``base``, a target (``target`` where it is not given). A ``.py`` file has one class with the
    methods of ``CostModel``; it is run, so it must be one that you trust.

    Args:
        make: gives the cost model of a target.
        options: fields of the class that are set, as far as it has them.

    Raises:
        UsageError: the file cannot be read, or holds no cost model; the message says why.
    """
    path = Path(path)
    if not path.is_file():
        raise UsageError(f"cannot read the cost model {path}: there is no such file")
    if path.suffix == ".py":
        return Trusted(path.name, _instance(path, options))
    if path.suffix in (".toml", ".json"):
        return _table(path, target, make)
    raise UsageError(f"{path} is no cost model: write prices.toml, prices.json or a Python file")


# --- tables


@dataclass(frozen=True)
class Table:
    """Prices of some operators, on top of another model's; the fields are those of the file."""

    name: ClassVar[str] = "table"
    description: ClassVar[str] = "prices from a file, the rest from another model"

    base: CostModel
    seconds: Mapping[str, float]
    factors: Mapping[str, float]

    def price(
        self,
        signatures: Sequence[Signature],
        *,
        reference: Sequence[Signature] = (),
        on_progress: OnProgress | None = None,
        deadline: float | None = None,
    ) -> list[Cost]:
        """See ``CostModel.price``."""
        others = [s for s in signatures if self._fixed(s) is None]
        priced = iter(self.base.price(others, reference=reference, on_progress=on_progress, deadline=deadline))
        return [self._fixed(s) or self._scaled(s, next(priced)) for s in signatures]

    def quote(self, signatures: Sequence[Signature], *, reference: Sequence[Signature] = ()) -> list[Quote]:
        """See ``CostModel.quote``."""
        others = [s for s in signatures if self._fixed(s) is None]
        quoted = iter(self.base.quote(others, reference=reference))
        found: list[Quote] = []
        for signature in signatures:
            fixed = self._fixed(signature)
            found.append(Quote.known(signature, fixed) if fixed else self._scaled_quote(signature, next(quoted)))
        return found

    def _fixed(self, signature: Signature) -> Cost | None:
        seconds = self.seconds.get(signature.key, self.seconds.get(signature.op))
        if seconds is None or signature.op in FREE:
            return None
        todo = work(signature)
        return Cost(seconds, todo.flops, todo.bytes, seconds, "model")

    def _scaled(self, signature: Signature, cost: Cost) -> Cost:
        factor = self.factors.get(signature.op, 1.0)
        return dataclasses.replace(cost, seconds=cost.seconds * factor, lower_bound=cost.lower_bound * factor)

    def _scaled_quote(self, signature: Signature, quote: Quote) -> Quote:
        cost = self._scaled(signature, quote.cost) if quote.cost else None
        return Quote(quote.key, cost, quote.lower_bound * self.factors.get(signature.op, 1.0))


def _table(path: Path, target: str, make: MakeModel) -> Table:
    try:
        text = path.read_text()
        said = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} is no table of prices: {error}") from None
    unknown = set(said) - {"base", "seconds", "factors"} if isinstance(said, dict) else {"a list"}
    if unknown:
        raise UsageError(f"{path}: a table of prices has base, seconds and factors, not {', '.join(sorted(unknown))}")
    seconds, factors = _numbers(path, said, "seconds"), _numbers(path, said, "factors")
    base = said.get("base", target)
    if not isinstance(base, str):
        raise UsageError(f"{path}: base is the name of a target, like {target}")
    return Table(make(base), seconds, factors)


def _numbers(path: Path, said: Mapping[str, Any], part: str) -> dict[str, float]:
    found = said.get(part, {})
    if not isinstance(found, dict):
        raise UsageError(f"{path}: {part} maps operators to numbers")
    for name, value in found.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise UsageError(f"{path}: {part} of {name} must be a number from 0 up, not {value!r}")
        operator = name.partition("(")[0]
        if operator not in operators() and operator != "Opaque":
            near = [f"; did you mean {other}?" for other in difflib.get_close_matches(operator, operators(), 1)]
            raise UsageError(f"{path}: there is no operator {operator}{''.join(near)}")
    return {name: float(value) for name, value in found.items()}


# --- Python files


@dataclass(frozen=True)
class Trusted:
    """A model from a user's file: what it returns is looked at, and its errors are told as such."""

    name: ClassVar[str] = "user"
    description: ClassVar[str] = "a class from a file"

    file: str
    model: CostModel

    def price(
        self,
        signatures: Sequence[Signature],
        *,
        reference: Sequence[Signature] = (),
        on_progress: OnProgress | None = None,
        deadline: float | None = None,
    ) -> list[Cost]:
        """See ``CostModel.price``; raises UsageError where the model fails or gives what is no price."""
        ask = self.model.price
        costs = self._asked(
            lambda: ask(signatures, reference=reference, on_progress=on_progress, deadline=deadline), len(signatures)
        )
        for signature, cost in zip(signatures, costs, strict=True):
            if not isinstance(cost, Cost) or not 0 <= cost.seconds < math.inf:
                raise UsageError(f"{self.file}: the price of {signature.key} is {cost!r}, which is no Cost from 0 up")
        return costs

    def quote(self, signatures: Sequence[Signature], *, reference: Sequence[Signature] = ()) -> list[Quote]:
        """See ``CostModel.quote``; raises UsageError as ``price`` does."""
        return self._asked(lambda: self.model.quote(signatures, reference=reference), len(signatures))

    def _asked[T](self, ask: Callable[[], list[T]], count: int) -> list[T]:
        name = type(self.model).__name__
        try:
            found = list(ask())
        except Exception as error:
            raise UsageError(f"{self.file}: {name} failed: {type(error).__name__}: {error}") from error
        if len(found) != count:
            raise UsageError(f"{self.file}: {name} gave {len(found)} answers to {count} questions")
        return found


def _instance(path: Path, options: Mapping[str, Any]) -> CostModel:
    """The one cost model of a Python file, made with those of ``options`` that are fields of it."""
    spec = importlib.util.spec_from_file_location(f"egraph_opt_user_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        sys.modules[spec.name] = module  # where dataclasses look for the types of their fields
        spec.loader.exec_module(module)
        own = [v for v in vars(module).values() if isinstance(v, type) and v.__module__ == spec.name]
        models = [cls for cls in own if all(callable(getattr(cls, method, None)) for method in ("price", "quote"))]
        if len(models) != 1:
            names = ", ".join(cls.__name__ for cls in models) or "none"
            raise UsageError(f"{path} needs one class with the methods price and quote of CostModel: it has {names}")
        fields = {f.name for f in dataclasses.fields(models[0])} if dataclasses.is_dataclass(models[0]) else set()
        return cast(CostModel, models[0](**{name: value for name, value in options.items() if name in fields}))
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(f"{path} cannot be used: {type(error).__name__}: {error}") from error
