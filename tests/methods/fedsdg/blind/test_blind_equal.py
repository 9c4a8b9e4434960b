"""The blind protocol computes what open integers give, to one unit per shortened number."""

import asyncio
from types import SimpleNamespace

import numpy as np
import pytest
import seal

from fedsift.crypto.products import between_two_bgv
from fedsift.crypto.schemes import seal as schemes
from fedsift.data import split_vertical
from fedsift.engine import run_local
from fedsift.methods.fedsdg.blind import tables
from fedsift.methods.fedsdg.blind.numbers import (
    HIDDEN_BITS,
    INPUT_BITS,
    Scales,
    minus,
    output_signs,
    ring,
    shorten,
)
from fedsift.methods.fedsdg.blind.open_layer import OpenLayer
from fedsift.methods.fedsdg.model import prepare_prediction
from helpers.blind import params, repeated_openly, train
from helpers.fedsdg import moons, parties

SMALL_LOSS = 0.003
"""Beside 0.25 to 1 for predicting the mean."""

LOSS_TOLERANCE = 0.02
"""Relative difference of losses after a few dozen steps, each a unit off here and there."""

OUTPUT_BOUND = 0.01
"""Of outputs after 60 steps, in float64 and in the integers of the protocol."""


def most_off(n_steps, scales, row_sum):
    """Bound of a weight's error: in every step each row's gradient is off by half a unit of 2**-10.

    All in one direction, times the inputs (``row_sum`` adds up their sizes over a batch), and 8
    times as much with momentum. What earlier errors do to later gradients is left out: steps are
    small enough to shrink it.
    """
    return n_steps * 8 * 2.0 ** -(scales.rate_bits + 11) * row_sum


def losses(history):
    return np.array([entry["validation_loss"] for entry in history])


def assert_equals_open(federation, settings):
    outcome, nodes = train(federation, settings)
    openly = repeated_openly(nodes, federation, settings)
    assert losses(outcome.value.history) == pytest.approx(
        losses(openly.history), rel=LOSS_TOLERANCE, abs=SMALL_LOSS
    )
    role = nodes[federation.label_holder][0]
    assert role._training_phase.gates.means == pytest.approx(openly.gates.means, abs=0.02)
    return nodes, openly


def weights_of(nodes, federation):
    """What the shares of all weights add up to, in the order of the label holder."""
    holder = nodes[federation.label_holder][0]
    found = []
    for party in holder._layer._widths:
        if party == federation.label_holder:
            other = nodes[holder._layer.helper][0]._others.weights
            found.append(ring().add(holder._layer._own.weights, other))
        else:
            share = holder._layer._partners[party].weights
            found.append(ring().add(share, nodes[party][0]._columns.weights))
    return ring().signed(np.concatenate(found, axis=2)).astype(np.float64)


@pytest.mark.parametrize("n_parties", [1, 2, 5])
@pytest.mark.parametrize("seed", [0, 1])
def test_shares_add_up_to_the_open_training(n_parties, seed):
    federation = parties(*moons(seed=seed), n_parties)
    assert_equals_open(federation, params(seed=seed))


def test_own_columns_of_the_label_holder_are_shared_with_the_helper():
    X, y = moons()
    federation = split_vertical(X, y, 3, random_state=0)
    settings = params()
    nodes, openly = assert_equals_open(federation, settings)
    scale = 2.0**settings.scales.weights
    found, expected = weights_of(nodes, federation) / scale, openly.layer.weights / scale
    assert found == pytest.approx(expected, abs=2e-2)


def test_ten_feature_holders_and_many_classes():
    federation = parties(*moons(n_features=10, n_classes=3), 10)
    assert_equals_open(federation, params(n_outputs=3))


def test_numbers_as_target():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 6))
    federation = parties(X, 3.0 * X[:, 0] + X[:, 1] + 0.1 * rng.normal(size=100), 2)
    nodes, _ = assert_equals_open(federation, params(n_openings=4))
    history = nodes[federation.label_holder][0]._training_phase.history
    assert history[-1]["validation_score"] > 0.5


@pytest.mark.parametrize("scheme", ["bgv", "paillier"])
def test_encrypted_trainings_give_the_same(scheme):
    rows, small = {
        "bgv": (24, {}),
        "paillier": (20, {"hidden": 1, "batch_size": 6, "security_bits": 112}),
    }[scheme]
    X, y = moons(n_rows=rows, n_features=2)
    federation = split_vertical(X, y, 2, random_state=0)
    settings = params(
        scheme=scheme, n_openings=1, n_blocks=1, n_settling=0, validation=0.5, **small
    )
    assert_equals_open(federation, settings)


