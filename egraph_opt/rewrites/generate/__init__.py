"""Finds rules: enumerates small graphs, groups them by value, and keeps what is general, minimal and provable."""
