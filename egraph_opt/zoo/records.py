"""What a batch run writes down: one record per model and round."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from egraph_opt.pipeline.report import plain


class Outcome(StrEnum):
    """How it ended for a model."""

    OPTIMIZED = "optimized"
    UNCHANGED = "unchanged"
    UNSUPPORTED = "unsupported"
    REJECTED = "rejected by verification"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out of memory"
    CRASHED = "crashed"
    ERROR = "error"

    @property
    def failed(self) -> bool:
        """Whether something went wrong; a model that cannot be optimized is no failure."""
        return self not in (Outcome.OPTIMIZED, Outcome.UNCHANGED, Outcome.UNSUPPORTED)


@dataclass(frozen=True)
class Finding:
    """What a job found: the outcome, its reason in one sentence, and the optimizer's report as plain data."""

    outcome: Outcome
    reason: str
    report: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Finding:
        return Finding(Outcome(data["outcome"]), data["reason"], data["report"])


@dataclass(frozen=True)
class Record:
    """One line of ``results.jsonl``.

    Attributes:
        model: path below the folder of the zoo, with ``/``.
        digest: SHA-256 of the model with its external data; empty where it cannot be read.
        config: fingerprint of everything else that decides the result; see ``settings.Round``.
        round: in which round of the run it was made.
        started: UTC, ISO 8601.
        seconds, cpu_seconds: wall time, and CPU time of its process and those that it waited for.
        peak_memory: bytes, the largest resident size of any one of these processes.
        output: path of the optimized model below the run folder; empty where the original stays.
        report: ``egraph_opt.Report`` as JSON, without what the round says already.
        log: the end of what the process wrote to stderr, where it failed.
    """

    model: str
    digest: str
    config: str
    round: int
    outcome: Outcome
    reason: str
    started: str
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_memory: int = 0
    output: str = ""
    report: Mapping[str, Any] = field(default_factory=dict[str, Any])
    log: str = ""

    def to_json(self) -> dict[str, Any]:
        return plain(dataclasses.asdict(self))

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Record:
        """The record of a line.

        Raises:
            TypeError, ValueError, KeyError: it is no record.
        """
        return Record(**{**data, "outcome": Outcome(data["outcome"])})


_MEMORY = re.compile(
    r"MemoryError|bad_alloc|bad allocation|memory allocation of \d+|cannot allocate memory|failed to allocate memory",
    re.IGNORECASE,
)


def is_about_memory(text: str) -> bool:
    """Whether a message of Python, C++, Rust, libc or ONNX Runtime says that memory could not be had."""
    return _MEMORY.search(text) is not None