CASES = [
    *(("bgv", 1 + seed, 30, 4, seed, {}) for seed in range(2)),
    ("bgv", 5, 60, 10, 2, {}),
    ("bgv", 2, 80, 40, 0, {"n_settling": 1, "trials": 5, "init": "gini"}),
    ("bgv", 10, 60, 10, 3, {"hidden": 2}),
    ("bgv", 1, 24, 300, 4, {"hidden": 32, "n_openings": 1, "n_settling": 0}),
    ("paillier", 2, 24, 2, 0, {"hidden": 1, "batch_size": 8, "security_bits": 112}),
]
"""Up to ten parties; more inputs than one exchange and more weights than a ciphertext hold."""


@pytest.mark.parametrize(("scheme", "n_parties", "rows", "n_features", "seed", "some"), CASES)
def test_encrypted_and_plain_trainings_are_the_same_to_the_last_bit(
    scheme, n_parties, rows, n_features, seed, some
):
    X, y = moons(n_rows=rows, n_features=n_features, seed=seed)
    own = "party-1" if n_parties > 1 and seed % 2 == 0 else None
    federation = split_vertical(X, y, n_parties, random_state=0, label_holder=own)
    settings = {"n_openings": 2, "n_blocks": 1, "n_settling": 0, "seed": seed, **some}
    if scheme == "paillier":
        settings["n_openings"] = 1
    found = []
    for each in (scheme, "plain"):
        outcome, nodes = train(federation, params(**{**settings, "scheme": each}))
        holder = nodes[federation.label_holder][0]
        gates = holder._training_phase.gates.means
        found.append((outcome.value.history, gates.tolist(), weights_of(nodes, federation)))
    assert found[0][:2] == found[1][:2]
    assert np.array_equal(found[0][2], found[1][2])


@pytest.fixture
def small_ring(monkeypatch):
    """Rings of 256 slots, which protect nothing: real ciphertexts that are soon full."""
    few = 256
    for module in (between_two_bgv, tables):
        monkeypatch.setattr(module, "DEGREE", few)
    monkeypatch.setitem(schemes.MAX_LEVELS, few, 3)
    insecure = SimpleNamespace(tc128=seal.sec_level_type.none)
    monkeypatch.setattr(schemes.seal, "sec_level_type", insecure)
    return few


def test_more_columns_than_slots_are_the_same_to_the_last_bit(small_ring):
    n_features = small_ring + 10
    federation = parties(*moons(n_rows=24, n_features=n_features), 1)
    found = []
    for scheme in ("bgv", "plain"):
        settings = params(scheme=scheme, hidden=2, n_openings=1, n_blocks=1, n_settling=0)
        outcome, nodes = train(federation, settings)
        found.append((outcome.value.history, weights_of(nodes, federation)))
    assert found[0][1].shape == (2, n_features)
    assert found[0][0] == found[1][0]
    assert np.array_equal(found[0][1], found[1][1])


def predicted(tables, holder, parts, settings):
    """Probabilities of the rows of some tables, by the secure protocol."""
    protocol, _, nodes = prepare_prediction(tables, holder, parts, settings)
    return run_local(protocol, nodes, protected=settings.scheme != "plain").value


def test_encrypted_predictions_are_the_same_to_the_last_bit():
    X, y = moons(n_rows=60, n_features=5)
    federation = split_vertical(X, y, 3, random_state=0)
    _, nodes = train(federation, params(n_blocks=1))
    parts = {party: node[0].part_state() for party, node in nodes.items()}
    new = split_vertical(*moons(n_rows=12, n_features=5, seed=1), 3, random_state=0)
    found = []
    for scheme in ("plain", "bgv"):
        settings = params(n_blocks=1, scheme=scheme)
        found.append(predicted(new.tables, federation.label_holder, parts, settings))
    assert found[0].shape == (12, 2)
    assert np.unique(found[0]).size > 12
    assert np.array_equal(found[0], found[1])


@pytest.mark.parametrize("bits", [1, 3, 19, 20, 30])
def test_shares_shortened_by_any_number_of_bits_are_off_by_one_unit_at_most(bits):
    rng = np.random.default_rng(bits)
    numbers = rng.integers(-(2**40), 2**40, size=1000)
    one = ring().uniform(numbers.shape)
    other = minus(ring().of(numbers), one)
    both = ring().add(shorten(one, bits, first=True), shorten(other, bits, first=False))
    assert np.abs(ring().signed(both).astype(np.float64) - numbers / 2.0**bits).max() <= 1.0


