"""Two textbook algorithms on directed graphs given as successor lists; neither recurses, so depth is no limit."""

from __future__ import annotations

from collections.abc import Sequence


def strongly_connected(successors: Sequence[Sequence[int]]) -> list[int]:
    """The strongly connected component of each vertex, numbered so that edges never lead to a higher number.

    Tarjan, "Depth-first search and linear graph algorithms" (1972), with an explicit stack.
    """
    count = len(successors)
    index, low, component = [0] * count, [0] * count, [-1] * count
    next_index, components = 1, 0
    open_vertices: list[int] = []
    for start in range(count):
        if index[start]:
            continue
        index[start] = low[start] = next_index
        next_index += 1
        open_vertices.append(start)
        path = [(start, iter(successors[start]))]
        while path:
            vertex, edges = path[-1]
            for target in edges:
                if not index[target]:
                    index[target] = low[target] = next_index
                    next_index += 1
                    open_vertices.append(target)
                    path.append((target, iter(successors[target])))
                    break
                if component[target] < 0:
                    low[vertex] = min(low[vertex], index[target])
            else:
                path.pop()
                if path:
                    parent = path[-1][0]
                    low[parent] = min(low[parent], low[vertex])
                if low[vertex] == index[vertex]:
                    while component[vertex] < 0:
                        component[open_vertices.pop()] = components
                    components += 1
    return component


def immediate_dominators(successors: Sequence[Sequence[int]], start: int) -> list[int]:
    """The closest other vertex on every path from ``start`` to each vertex; -1 for ``start`` and what it cannot reach.

    Lengauer and Tarjan, "A fast algorithm for finding dominators in a flowgraph" (1979), the simple version.
    """
    count = len(successors)
    number, parent, preorder = [-1] * count, [-1] * count, list[int]()
    stack = [(start, -1)]
    while stack:
        vertex, source = stack.pop()
        if number[vertex] >= 0:
            continue
        number[vertex], parent[vertex] = len(preorder), source
        preorder.append(vertex)
        stack.extend((target, vertex) for target in reversed(successors[vertex]) if number[target] < 0)
    predecessors: list[list[int]] = [[] for _ in range(count)]
    for vertex in preorder:
        for target in successors[vertex]:
            predecessors[target].append(vertex)

    semi, label, ancestor = number[:], list(range(count)), [-1] * count
    dominator = [-1] * count
    bucket: list[list[int]] = [[] for _ in range(count)]

    def lowest_label(vertex: int) -> int:
        """The vertex of lowest semidominator above ``vertex`` in the forest built so far, compressing the path."""
        path: list[int] = []
        while ancestor[vertex] >= 0 and ancestor[ancestor[vertex]] >= 0:
            path.append(vertex)
            vertex = ancestor[vertex]
        for low in reversed(path):
            above = ancestor[low]
            if semi[label[above]] < semi[label[low]]:
                label[low] = label[above]
            ancestor[low] = ancestor[above]
        return label[path[0]] if path else label[vertex]

    for vertex in reversed(preorder[1:]):
        for source in predecessors[vertex]:
            semi[vertex] = min(semi[vertex], semi[lowest_label(source)])
        bucket[preorder[semi[vertex]]].append(vertex)
        above = ancestor[vertex] = parent[vertex]
        for waiting in bucket[above]:
            lowest = lowest_label(waiting)
            dominator[waiting] = lowest if semi[lowest] < semi[waiting] else above
        bucket[above].clear()
    for vertex in preorder[1:]:
        if dominator[vertex] != preorder[semi[vertex]]:
            dominator[vertex] = dominator[dominator[vertex]]
    return dominator
