"""Rules as an egglog program.

An e-node is a constructor call: one constructor per operator and number of operands, attributes first as i64 (numbers
as they are, anything else as an id), tensors last, all of one sort ``T``. What egglog cannot compute (conditions on
shapes, attributes of the result) is asked of Python: a rule first records each match in a relation ``match_<k>``, then
puts the attributes and types that it found into a mailbox; Python answers each distinct question once in the relation
``ok_<k>``, and the rule proper joins matches and answers. The left side alone decides where it matches: were types
looked up in the same query, egglog would start from these, which are few, and try all pairs of classes that have them.

Types are asked for in the same way: an e-node whose operands have types is recorded in ``untyped_<operator>`` until
the type of its signature, that is, of its attributes and the types of its operands, is known. What else is known of a
class (``facts``: its kind, whether it is constant, the number that it is made of) matters to rules alone, and is worked
out once everything has its type.

A mailbox ``mail_<n>`` holds questions of ``n`` numbers, after the number of who asks. It is cleared once it was read,
so that it costs what is new in it, however large the e-graph is.

A rule does not unite classes itself. It builds its right-hand side and *claims* equality; ``unite`` makes a claim
true only when both sides have the same type, so that a rewrite whose result is of another shape (a constant that
broadcasts, say) never becomes an unsound union.

Rules apply only to what depends on the model's inputs (``dynamic``): expressions of constants are evaluated in the
end, so rewriting them would only make the e-graph grow. Rules that make a graph smaller apply to constants too, so
that one constant does not return again and again in longer words. A rule whose right side is one of its variables
takes the e-node that did nothing out of further matching (``subsume``): it stands for itself, and would be found
again and again inside itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from egraph_opt.ir import AttrValue, Interner, TensorType
from egraph_opt.ops import operator, operators
from egraph_opt.rewrites.rule import Rule
from egraph_opt.terms.expressions import FUNCTIONS, Environment, Undefined, evaluate, names_in
from egraph_opt.terms.pattern import App, Expr, Number, Pattern, Var, walk

Constructor = tuple[str, int]

SPREADS = ("Reshape", "Transpose", "Expand", "Slice", "Tile")
"""Operators that only move elements: what all elements of the operand equal, all elements of the result equal."""

PRELUDE = """
(sort T)
(function node (i64) T :merge old)
(function type (T) i64 :no-merge)
(function splat (T) i64 :merge (min old new))
(relation is_const (T))
(relation dynamic (T))
(relation dtype_float (i64))
(relation dtype_numeric (i64))
(relation dtype_any (i64))
(relation is_float (T))
(relation is_numeric (T))
(relation is_any (T))
(relation claim (T T i64))
(ruleset match) (ruleset ask) (ruleset apply) (ruleset types) (ruleset unite) (ruleset facts) (ruleset clear)
(rule ((= t (type e)) (dtype_float t)) ((is_float e)) :ruleset facts)
(rule ((= t (type e)) (dtype_numeric t)) ((is_numeric e)) :ruleset facts)
(rule ((= t (type e)) (dtype_any t)) ((is_any e)) :ruleset facts)
(rule ((claim a b r) (!= a b) (= t (type a)) (= t (type b))) ((union a b)) :ruleset unite :name "unite")
"""


@dataclass(frozen=True)
class Question:
    """What rule ``number`` asks of Python: arguments in order, and the attributes that it wants computed."""

    rule: Rule
    number: int
    attributes: tuple[tuple[str, bool], ...]  # name, and whether it is an id of the value table
    tensors: tuple[str, ...]
    wanted: tuple[tuple[str, bool], ...]  # expression, and whether the answer is an id

    @property
    def length(self) -> int:
        """How many arguments it has."""
        return len(self.attributes) + len(self.tensors)

    def answer(self, arguments: Sequence[int], ids: Interner, types: Sequence[object]) -> tuple[int, ...] | None:
        """The computed attributes, or ``None`` when the rule does not apply."""
        environment: dict[str, AttrValue | TensorType] = {}
        for (name, is_id), value in zip(self.attributes, arguments, strict=False):
            environment[name] = ids[value] if is_id else value
        for name, number in zip(self.tensors, arguments[len(self.attributes) :], strict=True):
            found = types[number]
            if not isinstance(found, TensorType):
                return None
            environment[name] = found
        return answer(self.rule.conditions, self.wanted, environment, ids)


def answer(
    conditions: Sequence[str], wanted: Sequence[tuple[str, bool]], environment: Environment, ids: Interner
) -> tuple[int, ...] | None:
    """Evaluates conditions and computed attributes; ``None`` when one fails."""
    try:
        if not all(evaluate(condition, environment) for condition in conditions):
            return None
        values = [(evaluate(text, environment), is_id) for text, is_id in wanted]
    except Undefined:
        return None
    if any(not is_id and not isinstance(value, int) for value, is_id in values):
        return None
    return tuple(ids.id(value) if is_id else int(str(int(value))) for value, is_id in values)  # type: ignore[call-overload]


@dataclass(frozen=True)
class Emitted:
    """One rule as egglog text.

    Attributes:
        find: finds its matches; where it asks nothing, also applies them.
        found: the relation of its matches, empty where it asks nothing. ``act`` is needed once this has a row.
        act: asks about matches, and applies the rule where the answer allows it.
        makes: constructors that must be declared before the part that applies the rule.
    """

    find: str
    found: str
    act: str
    question: Question | None
    makes: frozenset[Constructor]


def emit(rule: Rule, number: int, ids: Interner, literals: Interner) -> Emitted:
    """The egglog text of ``rule``, which claims under ``number``. The literals that it compares with must have been
    declared."""
    emitter = _Emitter(rule, number, ids, literals)
    if emitter.question is None:
        return Emitted(emitter.direct(), "", "", None, emitter.makes())
    find, act = emitter.asking(emitter.question)
    return Emitted(find, f"match_{number}", act, emitter.question, emitter.makes())


def declare_literal(number: int) -> str:
    """Relations of the literal ``number``: the splats that equal it (to be filled in), and the classes."""
    return (
        f"(relation literal_{number} (i64)) (relation is_literal_{number} (T))\n"
        f"(rule ((= s (splat e)) (literal_{number} s)) ((is_literal_{number} e)) :ruleset facts)"
    )


def constructor(op: str, arity: int) -> str:
    """Name of the constructor of ``op`` with ``arity`` tensors."""
    return f"{op}_{arity}"


def mailbox(length: int) -> str:
    """Name of the mailbox of questions of ``length`` numbers."""
    return f"mail_{length}"


def declare_mailbox(length: int) -> str:
    """A mailbox, and the rule that clears it."""
    name, a = mailbox(length), " ".join(f"a{i}" for i in range(length + 1))
    return (
        f"(relation {name} ({' '.join(['i64'] * (length + 1))}))\n"
        f'(rule (({name} {a})) ((delete ({name} {a}))) :ruleset clear :name "{name}")'
    )


def declare(numbered: Iterable[tuple[int, Constructor]]) -> str:
    """Declarations and typing rules of constructors, which ask under their numbers; the type function of each is filled
    in by Python. Their mailboxes must have been declared."""
    return "\n".join(line for number, (op, arity) in numbered for line in _declare(number, op, arity))


def _declare(number: int, op: str, arity: int) -> Iterator[str]:
    name, params = constructor(op, arity), len(operator(op).params)
    a = " ".join(f"a{i}" for i in range(params))
    x = " ".join(f"x{i}" for i in range(arity))
    t = " ".join(f"t{i}" for i in range(arity))
    typed = " ".join(f"(= t{i} (type x{i}))" for i in range(arity))
    numbers = " ".join(["i64"] * (params + arity))
    enode, untyped, mail = f"(= e ({name} {a} {x}))", f"(untyped_{name} e {a} {t})", mailbox(params + arity)
    yield f"(constructor {name} ({' '.join(['i64'] * params + ['T'] * arity)}) T)"
    yield f"(relation untyped_{name} (T {numbers}))"
    yield f"(function type_{name} ({numbers}) i64 :no-merge)"
    yield f'(rule ({enode} {typed}) ({untyped} ({mail} {number} {a} {t})) :ruleset types :name "{name} untyped")'
    yield (
        f"(rule ({untyped} (= t (type_{name} {a} {t}))) ((set (type e) t) (delete {untyped}))"
        f' :ruleset types :name "{name} typed")'
    )
    constant = " ".join(f"(is_const x{i})" for i in range(arity))
    yield f'(rule ({enode} {constant}) ((is_const e)) :ruleset facts :name "{name} constant")'
    if arity == 1 and op in SPREADS:
        yield f'(rule ({enode} (= s (splat x0))) ((set (splat e) s)) :ruleset facts :name "{name} splat")'
    for i in range(arity):
        yield f'(rule ({enode} (dynamic x{i})) ((dynamic e)) :ruleset facts :name "{name} dynamic {i}")'
    if arity == 0:
        yield f"(function splat_{name} ({numbers}) i64 :no-merge)"
        yield f'(rule ({enode} (= s (splat_{name} {a}))) ((set (splat e) s)) :ruleset facts :name "{name} splat")'


class _Emitter:
    def __init__(self, rule: Rule, number: int, ids: Interner, literals: Interner) -> None:
        self.rule, self.number, self.ids, self.literals = rule, number, ids, literals
        self.facts: list[str] = []
        self.fresh = 0
        self.left = [self._left(pattern) for pattern in rule.lhs]
        self.facts = [f"(= e{i} {term})" for i, term in enumerate(self.left)] + self.facts
        self.facts += [f"(is_const v_{name})" for name in rule.constants]
        if not rule.shrinks:
            self.facts.append("(dynamic e0)")
        self.facts.append(f"(is_{rule.dtypes} e0)")
        self.wanted: list[tuple[str, bool]] = []
        self.right = [self._right(pattern) for pattern in rule.rhs]
        self.question = self._question()

    def makes(self) -> frozenset[Constructor]:
        apps = [p for q in self.rule.rhs for p in walk(q) if isinstance(p, App)]
        numbers = any(isinstance(p, Number) for q in self.rule.rhs for p in walk(q))
        return frozenset((a.op, len(a.operands)) for a in apps) | ({("Fill", 0)} if numbers else frozenset())

    def direct(self) -> str:
        """The rule of egglog, where nothing has to be asked."""
        return f'(rule ({" ".join(self.facts)}) ({self._actions()}) :ruleset apply :name "{self.rule.name}")'

    def asking(self, asked: Question) -> tuple[str, str]:
        """What finds matches, and what asks about them and applies the rule."""
        rule, k = self.rule, self.number
        columns = {f"e{i}": "T" for i in range(len(self.left))}
        columns |= {f"v_{n}": "T" for n in rule.tensors} | {f"n{i + 1}": "T" for i in range(self.fresh)}
        columns |= {f"a_{n}": "i64" for n in rule.attributes}
        match = f"(match_{k} {' '.join(columns)})"
        arguments = [f"a_{n}" for n, _ in asked.attributes] + [f"ty_{n}" for n in asked.tensors]
        typed = " ".join(f"(= ty_{n} (type {'e0' if n == 'out' else f'v_{n}'}))" for n in asked.tensors)
        mail, got = f"({mailbox(asked.length)} {k} {' '.join(arguments)})", [f"d{i}" for i in range(len(asked.wanted))]
        ok = f"(ok_{k} {' '.join(arguments + got)})"
        find = (
            f"(relation match_{k} ({' '.join(columns.values())}))\n"
            f'(rule ({" ".join(self.facts)}) ({match}) :ruleset match :name "{rule.name}?")'
        )
        act = (
            f"(relation ok_{k} ({' '.join(['i64'] * len(arguments + got))}))\n"
            f'(rule ({match} {typed}) ({mail}) :ruleset ask :name "{rule.name}?ask")\n'
            f'(rule ({match} {typed} {ok}) ({self._actions()}) :ruleset apply :name "{rule.name}")'
        )
        return find, act

    def _actions(self) -> str:
        rule = self.rule
        actions = " ".join(f"(let r{i} {term}) (claim e{i} r{i} {self.number})" for i, term in enumerate(self.right))
        if len(rule.rhs) == 1 and isinstance(rule.rhs[0], Var):
            actions += f" (subsume {self.left[0]})"
        return actions

    def _left(self, pattern: Pattern) -> str:
        match pattern:
            case Var(name):
                return f"v_{name}"
            case Number(value):
                self.fresh += 1
                literal = self.literals.id(value)
                self.facts.append(f"(is_literal_{literal} n{self.fresh})")
                return f"n{self.fresh}"
            case App(op, attrs, operands):
                inner = [self._left(o) for o in operands]
                shown = [f"a_{e.text}" if e.is_name else str(self._literal(op, i, e)) for i, e in enumerate(attrs)]
                return f"({' '.join([constructor(op, len(operands)), *shown, *inner])})"

    def _right(self, pattern: Pattern) -> str:
        match pattern:
            case Var(name):
                return f"v_{name}"
            case Number(value):
                return self._right(App("Fill", (Expr("()"), Expr(repr(value)), Expr("dtype(out)")), ()))
            case App(op, attrs, operands):
                shown = [self._attribute(op, i, e) for i, e in enumerate(attrs)]
                return f"({' '.join([constructor(op, len(operands)), *shown, *map(self._right, operands)])})"

    def _attribute(self, op: str, index: int, expression: Expr) -> str:
        if expression.is_literal:
            return str(self._literal(op, index, expression))
        if expression.text in self.rule.attributes:
            return f"a_{expression.text}"
        wanted = (expression.text, operator(op).params[index].kind == "value")
        if wanted not in self.wanted:
            self.wanted.append(wanted)
        return f"d{self.wanted.index(wanted)}"

    def _literal(self, op: str, index: int, expression: Expr) -> int:
        if operator(op).params[index].kind == "value":
            return self.ids.id(expression.literal)
        assert isinstance(expression.literal, int)
        return expression.literal

    def _question(self) -> Question | None:
        texts = [*self.rule.conditions, *(text for text, _ in self.wanted)]
        if not texts:
            return None
        used = {name for text in texts for name in names_in(text)} - set(FUNCTIONS)
        kinds = attribute_kinds(self.rule)
        attributes = tuple((n, kinds[n] == "value") for n in self.rule.attributes if n in used)
        tensors = tuple(n for n in (*self.rule.tensors, "out") if n in used)
        if not attributes and not tensors:
            tensors = ("out",)
        return Question(self.rule, self.number, attributes, tensors, tuple(self.wanted))


def attribute_kinds(rule: Rule) -> dict[str, str]:
    """Whether each attribute name of the left side stands for a number (``int``) or a value."""
    kinds: dict[str, str] = {}
    for pattern in (p for q in rule.lhs for p in walk(q) if isinstance(p, App)):
        for param, expression in zip(operators()[pattern.op].params, pattern.attrs, strict=True):
            if expression.is_name:
                kinds[expression.text] = param.kind
    return kinds
