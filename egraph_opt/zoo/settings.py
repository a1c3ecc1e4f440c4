"""What decides the results of a run besides its models: settings, versions, rules, the machine where it counts."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, get_args

from egraph_opt.errors import UsageError
from egraph_opt.pipeline import Options
from egraph_opt.rewrites import Effort, Numerics
from egraph_opt.rewrites.library import all_rules
from egraph_opt.rewrites.user import read_user_rules
from egraph_opt.rewrites.validation import fingerprint
from egraph_opt.runtime import cpu_name

Rerun = Literal["missing", "failed", "changed", "all"]
"""Which models a round does: those without a result, or also those that failed, whose content or configuration changed
since, or all."""

SOFT_SHARE = 0.8
"""Share of a model's time after which the optimizer itself comes to an end, with what it has."""
PACKAGES = ("egraph-opt", "egglog", "highspy", "numpy", "onnx", "onnx-ir", "onnxruntime")


@dataclass(frozen=True)
class Settings:
    """How each model is optimized; the fields are those of ``Options``, except for the limits.

    Attributes:
        rule_files, cost_model: absolute paths.
        time_limit: seconds after which a model's processes are killed.
        memory_limit: GB (2^30 bytes) of data that each process of a model may hold.
    """

    target: str = "ort-cpu"
    extractor: str = "ilp"
    numerics: Numerics = "standard"
    effort: Effort = "standard"
    threads: int = 1
    seed: int = 0
    rule_files: Sequence[str] = ()
    cost_model: str = ""
    skip_rules: Sequence[str] = ()
    only_rules: Sequence[str] = ()
    keep_opset: bool = False
    provenance: bool = True
    measure: bool = True
    time_limit: float = 600.0
    memory_limit: float = 8.0

    def options(self) -> dict[str, Any]:
        """Options of ``egraph_opt.optimize``."""
        return {**dataclasses.asdict(self), "time_limit": self.time_limit * SOFT_SHARE}

    def check(self) -> None:
        """Says what is wrong before any work is done.

        Raises:
            UsageError: a setting has a value that cannot be used.
        """
        Options(**self.options()).check()


@dataclass(frozen=True)
class Round:
    """One pass over the zoo; ``run.json`` holds them all, the newest last.

    Attributes:
        source: the folder of the zoo.
        rules: fingerprint of the rules, and of the user's cost model.
        device: the machine, where costs are measured; empty where they are formulas.
    """

    number: int
    rerun: Rerun
    source: str
    settings: Settings
    started: str
    versions: Mapping[str, str] = field(default_factory=lambda: {name: version(name) for name in PACKAGES})
    rules: str = field(default_factory=lambda: rules_fingerprint(Settings()))
    device: str = ""

    def __post_init__(self) -> None:
        if self.rerun not in get_args(Rerun):
            raise UsageError(f"--rerun {self.rerun}: choose one of {', '.join(get_args(Rerun)[1:])}")

    @property
    def config(self) -> str:
        """Fingerprint of what decides results."""
        decisive = [dataclasses.asdict(self.settings), dict(self.versions), self.rules, self.device]
        return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()[:16]

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Round:
        """The round that ``to_json`` wrote.

        Raises:
            TypeError, KeyError: it is no round.
        """
        return Round(**{**data, "settings": settings_from(data["settings"])})

    def to_json(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "config": self.config}


def settings_from(data: Mapping[str, Any]) -> Settings:
    """Settings from plain data."""
    lists = {name: tuple(value) for name, value in data.items() if isinstance(value, list | tuple)}
    return Settings(**{**data, **lists})


def device_of(settings: Settings) -> str:
    """The machine as far as results depend on it."""
    return "" if settings.target.startswith("analytic") else cpu_name()


def rules_fingerprint(settings: Settings) -> str:
    """Hash of all rules, those that ship and the user's, and of the user's cost model."""
    rules = (*all_rules("thorough"), *read_user_rules(settings.rule_files))
    found = hashlib.sha256("".join(fingerprint(rule) for rule in rules).encode())
    if settings.cost_model:
        found.update(Path(settings.cost_model).read_bytes())
    return found.hexdigest()[:16]
