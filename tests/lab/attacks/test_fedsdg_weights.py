"""Attack: a feature holder of FedSDG-FS works out the interactive weights."""

import numpy as np
import pytest

from fedsift.lab.attacks.fedsdg import techniques as attack
from fedsift.lab.attacks.fedsdg.views import Weakness, record
from helpers.fedsdg import moons, params, parties


def recorded(weakness=Weakness.NONE, **settings):
    X, y = moons()
    recording = record(parties(X, y), params(**settings), weakness=weakness)
    return recording, "party-1", y


@pytest.mark.parametrize("scheme", ["plain", "bgv"])
def test_without_masks_the_share_and_with_it_the_weights_are_solved(scheme):
    recording, party, _ = recorded(Weakness.NO_MASKS, scheme=scheme, max_epochs=1)
    view = recording.features[party][0]
    share = attack.regress_share(view.embedding, view.masked_outputs, recording.modulus)
    assert (share == recording.labels[0].shares[party]).all()
    weights = (share.astype(object) - view.share.astype(object)) % recording.modulus
    assert (weights == recording.weights(party, 0) % recording.modulus).all()


@pytest.mark.parametrize("scheme", ["plain", "bgv"])
def test_under_uniform_masks_there_is_nothing_to_solve(scheme):
    recording, party, _ = recorded(scheme=scheme, max_epochs=1)
    for view in recording.features[party]:
        if view.masked_outputs is None:
            continue
        assert attack.regress_share(view.embedding, view.masked_outputs, recording.modulus) is None


def test_what_is_decrypted_before_the_gradient_is_uniform():
    """Neither the embedding nor any linear function of it explains masked outputs and steps."""
    recording, party, _ = recorded(max_epochs=8)
    outputs, steps, embeddings = [], [], []
    for view in recording.features[party]:
        n_rows = len(view.embedding)
        outputs.append(view.masked_outputs[:n_rows] / recording.modulus)
        embeddings.append(view.embedding)
        if view.masked_step is not None:
            steps.append(view.masked_step.ravel() / recording.modulus)
    outputs, embeddings = np.concatenate(outputs), np.concatenate(embeddings).astype(float)
    for numbers in (outputs.ravel(), np.concatenate(steps)):
        error = np.sqrt(1 / 12 / len(numbers))
        assert abs(numbers.mean()) < 5 * error
        assert abs(numbers.var() - 1 / 12) < 5 * 0.0745 / np.sqrt(len(numbers))
    fitted = embeddings @ np.linalg.lstsq(embeddings, outputs, rcond=None)[0]
    explained = 1 - ((outputs - fitted) ** 2).sum() / (outputs**2).sum()
    assert explained < 5 * embeddings.shape[1] / len(outputs)


def label_agreement(delta, codes):
    """How well the sign of the main direction of the gradients tells two classes apart."""
    main = np.linalg.svd(delta, full_matrices=False)[2][0]
    agreement = float(((delta @ main > 0) == (codes == codes.max())).mean())
    return max(agreement, 1 - agreement)


def test_a_holder_that_draws_all_of_the_start_reads_every_gradient_and_label():
    recording, party, y = recorded(Weakness.OWN_START)
    batches = recording.training_batches()
    found = attack.follow_weights(recording.their_half[party], recording.features[party])
    for batch, (weights, delta) in zip(batches, found, strict=True):
        view = recording.labels[batch]
        assert attack.explained(weights, recording.weights(party, batch)) > 0.99
        assert attack.explained(delta, view.delta) > 0.9
        assert label_agreement(delta, y[view.rows]) > 0.95


def test_a_holder_that_draws_half_of_the_start_reads_neither():
    """It knows one of two equal halves, so half of the variance of the start, and no gradient."""
    weights_found, delta_found = [], []
    for seed in range(4):
        recording, party, _ = recorded(seed=seed, max_epochs=1)
        batches = recording.training_batches()
        found = attack.follow_weights(recording.their_half[party], recording.features[party])
        for batch, (weights, delta) in zip(batches, found, strict=True):
            weights_found.append(attack.explained(weights, recording.weights(party, batch)))
            delta_found.append(attack.explained(delta, recording.labels[batch].delta))
    assert np.median(weights_found) < 0.75
    assert np.median(delta_found) < 0.3


def isolated(**settings):
    """Share of the output units whose gradient is isolated in the first batch, mean over seeds."""
    shares = []
    for seed in range(4):
        X, y = moons(400, seed=seed)
        given = {"batch_size": 256, "embedding": 6, "outputs": 6, "max_epochs": 1, "seed": seed}
        recording = record(parties(X, y), params(**given, **settings))
        batch = recording.training_batches()[0]
        gradient = recording.features["party-1"][batch].gradient
        units = attack.isolate_units(gradient, np.random.default_rng(0), 4000)
        shares.append(attack.units_found(units, recording.labels[batch].delta))
    return float(np.mean(shares))


def test_zeros_of_the_activation_isolate_single_units_and_label_noise_ends_it():
    """What remains: the directions of some columns of the layer, not the weights' sizes."""
    assert isolated() > 0.15
    assert isolated(label_noise=1.0) < 0.05
