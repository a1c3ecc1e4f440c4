"""The whole way from nothing to a minimal set of rules, with the count after every stage."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from egraph_opt.axioms import all_axioms
from egraph_opt.rewrites.artefact import rules_from_text, rules_to_text
from egraph_opt.rewrites.generate.candidates import (
    Candidate,
    binds_all,
    count_operators,
    merge_candidates,
    raw_candidates,
    renamed,
    shares_a_subterm,
)
from egraph_opt.rewrites.generate.conditions import hypotheses, learn_conditions
from egraph_opt.rewrites.generate.directed import admitted, directed_axioms, form
from egraph_opt.rewrites.generate.enumerate import Enumeration
from egraph_opt.rewrites.generate.here import Here
from egraph_opt.rewrites.generate.names import name_of
from egraph_opt.rewrites.generate.prune import is_instance
from egraph_opt.rewrites.generate.ship import confirmed, family, settled, withheld
from egraph_opt.rewrites.generate.worlds import WORLDS, World
from egraph_opt.rewrites.library import hand_rules
from egraph_opt.rewrites.prove.find import prove
from egraph_opt.rewrites.prove.search import Limits
from egraph_opt.rewrites.rule import Rule
from egraph_opt.terms import Equation, Pattern, PatternError, Var, parse, sides, walk

SEEDS = (
    Equation("add-commutes", sides("Add(x, y)"), sides("Add(y, x)"), float_class="exact"),
    Equation("mul-commutes", sides("Mul(x, y)"), sides("Mul(y, x)"), float_class="exact"),
)
"""Laws that enumeration takes for granted, by listing one order of the operands only."""
DERIVATION = Limits(rounds=3, nodes=150, instances=600)
"""How far derivability from the rules so far is pursued, per candidate."""
LEARNING_CASES = 80
TOGETHER = 8
"""Readings of axioms that a process takes at once."""


@dataclass
class Stages:
    """Counts of one world: what enumeration evaluated, and what each stage left."""

    world: str
    evaluated: int = 0
    classes: int = 0
    equal: int = 0
    renamed: int = 0
    independent: int = 0
    general: int = 0
    conditions: int = 0
    underivable: int = 0
    gated: int = 0
    minimal: int = 0
    proved: int = 0


@dataclass
class Generation:
    """The rules, and how they came about.

    Attributes:
        rules: every rule that is true and does not follow from the others.
        shipped: the proved ones among them that the policy lets pass, in their directions.
        unproved: true as far as tests can tell, and not provable from the axioms: a list of axioms to be found.
        withheld: proved ones that the policy keeps back, and why.
        refused: candidates that are no rules, and why.
    """

    rules: list[Rule] = field(default_factory=list[Rule])
    shipped: list[Rule] = field(default_factory=list[Rule])
    unproved: list[Rule] = field(default_factory=list[Rule])
    withheld: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    stages: list[Stages] = field(default_factory=list[Stages])
    refused: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])


def generate(
    worlds: Sequence[World] = WORLDS,
    *,
    seed: int = 0,
    work: Path | None = None,
    jobs: int = 1,
    axioms: bool = False,
    on_progress: Callable[[str, int], None] | None = None,
) -> Generation:
    """Generates rules from nothing. The same seed gives the same rules in the same order.

    Args:
        work: folder in which finished worlds are kept, so that a run that was killed goes on where it was.
        jobs: processes; the result does not depend on it.
        axioms: also read the axioms as rules, where no world found the same.
        on_progress: called with a world and its number of rules when it is finished.
    """
    readings = list(directed_axioms()) if axioms else []
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) if jobs > 1 else Here() as pool:
        exploration = _Exploration(worlds, readings, pool, jobs, seed, work)
        for made in exploration:
            if on_progress:
                on_progress(made.stages[0].world, len(made.rules))
        made = _together([exploration.done[w.name] for w in worlds], pool)
        if axioms:
            _read_axioms(made, readings, [rule for part in exploration.admitted for rule in part.result()])
    return made


class _Exploration:
    """Worlds in processes: each starts when those that it builds on are done, the longest first. Readings of axioms
    wait for nothing: they fill processes that no world needs, and those left run beside what one process does alone."""

    def __init__(
        self, worlds: Sequence[World], readings: Sequence[Rule], pool: Executor, jobs: int, seed: int, work: Path | None
    ) -> None:
        self.waiting = sorted(worlds, key=lambda w: -w.seconds)
        self.names = {w.name for w in worlds}
        self.pool, self.jobs, self.seed, self.work = pool, jobs, seed, work
        self.running: set[Future[Generation]] = set()
        self.done: dict[str, Generation] = {}
        self.parts = [readings[i : i + TOGETHER] for i in range(0, len(readings), TOGETHER)]
        self.admitted: list[Future[list[Rule | None]]] = []

    def _start(self) -> None:
        """Starts every world that waits for nothing, and readings while processes have no work."""
        ready = [w for w in self.waiting if all(a in self.done for a in w.after if a in self.names)]
        self.waiting = [w for w in self.waiting if w not in ready]
        for world in ready:
            known = tuple(r for a in world.after if a in self.done for r in self.done[a].rules)
            self.running.add(self.pool.submit(explore, world, known, self.seed, self.work))
        idle = self.jobs - len(self.running) - sum(not part.done() for part in self.admitted)
        self._read(max(idle, 0) if self.running else len(self.parts))

    def _read(self, count: int) -> None:
        """Starts some more readings."""
        self.admitted += [self.pool.submit(_admitted, part) for part in self.parts[:count]]
        self.parts = self.parts[count:]

    def __iter__(self) -> Iterator[Generation]:
        """Worlds as they are finished."""
        self._start()
        while self.running:
            busy: list[Future[Any]] = [*self.running, *(part for part in self.admitted if not part.done())]
            wait(busy, return_when=FIRST_COMPLETED)
            for future in [world for world in self.running if world.done()]:
                self.running.remove(future)
                made = future.result()
                self.done[made.stages[0].world] = made
                yield made
            self._start()


def explore(world: World, known: Sequence[Rule], seed: int, work: Path | None = None) -> Generation:
    """The rules of one world, those aside that follow from ``known`` ones; taken from ``work`` where they are there."""
    place = work and work / f"{_digest(world, known, seed)}.json"
    if place and place.exists():
        return _read(place)
    made = Generation(rules=list(known))
    found = Enumeration(world).run(seed)
    counts = Stages(world.name, found.evaluated, len(found.classes), len(found.equal))
    made.stages.append(counts)
    for candidate in _candidates(found, world, counts):
        rule = _consider(candidate, world, made, counts, seed)
        if rule is not None:
            made.rules.append(rule)
    made.rules = made.rules[len(known) :]
    if place:
        _write(place, made)
    return made


def _admitted(rules: Sequence[Rule]) -> list[Rule | None]:
    return [admitted(rule) for rule in rules]


def _together(parts: Sequence[Generation], pool: Executor) -> Generation:
    """What several worlds found: without what follows from the others, with proofs, and under the policy."""
    made = Generation(stages=[s for p in parts for s in p.stages], refused=[r for p in parts for r in p.refused])
    for rule in (r for p in parts for r in p.rules):
        if not _derivable(rule, made.rules):
            name = name_of(rule.lhs, rule.rhs, {r.name for r in made.rules})
            made.rules.append(dataclasses.replace(rule, name=name))
    _minimise(made)
    certain: list[Rule] = []
    taken = {r.name for r in made.rules}
    for way, sure in (pair for pairs in pool.map(settled, made.rules) for pair in pairs):
        name = way.name or name_of(way.lhs, way.rhs, taken)
        taken.add(name)
        if sure is None:
            made.unproved.append(dataclasses.replace(way, name=name))
            continue
        certain.append(dataclasses.replace(sure, name=name))
        if withheld(sure):
            made.withheld.append((sure.equation, withheld(sure)))
        else:
            made.shipped.append(certain[-1])
    for counts in made.stages:
        mine = source_of(counts.world)
        counts.minimal = sum(r.source == mine for r in made.rules)
        counts.proved = len({r.name for r in certain if r.source == mine} & {r.name for r in made.rules})
    return made


def _read_axioms(made: Generation, tried: Sequence[Rule], sure: Sequence[Rule | None]) -> None:
    """Adds the admitted directions of axioms that neither a world nor a law by hand says."""
    counts = Stages("axioms", evaluated=len(tried), equal=sum(r is not None for r in sure))
    forms = {form(r) for r in (*made.shipped, *hand_rules()) if not r.constants}
    taken = {r.name for r in (*made.shipped, *hand_rules())}
    for rule, passed in zip(tried, sure, strict=True):
        if passed is None:
            made.refused.append((rule.equation, "an axiom in a direction that fails the gates or the prover"))
        elif form(passed) not in forms:
            forms.add(form(passed))
            name = passed.name if passed.name not in taken else f"{passed.name}-axiom"
            made.shipped.append(dataclasses.replace(passed, name=name))
            counts.minimal += passed.effort == "standard"
            counts.proved += 1
    made.stages.append(counts)


def source_of(world: str) -> str:
    """Where a generated rule says that it comes from."""
    return f"found by enumeration, world {world}"


def _derivable(rule: Rule, rules: Sequence[Rule]) -> bool:
    if len(rule.lhs) > 1:
        return any((r.equation, r.when) == (rule.equation, rule.when) for r in rules)
    return prove(rule, (*SEEDS, *rules), limits=DERIVATION, z3=False) is not None


def _digest(world: World, known: Sequence[Rule], seed: int) -> str:
    laws = [(a.equation, a.when) for a in all_axioms()]  # they choose between conditions
    said = repr((world, [(r.equation, r.when) for r in known], seed, laws))
    return f"{world.name}-{hashlib.sha256(said.encode()).hexdigest()[:12]}"


def _write(place: Path, made: Generation) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    plain = {
        "rules": rules_to_text(made.rules),
        "stages": [dataclasses.asdict(s) for s in made.stages],
        "refused": made.refused,
    }
    temporary = place.with_suffix(f".{os.getpid()}.partial")
    temporary.write_text(json.dumps(plain))
    temporary.replace(place)


def _read(place: Path) -> Generation:
    plain = json.loads(place.read_text())
    return Generation(
        rules=list(rules_from_text(plain["rules"], str(place))),
        stages=[Stages(**s) for s in plain["stages"]],
        refused=[(e, r) for e, r in plain["refused"]],
    )


def _candidates(found: Enumeration, world: World, counts: Stages) -> list[Candidate]:
    """Distinct candidates, the simple and general ones first, merges last."""
    forms: dict[str, Candidate] = {}
    for candidate in filter(binds_all, raw_candidates(found)):
        form = renamed(candidate, world)
        forms.setdefault(repr(form.roots), form)
    counts.renamed = len(forms)
    independent = [c for c in forms.values() if not shares_a_subterm(c)]
    counts.independent = len(independent)
    merges = {repr(m.roots): m for m in (renamed(c, world) for c in merge_candidates(found))}
    return sorted(independent, key=_simplicity) + sorted(merges.values(), key=_simplicity)


def _simplicity(candidate: Candidate) -> tuple[int, int, str]:
    operators, variables, text = candidate.size
    return operators, -variables, text


def _consider(candidate: Candidate, world: World, made: Generation, counts: Stages, seed: int) -> Rule | None:
    if is_instance(candidate, world, (*SEEDS, *made.rules)):
        return None
    counts.general += 1
    if _follows(candidate, world, made):
        counts.conditions += 1
        return None
    found = list(_with_conditions(candidate, world, made, seed))
    if not found:
        return None
    counts.conditions += 1
    if any(_derivable(rule, made.rules) for rule in found):
        return None
    counts.underivable += 1
    passed: list[Rule] = []
    for rule in found:
        sure = confirmed(rule, seed)
        if sure is not None:
            passed.append(sure)
        else:
            made.refused.append((rule.equation, "its conditions do not hold out on more cases"))
    if not passed:
        return None
    counts.gated += 1
    provable = (r for r in passed if len(passed) > 1 and prove(r, all_axioms(), z3=False) is not None)
    return next(provable, passed[0])


def _follows(candidate: Candidate, world: World, made: Generation) -> bool:
    """Whether it follows from the rules so far without any condition: most do, and then none has to be learned."""
    if len(candidate.roots) > 1:
        return False
    try:
        return _derivable(_unconditional(candidate.roots, world, made), made.rules)
    except PatternError:
        return False


def _unconditional(roots: Sequence[tuple[Pattern, Pattern]], world: World, made: Generation) -> Rule:
    """The roots as a rule without conditions.

    Raises:
        PatternError: a side does not say all that the rule needs.
    """
    lhs, rhs = (tuple(side) for side in zip(*roots, strict=True))
    return Rule(
        name_of(lhs, rhs, {r.name for r in made.rules}),
        lhs,
        rhs,
        float_class="drops-nonfinite",
        family=family(lhs, rhs),
        source=source_of(world.name),
        needs_order=world.semantics == "real",
    )


def _with_conditions(candidate: Candidate, world: World, made: Generation, seed: int) -> Iterator[Rule]:
    """The candidate as a rule, under the conditions that were learned for it: at most one for each hypothesis."""
    for roots in _filled(candidate):
        try:
            plain = _unconditional(roots, world, made)
        except PatternError as error:
            lhs, rhs = (tuple(side) for side in zip(*roots, strict=True))
            made.refused.append((name_of(lhs, rhs, {r.name for r in made.rules}), str(error)))
            continue
        reasons: list[str] = []
        count = 0
        for hypothesis in hypotheses(plain):
            supposed = dataclasses.replace(plain, when=hypothesis)
            learned = learn_conditions(supposed, seed=seed, cases=LEARNING_CASES)
            if learned.when is not None:
                count += 1
                yield dataclasses.replace(plain, when=learned.when)
            reasons.append(f"{learned.positive}+{learned.negative}")
        if count:
            return
        made.refused.append((plain.equation, f"no exact condition in {', '.join(reasons)} cases"))


def _filled(candidate: Candidate) -> Iterator[tuple[tuple[Pattern, Pattern], ...]]:
    """The candidate itself, or, for a merge, with each way to write the sizes of its split."""
    if len(candidate.roots) == 1:
        yield candidate.roots
        return
    parts = [left for left, _ in candidate.roots]
    own = [[p.name for p in walk(part) if isinstance(p, Var)] for part in parts]
    position = next((i for i, (a, b) in enumerate(zip(*own, strict=False)) if a != b), None)
    if position is None:
        return
    for axis in ("0", "1", "-1", "-2"):
        sizes = [f"size({names[position]}, {axis})" for names in own]
        yield tuple((left, _with_sizes(right, sizes)) for left, right in candidate.roots)


def _with_sizes(half: Pattern, sizes: list[str]) -> Pattern:
    text = str(half).replace("(@0, @1)", f"({sizes[0]}, {sizes[1]})")
    return parse(text)


def _minimise(made: Generation) -> None:
    """Backward elimination: drops each rule, the largest first, that the others derive."""
    for rule in sorted(made.rules, key=lambda r: -sum(count_operators(p) for p in (*r.lhs, *r.rhs))):
        others = [r for r in made.rules if r is not rule]
        if not len(rule.lhs) > 1 and _derivable(rule, others):
            made.rules = others
