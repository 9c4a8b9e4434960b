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


def gate_gradients(n_draws, n_batches=400):
    """Gradients of the gates' means for one batch, drawn anew every time; its mean loss is fixed.

    The loss is not linear in the gates, and every row has the same inputs: what varies is noise.
    """
    gate = GaussianGate(np.full(3, 0.5), sigma=0.4)
    weights = torch.tensor([1.0, -2.0, 0.5])
    generator = torch.Generator().manual_seed(0)
    found = []
    for _ in range(n_batches):
        gate.mean.grad = None
        gates = gate.of_rows(64, generator, n_draws).expand(64, 3)
        loss = ((gates * weights).sum(dim=1) - 1.0).square().mean()
        loss.backward()
        found.append(gate.mean.grad.numpy().copy())
    return np.array(found)


def test_more_draws_make_the_gradient_less_noisy_and_leave_its_mean():
    one, four, sixteen = (gate_gradients(n) for n in (1, 4, 16))
    ratios = one.var(axis=0) / four.var(axis=0), one.var(axis=0) / sixteen.var(axis=0)
    assert ratios[0] == pytest.approx(4.0, rel=0.3)
    assert ratios[1] == pytest.approx(16.0, rel=0.3)
    errors = np.sqrt(one.var(axis=0) / len(one))
    assert (np.abs(one.mean(axis=0) - sixteen.mean(axis=0)) < 4 * errors).all()


def test_rows_take_turns_with_draws_and_share_a_single_one():
    gate = GaussianGate(np.full(5, 0.5), sigma=0.1)
    generator = torch.Generator().manual_seed(0)
    gates = gate.of_rows(7, generator, 3)
    assert gates.shape == (7, 5)
    assert torch.equal(gates[0], gates[3])
    assert not torch.equal(gates[0], gates[1])
    alone = gate.of_rows(7, torch.Generator().manual_seed(0), 1)
    assert torch.equal(alone, gates[0])
    assert torch.equal(gate.of_rows(7, None, 3), gate())


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
