"""The FPSO-FS benchmark compares fairly, keeps what it has computed, and adds up correctly."""

import json

import numpy as np
import pytest

from benchmarks.runner import SUITES
from benchmarks.store import Journal, key_of
from benchmarks.suites.fpso import runs as fpso_runs
from benchmarks.suites.fpso import suite
from benchmarks.suites.fpso import summary as fpso_tables
from fedsift.data import catalog

QUICK = {"n_particles": 6, "n_iterations": 3, "n_rounds": 2}
METHODS = {
    "all features",
    "random",
    "relieff",
    "local",
    "fpso",
    "fpso, own if better",
    "best-of-local",
    "pooled",
}


@pytest.fixture
def wine():
    data = catalog.load("wine")
    return np.asarray(data.X, dtype=float), data.y


def job(**changes):
    return {
        "data": "wine",
        "repeat": 0,
        "fold": 1,
        "splits": [("random", 2), ("kmeans", 3)],
        "more_modes": [("random", 2)],
        "settings": QUICK,
        **changes,
    }


def test_a_run_has_every_method_on_every_split():
    run = fpso_runs.one_run(job())
    random, kmeans = run["splits"]
    assert set(kmeans["accuracy"]) == METHODS
    assert set(random["accuracy"]) == METHODS | {"max-min", "federated-fitness"}
    assert all(0 <= value <= 100 for value in random["accuracy"].values())
    sizes = random["n_features"]
    assert sizes["all features"] == 13
    assert sizes["random"] == sizes["relieff"] == sizes["fpso"]
    assert random["bytes"] > 1000
    again = fpso_runs.one_run(job())
    assert again["splits"][0]["accuracy"] == random["accuracy"]


def test_test_rows_take_part_in_nothing(wine, monkeypatch):
    """Other values and labels in the test rows change accuracies, but no selection."""
    X, y = wine
    folds = fpso_runs.subset_fitness.stratified_folds(y, 5, np.random.default_rng(0))
    test = folds == 1
    owners = fpso_runs.owners_of(X, y, "random", 2, 0)
    changed = X.copy()
    changed[test] = 1e3 * np.random.default_rng(0).normal(size=(test.sum(), 13))
    outcomes = []
    for values in (X, changed):
        # Folds and owners come from the labels and the original rows; only the values differ.
        monkeypatch.setattr(fpso_runs, "load", lambda name, values=values: (values, y))
        monkeypatch.setattr(fpso_runs, "owners_of", lambda *_: owners)
        (part,) = fpso_runs.one_run(job(splits=[("random", 2)], more_modes=[]))["splits"]
        outcomes.append(part)
    assert outcomes[0]["n_features"] == outcomes[1]["n_features"]
    assert outcomes[0]["claimed"] == outcomes[1]["claimed"]
    assert outcomes[0]["accuracy"] != outcomes[1]["accuracy"]


@pytest.mark.parametrize("n_parties", [2, 3, 4, 5])
def test_splits_deal_out_all_rows(wine, n_parties):
    X, y = wine
    for split in ("random", "kmeans"):
        owners = fpso_runs.owners_of(X, y, split, n_parties, 0)
        sizes = np.bincount(owners, minlength=n_parties)
        assert sizes.sum() == len(y)
        assert sizes.min() >= 15
        assert np.array_equal(owners, fpso_runs.owners_of(X, y, split, n_parties, 0))
    by_chance = fpso_runs.owners_of(X, y, "random", n_parties, 0)
    counts = np.array([np.bincount(y[by_chance == p], minlength=3) for p in range(n_parties)])
    assert np.ptp(counts, axis=0).max() <= 1


def test_clusters_make_parties_differ(wine):
    """Inside a class, parties of a cluster split are farther apart than those of a random one."""
    X, y = wine
    Z = (X - X.mean(axis=0)) / X.std(axis=0)

    def spread(split):
        owners = fpso_runs.owners_of(X, y, split, 3, 0)
        means = [[Z[(owners == p) & (y == c)].mean(axis=0) for p in range(3)] for c in range(3)]
        return np.var(np.array(means), axis=1).mean()

    assert spread("kmeans") > 3 * spread("random")


