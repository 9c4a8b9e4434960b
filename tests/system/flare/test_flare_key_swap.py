"""Who passes keys on swaps them in a real federation: the job ends and says so, and it has nothing."""

import json
from pathlib import Path

import pytest

from fedsift.deploy.local import LocalFederation
from fedsift.errors import PartyFailed
from helpers.flare import BLIND, HORIZONTAL, PARTIES, POLICIES
from helpers.processes import changed_processes

pytest.importorskip("nvflare", reason="the extra fedsift[flare] is not installed")

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.xdist_group("federation"),
    pytest.mark.slow(25),
]


@pytest.fixture(scope="module")
def lying(tables, tmp_path_factory):
    """A federation in which drivers swap keys, and where they write down what they got."""
    parties = {party: tables.data(party, horizontal=True) for party in PARTIES}
    report = tmp_path_factory.mktemp("liar") / "got.jsonl"
    with (
        changed_processes("lie", report),
        LocalFederation(parties, checkpoints=False) as federation,
    ):
        yield federation, report


CASES = {
    "words": ("jobs.setup", "filter-horizontal"),
    "counts": ("methods.filter.coordinator", "filter-horizontal"),
    "anchors": ("methods.dcfs.coordinator", "dcfs"),
    "swarm": ("methods.fpso.third_party", "fpso"),
    "votes": ("methods.fpso.votes", "fpso"),
    "outputs": ("methods.fedsdg.label_holder", "fedsdg"),
    "shares": ("methods.fedsdg.blind.label_holder", "fedsdg"),
    "shuffle": ("methods.vfps.leader", "vfps"),
}
"""Who lies, and in which job."""
SETTINGS = {"votes": {"n_blocks": 2, "epsilon": 1.0}, "shares": BLIND}
"""Of the method, where they are not the usual ones."""
HIDDEN = {"Words", "Images", "OutputShare", "SecretDealt", "CheckSecretDealt"}
"""What a key hides."""


@pytest.mark.parametrize("name", CASES)
def test_the_job_ends_with_an_error_that_names_the_swap(lying, tables, name):
    federation, report = lying
    driver, method = CASES[name]
    changed = {"method": SETTINGS[name]} if name in SETTINGS else {}
    Path(f"{report}.liar").write_text(f"fedsift.{driver}", encoding="utf-8")
    for party in PARTIES:
        data = tables.data(party, horizontal=method in HORIZONTAL)
        federation.set_party(party, data, POLICIES.get(method))

    with pytest.raises(PartyFailed, match="was swapped") as caught:
        federation.submit(tables.job(method, **changed))

    assert caught.value.cause_code == "E306"
    assert caught.value.party in PARTIES
    got = json.loads(report.read_text(encoding="utf-8").splitlines()[-1])
    assert got["received"], "it spoke to nobody"
    assert not HIDDEN & set(got["received"])
    assert (got["masked"], got["secrets"]) == (0, 0)
