"""Predicted counts are those of the run, method by method; seconds are priced by the rates."""

import json
import time

import numpy as np
import pytest

import fedsift as fs
from fedsift.costs import Rates, estimate, measure, measure_crypto, rates, rates_of_this_machine
from fedsift.costs.counts import Counts
from fedsift.costs.estimate import priced
from fedsift.costs.rates import TYPICAL
from fedsift.methods.fpso.costs import different_subsets
from fedsift.methods.fpso.local_search import Params
from fedsift.methods.vfps.vector_costs import vectors_of
from helpers.fedsdg import PAPER
from helpers.vfps import PAIRING
from helpers.vfps import PAPER as BY_SUMS

TYPICAL_RATES = Rates(TYPICAL)


def made_up(n_rows, n_columns, n_classes=2, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n_rows)
    X = rng.normal(size=(n_rows, n_columns))
    X[:, 0] += y
    return X, y


def vertical(n_rows, n_columns, parties=2, n_classes=2):
    return fs.split_vertical(*made_up(n_rows, n_columns, n_classes), parties, random_state=0)


def horizontal(n_rows, n_columns, parties=3):
    return fs.split_horizontal(*made_up(n_rows, n_columns), parties, random_state=0)


EXACT = {
    "gini": (fs.FilterSelector("gini", n_features_to_select=3), vertical(300, 8, 3)),
    "mi of three classes": (
        fs.FilterSelector("mi", n_features_to_select=2),
        vertical(200, 6, n_classes=3),
    ),
    "f": (fs.FilterSelector("f", n_features_to_select=2), vertical(200, 6)),
    "counts under Paillier": (
        fs.FilterSelector("iv", n_features_to_select=2, he="paillier"),
        vertical(60, 4),
    ),
    "noisy counts": (
        fs.FilterSelector("mi", n_features_to_select=2, bins=[-1, 0, 1], epsilon=1.0),
        vertical(200, 6),
    ),
    "noisy pooled counts": (
        fs.FilterSelector("mi", n_features_to_select=2, bins=[-1, 0, 1], epsilon=1.0),
        horizontal(200, 6),
    ),
    "a drawn selection": (
        fs.FilterSelector("gini", n_features_to_select=3, bins=[-1, 0, 1], release_epsilon=1.0),
        vertical(300, 8, 3),
    ),
    "a drawn selection under Paillier": (
        fs.FilterSelector(
            "mi", n_features_to_select=2, bins=[-1, 0, 1], release_epsilon=1.0, he="paillier"
        ),
        vertical(60, 4),
    ),
    "a pooled drawn selection": (
        fs.FilterSelector("mi", n_features_to_select=2, bins=[-1, 0, 1], release_epsilon=1.0),
        horizontal(200, 6),
    ),
    "noisy counts and a drawn selection": (
        fs.FilterSelector(
            "gini", n_features_to_select=2, bins=[-1, 0, 1], epsilon=1.0, release_epsilon=1.0
        ),
        vertical(200, 6),
    ),
    "pooled gini": (fs.FilterSelector("gini", n_features_to_select=3), horizontal(300, 5)),
    "pooled f": (fs.FilterSelector("f", n_features_to_select=3), horizontal(300, 5)),
    "interaction": (fs.InteractionSelector(n_features_to_select=3), vertical(200, 12)),
    "stepwise": (fs.StepwiseSelector(n_features_to_select=2), vertical(200, 9, parties=3)),
    "stepwise by counts": (
        fs.StepwiseSelector(n_features_to_select=2, criterion="mrmr"),
        vertical(200, 9, parties=3),
    ),
    "stepwise under Paillier": (
        fs.StepwiseSelector(n_features_to_select=1, he="paillier"),
        vertical(40, 4),
    ),
    "stepwise over rows": (fs.StepwiseSelector(n_features_to_select=3), horizontal(300, 5)),
    "stepwise over rows by knockoffs": (
        fs.StepwiseSelector(n_features_to_select="fdr"),
        horizontal(300, 5),
    ),
    "participants": (
        fs.VFPSSelector(
            **BY_SUMS,
            n_participants=2,
            n_queries=40,
            n_groups=4,
        ),
        vertical(400, 8, 4),
    ),
    "participants, greedy": (
        fs.VFPSSelector(
            design="separate",
            keep_own=False,
            n_participants=2,
            n_queries=10,
            strategy="greedy",
            policy=PAIRING,
        ),
        vertical(300, 8, 4),
    ),
    "anchors": (fs.DCFSSelector(n_features_to_select=3), horizontal(120, 12)),
    "swarms": (fs.FPSOSelector(n_iterations=3, n_rounds=2), horizontal(120, 8)),
    "a common swarm": (
        fs.FPSOSelector(n_iterations=3, n_rounds=2, mode="federated-fitness"),
        horizontal(90, 8),
    ),
    "votes of blocks": (fs.FPSOSelector(epsilon=2.0), horizontal(120, 8)),
    "gates": (
        fs.FedSDGSelector(max_epochs=1, batch_size=128, min_batches=1, **PAPER),
        vertical(160, 6),
    ),
    "gini in the clear": (
        fs.FilterSelector("gini", n_features_to_select=3, security="plain"),
        vertical(300, 8, 3),
    ),
    "counts in the clear": (
        fs.FilterSelector("mi", n_features_to_select=3, security="plain"),
        vertical(300, 8, n_classes=3),
    ),
    "f in the clear": (
        fs.FilterSelector("f", n_features_to_select=2, security="plain"),
        vertical(200, 6),
    ),
    "pooled gini in the clear": (
        fs.FilterSelector("gini", n_features_to_select=3, security="plain"),
        horizontal(300, 5),
    ),
    "interaction in the clear": (
        fs.InteractionSelector(n_features_to_select=3, security="plain"),
        vertical(200, 12),
    ),
    "scores of participants": (
        fs.VFPSSelector(n_participants=2, n_queries=40),
        vertical(400, 8, 4),
    ),
    "scores of participants beside the leader's own": (
        fs.VFPSSelector(n_participants=3, n_queries=40, keep_own=True),
        vertical(400, 8, 4),
    ),
    "participants in the clear": (
        fs.VFPSSelector(
            **BY_SUMS,
            n_participants=2,
            n_queries=40,
            n_groups=4,
            security="plain",
        ),
        vertical(400, 8, 4),
    ),
    "shared groups in the clear": (
        fs.VFPSSelector(
            strategy="group-testing",
            keep_own=False,
            n_participants=2,
            n_queries=60,
            n_groups=4,
            design="shared",
            security="plain",
            policy=PAIRING,
        ),
        vertical(300, 8, 4),
    ),
    "participants under Paillier": (
        fs.VFPSSelector(
            **BY_SUMS,
            n_participants=2,
            n_queries=12,
            n_groups=3,
            he="paillier",
        ),
        vertical(200, 8, 4),
    ),
    "participants under Paillier, greedy": (
        fs.VFPSSelector(
            design="separate",
            keep_own=False,
            n_participants=2,
            n_queries=3,
            strategy="greedy",
            fagin=False,
            he="paillier",
            policy=PAIRING,
        ),
        vertical(150, 8, 4),
    ),
    "gates in the clear": (
        fs.FedSDGSelector(max_epochs=2, batch_size=64, min_batches=1, security="plain", **PAPER),
        vertical(160, 6),
    ),
    "gates of three parties in the clear": (
        fs.FedSDGSelector(max_epochs=1, batch_size=64, min_batches=1, security="plain", **PAPER),
        vertical(160, 9, 3),
    ),
    "gates under Paillier": (
        fs.FedSDGSelector(
            max_epochs=1,
            batch_size=32,
            min_batches=1,
            embedding=3,
            outputs=2,
            he="paillier",
            **PAPER,
        ),
        vertical(64, 6),
    ),
    "gates of three parties under Paillier": (
        fs.FedSDGSelector(
            max_epochs=1,
            batch_size=32,
            min_batches=1,
            embedding=2,
            outputs=2,
            he="paillier",
            **PAPER,
        ),
        vertical(64, 6, 3),
    ),
}