def test_shortened_shares_are_off_by_one_unit_at_most():
    rng = np.random.default_rng(0)
    for bits in (20, 27, 31):
        exact = rng.integers(-(2**43), 2**43, 20000)
        one = ring().uniform(exact.shape)
        short = ring().add(
            shorten(one, bits, first=True),
            shorten(minus(ring().of(exact), one), bits, first=False),
        )
        off = ring().signed(short) - (exact >> bits)
        assert set(off) == {0, 1}
        # Rounding has no bias, so that steps do not drift.
        mean = float(np.mean(off - (exact % 2**bits) / 2.0**bits))
        assert abs(mean) < 0.01


class RealNetwork:
    """The network in float64, written once more from its formulas."""

    def __init__(self, weights, n_outputs, rate):
        self.weights, self.bias = weights, np.zeros((len(weights), 1))
        self._signs, self._rate = output_signs(len(weights), n_outputs) / 4, rate
        self._moves = [np.zeros_like(self.weights), np.zeros_like(self.bias)]

    def outputs(self, inputs, gates):
        self.hidden = (self.weights * gates) @ inputs.T + self.bias
        return self._signs @ (self.hidden**2 / 4 + self.hidden / 2)

    def train(self, inputs, gates, targets):
        slopes = self._signs.T @ (self.outputs(inputs, gates) - targets) * (self.hidden + 1) / 2
        for move, gradient in zip(
            self._moves, (slopes @ inputs, slopes.sum(axis=1)[:, None]), strict=True
        ):
            move *= 7 / 8
            move += self._rate * gradient
        self.weights -= self._moves[0]
        self.bias -= self._moves[1]


N_STEPS = 60


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_many_steps_stay_within_the_stated_bound_of_real_numbers(n_outputs):
    # Batches of 64 rows, gates drawn for each, a rate as the default one.
    rng, scales, n_rows, n_features = np.random.default_rng(0), Scales(9), 256, 12
    table = np.clip(np.rint(rng.normal(size=(n_rows, n_features)) * 256), -2045, 2045)
    weights = np.rint(rng.normal(0.0, 0.06, (8, n_features)) * 2.0**scales.weights)
    targets = rng.normal(0.0, 0.5, (n_outputs, n_rows))
    features = np.arange(n_features)
    integers = np.rint(targets * 2.0**scales.outputs)
    fixed = OpenLayer(table, weights, integers, features, scales)
    real = RealNetwork(weights / 2.0**scales.weights, n_outputs, 2.0**-scales.rate_bits)
    inputs, start = table / 256, real.weights.copy()
    for step in range(1, N_STEPS + 1):
        rows = rng.choice(n_rows, 64, replace=False)
        gates = rng.integers(0, 33, n_features)
        asyncio.run(fixed.train(rows, gates, None, None))
        real.train(inputs[rows], gates / 32, targets[:, rows])
        off = np.abs(fixed.weights / 2.0**scales.weights - real.weights).max()
        assert off <= most_off(step, scales, np.abs(inputs[rows]).sum(axis=0).max())
    shown = fixed.outputs(np.arange(n_rows), np.full(n_features, 32)) / 2.0**scales.outputs
    assert np.abs(shown - real.outputs(inputs, 1.0)).max() < OUTPUT_BOUND
    assert np.abs(real.weights - start).max() > 100 * off  # it did learn


def test_fixed_point_stays_close_to_real_numbers():
    # One step of the network in float64, against the integers that the protocol works with.
    rng = np.random.default_rng(0)
    scales = Scales(6)
    inputs = rng.normal(size=(50, 4))
    weights = rng.normal(0, 0.3, (6, 4))
    hidden = inputs @ weights.T
    outputs = (hidden**2 / 4 + hidden / 2) @ output_signs(6, 1).T / 4
    integers = np.rint(inputs * 2**INPUT_BITS)
    fixed = np.rint(np.rint(weights * 2**scales.weights) * 32 @ integers.T / 2**scales.hidden_shift)
    assert np.abs(fixed.T / 2**HIDDEN_BITS - hidden).max() < 0.01
    activations = fixed**2 + fixed * 2 ** (HIDDEN_BITS + 1)
    shown = (output_signs(6, 1) @ activations / 2**scales.outputs).T
    assert np.abs(shown - outputs).max() < 0.02
