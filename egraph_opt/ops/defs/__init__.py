"""Declarations of operators, one file per family."""
