"""Ways to find fault with a model that was made from another: wrong numbers, less speed, what a command says."""

from __future__ import annotations

import shlex
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import onnx_ir

from egraph_opt.errors import UsageError
from egraph_opt.onnx_io import save_model
from egraph_opt.pipeline.options import Options
from egraph_opt.pipeline.sizes import measured_sizes
from egraph_opt.runtime import race
from egraph_opt.verification import default_sizes, random_feeds, runnable, verify

VERIFY_SECONDS, RACE_SECONDS = 30.0, 3.0
LAST_WORDS = 200
"""Characters of the end of what a command prints that are told."""


@dataclass(frozen=True)
class Disagreement:
    """The outputs differ: ``verify`` says so."""

    options: Options

    def __call__(self, original: onnx_ir.Model, made: onnx_ir.Model) -> str:
        """What differs.

        Raises:
            UsageError: the original does not run, so that nothing can be compared.
        """
        verdict = verify(
            original,
            made,
            numerics=self.options.numerics,
            sizes=[_sizes(original, self.options)],
            feeds=self.options.verify_inputs,
            seed=self.options.seed,
            time_limit=VERIFY_SECONDS,
        )
        if verdict.kind == "unverified":
            raise UsageError(f"nothing can be compared: {verdict.reason}")
        return "" if verdict.equivalent else verdict.reason


@dataclass(frozen=True)
class Slower:
    """It takes longer than the original, by more than the original differs from itself, in two races."""

    options: Options

    def __call__(self, original: onnx_ir.Model, made: onnx_ir.Model) -> str:
        """By how much."""
        if made is original:
            return ""
        first = self._slower(original, made, self.options.seed)
        # one race in twenty or so is lost by chance, and a bisection holds many
        return first and self._slower(original, made, self.options.seed + 1)

    def _slower(self, original: onnx_ir.Model, made: onnx_ir.Model, seed: int) -> str:
        feeds = random_feeds(original, _sizes(original, self.options), seed)
        with runnable(original) as old, runnable(made) as new:
            found = race(
                {"original": old.source, "made": new.source},
                feeds,
                threads=self.options.threads,
                budget_seconds=RACE_SECONDS,
                seed=seed,
                external_folder=old.folder,
            )
        ratio = found.lap("made").ratio
        return f"{ratio:.3f} x the speed of the original" if found.is_slower("made") else ""


@dataclass(frozen=True)
class Command:
    """A command, in which ``{model}`` stands for the file of the model, ends with another status than 0."""

    text: str

    def __post_init__(self) -> None:
        if "{model}" not in self.text:
            raise UsageError(f"--check {self.text!r}: write {{model}} where the path of the model goes")

    def __call__(self, original: onnx_ir.Model, made: onnx_ir.Model) -> str:
        """The status, and the last line that it printed.

        Raises:
            UsageError: the command cannot be run.
        """
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            save_model(made, path)
            words = [word.replace("{model}", str(path)) for word in shlex.split(self.text)]
            try:
                done = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False)
            except OSError as error:
                raise UsageError(f"--check cannot run {words[0]}: {error.strerror}") from None
        if done.returncode == 0:
            return ""
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        return f"the check ended with status {done.returncode}" + "".join(f": {line[-LAST_WORDS:]}" for line in last)


def _sizes(model: onnx_ir.Model, options: Options) -> dict[str, int]:
    """The user's sizes where they are those of this model, and else some at which it runs."""
    try:
        return measured_sizes(model, options.shape_sets[0])
    except UsageError:
        return default_sizes(model)
