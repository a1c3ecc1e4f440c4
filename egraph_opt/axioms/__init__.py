"""Axioms: properties of operators that rules are proved from, each validated on many shapes before it may be used.

Still empty. An axiom will say an equation between operators and when it holds; ``egraph-opt axioms validate`` will
check it against the table in ``egraph_opt.ops``.
"""
