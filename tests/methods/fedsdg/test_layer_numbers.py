"""Fixed-point scales of the interactive layer."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsift.errors import FixedPointOverflow
from fedsift.methods.fedsdg.layer_numbers import (
    EMBEDDING_LIMIT,
    GRADIENT_LIMIT,
    RING_BITS,
    LayerNumbers,
)


def test_scales_fit_together():
    """Products of integers have the bits they claim, so that nothing is rounded inside."""
    numbers = LayerNumbers()
    assert numbers.weight_bits == (
        numbers.embedding_bits + numbers.gradient_bits + numbers.step_bits
    )
    g, delta = numbers.embedding(np.array([[0.5]])), numbers.gradient(np.array([[0.25]]))
    weights = numbers.weights(np.array([[1.5]]))
    assert np.ldexp(float((g @ weights)[0, 0]), -numbers.output_bits) == 0.75
    assert np.ldexp(float((delta @ weights.T)[0, 0]), -numbers.input_gradient_bits) == 0.375
    step = np.ldexp(float((g.T @ delta)[0, 0]), -numbers.weight_bits)
    assert step == 0.125 * 2.0**-numbers.step_bits


@given(st.integers(16, 4096), st.floats(0.001, 4.0))
def test_the_step_is_the_nearest_power_of_two(batch, rate):
    numbers = LayerNumbers.for_batches(batch, rate)
    wanted = rate / batch
    assert 2**-0.51 < 2.0**-numbers.step_bits / min(wanted, 1.0) < 2**0.51


@given(st.lists(st.floats(-20, 20), min_size=1, max_size=20))
def test_rounding_is_off_by_half_a_unit_at_most_and_clips(values):
    numbers, array = LayerNumbers(), np.array(values)
    for integers, bits, limit in (
        (numbers.embedding(array), numbers.embedding_bits, EMBEDDING_LIMIT),
        (numbers.gradient(array), numbers.gradient_bits, GRADIENT_LIMIT),
    ):
        clipped = np.clip(array, -limit, limit)
        assert np.abs(np.ldexp(integers.astype(float), -bits) - clipped).max() <= 2.0 ** -(bits + 1)


def test_numbers_near_the_edge_of_the_ring_are_refused():
    numbers = LayerNumbers()
    fine = np.array([(1 << (RING_BITS - 2)) - 1])
    assert numbers.outputs_as_reals(fine)[0] > 0
    for convert in (numbers.outputs_as_reals, numbers.input_gradients_as_reals):
        with pytest.raises(FixedPointOverflow, match="have grown beyond"):
            convert(np.array([3, -(1 << (RING_BITS - 2))]))


def test_ordinary_trainings_are_far_from_the_edge():
    """Bounded embeddings of width 16 and weights of size 4 use a hundredth of the ring at most."""
    numbers = LayerNumbers.for_batches(256, 0.3)
    largest = 16 * 1.0 * 4.0 * 2.0**numbers.output_bits
    assert largest < 2.0 ** (RING_BITS - 1)


def test_no_rows_are_no_problem():
    assert LayerNumbers().outputs_as_reals(np.empty((0, 3), dtype=np.int64)).shape == (0, 3)
