"""Goals that must never be provable, and axioms that must be seen to contradict each other.

An inconsistent set of axioms proves everything, and no single rule would look wrong. So after every change of the
axioms these goals are tried, with the search and with Z3 alone; and TASO's own trap is laid for the prover: a split
that carries no size, next to a concatenation that is associative, makes ``p ++ q = p`` (``facts/verification.md``,
section 1, and TASO's disabled axiom W1).
"""

from __future__ import annotations

from collections.abc import Sequence

from egraph_opt.rewrites.prove.find import attempt, oracle
from egraph_opt.rewrites.prove.world import World
from egraph_opt.terms import Equation, sides


def goal(name: str, lhs: str | tuple[str, ...], rhs: str | tuple[str, ...], *when: str) -> Equation:
    """An equation to be tried."""
    return Equation(name, sides(lhs), sides(rhs), when)


_SPLIT = "Get(Split({}, axis=a, sizes=s), index=0)"
_MERGED = "Get(Split(Conv(x, Concat(v, w, axis=0), **c), axis=1, sizes=(size(v, 0), size(w, 0))), index=0)"

CANARIES: tuple[Equation, ...] = (
    goal("join-is-part", "Concat(p, q, axis=a)", "p"),
    goal("all-equal", "Add(x, Sub(y, y))", "Add(y, Sub(x, x))", "shape(x) == shape(y)"),
    goal("relu-of-matmul", "Relu(MatMul(x, y))", "MatMul(Relu(x), y)"),
    goal("join-commutes", "Concat(x, y, axis=a)", "Concat(y, x, axis=a)", "shape(x) == shape(y)"),
    goal("wrong-size", _SPLIT.format("Concat(x, y, axis=a)"), "x"),
    goal("wrong-part", _SPLIT.format("Concat(x, y, axis=a)"), "y", "s == (size(x, a), size(y, a))"),
    goal(
        "grouped-merge",
        ("Conv(x, v, **c)", "Conv(x, w, **c)"),
        (_MERGED, _MERGED.replace("index=0", "index=1")),
        "shape(v)[1:] == shape(w)[1:]",
    ),
    goal(
        "sum-of-unlike-products",
        "Add(MatMul(x, y), MatMul(x, z))",
        "MatMul(x, Add(y, z))",
    ),
    goal("relu-is-linear", "Relu(Add(x, y))", "Add(Relu(x), Relu(y))", "shape(x) == shape(y)"),
    goal("sub-commutes", "Sub(x, y)", "Sub(y, x)"),
    goal("pool-twice", "MaxPool(MaxPool(x, **p), **p)", "MaxPool(x, **p)", "max(p_strides) == 1"),
    goal("distributes-wrongly", "Add(Mul(x, y), z)", "Mul(Add(x, z), Add(y, z))"),
)

SIZELESS = goal("split-without-size", _SPLIT.format("Concat(x, y, axis=a)"), "x")
"""A split whose sizes nobody asks about."""
CONTRADICTION = goal(
    "part-is-whole",
    ("Concat(p, q, axis=a)", _SPLIT.format("Concat(p, Concat(q, r, axis=a), axis=a)")),
    ("p", "p"),
)
"""What a size-less split and the associativity of Concat show; its second root only brings in the terms."""


def sung(axioms: Sequence[Equation], canaries: Sequence[Equation] = CANARIES) -> list[str]:
    """Names of the canaries that the axioms prove, by search or by Z3 alone; there must be none."""
    found: list[str] = []
    for canary in canaries:
        world = World(canary, 6, 0)
        alone = oracle(tuple(axioms)).ask(canary, world)
        if alone.status == "proved" or attempt(canary, axioms).proof is not None:
            found.append(canary.name)
    return found


def trap_works(axioms: Sequence[Equation]) -> bool:
    """Whether Z3 sees that size-less splits contradict the axioms, and that the axioms alone do not."""
    world = World(CONTRADICTION, 6, 0)
    with_trap = oracle((*axioms, SIZELESS)).ask(CONTRADICTION, world)
    without = oracle(tuple(axioms)).ask(CONTRADICTION, world)
    return with_trap.status == "proved" and without.status == "unknown"
