"""A run over a zoo: what is left to do is done, each model in its own process, and written down as it ends."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from egraph_opt.zoo.discover import Source, digest, digest_files
from egraph_opt.zoo.isolated import Isolated
from egraph_opt.zoo.job import OUTPUT, optimize_model
from egraph_opt.zoo.journal import MODELS, WORK, Journal, latest, sync_folder
from egraph_opt.zoo.records import Outcome, Record
from egraph_opt.zoo.settings import Round
from egraph_opt.zoo.worker import Job, Limits, Task

EventKind = Literal["kept", "started", "stage", "finished"]


@dataclass(frozen=True)
class Event:
    """Something happened to a model: it was ``kept`` (its result stands), ``started``, came to a new ``stage``, or
    ``finished``; ``done`` of ``total`` are through."""

    kind: EventKind
    model: str
    done: int
    total: int
    stage: str = ""
    record: Record | None = None


OnEvent = Callable[[Event], None]


def is_done(record: Record | None, content: str, round_: Round) -> bool:
    """Whether the last record of a model makes it done for a round, given the digest of what it holds now."""
    if record is None or record.digest != content:
        return False
    if record.round == round_.number:
        return True
    match round_.rerun:
        case "missing":
            return True
        case "failed":
            return not record.outcome.failed
        case "changed":
            return record.config == round_.config
        case "all":
            return False


@dataclass
class Batch:
    """The newest round of a run, as far as it is still to be done.

    Attributes:
        jobs: how many models at once.
        job: what is done with each; importable by name, because its process imports it.
        on_event: called from several threads, one call at a time.
    """

    journal: Journal
    jobs: int = 1
    job: Job = optimize_model
    on_event: OnEvent = lambda _: None
    _running: set[Isolated] = field(default_factory=set[Isolated])
    _changing: threading.RLock = field(default_factory=threading.RLock)
    _done: int = 0
    _total: int = 0
    _stopped: bool = False

    def run(self, models: Sequence[Source]) -> None:
        """Does what is left of ``models``. Interrupted, it ends what is running and keeps what is finished."""
        self._done, self._total, self._stopped = 0, len(models), False
        self._sweep()
        known = latest(self.journal.records)
        with ThreadPoolExecutor(self.jobs, thread_name_prefix="zoo") as pool:
            futures = [pool.submit(self._one, source, known.get(source.name)) for source in models]
            try:
                for future in as_completed(futures):
                    future.result()
            except BaseException:
                self._stop(futures)
                raise

    def _one(self, source: Source, before: Record | None) -> None:
        """One model from its start until its record is on disk, so that none starts after it before that."""
        record = self._record(source, before)
        with self._changing:
            if self._stopped:
                raise CancelledError  # what was killed says nothing of the model
            if record is not None:
                self.journal.append(record)
            self._done += 1
            self._emit("kept" if record is None else "finished", source.name, record=record)

    def _record(self, source: Source, before: Record | None) -> Record | None:
        """The record of a model, or None where the one that it has stands."""
        round_ = self.journal.rounds[-1]
        begin = datetime.now(UTC).isoformat(timespec="seconds")
        content = ""
        try:
            content = digest(source.path)
            if is_done(before, content, round_):
                return None
            return self._optimize(source, content, begin)
        except OSError as error:
            return Record(source.name, content, round_.config, round_.number, Outcome.ERROR, str(error), begin)

    def _optimize(self, source: Source, content: str, begin: str) -> Record:
        round_ = self.journal.rounds[-1]
        self._emit("started", source.name)
        with tempfile.TemporaryDirectory(dir=self.journal.folder / WORK) as scratch:
            folder = Path(scratch, "output")
            folder.mkdir()
            settings = round_.settings
            task = Task(source.path.absolute(), settings.options(), folder)
            limits = Limits(settings.time_limit, int(settings.memory_limit * 2**30))
            process = self._start(task, limits, Path(scratch, "log"))
            try:
                ended = process.wait(lambda stage: self._emit("stage", source.name, stage=stage))
            except BaseException:
                process.kill()
                raise
            finally:
                with self._changing:
                    self._running.discard(process)
            finding = ended.finding
            output = self._publish(folder) if finding.outcome is Outcome.OPTIMIZED else ""
        return Record(
            source.name,
            content,
            round_.config,
            round_.number,
            finding.outcome,
            finding.reason,
            begin,
            round(ended.seconds, 3),
            round(ended.cpu_seconds, 3),
            ended.peak_memory,
            output,
            finding.report,
            ended.log if finding.outcome.failed else "",
        )

    def _start(self, task: Task, limits: Limits, log: Path) -> Isolated:
        with self._changing:
            if self._stopped:
                raise CancelledError
            process = Isolated(self.job, task, limits, log)
            self._running.add(process)
            return process

    def _stop(self, futures: Sequence[Future[None]]) -> None:
        for future in futures:
            future.cancel()
        with self._changing:
            self._stopped = True
            for process in self._running:
                process.kill()

    def _publish(self, folder: Path) -> str:
        """Moves a result to its place by content; returns that place, relative to the run folder."""
        files = sorted(path for path in folder.iterdir() if path.is_file())
        place = self.journal.folder / MODELS / digest_files(files)
        with self._changing:  # two models may have the same result
            if not place.exists():
                sync_folder(folder)
                folder.rename(place)
                sync_folder(place.parent)
        return (place / OUTPUT).relative_to(self.journal.folder).as_posix()

    def _sweep(self) -> None:
        """Removes what an earlier process left unfinished: scratch folders, and results that no record speaks of."""
        work, models = self.journal.folder / WORK, self.journal.folder / MODELS
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(exist_ok=True)
        models.mkdir(exist_ok=True)
        wanted = {Path(record.output).parent.name for record in self.journal.records if record.output}
        for folder in models.iterdir():
            if folder.name not in wanted:
                shutil.rmtree(folder)

    def _emit(self, kind: EventKind, model: str, *, stage: str = "", record: Record | None = None) -> None:
        with self._changing:
            self.on_event(Event(kind, model, self._done, self._total, stage, record))
