"""Samples of Attention: the operands that are drawn fit those that are given."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from egraph_opt.ops import operator


@pytest.mark.parametrize("given", [g for g in product((False, True), repeat=3) if any(g)])
def test_what_is_drawn_fits_what_is_given(given: tuple[bool, bool, bool]) -> None:
    attention, shapes = operator("Attention"), set[tuple[int, bool]]()
    for seed in range(60):
        rng = np.random.default_rng(seed)
        sample = attention.complete(rng, (None,) * 4, (None,) * 3)
        assert sample is not None
        types = tuple(t if there else None for t, there in zip(sample.types, given, strict=True))
        made = attention.complete(rng, sample.attrs, types)
        assert made is not None, (sample, given)
        assert made.attrs == sample.attrs
        assert all(t is None or t == m for t, m in zip(types, made.types, strict=True))
        shapes.add((sample.types[0].rank, bool(sample.attrs[2])))
    assert len(shapes) == 4  # both ranks, causal and not
