"""The page on runtimes shows the committed run, and that run met its bars."""

import json

import pytest

from benchmarks.pages import runtime as tables


@pytest.fixture(scope="module")
def results():
    return tables.PAGE.read()


@pytest.mark.parametrize("part", ["echo", "job", "psi", "start"])
def test_a_changed_result_would_change_the_page(results, part):
    changed = json.loads(json.dumps(results))
    row = tables.of(changed, part)[-1]
    row["seconds"] += 100
    if part == "start":
        row["phases"]["start"] += 100
    assert tables.PAGE.updated(tables.PAGE.text(), changed) != tables.PAGE.text()


def test_the_committed_run_met_its_bars(results):
    assert results["profile"] == "regular"
    missed = [name for name, met in results["bars"].items() if not met]
    assert missed == []
    judged = {name.rpartition(": ")[2] for name in results["bars"]}
    assert judged == {"exact", "under 90 s", "at most 1.5 times + 25 s"}


def test_the_bars_follow_from_the_seconds(results):
    for row in tables.of(results, "job"):
        if row["job"]["engine"] == "FLARE":
            here = next(
                other
                for other in tables.of(results, "job")
                if other["job"] == row["job"] | {"engine": "embedded"}
            )
            assert row["seconds"] <= 1.5 * here["seconds"] + 25
            assert row["selected"] == here["selected"]
            assert row["rounds"] == here["rounds"]
    large = next(row for row in tables.of(results, "psi") if row["job"]["rows"] == 100_000)
    assert large["seconds"] < 90
    assert large["common"] == 50_000


def test_all_sizes_engines_and_jobs_are_there(results):
    echoes = {(row["job"]["size"], row["job"]["engine"]) for row in tables.of(results, "echo")}
    sizes = (100, 1_000_000, 20_000_000)
    assert echoes == {(size, engine) for size in sizes for engine in tables.ENGINES}
    methods = {row["job"]["method"]: row["job"] for row in tables.of(results, "job")}
    assert (methods["filter"]["rows"], methods["filter"]["features"]) == (20_000, 200)
    assert methods["vfps"]["ids"]
    assert {len(row["job"]["spellings"]) for row in tables.of(results, "psi")} == {2, 3}
