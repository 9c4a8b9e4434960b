"""Attack: the label holder reads other parties' columns in the outputs of the layer."""

import numpy as np
import pytest

from fedsift.lab.attacks.fedsdg import columns

pytestmark = pytest.mark.xdist_group("gradients")


@pytest.mark.parametrize("n_holders", [1, 2])
def test_closed_gates_of_a_linear_model_give_all_columns_away(n_holders):
    found, run = columns.attack_gate_axes(5, seed=0, n_holders=n_holders)
    assert found.min() > 0.99
    kinds = {row.kind for row in run.stage.ledger}
    assert {"single-layer-outputs", "layer-outputs"} & kinds


def test_without_gates_columns_are_known_up_to_a_rotation_only():
    found, _ = columns.attack_gate_axes(5, seed=0, gates="none")
    assert np.median(found) < 0.9


@pytest.mark.parametrize("n_holders", [1, 2])
def test_a_job_that_closes_gates_reads_columns_through_any_network(n_holders):
    found, _ = columns.attack_thinned_gates(5, seed=0, n_holders=n_holders)
    assert np.median(found) > 0.95


def test_curves_of_noise_are_no_columns():
    rng = np.random.default_rng(0)
    outputs = [rng.normal(size=(150, 8)) for _ in range(60)]
    guess = columns.by_thinned_gates(outputs, 5)
    assert columns.squared_correlations(guess, rng.normal(size=(150, 5))).max() < 0.1
