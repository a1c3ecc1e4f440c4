"""Proofs of rules from axioms."""