@pytest.mark.parametrize("case", EXACT)
def test_counts_are_those_of_the_run(case):
    selector, federation = EXACT[case]
    selector.set_params(random_state=0)

    told = estimate(selector, federation, TYPICAL_RATES)
    traffic = selector.fit(federation).result_.traffic

    assert (told.rounds, told.messages) == (traffic.rounds, traffic.messages)
    assert told.ciphertexts == traffic.ciphertexts
    assert told.n_bytes == pytest.approx(traffic.n_bytes, rel=0.01)
    assert 0 < told.seconds <= told.cpu_seconds
    assert sum(told.phases.values()) == pytest.approx(told.cpu_seconds)


def test_seconds_are_counts_times_rates():
    tally = Counts()
    tally.do("train", "matrix product", 10)
    tally.do("encrypt", "bgv encrypt", 3)
    tally.side_by_side = 10**6
    seconds = dict.fromkeys(TYPICAL, 0.0) | {"matrix product": 2.0, "bgv encrypt": 5.0}

    wall, cpu, phases = priced(tally, Rates(seconds))

    assert (cpu, phases["train"], phases["encrypt"]) == (35.0, 20.0, 15.0)
    assert 15.0 < wall <= 35.0  # numerical work is shared by the cores


def test_parties_that_share_cores_get_in_each_others_way(monkeypatch):
    tally = Counts()
    tally.do("train", "subset", 10)
    seconds = dict.fromkeys(TYPICAL, 0.0) | {"subset": 2.0}
    seconds |= {"crowded subset": 1.5, "subset lanes": 1.25}
    monkeypatch.setattr("os.cpu_count", lambda: 2)

    alone = priced(tally, Rates(seconds))
    tally.side_by_side = 3
    crowded = priced(tally, Rates(seconds))

    assert alone[:2] == (20.0, 20.0)
    assert crowded[:2] == (16.0, 30.0)
    assert crowded[2]["train"] == 30.0
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    assert priced(tally, Rates(seconds))[:2] == (20.0, 20.0)
    monkeypatch.setattr("os.cpu_count", lambda: 9)
    assert priced(tally, Rates(seconds))[0] == pytest.approx(20.0 / 1.25)
    tally.side_by_side = 9
    assert priced(tally, Rates(seconds))[0] == pytest.approx(20.0 / 2.0)


