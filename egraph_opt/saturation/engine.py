"""Runs inside the worker: one egglog e-graph, grown one iteration per call, with Python answering what egglog asks."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from egraph_opt.ir import FLOATS, INTEGERS, NUMERIC, AttrValue, Interner, TensorType, Type
from egraph_opt.ops import IllTyped, numpy_dtype, operator
from egraph_opt.rewrites import Constructor, Question, constructor, declare, emit
from egraph_opt.rewrites.emit import PRELUDE, Emitted, declare_literal
from egraph_opt.saturation.bindings import bindings
from egraph_opt.saturation.mail import Mailboxes
from egraph_opt.saturation.merge import Merge, find_merges
from egraph_opt.saturation.needs import Links, Needs
from egraph_opt.saturation.problem import Problem
from egraph_opt.saturation.snapshot import IterationReport, RuleReport, Snapshot, Table
from egraph_opt.saturation.wide import equal_nodes, wide_nodes

LEAVES = ("Input", "Const", "Opaque")
CALM_NODES = 20_000
"""E-nodes up to which every match of every rule is applied..."""
CALM_GROWTH = 4
"""...unless the last round multiplied the e-graph by more than this."""
MATCH_LIMIT = 5_000
"""Matches above which a rule sits out a round of a large e-graph."""


@dataclass
class Engine:
    """One e-graph, which begins with the graph of the problem.

    Raises:
        IllTyped: never; a node that cannot be typed is simply not part of a snapshot.
    """

    problem: Problem
    ids: Interner = field(default_factory=Interner)
    types: Interner = field(default_factory=Interner)
    splats: Interner = field(default_factory=Interner)

    def __post_init__(self) -> None:
        self.egraph = bindings.EGraph(no_decomp=True)
        problem = self.problem
        plain = [rule for rule in problem.rules if len(rule.lhs) == 1]
        self.rules = tuple(plain) + tuple(rule for rule in problem.rules if len(rule.lhs) > 1)
        self.questions: dict[int, Question] = {}
        self.literals = Interner()
        self.constructors: list[Constructor] = []
        self._asleep = dict(enumerate(Needs.of(rule, self.literals) for rule in plain))
        self._links = Links()
        self._unmatched: dict[str, Emitted] = {}
        self._met: set[int] = set()  # literals that some constant equals
        self._mail = Mailboxes(self.egraph)
        self._pending: list[str] = []
        self._reports: list[bindings.RunReport] = []
        self._counted: dict[str, int] | None = None
        self._merged: set[tuple[int, ...]] = set()
        self._extra = len(problem.nodes)
        self.sizes: list[int] = [len(problem.nodes)]
        self._wide = wide_nodes(problem.nodes)
        graph = {(n.op, len(n.operands)) for i, n in enumerate(problem.nodes) if i not in self._wide}
        self._leaves = sorted({("Input", 0), ("Const", 0)} | {each for each in graph if each[0] == "Opaque"})
        self._run(PRELUDE + self._declared_leaves())
        graph -= set(self._leaves)
        self._declare(graph | {("Get", 1)} | problem.spelled)
        self._add()
        self._settle()

    # --- loading

    def _declared_leaves(self) -> str:
        lines = [f"(constructor {constructor(op, k)} (i64{' T' * k}) T)" for op, k in self._leaves]
        return "\n".join([*lines, "(constructor Wide (i64) T)"])

    def _declare(self, wanted: Iterable[Constructor]) -> None:
        new = sorted(set(wanted) - set(self.constructors))
        known = len(self.constructors)
        self.constructors += new
        self._mail.open(len(operator(op).params) + arity for op, arity in new)
        self._run(declare((~number, each) for number, each in enumerate(new, known)))

    def _add(self) -> None:
        lines: list[str] = []
        for index, (node, type_) in enumerate(zip(self.problem.nodes, self.problem.types, strict=True)):
            operands = [f"(node {i})" for i in node.operands]
            term = f"(Wide {index})" if index in self._wide else self._term(node.op, node.attrs, operands)
            lines.append(f"(set (node {index}) {term})")
            lines.append(f"(set (type (node {index})) {self._type_id(type_)})")
            if node.op in LEAVES or index in self._wide:
                lines.append(f"({'is_const' if node.op == 'Const' else 'dynamic'} (node {index}))")
            if node.op == "Const" and isinstance(type_, TensorType):
                lines += self._spelled(index, type_)
        self._run("\n".join(self._drain() + lines))

    def _spelled(self, index: int, type_: TensorType) -> Iterator[str]:
        """What a constant is, so that rules can read the number that it is made of."""
        problem = self.problem
        if index in problem.splats:
            number = problem.splats[index]
            yield f"(set (splat (node {index})) {self._splat_id(number, type_.dtype)})"
            if type_.dtype in FLOATS and type_.elements == 1:
                yield f"(union (node {index}) {self._term('Fill', (type_.shape, number, type_.dtype), ())})"
        if index in problem.triangles:
            fill = self._term("Fill", (type_.shape, problem.triangles[index], type_.dtype), ())
            yield f"(union (node {index}) {self._term('Trilu', (1, 1), (fill,))})"

        if index in problem.doubled:
            last = type_.rank - 1
            cut = ((last,), (0,), (int(str(type_.shape[last])) // 2,), (1,))
            half = self._term("Slice", cut, (f"(node {index})",))
            yield f"(union (node {index}) {self._term('Concat', (last,), (half, half))})"

    def _term(self, op: str, attrs: Sequence[AttrValue], operands: Sequence[str]) -> str:
        return f"({' '.join([constructor(op, len(operands)), *map(str, self._numbers(op, attrs)), *operands])})"

    def _numbers(self, op: str, attrs: Sequence[AttrValue]) -> tuple[int, ...]:
        """Attributes as egglog has them: themselves, or ids."""
        params = operator(op).params if op not in LEAVES else (None,) * len(attrs)
        return tuple(
            int(str(value)) if (p.kind == "int" if p else op != "Input") else self.ids.id(value)
            for p, value in zip(params, attrs, strict=True)
        )

    def _type_id(self, type_: Type) -> int:
        known = len(self.types)
        number = self.types.id(type_)
        if number == known:
            dtype = type_.dtype if isinstance(type_, TensorType) else ""
            kinds = ["any"] + ["numeric"] * (dtype in NUMERIC) + ["float"] * (dtype in FLOATS)
            self._pending += [f"(dtype_{kind} {number})" for kind in kinds]
        return number

    def _splat_id(self, value: float, dtype: str) -> int:
        known = len(self.splats)
        number = self.splats.id((dtype, value))
        if number == known:
            kind = numpy_dtype(dtype)
            for index, literal in enumerate(float(str(v)) for v in self.literals.values):
                whole = dtype not in INTEGERS or literal == int(literal)
                if whole and float(np.array(literal).astype(kind)) == value:
                    if index not in self._met:
                        self._met.add(index)
                        self._pending.append(declare_literal(index))
                    self._pending.append(f"(literal_{index} {number})")
        return number

    # --- rules

    def _wake(self) -> None:
        """Compiles the rules whose operators, numbers and constants are all there by now, one on another as in the
        rule: before that none can match."""
        present = {name for name, size in self._sizes().items() if size}
        near = {n: needs for n, needs in self._asleep.items() if needs.tables <= present}
        for number in self._links.complete(near, self.egraph):
            del self._asleep[number]
            emitted = emit(self.rules[number], number, self.ids, self.literals)
            if emitted.question is None:
                self._declare(emitted.makes)
            else:
                self._unmatched[emitted.found] = emitted
            self._pending.append(emitted.find)
        self._run("\n".join(self._drain()))

    def _complete(self) -> None:
        """Compiles the rest of the rules that have matched for the first time."""
        sizes = self._sizes() if self._unmatched else {}
        for name in [name for name in self._unmatched if sizes[name]]:
            emitted = self._unmatched.pop(name)
            assert emitted.question is not None
            self._declare(emitted.makes)
            self._mail.open([emitted.question.length])
            self.questions[emitted.question.number] = emitted.question
            self._pending.append(emitted.act)
        self._run("\n".join(self._drain()))

    # --- running

    def iterate(self, *, merge: bool) -> IterationReport:
        """One round: match, ask, answer, apply, type, unite. ``merge`` also merges operators that share an operand."""
        start = time.perf_counter()
        self._reports = []
        before, now = self.sizes[-2:] if len(self.sizes) > 1 else self.sizes * 2
        self._damped = not (now < CALM_NODES and now < CALM_GROWTH * before)
        self._wake()
        if self._rules("match"):
            self._complete()
        if self._run("(run-schedule (run ask))", report=True):
            self._answer_rules()
        changed = self._rules("apply")
        merges = self._merge() if merge else {}
        self._settle()
        changed |= self._unite_wide()
        return self._report(time.perf_counter() - start, changed, merges)

    def _rules(self, name: str) -> bool:
        """One round of rules; when the e-graph is large or grows fast, those with very many matches sit it out."""
        if not self._damped:
            return self._run(f"(run-schedule (run {name}))", report=True)
        calm = f"(let-scheduler calm (back-off :match-limit {MATCH_LIMIT} :ban-length 2))"
        return self._run(f"(run-schedule {calm} (run-with calm {name}))", report=True)

    def _settle(self) -> None:
        """Types every new e-node, makes claims true, and repeats until both are done; then what else rules ask for."""
        while True:
            if self._run("(run-schedule (saturate types))") and self._answer_types():
                continue
            if not self._run("(run-schedule (saturate unite))"):
                break
        self._run("(run-schedule (saturate facts))")

    def _answer_rules(self) -> None:
        for number, row in self._mail.read():
            answered = self.questions[number].answer(row, self.ids, self.types.values)
            if answered is not None:
                self._pending.append(f"(ok_{number} {' '.join(map(str, row + answered))})")
        self._run("\n".join(self._drain()))

    def _answer_types(self) -> bool:
        answered = False
        for number, row in self._mail.read():
            op, arity = self.constructors[~number]
            params = operator(op).params
            attrs = tuple(v if p.kind == "int" else self.ids[v] for p, v in zip(params, row, strict=False))
            type_ = self._infer(op, attrs, [self.types[t] for t in row[len(params) :]])
            if type_ is not None:
                shown, answered = " ".join(map(str, row)), True
                self._pending.append(f"(set (type_{constructor(op, arity)} {shown}) {type_})")
                if op == "Fill" and attrs[2] in NUMERIC:
                    splat = self._splat_id(float(str(attrs[1])), str(attrs[2]))
                    self._pending.append(f"(set (splat_{constructor(op, arity)} {shown}) {splat})")
        self._run("\n".join(self._drain()))
        return answered

    def _infer(self, op: str, attrs: tuple[AttrValue, ...], operands: Sequence[AttrValue]) -> int | None:
        if op != "Get" and not all(isinstance(t, TensorType) for t in operands):
            return None
        if not operator(op).is_storable(attrs, operands):  # type: ignore[arg-type]
            return None  # a rule would make an attribute of a number that loses bits there
        try:
            return self._type_id(operator(op).infer(attrs, operands))  # type: ignore[arg-type]
        except IllTyped:
            return None

    def _unite_wide(self) -> bool:
        """Makes wide nodes with equal operands equal; whether there were any."""
        changed = False
        while self._wide and (pairs := list(equal_nodes(self._wide, self._canonical()))):
            self._run("\n".join(f"(union (node {a}) (node {b}))" for a, b in pairs))
            self._settle()
            changed = True
        return changed

    def _canonical(self) -> dict[int, object]:
        """The class of each node of the graph."""
        rows = self.egraph.freeze().functions["node"].rows
        return {self.egraph.value_to_i64(row.inputs[0]): row.output for row in rows}

    def _merge(self) -> dict[str, int]:
        """Adds the merged form of operators of the graph that share an operand; returns how many per rule."""
        canonical = self._canonical()
        made: dict[str, int] = {}
        lines: list[str] = []
        problem = self.problem
        for found in (
            m for side in problem.sides for m in find_merges(problem.nodes, problem.types, canonical, self.rules, side)
        ):
            if found.members not in self._merged:
                self._merged.add(found.members)
                made[found.rule] = made.get(found.rule, 0) + 1
                lines += self._merge_lines(found)
        self._run("\n".join(lines))
        return made

    def _merge_lines(self, found: Merge) -> list[str]:
        self._declare({(op, len(operands)) for op, _, operands in found.steps} | {("Get", 1)})
        lines: list[str] = []
        base = self._extra
        for op, attrs, operands in found.steps:  # operands from 0 up are nodes of the graph, -1, -2... earlier steps
            terms = [f"(node {i if i >= 0 else base - i - 1})" for i in operands]
            lines.append(f"(set (node {self._extra}) {self._term(op, attrs, terms)})")
            self._extra += 1
        number = [rule.name for rule in self.rules].index(found.rule)
        lines += [
            f"(claim (node {member}) (Get_1 {i} (node {self._extra - 1})) {number})"
            for i, member in enumerate(found.members)
        ]
        return lines

    def _run(self, text: str, *, report: bool = False) -> bool:
        """Whether a schedule changed anything; ``report`` keeps what it says of its rules."""
        if not text:
            return False
        updated, self._counted = False, None
        for output in self.egraph.parse_and_run_program(text):
            if isinstance(output, bindings.RunScheduleOutput):
                updated |= output.report.updated
                if report:
                    self._reports.append(output.report)
        return updated

    def _sizes(self) -> dict[str, int]:
        """Rows of each table, counted once after each change."""
        if self._counted is None:
            (output,) = self.egraph.parse_and_run_program("(print-size)")
            assert isinstance(output, bindings.PrintAllFunctionsSize)
            self._counted = dict(output.sizes)
        return self._counted

    def _drain(self) -> list[str]:
        pending, self._pending = self._pending, []
        return pending

    # --- reporting

    def _report(self, seconds: float, changed: bool, merges: dict[str, int]) -> IterationReport:
        matches: dict[str, int] = dict(merges)
        times: dict[str, float] = {}
        names = {rule.name for rule in self.rules}
        for report in self._reports:
            for name, count in report.num_matches_per_rule.items():
                if name in names:
                    matches[name] = matches.get(name, 0) + count
            for name, spent in report.search_and_apply_time_per_rule.items():
                plain = name.partition("?")[0]
                times[plain] = times.get(plain, 0.0) + spent.total_seconds()
        sizes = self._sizes()
        nodes = sum(sizes[constructor(op, n)] for op, n in self.constructors)
        rules = {
            r.name: RuleReport(matches.get(r.name, 0), times.get(r.name, 0.0))
            for r in self.rules
            if r.name in matches or r.name in times
        }
        self.sizes.append(nodes)
        return IterationReport(nodes, seconds, rules, bool(changed or merges), self._damped)

    def snapshot(self) -> Snapshot:
        """The e-graph as arrays: every typed e-node, the type of every class, and which rules reached which class."""
        functions = self.egraph.freeze().functions
        to_int = self.egraph.value_to_i64
        classes: dict[object, int] = {}

        def number(value: object) -> int:
            return classes.setdefault(value, len(classes))

        node_class = {to_int(r.inputs[0]): number(r.output) for r in functions["node"].rows}
        tables: list[Table] = []
        stored = {r.output for r in functions["Const_0"].rows}
        for op, arity in [*self._leaves, *self.constructors]:
            name = constructor(op, arity)
            params = len(operator(op).params) if op not in LEAVES else 1
            rows = functions[name].rows
            if op == "Fill":  # a constant that the model has is not written anew
                rows = [r for r in rows if r.output not in stored]
            attrs = [tuple(to_int(v) for v in r.inputs[:params]) for r in rows]
            operands = [tuple(number(v) for v in r.inputs[params:]) for r in rows]
            tables.append(Table(op, attrs, operands, [number(r.output) for r in rows]))
        for node, cls in [(self._wide[to_int(r.inputs[0])], number(r.output)) for r in functions["Wide"].rows]:
            operands = tuple(node_class[i] for i in node.operands)
            tables.append(Table(node.op, [self._numbers(node.op, node.attrs)], [operands], [cls]))
        types = {number(r.inputs[0]): to_int(r.output) for r in functions["type"].rows}
        fired = sorted({(number(a), to_int(k)) for a, b, k in (r.inputs for r in functions["claim"].rows) if a == b})
        constant = sorted(number(r.inputs[0]) for r in functions["is_const"].rows)
        return Snapshot(
            tables=tables,
            class_types=types,
            constant=constant,
            node_class=[node_class[i] for i in range(len(self.problem.nodes))],
            fired=fired,
            class_count=len(classes),
            values=list(self.ids.values),
            types=list(self.types.values),  # type: ignore[arg-type]
            rule_names=tuple(rule.name for rule in self.rules),
        )
