"""Resuming across sites: every site has a directory of its own and keeps its own files there."""

import pytest

from fedsift.errors import PartyFailed
from fedsift.jobs.run import run_joint
from helpers.joint import HUB, at_sites, columns_homes, horizontal, rows_homes, vertical
from helpers.resume import failing_party, kinds_of

PLAIN = {"security": "plain"}
SMALL = {"embedding": 3, "outputs": 3, "batch_size": 40, "max_epochs": 1, "min_epochs": 1}
ROWS = ["income", "visits", "hours", "clicks"]
JOBS = {
    "filter": (vertical("filter", n_features_to_select=2, ids=False, **PLAIN), "Selected"),
    "filter-horizontal": (horizontal("filter", n_features_to_select=2, bins=3, **PLAIN), "Chosen"),
    "interaction": (
        vertical("interaction", n_features_to_select=3, ids=False, **PLAIN),
        "Selected",
    ),
    "stepwise": (vertical("stepwise", n_features_to_select=3, ids=False, **PLAIN), "Selected"),
    "vfps": (
        vertical("vfps", ("bank", "shop", "store", "mill"), ids=False, n_queries=10, **PLAIN),
        "Choice",
    ),
    "dcfs": (horizontal("dcfs", n_features_to_select=2, n_anchors=3, **PLAIN), "Chosen"),
    "fpso": (horizontal("fpso", n_rounds=2, n_iterations=2, **PLAIN), "GlobalSubset"),
    "fedsdg": (
        vertical("fedsdg", ("bank", "shop"), ids=False, n_features_to_select=2, **SMALL, **PLAIN),
        "Chosen",
    ),
}


def homes_of(job):
    return columns_homes(job) if job.setting == "vertical" else rows_homes(ROWS)


def keeping(place):
    """A script that keeps every site's checkpoints in a folder of that site's name."""

    def script(job, homes, engine):
        site = next(iter(engine.home)) if job.neutral not in engine.home else HUB
        selector = job.selector(checkpoint=place / site)
        return run_joint(job, homes, engine, selector=selector)

    return script


@pytest.mark.usefixtures("repeatable")
@pytest.mark.parametrize("name", JOBS)
def test_a_run_between_sites_goes_on_after_one_of_them_failed(name, tmp_path, monkeypatch):
    job, last = JOBS[name]
    homes, failing = homes_of(job), job.parties[-1]
    whole = run_joint(job, homes)
    with monkeypatch.context() as patched:
        failing_party(patched, failing, last)
        coordinator, ended = at_sites(job, homes, keeping(tmp_path))
    error = ended[coordinator].error
    assert isinstance(error, PartyFailed)
    assert (error.party, error.message) == (failing, last)
    for site in tmp_path.iterdir():
        owners = {path.name.split(".")[0] for path in site.iterdir()}
        assert owners == {job.neutral if site.name == HUB else site.name}

    coordinator, ended = at_sites(job, homes, keeping(tmp_path))
    assert [end.error for end in ended.values()] == [None] * len(ended)
    resumed = ended[coordinator].value
    assert resumed.selected == whole.selected
    assert resumed.ranking == whole.ranking
    assert resumed.participants == whole.participants
    if name != "interaction":  # fresh noise in the last bits
        assert resumed.scores == whole.scores
    assert kinds_of(resumed) == kinds_of(whole)
    # What was sent before the failure is counted, wherever it was counted.
    sent = {(row.message, row.sender, row.receiver) for row in whole.traffic.rows}
    assert sent <= {(row.message, row.sender, row.receiver) for row in resumed.traffic.rows}
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
