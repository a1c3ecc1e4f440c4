"""Picks the cheapest acyclic graph out of an e-graph. Works on arrays; knows nothing of tensors."""
