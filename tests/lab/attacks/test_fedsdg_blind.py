"""Attacks on blind trainings: cells in what is opened, labels in shares of single rows."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.suites.fedsdg import blind_leaks
from fedsift.lab.attacks.fedsdg import blind, blind_unrolled, unrolled
from fedsift.lab.attacks.fedsdg.blind_views import record_blind
from helpers.blind import params
from helpers.fedsdg import moons, parties

_BRIEFLY = ((None, 100), (0.3, 50))
pytestmark = pytest.mark.xdist_group("gradients")


def test_exact_sums_for_half_of_the_cells_are_solved_for_cells():
    training, _, run = blind.attack_openings(90, 3, 0, exact=True, n_starts=1)
    assert training.mean() > 0.15
    assert run.params.n_openings > 10


def test_factors_and_limits_leave_nothing_to_solve():
    training, _, run = blind.attack_openings(60, 2, 0, exact=False, n_starts=1)
    assert training.mean() < 0.1
    assert 10 * run.params.n_openings <= len(run.training)


def test_columns_of_its_own_tell_a_label_holder_about_others_without_limits():
    found, run = blind.attack_own_columns(100, 5, 0, exact=True)
    assert found.mean() > 0.1
    assert len(run.openings.sums[0]) == 105
    found, run = blind.attack_own_columns(100, 5, 1, exact=False)
    assert found.max() < 0.1
    assert run.params.n_openings == 1


def test_the_equations_are_those_of_the_run():
    # Solved with the true cells, they give what was opened: so the attack asks the right question.
    run, _ = blind.frozen_job(60, 2, 0, 0, exact=True)
    equations = blind._Equations(run)
    role, scales = run.role("party-1"), run.params.scales
    layer = run.role("label-holder")._layer
    weights = blind_weights(layer, role) / 2.0**scales.weights
    cells = equations._torch.tensor(role._inputs / 256.0 * weights)
    off = equations.predict(cells).numpy() - equations.opened
    assert np.abs(off).max() < 0.02 * np.abs(equations.opened).max()


def blind_weights(layer, role):
    """What the shares of the weights of a single unit add up to."""
    from fedsift.methods.fedsdg.blind.numbers import ring

    both = ring().add(layer._partners["party-1"].weights, role._columns.weights)
    return ring().signed(both)[0].astype(np.float64)


def test_a_helper_finds_no_labels_in_all_that_it_has_of_rows():
    X, y = moons(n_rows=300)
    federation = parties(X, y, 1)
    run = record_blind(federation, params(n_openings=3))
    found = blind.areas_of_labels(run, "party-1", X, y, 0)
    assert found["received"] < 0.6
    assert found["found"] < found["alone"] + 0.05
    (first, *_) = run.features["party-1"]
    assert first.numbers.shape[1] >= 2 * 4 * 2


def test_the_same_guess_reads_labels_where_they_are():
    X, y = moons(n_rows=300)
    assert blind.labels_from(np.c_[y + 0.1 * X[:, 0], X], y, 0) > 0.9


def test_made_columns_are_bits_and_small_groups():
    made = blind_leaks.made_columns(100, 300, 0)
    assert made.shape == (100, 300)
    assert (made[:, 150:].sum(axis=0) == 5).all()


@pytest.mark.parametrize("n_holders", [1, 2])
def test_unrolling_reads_columns_in_the_outputs_of_a_linear_model(n_holders):
    found, run = unrolled.attack_unrolled(
        4, 0, n_holders=n_holders, n_rows=120, n_epochs=10, n_starts=1, stages=_BRIEFLY
    )
    assert found.min() > 0.9
    assert {row.kind for row in run.stage.ledger} & {"single-layer-outputs", "layer-outputs"}


def test_unrolling_reads_columns_through_the_default_network():
    found, _ = unrolled.attack_unrolled(
        3, 0, model="network", n_rows=150, n_epochs=12, n_starts=1, stages=_BRIEFLY,
        settings={"gates": "dual"},
    )  # fmt: skip
    assert found.max() > 0.5


def test_unrolling_finds_nothing_in_what_a_blind_training_opens():
    found, run = blind_unrolled.attack_default(120, 4, 0, hidden=8, seconds=10)
    assert found.max() < 0.1
    assert len(run.openings.sums) == run.params.n_openings


def test_few_own_columns_leave_more_openings_and_tell_nothing():
    found, run = blind.attack_own_columns(100, 20, 0, exact=False, n_own=20)
    assert run.params.n_openings == 3
    assert found.shape == (1,)
    assert found.max() < 0.05


def test_a_seed_gives_validation_labels_away_where_private_draws_follow_it():
    X, y = moons(n_rows=200)
    job = params(seed=5, n_openings=2)
    for seed, least, most in ((5, 1.0, 1.0), (None, 0.0, 0.8)):
        run = record_blind(parties(X, y, 1), replace(job, seed=seed))
        assert least <= blind.area_from_seed(run, "label-holder", job, y) <= most
