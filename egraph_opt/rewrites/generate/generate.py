"""The whole way from nothing to a minimal set of rules, with the count after every stage."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from egraph_opt.rewrites.generate.candidates import (
    Candidate,
    binds_all,
    count_operators,
    merge_candidates,
    raw_candidates,
    renamed,
    shares_a_subterm,
)
from egraph_opt.rewrites.generate.conditions import learn_conditions
from egraph_opt.rewrites.generate.enumerate import Enumeration
from egraph_opt.rewrites.generate.names import name_of
from egraph_opt.rewrites.generate.prune import is_instance
from egraph_opt.rewrites.generate.worlds import WORLDS, World
from egraph_opt.rewrites.prove.find import prove
from egraph_opt.rewrites.prove.search import Limits
from egraph_opt.rewrites.rule import Rule
from egraph_opt.terms import App, Equation, Pattern, PatternError, Var, check_equation, parse, sides, walk

SEEDS = (
    Equation("add-commutes", sides("Add(x, y)"), sides("Add(y, x)"), float_class="exact"),
    Equation("mul-commutes", sides("Mul(x, y)"), sides("Mul(y, x)"), float_class="exact"),
)
"""Laws that enumeration takes for granted, by listing one order of the operands only."""
DERIVATION = Limits(rounds=3, nodes=150, instances=600)
"""How far derivability from the rules so far is pursued, per candidate."""
LEARNING_CASES = 80


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


@dataclass
class Generation:
    """The rules, and how they came about; ``refused`` says why the others are not among them."""

    rules: list[Rule] = field(default_factory=list[Rule])
    stages: list[Stages] = field(default_factory=list[Stages])
    refused: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])


def generate(
    worlds: Sequence[World] = WORLDS, *, seed: int = 0, on_progress: Callable[[str, int, int], None] | None = None
) -> Generation:
    """Generates rules from nothing. The same seed gives the same rules in the same order."""
    made = Generation()
    for world in worlds:
        found = Enumeration(world).run(seed)
        counts = Stages(world.name, found.evaluated, len(found.classes), len(found.equal))
        made.stages.append(counts)
        candidates = _candidates(found, world, counts)
        for number, candidate in enumerate(candidates):
            if on_progress:
                on_progress(world.name, number, len(candidates))
            rule = _consider(candidate, world, made, counts, seed)
            if rule is not None:
                made.rules.append(rule)
    _minimise(made)
    return made


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
    rule = _with_conditions(candidate, world, made, seed)
    if rule is None:
        return None
    counts.conditions += 1
    if len(rule.lhs) == 1 and prove(rule, (*SEEDS, *made.rules), limits=DERIVATION) is not None:
        return None
    counts.underivable += 1
    verdict = check_equation(rule, seed=seed)
    if not verdict.passed:
        made.refused.append((rule.equation, verdict.reason))
        return None
    counts.gated += 1
    return dataclasses.replace(rule, float_class=verdict.float_class)


def _with_conditions(candidate: Candidate, world: World, made: Generation, seed: int) -> Rule | None:
    """The candidate as a rule, under the conditions that were learned for it."""
    for roots in _filled(candidate):
        lhs, rhs = (tuple(side) for side in zip(*roots, strict=True))
        name = name_of(lhs, rhs, {r.name for r in made.rules})
        status = "definition" if world.semantics == "real" else "unproved"
        try:
            plain = Rule(name, lhs, rhs, float_class="drops-nonfinite", status=status, family=f"generated-{world.name}")
        except PatternError as error:
            made.refused.append((name, str(error)))
            continue
        learned = learn_conditions(plain, seed=seed, cases=LEARNING_CASES)
        if learned.when is not None:
            return dataclasses.replace(plain, when=learned.when)
        made.refused.append((plain.equation, f"no exact condition in {learned.positive}+{learned.negative} cases"))
    return None


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
        if len(rule.lhs) == 1 and prove(rule, (*SEEDS, *others), limits=DERIVATION) is not None:
            made.rules = others
    kept = {r.family for r in made.rules}
    for counts in made.stages:
        counts.minimal = sum(r.family == f"generated-{counts.world}" for r in made.rules if r.family in kept)


def is_reordering(rule: Equation) -> bool:
    """Whether a rule only reorders operands of one operator: true, and useless to apply without a reason."""
    apps = [{p.op for p in walk(side) if isinstance(p, App)} for side in (rule.lhs[0], rule.rhs[0])]
    counts = [count_operators(p) for p in (rule.lhs[0], rule.rhs[0])]
    return apps[0] == apps[1] and len(apps[0]) == 1 and counts[0] == counts[1]
