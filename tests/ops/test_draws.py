"""Numbers drawn one by one are those that NumPy's functions for arrays draw, and so are all that follow."""

from __future__ import annotations

import numpy as np
import pytest

from egraph_opt.ops.base import distinct_shape, random_shape
from egraph_opt.ops.draws import integers, one_of, shuffled


@pytest.mark.parametrize("seed", range(40))
def test_the_same_numbers_as_numpy_in_any_order(seed: int) -> None:
    own, theirs, order = (np.random.default_rng(s) for s in (seed, seed, seed + 1000))
    for _ in range(60):
        low, span, count = (int(n) for n in order.integers((-3, 1, 0), (4, 7, 6)))
        match int(order.integers(3)):
            case 0:
                assert integers(own, low, low + span, count) == tuple(theirs.integers(low, low + span, count))
            case 1:
                assert shuffled(own, range(low, low + span)) == list(theirs.permutation(np.arange(low, low + span)))
            case _:
                values = range(low, low + span)
                assert one_of(own, values) == theirs.choice(values)
        assert own.bit_generator.state == theirs.bit_generator.state


@pytest.mark.parametrize("seed", range(20))
def test_shapes_are_of_the_rank_and_sizes_that_are_asked_for(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = random_shape(rng, 3, low=2, high=5)
    assert len(shape) == 3
    assert all(2 <= size <= 5 for size in shape)
    distinct = [size for size in distinct_shape(rng, 4) if size != 1]
    assert len(distinct) in (3, 4)
    assert len(set(distinct)) == len(distinct)
