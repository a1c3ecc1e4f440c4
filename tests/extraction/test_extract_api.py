"""What callers of ``extract`` rely on: arguments, errors, options, the registry."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from math import inf, nan

import numpy as np
import pytest

from egraph_opt.egraph import EGraph, Selection
from egraph_opt.errors import EgraphOptError, UsageError
from egraph_opt.extraction import Extractor, NoExtractionError, Status, extract, extractors, get_extractor

STRATEGIES = [pytest.param(strategy, id=strategy.name) for strategy in extractors()]

# Class 2 is a sum of class 0 and class 1; class 0 is a costly leaf or made from class 1.
DIAMOND = EGraph.build([("x", 0, []), ("y", 1, []), ("f", 0, [1]), ("add", 2, [0, 1])], [2], 3)
DIAMOND_COSTS = np.array([3.0, 2.0, 2.0, 1.0])


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_strategy_describes_itself(strategy: type[Extractor]) -> None:
    assert is_dataclass(strategy)
    assert strategy.guarantee in ("tree-optimal", "dag-optimal", "heuristic")
    assert strategy.description
    assert get_extractor(strategy.name) == strategy()
    assert "name" not in {field.name for field in fields(strategy)}


def test_unknown_names_and_options_list_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"tree-greedy, .*ilp, portfolio"):
        get_extractor("simplex")
    with pytest.raises(UsageError, match="cuts"):
        get_extractor("ilp", threads=3)
    assert get_extractor("ilp", cuts=7) != get_extractor("ilp")


def test_sharing_is_counted_once() -> None:
    tree = extract(DIAMOND, DIAMOND_COSTS, extractor="tree-greedy")
    assert tree.cost == 6.0
    for name in ("dag-greedy", "ilp"):
        result = extract(DIAMOND, DIAMOND_COSTS, extractor=name)
        assert result.selection.choice.tolist() == [2, 1, 3]
        assert (result.cost, result.lower_bound, result.gap, result.status) == (5.0, 5.0, 0.0, Status.OPTIMAL)
        assert result.extractor == name
        assert set(result.seconds) >= {"read", "greedy", "check"}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_forbidden_and_infinite_e_nodes_are_not_selected(strategy: type[Extractor]) -> None:
    forbidden = np.array([False, False, True, False])
    assert extract(DIAMOND, DIAMOND_COSTS, extractor=strategy.name, forbidden=forbidden).cost == 6.0
    costs = np.where(forbidden, inf, DIAMOND_COSTS)
    assert extract(DIAMOND, costs, extractor=strategy.name).selection.choice.tolist() == [0, 1, 3]
    with pytest.raises(NoExtractionError, match="root class 2"):
        extract(DIAMOND, DIAMOND_COSTS, extractor=strategy.name, forbidden=np.array([False, True, False, False]))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_cycles_without_a_way_out_are_an_error(strategy: type[Extractor]) -> None:
    egraph = EGraph.build([("f", 0, [1]), ("g", 1, [0]), ("x", 2, [])], [2, 0], 3)
    with pytest.raises(NoExtractionError, match="root class 0"):
        extract(egraph, np.zeros(3), extractor=strategy.name)
    assert issubclass(NoExtractionError, EgraphOptError)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_free_cycle_is_never_selected(strategy: type[Extractor]) -> None:
    egraph = EGraph.build([("f", 0, [1]), ("g", 1, [0]), ("x", 0, []), ("y", 1, [])], [0, 1, 0], 2)
    result = extract(egraph, np.array([0.0, 0.0, 5.0, 6.0]), extractor=strategy.name)
    assert result.selection.choice.tolist() == [2, 1]
    assert result.cost == 5.0


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_no_roots_need_nothing(strategy: type[Extractor]) -> None:
    egraph = EGraph.build([("x", 0, [])], [], 1)
    result = extract(egraph, np.ones(1), extractor=strategy.name)
    assert result.selection.choice.tolist() == [-1]
    assert (result.cost, result.status) == (0.0, Status.OPTIMAL)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_ties_go_to_fewer_e_nodes_then_to_the_first(strategy: type[Extractor]) -> None:
    egraph = EGraph.build([("f", 0, [1]), ("a", 0, []), ("b", 0, []), ("c", 1, [])], [0], 2)
    assert extract(egraph, np.zeros(4), extractor=strategy.name).selection.choice.tolist() == [1, -1]


def test_wrong_costs_are_refused() -> None:
    with pytest.raises(UsageError, match=r"e-node 1 \(y\) is nan"):
        extract(DIAMOND, np.array([1.0, nan, 1.0, 1.0]))
    with pytest.raises(UsageError, match="is -inf"):
        extract(DIAMOND, np.array([1.0, -inf, 1.0, 1.0]))
    with pytest.raises(UsageError, match=r"shape \(4,\)"):
        extract(DIAMOND, np.ones(3))
    with pytest.raises(UsageError, match="forbidden"):
        extract(DIAMOND, np.ones(4), forbidden=np.zeros(3, np.bool_))
    with pytest.raises(UsageError, match="time limit"):
        extract(DIAMOND, DIAMOND_COSTS, time_limit=-1.0)


def test_tree_greedy_refuses_negative_costs() -> None:
    with pytest.raises(UsageError, match="negative costs"):
        extract(DIAMOND, -DIAMOND_COSTS, extractor="tree-greedy")


@pytest.mark.parametrize("name", ["dag-greedy", "ilp"])
def test_a_warm_start_is_used_as_far_as_it_can_be(name: str) -> None:
    best = Selection(np.array([2, 1, 3]))
    assert extract(DIAMOND, DIAMOND_COSTS, extractor=name, warm_start=best).cost == 5.0
    useless = Selection(np.array([1, 99, -1]))
    assert extract(DIAMOND, DIAMOND_COSTS, extractor=name, warm_start=useless).cost == 5.0
    with pytest.raises(UsageError, match=r"shape \(3,\)"):
        extract(DIAMOND, DIAMOND_COSTS, extractor=name, warm_start=Selection(np.array([2, 1])))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_time_limit_of_zero_still_gives_an_answer(strategy: type[Extractor]) -> None:
    result = extract(DIAMOND, DIAMOND_COSTS, extractor=strategy.name, time_limit=0.0)
    assert result.selection.order(DIAMOND)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_deep_graphs_with_exponential_trees(strategy: type[Extractor]) -> None:
    """Each class uses the one below twice: the tree cost is beyond the range of floats."""
    depth = 3000
    nodes = [("x", 0, list[int]())]
    nodes += [("add", cls, [cls - 1, cls - 1]) for cls in range(1, depth)]
    result = extract(EGraph.build(nodes, [depth - 1], depth), np.ones(depth), extractor=strategy.name)
    assert result.cost == depth


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_tuples_are_paid_once(strategy: type[Extractor]) -> None:
    """A two-output operator (class 1) read by two Gets is cheaper than two one-output operators."""
    nodes: list[tuple[str, int, list[int]]] = [
        ("input", 0, []),
        ("split", 1, [0]),
        ("get0", 2, [1]),
        ("get1", 3, [1]),
        ("slice", 2, [0]),
        ("slice", 3, [0]),
        ("concat", 4, [2, 3]),
    ]
    egraph = EGraph.build(nodes, [4, 2], 5)
    result = extract(egraph, np.array([0.0, 5.0, 0.0, 0.0, 6.0, 6.0, 1.0]), extractor=strategy.name)
    assert result.selection.choice.tolist() == [0, 1, 2, 3, 6]
    assert result.cost == 6.0


def test_the_solver_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(5)
    nodes = [("f", cls, [*rng.integers(cls, 40, 2 * (cls < 39))]) for cls in range(40) for _ in range(4)]
    extract(EGraph.build(nodes, [0, 1], 40), rng.integers(1, 9, len(nodes)).astype(np.float64))
    assert capfd.readouterr().out == ""
