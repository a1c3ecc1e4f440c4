"""Finds ground instances of axioms by E-matching over classes that know their types.

Z3 can match the patterns of axioms, but not evaluate ``along(s, out, 1)`` or ``shape(y) == shape(z)`` for a term that
it has just made. Here every class has its type in every case of a world, so conditions and computed attributes of an
instance are decided at once. Both sides of the goal are in the graph from the start, and both sides of an axiom are
patterns (where they hold all its variables): the search meets in the middle. It is breadth-first, bounded by rounds
and nodes, and has no randomness.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from egraph_opt.rewrites.prove.closure import Closure
from egraph_opt.rewrites.prove.proof import Instance, equalities
from egraph_opt.rewrites.prove.terms import Schema, Term, names, schema, substitute_text, subterms
from egraph_opt.rewrites.prove.world import Untyped, World
from egraph_opt.terms import Equation
from egraph_opt.terms.pattern import Expr

Binding = dict[str, int | str]
"""The class of a tensor, the key of an attribute."""


@dataclass(frozen=True)
class Limits:
    """When to give up: rounds of matching, nodes of the graph, instances tried."""

    rounds: int = 5
    nodes: int = 600
    instances: int = 4000


@dataclass(frozen=True)
class Found:
    """What a search found.

    Attributes:
        proved: whether the sides of the goal fell together.
        instances: every instance that was used, in order.
        seeds: terms that were put in before.
    """

    proved: bool
    instances: tuple[Instance, ...]
    seeds: tuple[Term, ...] = ()


class Graph(Closure):
    """A congruence closure whose classes know a term, its types, and the first text of each attribute."""

    def __init__(self, world: World) -> None:
        super().__init__(self._key)
        self.world = world
        self.terms: list[Term] = []
        self.texts: dict[str, str] = {}
        self._keys: dict[str, str] = {}

    def _key(self, text: str) -> str:
        key = self._keys.get(text)
        if key is None:
            key = self._keys[text] = self.world.key(text)
            known = self.texts.setdefault(key, text)
            if names(known) and not names(text):
                self.texts[key] = text  # a literal is easier to read
        return key

    def fresh(self, term: Term) -> int:
        self.world.types(term)  # an ill-typed term has no class
        self.terms.append(term)
        return super().fresh(term)

    def term(self, class_: int) -> Term:
        """A term of the class: the first that was made."""
        return self.terms[self.find(class_)]


@dataclass(frozen=True)
class Trigger:
    """Patterns (one side of an axiom) that bind all its variables but those that conditions determine.

    Attributes:
        solved: such a variable and the expression that a condition says it equals.
    """

    axiom: str
    made: Schema
    patterns: tuple[Term, ...]
    solved: tuple[tuple[str, str], ...] = ()

    @property
    def size(self) -> int:
        """Operators of the axiom."""
        return sum(1 for side in (*self.made.lhs, *self.made.rhs) for t in subterms(side) if not t.is_variable)


@cache
def triggers(axiom: Equation) -> tuple[Trigger, ...]:
    """The sides of an axiom that can be matched: for several roots, all left roots together or any one right root."""
    made = schema(axiom)
    sides = [made.lhs, *((side,) for side in made.rhs)]
    if len(made.rhs) > 1:
        sides += [(side,) for side in made.lhs]
    made_triggers = [_trigger(axiom.name, made, side) for side in dict.fromkeys(sides)]
    return tuple(t for t in made_triggers if t is not None)


def _trigger(name: str, made: Schema, side: tuple[Term, ...]) -> Trigger | None:
    if any(p.is_variable for p in side):
        return None
    bound = _bound(side)
    solved: list[tuple[str, str]] = []
    for variable, expression in _equations(made):
        if variable not in bound and names(expression) & {*made.tensors, *made.attributes} <= bound:
            solved.append((variable, expression))
            bound.add(variable)
    return Trigger(name, made, side, tuple(solved)) if {*made.tensors, *made.attributes} <= bound else None


def _equations(made: Schema) -> list[tuple[str, str]]:
    """Conditions of the form ``attribute == expression``."""
    parts = [[p.strip() for p in c.split("==")] for c in made.given if c.count("==") == 1]
    return [(p[0], p[1]) for p in parts if p[0] in made.attributes and "out" not in names(p[1])]


def _bound(side: tuple[Term, ...]) -> set[str]:
    """Variables that matching the side binds."""
    parts = [p for pattern in side for p in subterms(pattern)]
    return {p.head for p in parts if p.is_variable} | {t for p in parts for t in p.attrs if t.isidentifier()}


class Spelled:
    """What instances of axioms say in a world; worked out once, however many searches come upon them."""

    def __init__(self, axioms: Sequence[Equation], world: World) -> None:
        self.world = world
        self._axioms = {axiom.name: axiom for axiom in axioms}
        self._known: dict[Instance, tuple[tuple[Term, Term], ...]] = {}

    def equalities(self, instance: Instance) -> tuple[tuple[Term, Term], ...]:
        """The equalities of an instance; none where its conditions do not hold or it is ill-typed."""
        known = self._known.get(instance)
        if known is None:
            known = self._known[instance] = self._spell(instance)
        return known

    def _spell(self, instance: Instance) -> tuple[tuple[Term, Term], ...]:
        made, binding = schema(self._axioms[instance.axiom]), dict(instance.binding)
        try:
            if not self.world.all_hold(made, binding):
                return ()
            equal = equalities(made, binding)
            return equal if all(self.world.types(a) == self.world.types(b) for a, b in equal) else ()
        except Untyped:
            return ()


def search(
    equation: Equation,
    axioms: Sequence[Equation],
    world: World,
    *,
    limits: Limits = Limits(),
    seeds: Sequence[Term] = (),
    spelled: Spelled | None = None,
) -> Found:
    """Saturates the goal's terms with the axioms, until its sides are equal or a limit is reached.

    ``spelled`` holds what instances of these axioms, and of others, say in this world.
    """
    graph = Graph(world)
    made = schema(equation)
    goal = [(graph.add(a), graph.add(b)) for a, b in zip(made.lhs, made.rhs, strict=True)]
    for seed in seeds:
        try:
            graph.add(seed)
        except Untyped:
            continue
    done: dict[Instance, None] = {}
    tried: set[Instance] = set()
    spelled = spelled or Spelled(axioms, world)
    matched = [triggers(axiom) for axiom in axioms]
    for number in range(limits.rounds):
        before = len(done)
        room = limits.nodes * (number + 1) // limits.rounds
        for instance in _matches(graph, matched, limits, tried):
            if len(graph.nodes) > room:
                break
            tried.add(instance)
            if _apply(graph, spelled.equalities(instance)):
                done[instance] = None
        graph.close()
        if all(graph.find(a) == graph.find(b) for a, b in goal):
            return Found(True, tuple(done), tuple(seeds))
        if len(done) == before:
            break
    return Found(False, tuple(done), tuple(seeds))


def _apply(graph: Graph, equal: tuple[tuple[Term, Term], ...]) -> bool:
    """Adds the equalities of an instance; whether there are any."""
    try:
        pairs = [(graph.add(a), graph.add(b)) for a, b in equal]
    except Untyped:
        return False
    for a, b in pairs:
        graph.merge(a, b)
    return bool(pairs)


def _matches(
    graph: Graph, matched: Sequence[tuple[Trigger, ...]], limits: Limits, tried: set[Instance]
) -> list[Instance]:
    """Every new instance that the graph suggests now, those of small terms first, else in the order of the axioms."""
    index: dict[tuple[str, int], list[tuple[tuple[str, ...], tuple[int, ...], int]]] = {}
    classes: dict[int, list[tuple[str, tuple[str, ...], tuple[int, ...]]]] = {}
    for (head, keys, operands), class_ in graph.nodes.items():
        operands = tuple(graph.find(o) for o in operands)
        index.setdefault((head, len(operands)), []).append((keys, operands, graph.find(class_)))
        classes.setdefault(graph.find(class_), []).append((head, keys, operands))
    found: dict[Instance, int] = {}
    for ways in matched:
        for trigger in ways:
            for binding in _roots(graph, trigger.patterns, index, classes, {}):
                instance = _instance(graph, trigger, binding)
                if instance is not None and instance not in tried:
                    found[instance] = _size(trigger, instance)
        if len(found) > limits.instances:
            break
    return sorted(found, key=found.__getitem__)


def _size(trigger: Trigger, instance: Instance) -> int:
    """A rough size of what the instance says: terms of its axiom, and the texts that go into them."""
    return 12 * trigger.size + sum(len(text) for _, text in instance.binding)


def _roots(graph: Graph, patterns: tuple[Term, ...], index: dict, classes: dict, binding: Binding) -> Iterator[Binding]:
    if not patterns:
        yield binding
        return
    first, *rest = patterns
    for keys, operands, _ in index.get((first.head, len(first.operands or ())), ()):
        for bound in _node(graph, first, keys, operands, classes, binding):
            yield from _roots(graph, tuple(rest), index, classes, bound)


def _node(
    graph: Graph, pattern: Term, keys: tuple[str, ...], operands: tuple[int, ...], classes: dict, binding: Binding
) -> Iterator[Binding]:
    bound = dict(binding)
    for text, key in zip(pattern.attrs, keys, strict=True):
        if text.isidentifier() and not Expr(text).is_literal:
            if bound.setdefault(text, key) != key:
                return
        elif not names(text) and graph.key(text) != key:
            return  # an attribute with names is computed: its value is compared when the instance is applied
    yield from _operands(graph, list(zip(pattern.operands or (), operands, strict=True)), classes, bound)


def _operands(graph: Graph, pairs: list[tuple[Term, int]], classes: dict, binding: Binding) -> Iterator[Binding]:
    if not pairs:
        yield binding
        return
    (pattern, class_), *rest = pairs
    if pattern.is_variable:
        if binding.get(pattern.head, class_) == class_:
            yield from _operands(graph, rest, classes, {**binding, pattern.head: class_})
        return
    for head, keys, operands in classes.get(class_, ()):
        if head == pattern.head and len(operands) == len(pattern.operands or ()):
            for bound in _node(graph, pattern, keys, operands, classes, binding):
                yield from _operands(graph, rest, classes, bound)


def _instance(graph: Graph, trigger: Trigger, binding: Binding) -> Instance | None:
    texts = {
        name: str(graph.term(value)) if isinstance(value, int) else graph.texts[value]
        for name, value in binding.items()
    }
    for name, expression in trigger.solved:
        text = substitute_text(expression, texts)
        try:
            texts[name] = graph.texts[graph.key(text)]
        except Untyped:
            return None
    return Instance(trigger.axiom, tuple(sorted(texts.items())))
