"""Extraction under bounds against extraction under all costs, on hundreds of random e-graphs."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field
from math import inf

import numpy as np
import pytest
from numpy.typing import NDArray

from egraph_opt.egraph import EGraph, selection_cost
from egraph_opt.extraction import Ended, LazyExtraction, NoExtractionError, Status, extract, extract_lazily
from egraph_opt.extraction.lazy import LazyCosts

CASES = int(os.environ.get("EGRAPH_OPT_RANDOM_CASES", "300"))


@dataclass
class Ledger:
    """Costs by kind of e-node, as a cost model would give them: e-nodes of a kind are looked up together."""

    true: NDArray[np.float64]
    bound: NDArray[np.float64]
    kind: NDArray[np.int64]
    exact: NDArray[np.bool_]
    bounds_hold: bool = True
    looked_up: list[int] = field(default_factory=list[int])

    @property
    def seconds(self) -> NDArray[np.float64]:
        return np.where(self.exact, self.true, self.bound)

    def settle(self, nodes: NDArray[np.int64]) -> None:
        for kind in np.unique(self.kind[nodes]).tolist():
            same = self.kind == kind
            if not self.exact[same].all():
                self.looked_up.append(kind)
            self.exact = self.exact | same
            self.bounds_hold &= bool((self.true[same] >= self.bound[same]).all())


@dataclass(frozen=True)
class Case:
    egraph: EGraph
    ledger: Ledger
    surcharge: NDArray[np.float64]
    forbidden: NDArray[np.bool_]

    def optimum(self) -> float:
        """What all costs give: -1 where nothing can be extracted."""
        try:
            found = extract(self.egraph, self.ledger.true + self.surcharge, extractor="ilp", forbidden=self.forbidden)
        except NoExtractionError:
            return -1.0
        assert found.status is Status.OPTIMAL
        return found.cost

    def lazily(self, **options: float) -> LazyExtraction:
        ledger: LazyCosts = self.ledger
        return extract_lazily(self.egraph, ledger, surcharge=self.surcharge, forbidden=self.forbidden, **options)  # type: ignore[arg-type]


def random_case(seed: int) -> Case:
    """Up to 30 classes of up to 4 e-nodes of up to 25 kinds: cycles, several roots, weak, tight and equal bounds."""
    rng = random.Random(seed)
    classes, kinds = rng.randint(2, 30), rng.randint(2, 25)
    nodes: list[tuple[str, int, list[int]]] = []
    for cls in range(classes):
        for _ in range(rng.randint(1, 4)):
            span = classes if rng.random() < 0.1 else cls  # mostly of classes before it; now and then a cycle
            operands = [rng.randrange(span) for _ in range(rng.choice([0, 1, 1, 2, 3]))] if span else []
            nodes.append(("op", cls, operands))
    kind = np.array([rng.randrange(kinds) for _ in nodes])
    palette = rng.choice([[1.0, 2.0, 3.0], [0.0, 1.0], [1e-6, 3e-6, 1e-5, 1e-4], [rng.random() for _ in range(9)]])
    cost = np.array([rng.choice(palette) for _ in range(kinds)])
    share = np.array([rng.choice([0.0, 0.3, 0.7, 1.0, rng.random()]) for _ in range(kinds)])
    surcharge = np.array([rng.choice([0.0, 0.0, 0.5]) * palette[-1] for _ in nodes])
    forbidden = np.array([rng.random() < 0.05 for _ in nodes])
    roots = [rng.randrange(classes) for _ in range(rng.randint(1, 3))]
    ledger = Ledger(cost[kind], (cost * share)[kind], kind, kind == 0)
    return Case(EGraph.build(nodes, roots, classes), ledger, surcharge, forbidden)


def test_bounds_give_the_same_cost_as_all_costs_with_fewer_looked_up() -> None:
    saved = total = 0
    for seed in range(CASES):
        case = random_case(seed)
        optimum = case.optimum()
        if optimum < 0:
            with pytest.raises(NoExtractionError):
                case.lazily()
            continue
        found = case.lazily()
        answer, ledger = found.extraction, case.ledger
        order = np.array(answer.selection.order(case.egraph))
        assert found.ended is Ended.PROVEN, seed
        assert answer.status is Status.OPTIMAL
        assert ledger.exact[order].all()
        assert not case.forbidden[order].any()
        true = selection_cost(case.egraph, ledger.true + case.surcharge, answer.selection)
        assert true == pytest.approx(answer.cost, rel=1e-9) == pytest.approx(optimum, rel=1e-9), seed
        assert found.rounds <= len(ledger.looked_up) + 1
        assert len(set(ledger.looked_up)) == len(ledger.looked_up)
        total += len(np.unique(ledger.kind))
        saved += int(sum(not ledger.exact[ledger.kind == k].all() for k in np.unique(ledger.kind)))
    assert saved > 0.2 * total


def test_without_patience_what_cannot_be_ruled_out_is_looked_up_at_once_and_the_cost_is_the_same() -> None:
    ended: set[Ended] = set()
    saved = 0
    for seed in range(CASES):
        case = random_case(seed)
        optimum = case.optimum()
        if optimum < 0:
            continue
        found = case.lazily(patience=-1.0)
        assert found.extraction.cost == pytest.approx(optimum, rel=1e-9), seed
        ended.add(found.ended)
        saved += int((~case.ledger.exact).any())
    assert ended == {Ended.PROVEN, Ended.UNPROVEN}
    assert saved


def test_a_strategy_without_proof_looks_up_what_it_cannot_rule_out() -> None:
    for seed in range(CASES // 3):
        case = random_case(seed)
        if case.optimum() < 0:
            continue
        found = extract_lazily(
            case.egraph, case.ledger, surcharge=case.surcharge, forbidden=case.forbidden, extractor="tree-greedy"
        )
        order = np.array(found.extraction.selection.order(case.egraph))
        assert case.ledger.exact[order].all()
        assert found.ended is Ended.UNPROVEN or found.extraction.status is Status.OPTIMAL
        assert found.extraction.cost >= case.optimum() * (1 - 1e-9)


def test_a_bound_that_is_seen_to_be_false_makes_everything_be_looked_up() -> None:
    seen = unseen = 0
    for seed in range(CASES):
        case = random_case(seed)
        ledger = case.ledger
        ledger.bound = np.where(ledger.kind % 3 == 1, ledger.true * 1.5 + 1e-9, ledger.bound)
        optimum = case.optimum()
        if optimum < 0:
            continue
        found = case.lazily()
        if ledger.bounds_hold:
            unseen += 1
            continue
        seen += 1
        assert found.ended is Ended.FALSE_BOUND
        assert ledger.exact.all()
        assert found.extraction.cost == pytest.approx(optimum, rel=1e-9), seed
    assert seen
    assert unseen


def test_what_is_all_known_takes_one_round() -> None:
    case = next(case for seed in range(CASES) if (case := random_case(seed)).optimum() > 0)
    case.ledger.exact[:] = True
    found = case.lazily(patience=-1.0)
    assert (found.rounds, found.ended) == (1, Ended.PROVEN)
    assert not case.ledger.looked_up


def test_a_warm_start_of_known_cost_saves_looking_up_its_equals() -> None:
    egraph = EGraph.build([("known", 0, []), ("equal", 0, []), ("dearer", 0, [])], [0], 1)
    ledger = Ledger(np.array([2.0, 2.0, 9.0]), np.array([0.0, 2.0, 3.0]), np.arange(3), np.array([True, False, False]))
    start = extract(egraph, np.array([2.0, inf, inf])).selection
    found = extract_lazily(egraph, ledger, warm_start=start)
    assert found.extraction.cost == 2.0
    assert found.ended is Ended.PROVEN
    assert not ledger.looked_up


def test_a_warm_start_that_uses_what_is_forbidden_is_no_answer() -> None:
    """The start is the optimum where nothing is forbidden; then its first e-node is."""
    other = 0
    for seed in range(60):
        case = random_case(seed)
        try:
            start = extract(case.egraph, case.ledger.true + case.surcharge, extractor="ilp").selection
        except NoExtractionError:
            continue
        forbidden = np.zeros_like(case.forbidden)
        forbidden[start.choice[start.choice >= 0][0]] = True
        strict = Case(case.egraph, case.ledger, case.surcharge, forbidden)
        optimum = strict.optimum()
        if optimum < 0:
            continue
        case.ledger.settle(start.choice[start.choice >= 0])
        found = strict.lazily(warm_start=start).extraction  # type: ignore[arg-type]
        chosen = found.selection.choice[found.selection.choice >= 0]
        assert not forbidden[chosen].any()
        assert found.cost == pytest.approx(optimum)
        other += 1
    assert other > 10
