"""Whole folders of models, each in a process of its own: runs that can be killed and resumed, and their report."""

from egraph_opt.zoo.batch import Batch, Event
from egraph_opt.zoo.discover import Shard, Source, discover
from egraph_opt.zoo.journal import Journal, latest, read_records, read_rounds
from egraph_opt.zoo.page import write_report
from egraph_opt.zoo.records import Finding, Outcome, Record
from egraph_opt.zoo.rounds import enter_round
from egraph_opt.zoo.settings import Rerun, Round, Settings
from egraph_opt.zoo.summary import earlier, regressions, speed_of, summarize
from egraph_opt.zoo.worker import Job, Task

__all__ = [
    "Batch",
    "Event",
    "Finding",
    "Job",
    "Journal",
    "Outcome",
    "Record",
    "Rerun",
    "Round",
    "Settings",
    "Shard",
    "Source",
    "Task",
    "discover",
    "earlier",
    "enter_round",
    "latest",
    "read_records",
    "read_rounds",
    "regressions",
    "speed_of",
    "summarize",
    "write_report",
]