def test_sets_of_which_the_paper_has_fewer_rows_keep_their_classes(monkeypatch):
    monkeypatch.setitem(fpso_runs.PAPER_ROWS, "wine", 100)
    X, y = fpso_runs.load("wine")
    assert X.shape == (100, 13)
    shares = np.bincount(catalog.load("wine").y) / 178
    assert np.abs(np.bincount(y) / 100 - shares).max() < 0.01


def part(fpso, local, split="random", parties=2):
    accuracy = dict.fromkeys(METHODS, 50.0) | {"fpso": fpso, "local": local}
    return {
        "split": split,
        "parties": parties,
        "accuracy": accuracy,
        "n_features": dict.fromkeys(METHODS, 3.0),
        "claimed": 90.0,
        "seconds": 2.0,
        "bytes": 10,
        "messages": 4,
        "rounds": 2,
    }


def test_differences_are_paired_and_have_honest_errors():
    runs = [
        {
            "data": "wine",
            "repeat": 0,
            "fold": f,
            "shape": [9, 2],
            "n_classes": 2,
            "splits": [part(a, b)],
        }
        for f, (a, b) in enumerate([(80.0, 79.0), (60.0, 57.0), (70.0, 68.0)])
    ]
    (row,) = fpso_tables.summarise(runs)
    assert row["case"] == "wine random M=2"
    assert row["accuracy"]["fpso"] == pytest.approx(70)
    assert row["standard_error"]["fpso"] == pytest.approx(10 / np.sqrt(3))
    gain = row["effect_of_federation"]  # differences 1, 3, 2
    assert gain["mean"] == pytest.approx(2)
    assert gain["standard_error"] == pytest.approx(1 / np.sqrt(3))
    assert gain["corrected_standard_error"] == pytest.approx(np.sqrt(1 / 3 + 1 / 4))
    assert row["effect_with_own_if_better"]["mean"] == pytest.approx(50 - 68)
    assert row["seconds"] == 6


def test_what_was_computed_is_not_computed_again(tmp_path):
    calls = []
    journal = Journal(tmp_path / "runs.jsonl", "this program")
    known = {"part": "table", "data": "wine", "repeat": 0, "fold": 0}
    journal.add(key_of(known), {"value": 3})
    again = Journal(tmp_path / "runs.jsonl", "this program")
    assert suite._all([known], again, calls.append) == [{"value": 3}]
    assert calls == []  # no worker was started
    assert Journal(tmp_path / "runs.jsonl", "another program").known == {}


def test_the_smoke_profile_runs_in_worker_processes(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDSIFT_CACHE", str(tmp_path))
    few = [job(part="table", splits=[("random", 2)], more_modes=[], fold=f) for f in range(2)]
    monkeypatch.setattr(suite, "_table_jobs", lambda profile: iter(few))
    monkeypatch.setattr(suite, "_attack_jobs", lambda profile: iter(()))
    lines = []
    outcome = SUITES["fpso"]("smoke", lines.append)
    assert [row["case"] for row in outcome["rows"]] == ["wine random M=2"]
    assert outcome["rows"][0]["runs"] == 2
    assert outcome["speed"][0]["different_without_tie"] == 0
    assert json.loads(json.dumps(outcome)) is not None
    assert not list((tmp_path / "bench").glob("*"))  # nothing left behind by a complete suite


def test_the_regular_profile_has_what_is_claimed():
    jobs = list(suite._table_jobs("regular"))
    assert {j["data"] for j in jobs} == set(fpso_tables.TABLE_2)
    for name in fpso_tables.TABLE_2:
        own = [j for j in jobs if j["data"] == name]
        assert len({(j["repeat"], j["fold"]) for j in own}) == 15
        assert {tuple(s) for j in own for s in j["splits"]} == {
            (split, m) for split in ("random", "kmeans") for m in (2, 3, 4, 5)
        }
    assert {j["data"] for j in suite._extra_jobs("regular")} == {"satellite", "cnae9", "orl"}
