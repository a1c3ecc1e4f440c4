"""Terms with variables, equations between them, and the gates that an equation passes before it is believed."""

from egraph_opt.terms.equation import FLOAT_CLASSES, Dtypes, Equation, FloatClass, sides
from egraph_opt.terms.gates import Verdict, check_equation, holds
from egraph_opt.terms.pattern import App, Expr, Number, Pattern, PatternError, Var, attribute_names, parse, walk
from egraph_opt.terms.sampling import Case, draw

__all__ = [
    "FLOAT_CLASSES",
    "App",
    "Case",
    "Dtypes",
    "Equation",
    "Expr",
    "FloatClass",
    "Number",
    "Pattern",
    "PatternError",
    "Var",
    "Verdict",
    "attribute_names",
    "check_equation",
    "draw",
    "holds",
    "parse",
    "sides",
    "walk",
]
