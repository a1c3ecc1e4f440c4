"""Extraction made smooth: probabilities in place of choices, and their gradient, without loops over e-nodes.

Every array has a last axis for the *seeds*: independent descents side by side.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from egraph_opt.extraction.graph import strongly_connected
from egraph_opt.extraction.problem import Problem

_CERTAIN = 0.999  # probabilities above this are taken as this: the logarithm of what is left must be finite


class Relaxation:
    """A problem of n e-nodes, m classes and e uses of a class by an e-node, on the device of ``arrays``.

    Each class draws an e-node by its weight (*softmax* of logits). With p the probability that an e-node is selected
    and q that a class is needed, if all draws were independent:

        p[n] = q[class of n] * weight[n]        q[c] = 1 - product of (1 - p[n]) over the users n of c; 1 for roots

    The first is put into the second again and again until that hardly changes: e-graphs have cycles. The gradient
    of the expected cost comes from the same iteration backwards (Almeida, "A learning rule for asynchronous
    perceptrons with feedback in a combinatorial environment", 1987). Both go on from the values of the last call,
    which are close when the logits move little.

    How cyclic the weights are is told by the spectral radius of the matrix of the probabilities that a class leads
    to another, which is 0 exactly where there is no cycle: Lee, Danieletto, Miotto, Cherng, Dudley, "Scaling
    structural learning with NO-BEARS" (2019). Unlike the trace of the exponential in NOTEARS it needs no products
    of matrices, which large components would make slow.
    """

    def __init__(self, problem: Problem, seeds: int, scale: float, arrays: Any = np) -> None:
        """Costs are divided by ``scale``. Each class has e-nodes, numbered by class; operands are distinct."""
        self.xp = xp = arrays
        owner = np.array(problem.owner, np.int64)
        counts = np.array(problem.operand_counts, np.int64)
        user = np.repeat(np.arange(len(owner)), counts)
        child = np.array([c for children in problem.operands for c in children], np.int64)
        component = np.array(strongly_connected(problem.successors), np.int64)
        self.owner = xp.asarray(owner)
        self.user, self.child = xp.asarray(user), xp.asarray(child)
        self.inside = xp.asarray((component[owner[user]] == component[child]).astype(np.float32)[:, None])
        self.cost = xp.asarray((np.array(problem.costs) / scale).astype(np.float32)[:, None])
        self.by_class = _Segments(xp, owner, len(problem.nodes))
        self.by_user = _Segments(xp, user, len(owner))
        self.by_child = _Segments(xp, child, len(problem.nodes))
        root = np.zeros((len(problem.nodes), 1), np.float32)
        root[problem.roots] = 1.0
        self.root = xp.asarray(root)
        shape = (len(problem.nodes), seeds)
        self.needed = xp.broadcast_to(self.root, shape).copy()
        self.value = xp.zeros(shape, np.float32)
        self.left, self.right = xp.ones(shape, np.float32), xp.ones(shape, np.float32)

    def weights(self, logits: Any) -> Any:
        """(n, seeds): the share of each e-node in its class."""
        xp = self.xp
        powers = xp.exp(xp.clip(logits, -30.0, 30.0))
        return powers / self.by_class.sum(powers)[self.owner]

    def gradient(self, logits: Any, cyclic: float, rounds: int) -> tuple[Any, Any]:
        """The expected cost (seeds,), and the gradient (n, seeds) of that and ``cyclic`` times the spectral radius.

        ``rounds`` is how often each of the iterations is repeated.
        """
        xp = self.xp
        weight = self.weights(logits)
        unused = 1.0 - self.needed
        for _ in range(rounds):
            selected = xp.minimum(self.needed[self.owner] * weight, _CERTAIN)
            unused = (1.0 - self.root) * xp.exp(self.by_child.sum(xp.log1p(-selected)[self.user]))
            self.needed = 1.0 - unused
        selected = self.needed[self.owner] * weight
        spare = unused[self.child] / (1.0 - xp.minimum(selected, _CERTAIN))[self.user]
        price = xp.broadcast_to(self.cost, weight.shape)
        for _ in range(rounds):
            price = self.cost + self.by_user.sum(self.value[self.child] * spare)
            self.value = self.by_class.sum(weight * price)
        by_weight = price + cyclic * self._cyclic_gradient(selected, rounds)
        by_weight = by_weight * self.needed[self.owner]
        mean = self.by_class.sum(weight * by_weight)[self.owner]
        return (self.cost * selected).sum(axis=0), weight * (by_weight - mean)

    def _cyclic_gradient(self, selected: Any, rounds: int) -> Any:
        """(n, seeds): the derivative of the spectral radius by the probability of each e-node."""
        xp = self.xp
        edge = selected[self.user] * self.inside
        above = self.owner[self.user]
        for _ in range(rounds):
            right = self.by_class.sum(self.by_user.sum(edge * self.right[self.child])) + 1e-3 * self.right
            left = self.by_child.sum(edge * self.left[above]) + 1e-3 * self.left
            self.right = right / (xp.abs(right).max(axis=0) + 1e-20)
            self.left = left / (xp.abs(left).max(axis=0) + 1e-20)
        product = (self.left * self.right).sum(axis=0) + 1e-6
        return self.by_user.sum(self.inside * self.left[above] * self.right[self.child]) / product


class _Segments:
    """Sums of rows that belong together."""

    def __init__(self, xp: Any, groups: np.ndarray[Any, np.dtype[np.int64]], count: int) -> None:
        """``groups`` is the group of each row, below ``count``; groups without rows have the sum 0."""
        order = np.argsort(groups, kind="stable")
        present, starts = np.unique(groups[order], return_index=True)
        self.xp, self.count = xp, count
        self.order = None if np.array_equal(order, np.arange(len(order))) else xp.asarray(order)
        self.present = None if len(present) == count else xp.asarray(present)
        self.starts = xp.asarray(starts)

    def sum(self, rows: Any) -> Any:
        """(count, seeds) from (rows, seeds)."""
        if not len(rows):
            return self.xp.zeros((self.count, rows.shape[1]), rows.dtype)
        ordered = rows if self.order is None else rows[self.order]
        # In double precision: an array module may form the sums as differences of running sums.
        sums = self.xp.add.reduceat(ordered, self.starts, axis=0, dtype=np.float64).astype(rows.dtype)
        if self.present is None:
            return sums
        result = self.xp.zeros((self.count, rows.shape[1]), rows.dtype)
        result[self.present] = sums
        return result
