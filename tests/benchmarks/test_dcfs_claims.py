"""What the DCFS benchmark measures, where it can be shown in seconds on generated data."""

import json

import numpy as np
import pytest
from sklearn.metrics import normalized_mutual_info_score
from sklearn.neighbors import KNeighborsClassifier

from benchmarks.suites.dcfs import accuracy as dcfs_accuracy
from benchmarks.suites.dcfs import measures as dcfs_worker
from benchmarks.suites.dcfs import rankings as dcfs_rankings
from benchmarks.suites.dcfs import suite
from fedsift.data import catalog


def test_the_small_update_is_equal_and_faster_even_for_few_columns():
    measured = dcfs_worker.update({"rows": 30, "features": 900})
    assert measured["difference"] < 1e-8
    assert measured["ratio"] > 10


def test_a_complete_run_equals_the_open_computation():
    job = {"data": "generated", "rows": 20, "features": 60, "parties": 3, "exact": True}
    measured = dcfs_worker.complete(job)
    assert measured["difference"] < 1e-8
    assert measured["bytes"] > 0
    assert dcfs_worker.filters(job)["difference"] < 1e-8


def test_accuracy_with_growing_prefixes_is_that_of_a_nearest_neighbour():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 70)
    X = rng.normal(size=(70, 20)) + y[:, None]
    train, test = np.arange(50), np.arange(50, 70)
    order = rng.permutation(20)
    found = dcfs_accuracy.neighbour_accuracy(X, y, train, test, order, [1, 4, 20])
    for number, size in enumerate((1, 4, 20)):
        columns = order[:size]
        one = KNeighborsClassifier(1).fit(X[train][:, columns], y[train])
        guess = one.predict(X[test][:, columns])
        assert found["test"][number] == pytest.approx(100 * np.mean(guess == y[test]))
        nmi = normalized_mutual_info_score(y[test], guess, average_method="geometric")
        assert found["nmi"][number] == pytest.approx(100 * nmi)
        two = KNeighborsClassifier(2).fit(X[train][:, columns], y[train])
        other = two.kneighbors(X[train][:, columns], return_distance=False)[:, 1]
        left_out = 100 * np.mean(y[train][other] == y[train])
        assert found["left_out"][number] == pytest.approx(left_out)


def test_nmi_of_a_single_class():
    ones = np.ones(5, dtype=int)
    assert dcfs_accuracy.mutual_information(ones, ones) == 1.0
    assert dcfs_accuracy.mutual_information(ones, np.array([0, 1, 1, 0, 1])) == 0.0


@pytest.fixture
def noise(monkeypatch):
    """Labels that have nothing to do with the columns."""
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(120, 60)), rng.integers(0, 2, 120)
    task = dcfs_rankings.Task("noise", X, y, lambda rng: dcfs_rankings._at_random(120, 2, rng), 2)
    monkeypatch.setattr(dcfs_accuracy, "_task", lambda name: task)


def test_parameters_chosen_on_test_rows_beat_chance_on_noise_and_honest_ones_do_not(noise):
    """The paper's protocol finds something in nothing."""
    row = dcfs_accuracy._row("noise", 5, [(1.0, 1.0), (10.0, 1.0)], range(1, 61))
    methods = [m for m in row["methods"] if m != "all"]
    printed = np.mean([row["methods"][m]["paper"]["mean"] for m in methods])
    honest = np.mean([row["methods"][m]["honest"]["mean"] for m in methods])
    assert printed > 55
    assert honest == pytest.approx(50, abs=6)


def test_every_method_is_in_the_row_and_differences_are_paired(noise):
    row = dcfs_accuracy._row("noise", 3, [(1.0, 1.0)], [5, 50])
    assert set(row["methods"]) == set(dcfs_rankings.METHODS)
    gap = row["differences"]["DCFS - LFS"]["untuned"]
    means = [row["methods"][m]["untuned"]["mean"] for m in ("DCFS", "LFS")]
    assert gap["mean"] == pytest.approx(means[0] - means[1])
    json.dumps(row)


def test_ties_go_to_more_features():
    left_out = np.array([[[[70.0, 80.0, 80.0], [60.0, 80.0, 70.0]]]])
    test = np.array([[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]]])
    assert dcfs_accuracy._by_left_out(left_out, test).tolist() == [3.0]


def test_skewed_parties_hold_what_the_paper_says():
    y = np.repeat(np.arange(4), 500)
    counts = [{1: 270, 0: 10, 2: 10, 3: 10}, {1: 30, 0: 90, 2: 90, 3: 90}]
    division = dcfs_rankings._skewed(y, counts, 150, np.random.default_rng(0))
    assert np.bincount(y[division.train[0]]).tolist() == [10, 270, 10, 10]
    assert np.bincount(y[division.train[1]]).tolist() == [90, 30, 90, 90]
    assert np.bincount(y[division.test[0]]).tolist() == [150] * 4
    rows = np.concatenate([*division.train, division.test[0]])
    assert len(np.unique(rows)) == len(rows)


def test_random_parties_share_no_rows():
    division = dcfs_rankings._at_random(62, 2, np.random.default_rng(0))
    rows = np.concatenate([*division.train, *division.test])
    assert sorted(rows.tolist()) == list(range(62))
    assert [len(t) for t in division.train] == [25, 25]


@pytest.mark.parametrize(("name", "parties"), [("mnist-d1", 2), ("mnist-d2", 6), ("lung", 3)])
def test_the_tasks_of_the_paper(big_sets, name, parties):
    task = dcfs_rankings.task(name)
    division = task.divide(np.random.default_rng(0))
    assert len(division.train) == task.n_parties == parties
    if name != "lung":
        assert [len(rows) for rows in division.train] == [300] * parties
        assert len(division.test[0]) == 600


def test_missing_sets_are_named_not_guessed(monkeypatch):
    monkeypatch.setattr(catalog, "is_available", lambda name: False)
    lines = []
    kept = []
    assert dcfs_accuracy.accuracy_rows("regular", lines.append, kept.append) == []
    assert len(lines) == 6
    assert all("FEDSIFT_DATA" in line for line in lines)


def test_finished_rows_are_streamed(tmp_path, monkeypatch):
    path = tmp_path / "rows.jsonl"
    monkeypatch.setenv("FEDSIFT_BENCH_STREAM", str(path))
    keep = suite._keep("rows")
    keep({"case": "one"})
    keep({"case": "two"})
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["case"] for line in lines] == ["one", "two"]


def test_bars():
    update = {"job": {"kind": "update"}, "difference": 1e-9, "ratio": 400.0}
    assert suite._judge(update) == {"equal": True, "500 times as fast": False}
    tox = {"job": {"kind": "run", "data": "tox171"}, "seconds": 6.0, "difference": 1e-7}
    assert suite._judge(tox) == {"equal": False, "seconds": False}
    job = {"kind": "run", "data": "generated", "features": 20_000}
    assert suite._judge({"job": job, "peak_memory": 2**31}) == {"memory": True}
