"""Axioms by family; each file ends with ``AXIOMS``. ``TASO An`` is the n-th axiom of TASO's ``verify.py``."""
