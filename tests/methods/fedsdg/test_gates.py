"""Gates: values, probabilities and where they start."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from fedsift.methods.fedsdg.gates import GaussianGate
from fedsift.methods.fedsdg.starts import START_STEPS, start_from_gini


def test_without_noise_a_gate_is_its_mean_clipped():
    gate = GaussianGate([-0.5, 0.0, 0.3, 1.0, 1.7], sigma=0.5)
    assert gate().tolist() == pytest.approx([0.0, 0.0, 0.3, 1.0, 1.0])
    assert gate.open_gates().tolist() == [False, False, True, True, True]


def test_noise_is_normal_of_the_given_width_and_one_draw_per_call():
    gate = GaussianGate(np.full(20_000, 0.5), sigma=0.1)
    values = gate(torch.Generator().manual_seed(0)).detach().numpy()
    assert values.mean() == pytest.approx(0.5, abs=0.005)
    assert values.std() == pytest.approx(0.1, abs=0.005)
    generator = torch.Generator().manual_seed(0)
    assert not torch.equal(gate(generator), gate(generator))
    assert torch.equal(
        gate(torch.Generator().manual_seed(3)), gate(torch.Generator().manual_seed(3))
    )


def test_the_open_probability_is_what_noise_does():
    means = np.array([-0.6, -0.1, 0.0, 0.2, 0.9])
    gate = GaussianGate(means, sigma=0.5)
    expected = norm.cdf(means / 0.5)
    assert gate.open_probability().detach().numpy() == pytest.approx(expected, abs=1e-6)
    generator = torch.Generator().manual_seed(0)
    draws = torch.stack([gate(generator) for _ in range(4000)])
    observed = (draws > 0).double().mean(dim=0).numpy()
    assert observed == pytest.approx(expected, abs=0.03)


def test_gradients_flow_where_the_gate_is_between_its_ends():
    gate = GaussianGate([-2.0, 0.5, 3.0], sigma=0.5)
    gate().sum().backward()
    assert gate.mean.grad.tolist() == [0.0, 1.0, 0.0]
    gate.mean.grad = None
    gate.open_probability().sum().backward()
    slope = norm.pdf(np.array([-2.0, 0.5, 3.0]) / 0.5) / 0.5
    assert gate.mean.grad.numpy() == pytest.approx(slope, rel=1e-4)


def test_the_start_is_copied_not_shared():
    start = np.array([0.5, 0.5], dtype=np.float32)
    gate = GaussianGate(start, sigma=0.5)
    with torch.no_grad():
        gate.mean += 1
    assert start.tolist() == [0.5, 0.5]


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=40))
def test_starts_keep_the_order_and_lie_on_the_grid(impurities):
    means = start_from_gini(np.array(impurities))
    assert ((means >= 0) & (means <= 1)).all()
    assert np.array_equal(means * START_STEPS, np.rint(means * START_STEPS))
    order = np.argsort(impurities, kind="stable")
    assert (np.diff(means[order]) <= 0).all()


def test_equal_and_perfect_features():
    assert start_from_gini(np.full(5, 0.4)).tolist() == [0.5] * 5
    means = start_from_gini(np.array([0.0, 0.5, 0.5, 0.5]))
    assert means[0] > 0.9
    assert (means[1:] < 0.5).all()
    assert np.isfinite(means).all()


def test_a_narrow_range_is_spread_out():
    """In proportion to 1/G these would all start alike."""
    impurities = np.linspace(0.467, 0.5, 50)
    means = start_from_gini(impurities)
    assert means.max() - means.min() > 0.5
