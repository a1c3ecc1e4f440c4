"""Components and dominators against their definitions."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from egraph_opt.extraction.graph import immediate_dominators, strongly_connected


def random_graphs() -> Iterator[list[list[int]]]:
    rng = random.Random(1)
    for _ in range(300):
        count = rng.randint(1, 9)
        yield [sorted(rng.sample(range(count), rng.randint(0, min(3, count)))) for _ in range(count)]


def reachable(graph: list[list[int]], start: int, without: int = -1) -> set[int]:
    seen, stack = {start}, [start]
    while stack:
        for target in graph[stack.pop()]:
            if target not in seen and target != without:
                seen.add(target)
                stack.append(target)
    return seen


def test_components_are_mutually_reachable_and_numbered_downwards() -> None:
    for graph in random_graphs():
        component = strongly_connected(graph)
        reach = [reachable(graph, vertex) for vertex in range(len(graph))]
        for a in range(len(graph)):
            for b in range(len(graph)):
                assert (component[a] == component[b]) == (b in reach[a] and a in reach[b])
            assert all(component[b] <= component[a] for b in graph[a])


def test_dominators_are_on_every_path() -> None:
    for graph in random_graphs():
        everything = reachable(graph, 0)
        dominator = immediate_dominators(graph, 0)
        for vertex in range(len(graph)):
            ancestors = set[int]()
            above = dominator[vertex]
            while above >= 0:
                ancestors.add(above)
                above = dominator[above]
            expected = {
                other
                for other in everything
                if vertex in everything
                and other != vertex
                and (other == 0 or vertex not in reachable(graph, 0, without=other))
            }
            assert ancestors == expected


@pytest.mark.parametrize("depth", [50_000])
def test_depth_is_no_limit(depth: int) -> None:
    chain = [[vertex + 1] for vertex in range(depth)] + [[0]]
    assert set(strongly_connected(chain)) == {0}
    assert immediate_dominators(chain, 0)[depth] == depth - 1
