"""A driver that swaps the keys it passes on: the run ends and says so, and the liar has nothing."""

import pytest

from fedsift.errors import KeySwapped, PartyFailed
from fedsift.jobs import setup
from fedsift.lab.attacks.key_swap import KeySwapper
from fedsift.methods.dcfs import coordinator as dcfs
from fedsift.methods.fedsdg import label_holder as fedsdg
from fedsift.methods.fedsdg.blind import label_holder as blind
from fedsift.methods.filter import coordinator as filters
from fedsift.methods.fpso import third_party, votes
from fedsift.methods.stepwise import coordinator as stepwise
from fedsift.methods.vfps import leader as vfps
from fedsift.protocol import MaskedArray
from helpers.fedsdg import PAPER
from helpers.joint import at_sites, columns_homes, horizontal, rows_homes, vertical

FOUR = ("bank", "shop", "store", "mill")
NUMERIC = ("income", "visits", "spend", "clicks", "hours")
SWARM = {"n_particles": 4, "n_iterations": 2, "n_rounds": 1}
NETWORK = {"max_epochs": 1, "min_epochs": 1, "embedding": 2, "outputs": 2, "batch_size": 64}


def rows_of(method, columns=NUMERIC, **parameters):
    return horizontal(method, **parameters), rows_homes(list(columns))


def columns_of(method, parties=("bank", "shop", "store"), **parameters):
    job = vertical(method, parties, **parameters)
    policies = dict.fromkeys(parties, PAPER["policy"]) if "protocol" in parameters else None
    return job, columns_homes(job, policies=policies)


CASES = {
    "filter": (filters.Coordinator, lambda: rows_of("filter", n_features_to_select=2)),
    "moments": (
        filters.Coordinator,
        lambda: rows_of("filter", score="f", n_features_to_select=2),
    ),
    "search": (
        stepwise.Coordinator,
        lambda: rows_of("stepwise", n_features_to_select=2),
    ),
    "anchors": (
        dcfs.Coordinator,
        lambda: rows_of("dcfs", n_features_to_select=2, n_components=2, n_anchors=2),
    ),
    "swarm": (third_party.ThirdParty, lambda: rows_of("fpso", **SWARM)),
    "votes": (votes.VoteCounter, lambda: rows_of("fpso", epsilon=1.0, n_blocks=2)),
    "words": (
        setup.SetupCoordinator,
        lambda: rows_of("filter", (*NUMERIC, "region"), n_features_to_select=2),
    ),
    "outputs": (
        fedsdg.LabelHolder,
        lambda: columns_of(
            "fedsdg", n_features_to_select=3, init="constant", protocol="paper", **NETWORK
        ),
    ),
    "shares": (
        blind.BlindLabelHolder,
        lambda: columns_of("fedsdg", n_features_to_select=3, init="constant", **NETWORK),
    ),
    "shuffle": (
        vfps.Leader,
        lambda: columns_of("vfps", FOUR, n_participants=2, n_queries=12, n_groups=4),
    ),
}


def run_with_liar(monkeypatch, name):
    """Run a job of several sites whose driver swaps keys; the liar, and how every site ended."""
    driver, make = CASES[name]
    drive, liars = driver.drive, []

    async def lie(self, net):
        liars.append(KeySwapper(net, between=name == "shuffle"))
        return await drive(self, liars[-1])

    monkeypatch.setattr(driver, "drive", lie)
    job, homes = make()
    coordinator, ended = at_sites(job, homes)
    (liar,) = liars
    return liar, coordinator, ended


@pytest.mark.parametrize("name", CASES)
def test_the_run_ends_with_an_error_that_names_the_swap(monkeypatch, name):
    _, coordinator, ended = run_with_liar(monkeypatch, name)

    assert all(end.error is not None for end in ended.values())
    assert all("was swapped" in str(end.error) for end in ended.values()), ended
    honest = [end.error for site, end in ended.items() if site != coordinator]
    found_out = [error for error in honest if isinstance(error, KeySwapped)]
    assert found_out or isinstance(ended[coordinator].error, PartyFailed)
    assert all(error.code == "E306" for error in found_out)


@pytest.mark.parametrize("name", CASES)
def test_the_liar_has_learned_nothing(monkeypatch, name):
    liar, _, _ = run_with_liar(monkeypatch, name)

    assert liar.received, "it spoke to nobody"
    assert liar.secrets == []
    assert liar.numbers == []
    for _, message in liar.received:
        values = [getattr(message, field) for field in message.__struct_fields__]
        assert not any(isinstance(value, MaskedArray) for value in values), message
        assert type(message).__name__ not in {
            "Words",
            "Images",
            "OutputShare",
            "SecretDealt",
            "CheckSecretDealt",
        }
