"""Attack: the label holder of FedSDG-FS solves for a feature holder's embedding."""

import numpy as np
import pytest

from benchmarks.suites.fedsdg.small_factors import exact_columns, reduced_basis, small_factor
from fedsift.lab.attacks.fedsdg import techniques as attack
from fedsift.lab.attacks.fedsdg.views import Weakness, record
from helpers.fedsdg import moons, params, parties


def recorded(n_parties=1, weakness=Weakness.NONE, **settings):
    recording = record(parties(*moons(), n_parties), params(**settings), weakness=weakness)
    return recording, next(iter(recording.features))


def by_batch(recording, party, start):
    guesses = attack.follow_embeddings(start, recording.labels)
    return [
        attack.explained(guess, view.embedding, by_column=True)
        for guess, view in zip(guesses, recording.features[party], strict=True)
    ]


@pytest.mark.parametrize("scheme", ["plain", "bgv"])
def test_without_noise_on_the_weights_every_batch_is_solved(scheme):
    """The paper's first batch: once is enough, since each solved batch gives the next weights."""
    settings = {"scheme": scheme, "max_epochs": 1 if scheme == "bgv" else 2}
    recording, party = recorded(weakness=Weakness.NO_WEIGHT_NOISE, **settings)
    start = recording.labels[0].shares[party]
    found = by_batch(recording, party, start)
    assert len(found) >= 4
    # A badly conditioned batch may fail: outputs carry half a unit of noise.
    assert found[0] > 0.95
    assert np.median(found) > 0.95
    assert any(view.delta is None for view in recording.labels)


@pytest.mark.parametrize("scheme", ["plain", "bgv"])
def test_with_our_noise_no_batch_is_solved_from_the_first_on(scheme):
    settings = {"scheme": scheme, "max_epochs": 1 if scheme == "bgv" else 2}
    recording, party = recorded(**settings)
    beliefs = {
        "share": recording.labels[0].shares[party],
        "own half": recording.own_half[party],
    }
    for start in beliefs.values():
        found = by_batch(recording, party, start)
        assert len(found) >= 4
        assert max(found) < 0.2


def test_the_label_holders_share_is_uniform_and_new_in_every_run():
    shares = [recorded(seed=1)[0].labels[0].shares["party-1"] for _ in range(30)]
    modulus = recorded()[0].modulus
    numbers = np.concatenate([share.ravel() for share in shares]) / modulus
    # 480 uniform numbers in (-1/2, 1/2): mean 0 +- 0.013, variance 1/12 +- 0.0034.
    assert abs(numbers.mean()) < 5 * 0.013
    assert abs(numbers.var() - 1 / 12) < 5 * 0.0034
    # The weights of all these runs are the same: their seed is.
    assert len({share.tobytes() for share in shares}) == 30


def test_knowing_as_many_rows_as_columns_fits_the_map_of_a_single_holder():
    """What remains, and why outputs of one feature holder have a declaration of their own."""
    recording, party = recorded()
    outputs, truth = recording.labels[0].outputs, recording.features[party][0].embedding
    found = {}
    for k in (2, 3, 12):
        guess = attack.fit_map(truth[:k], outputs[:k], outputs)
        found[k] = attack.explained(guess[12:], truth[12:], by_column=True)
    assert found[12] > 0.95
    assert found[2] < 0.9
    assert found[3] < found[12]


def test_a_sum_over_holders_is_no_linear_map_of_one_embedding():
    alone, party = recorded()
    summed, _ = recorded(3)
    found = []
    for recording in (alone, summed):
        outputs, truth = recording.labels[0].outputs, recording.features[party][0].embedding
        guess = attack.fit_map(truth[:12], outputs[:12], outputs)
        found.append(attack.explained(guess, truth, by_column=True))
    assert found[0] > 0.95
    assert found[1] < 0.9


def exact_share(recording, n_rows=9):
    """Share of outputs that give the embedding away to the last bit, one column per holder."""
    hits, n_holders = [], len(recording.features)
    view = recording.labels[0]
    for j in range(view.outputs.shape[1]):
        found = exact_columns(view.outputs[:, j], n_holders, n_rows) or []
        for seen in recording.features.values():
            truth = np.abs(seen[0].embedding[:n_rows, 0])
            hits.append(any((np.abs(column) == truth).all() for column in found))
    return float(np.mean(hits))


@pytest.mark.parametrize(("n_parties", "least"), [(1, 0.7), (2, 0.4)])
def test_exact_outputs_of_a_single_embedding_column_give_it_away(n_parties, least):
    """Integers that are products have few factors; adding up two holders does not help."""
    settings = {"embedding": 1, "outputs": 8}
    exact, _ = recorded(n_parties, Weakness.EXACT_OUTPUTS, **settings)
    ours, _ = recorded(n_parties, **settings)
    assert exact_share(exact) >= least
    assert exact_share(ours) == 0.0


def test_an_output_of_a_single_embedding_column_is_that_column_up_to_a_factor():
    """Declared: what such a layer gives away, whatever the noise."""
    recording, party = recorded(embedding=1)
    outputs, truth = recording.labels[0].outputs, recording.features[party][0].embedding
    varies = [j for j in range(truth.shape[1]) if truth[:, j].any()]
    alike = [np.corrcoef(outputs[:, j], truth[:, j])[0, 1] ** 2 for j in varies]
    assert np.mean(alike) > 0.98


def test_small_factors_are_found_in_exact_products_only():
    rng = np.random.default_rng(0)
    small = rng.integers(-500, 500, (10, 3))
    product = small.astype(object) @ rng.integers(-(2**29), 2**29, (3, 3)).astype(object)
    found = small_factor(product, rank=3)
    for column in small.T:
        assert any((np.abs(c) == np.abs(column)).all() for c in found.T)
    noise = rng.integers(-(2**28), 2**28, (10, 3))
    blurred = small_factor(product + noise, rank=3)
    assert blurred is None or not any(
        (np.abs(c) == np.abs(column)).all() for c in blurred.T for column in small.T
    )


def test_lattice_reduction_keeps_the_lattice():
    rng = np.random.default_rng(1)
    rows = rng.integers(-(10**6), 10**6, (6, 6)).astype(object)
    reduced = np.array(reduced_basis(list(rows)), dtype=object)
    transform = np.linalg.solve(rows.T.astype(float), reduced.T.astype(float)).T
    assert np.allclose(transform, np.rint(transform), atol=1e-6)
    assert abs(abs(np.linalg.det(transform)) - 1) < 1e-6
    assert (reduced**2).sum() < 0.6 * (rows**2).sum()
