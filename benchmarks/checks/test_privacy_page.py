"""The page on differential privacy shows the committed run, and accuracy grows with epsilon."""

import json
import math

import pytest

from benchmarks.pages.dp import PAGE


@pytest.fixture(scope="module")
def results():
    return PAGE.read()


def test_a_changed_result_would_change_the_page(results):
    page = PAGE.text()
    assert results["profile"] == "regular"
    for promise in ("counts", "selection", "votes", "interactions"):
        changed = json.loads(json.dumps(results))
        row = next(row for row in changed["rows"] if row["job"]["promise"] == promise)
        row["overlap"]["mean"] += 0.5
        assert PAGE.updated(page, changed) != page
    changed = json.loads(json.dumps(results))
    changed["limits"][0]["noise_of_importances"] += 1
    assert PAGE.updated(page, changed) != page


def overlaps(results, promise, data, delta=0.0, **wanted):
    """Mean overlap by epsilon."""
    return {
        row["job"]["epsilon"]: row["overlap"]["mean"]
        for row in results["rows"]
        if row["job"].items()
        >= {"promise": promise, "data": data, "delta": delta, **wanted}.items()
        and row["job"]["epsilon"] is not None
    }


LARGE, MIDDLE, SMALL = "generated, 10,000 rows", "generated, 3,000 rows", "breast_cancer"


def test_less_noise_keeps_more_of_the_selection(results):
    courses = {}
    for row in results["rows"]:
        job = row["job"]
        if job["epsilon"] is not None:
            key = (job["promise"], job["data"], job["setting"], job["score"], job["delta"])
            courses.setdefault(key, []).append((job["epsilon"], row["overlap"]["mean"]))
    assert len(courses) == 8 + 8 + 2 + 4
    for course in courses.values():
        (_, first), *_, (_, last) = sorted(course)
        assert len(course) == 5
        assert last > first


def test_a_drawn_gini_keeps_more_than_a_drawn_mi_and_than_pooled_noisy_counts(results):
    for data in (LARGE, SMALL):
        gini = overlaps(results, "selection", data, score="gini")
        assert all(
            gini[e] > overlaps(results, "selection", data, score="mi")[e] for e in (1.0, 3.0)
        )
        pooled = overlaps(results, "counts", data, setting="horizontal")
        assert all(gini[e] > pooled[e] for e in (1.0, 3.0))


def test_few_blocks_vote_at_random(results):
    votes = overlaps(results, "votes", SMALL)
    assert max(votes[e] for e in (0.1, 0.3, 1.0)) < 0.45
    assert overlaps(results, "votes", LARGE)[1.0] > 0.7


def test_interactions_would_need_more_than_ten_times_the_budget(results):
    for data in (MIDDLE, LARGE):
        filtered = overlaps(results, "interactions", data, score="gini")
        assert filtered[1.0] > overlaps(results, "interactions", data, score="miw")[10.0]
    # Closer to chance, 10 of 40, than to the search without noise.
    assert overlaps(results, "interactions", MIDDLE, score="miw")[10.0] < (0.25 + 1) / 2


def test_importances_would_drown(results):
    *rows, last = results["limits"]
    assert all(row["noise_of_importances"] > 5 * math.log(2) for row in rows)
    assert all(row["odds_of_a_participant"] < 1.5 for row in rows)
    assert last["hub"]["change_by_one_row"] > 5 * math.log(2)
