"""The GPU: plans for tensor graphs and the executor that runs them. Importing it needs no GPU."""

from egraph_opt.runtime.cuda.device import Machine, machine
from egraph_opt.runtime.cuda.doctor import report
from egraph_opt.runtime.cuda.executor import Program, compile
from egraph_opt.runtime.cuda.plan import make_plan
from egraph_opt.runtime.cuda.steps import Plan
from egraph_opt.runtime.cuda.tune import Choices, Tuner

__all__ = ["Choices", "Machine", "Plan", "Program", "Tuner", "compile", "machine", "make_plan", "report"]