def test_what_the_data_decides_has_a_range():
    federation = vertical(120, 6)
    gates = estimate(fs.FedSDGSelector(**PAPER), federation, TYPICAL_RATES)
    auto = estimate(fs.InteractionSelector(n_features_to_select="auto"), federation, TYPICAL_RATES)

    for told in (gates, auto):
        assert told.lowest["bytes"] < told.highest["bytes"]
        assert told.lowest["bytes"] <= told.n_bytes <= told.highest["bytes"]
        assert "data decides" in " ".join(told.remarks)


@pytest.mark.parametrize(("n_telling", "course"), [(0, "lowest"), (1, "told"), (2, "highest")])
def test_a_search_that_the_data_ends_costs_what_its_steps_cost(n_telling, course):
    rng = np.random.default_rng(0)
    y, X = rng.integers(0, 2, 400), rng.normal(size=(400, 8))
    for column in (2, 4)[:n_telling]:  # of the second and the third participant
        X[:, column] += 1.5 * y
    federation = fs.split_vertical(X, y, 4)
    selector = fs.VFPSSelector(n_participants="auto", n_queries=400, random_state=0)

    told = estimate(selector, federation, TYPICAL_RATES)
    result = selector.fit(federation).result_

    assert sum(map(bool, result.selected.values())) == 1 + n_telling
    expected = {
        "told": told.n_bytes,
        **{e: getattr(told, e)["bytes"] for e in ("lowest", "highest")},
    }
    assert expected[course] == pytest.approx(result.traffic.n_bytes, rel=0.01)
    assert "data decides" in " ".join(told.remarks)


def test_encryption_is_what_costs():
    federation = vertical(200, 6)
    for selector in (
        fs.FilterSelector("gini", n_features_to_select=2),
        fs.InteractionSelector(n_features_to_select=2),
        fs.FedSDGSelector(max_epochs=1),
    ):
        secure = estimate(selector, federation, TYPICAL_RATES)
        selector.set_params(security="plain")
        plain = estimate(selector, federation, TYPICAL_RATES)

        assert plain.cpu_seconds < secure.cpu_seconds / 2
        assert plain.n_bytes < secure.n_bytes
        assert (plain.rounds, plain.messages) == (secure.rounds, secure.messages)


def test_a_longer_paillier_key_takes_more():
    tallies = [Counts(), Counts()]
    short, long = (vectors_of(t, "paillier", b) for t, b in zip(tallies, (128, 192), strict=True))
    for vectors in (short, long):
        vectors.set_up(3)
        vectors.encrypt(1000, 3)

    assert short.fresh(1000)[1] < long.fresh(1000)[1]
    assert 4 * priced(tallies[0], TYPICAL_RATES)[1] < priced(tallies[1], TYPICAL_RATES)[1]


def test_swarms_come_back_to_subsets_of_few_features():
    few, _ = different_subsets(4, Params(n_particles=20, n_iterations=25))
    many, size = different_subsets(40, Params(n_particles=20, n_iterations=25))

    assert few <= 15  # there are no more subsets of four features
    assert few < many <= 20 * 25 * 4
    assert 10 < size < 30  # about half of the features


def test_rates_are_measured_once_per_machine(monkeypatch, tmp_path):
    monkeypatch.delenv("FEDSIFT_CALIBRATION")
    monkeypatch.setenv("FEDSIFT_CACHE", str(tmp_path))
    calls = []

    def measured():
        calls.append(time.time())
        return {"call": 0.5}

    monkeypatch.setattr("fedsift.costs.measure.measure_rates", measured)
    first, second = rates_of_this_machine(), rates_of_this_machine()

    assert len(calls) == 1
    assert first == second
    assert first.measured
    assert 0 <= first.age_days < 0.1
    assert first["call"] == 0.5
    assert first["bgv encrypt"] == TYPICAL["bgv encrypt"]  # could not be measured
    assert rates_of_this_machine(refresh=True).measured_at >= second.measured_at
    assert len(calls) == 2

    monkeypatch.setattr(rates, "machine", lambda: "another one")
    rates_of_this_machine()
    assert len(calls) == 3
    saved = json.loads((tmp_path / "rates.json").read_text())
    assert saved["machine"] == "another one"

    (tmp_path / "rates.json").write_text("no JSON")
    rates_of_this_machine()
    assert len(calls) == 4


def test_a_calibration_measures_every_unit(monkeypatch):
    monkeypatch.setattr(measure_crypto, "SHARE", 0.002)
    found = measure.measure_rates()

    assert set(found) <= set(TYPICAL)
    assert set(TYPICAL) - set(found) <= {"blind id", "network step", "network cell", "top step"}
    # Differences of two measurements may vanish, single ones may not.
    assert all(seconds >= 0 for seconds in found.values())
    assert all(found[unit] > 0 for unit in ("call", "bgv encrypt", "bgv rotate", "bin cell"))
