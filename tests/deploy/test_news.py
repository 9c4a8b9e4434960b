"""What a submitter who watches a job is told on the way: nothing that the result does not tell."""

import msgspec
import pytest

from fedsift.crypto.envelope import OrganisationKey
from fedsift.deploy.sealed_reports import open_report, seal_report
from fedsift.engine.observer import ProgressSnapshot, ProgressTracker
from fedsift.errors import BadEnvelope
from fedsift.jobs.run import run_joint
from fedsift.protocol import Policy
from helpers.joint import COLUMNS, HUB, at_sites, columns_homes, horizontal, rows_homes, vertical

NETWORK = {
    "max_epochs": 2,
    "min_epochs": 1,
    "embedding": 2,
    "outputs": 2,
    "init": "constant",
    "batch_size": 64,
    "security": "plain",
}
OPEN = {"min_security_bits": 0, "min_bin_size": 1}
SAME = ("learner", "about", "kind", "form", "key_owner", "message")


def watched(job, homes):
    """The result, and what the coordinator's site knew when it had ended."""
    trackers = {}

    def script(job, own, engine):
        (site,) = own or [HUB]
        trackers[site] = ProgressTracker(site)
        return run_joint(job, own, engine, observer=trackers[site])

    coordinator, ended = at_sites(job, homes, script)
    assert {site: end.error for site, end in ended.items()} == dict.fromkeys(ended)
    return ended[coordinator].value, trackers[coordinator].snapshot()


def assert_tells_no_more(snapshot, result):
    for row in snapshot.disclosures:
        same = [
            r for r in result.disclosures if all(getattr(r, n) == getattr(row, n) for n in SAME)
        ]
        assert sum(r.times for r in same) >= row.times
        # A price in privacy is added to the result's own rows.
        assert any(r.what.startswith(row.what) for r in same)
    assert snapshot.disclosures
    assert 0 < snapshot.messages <= result.traffic.messages
    for name, n_bytes in snapshot.by_message.items():
        assert n_bytes <= result.traffic.by_message[name]
    for entry in snapshot.steps:
        shown = {key: value for key, value in entry.items() if key != "feature"}
        assert any(shown.items() <= one.items() for one in result.history), entry


class TestItTellsNoMoreThanTheResult:
    def test_open_gates_are_those_of_the_history(self):
        job = vertical("fedsdg", n_features_to_select=3, **NETWORK)
        result, snapshot = watched(job, columns_homes(job, policies=dict.fromkeys(
            job.parties, Policy.from_mapping(OPEN))))  # fmt: skip

        assert_tells_no_more(snapshot, result)
        assert [entry["open_features"] for entry in snapshot.steps] == [
            entry["open_features"] for entry in result.history
        ]

    @pytest.mark.parametrize("kept", [(), ("shop",)], ids=["names", "a party keeps its names"])
    def test_a_ranking_has_neither_names_nor_places_in_secret_orders(self, kept):
        """What a feature is called comes with the result, as far as its owner lets it."""
        job = vertical("interaction", n_features_to_select=4, security="plain")
        policies = {
            party: Policy.from_mapping(OPEN | {"anonymous_names": party in kept})
            for party in job.parties
        }
        result, snapshot = watched(job, columns_homes(job, policies=policies))

        assert_tells_no_more(snapshot, result)
        assert [entry["feature"] for entry in snapshot.steps] == [
            f"unnamed feature {number}" for number in range(1, 5)
        ]
        told = msgspec.json.encode(snapshot).decode()
        names = [name for party in job.parties for name in COLUMNS[party]]
        assert not any(f'"{name}"' in told for name in names)

    @pytest.mark.parametrize(
        "noise", [{"epsilon": 1.0}, {"release_epsilon": 1.0}], ids=["counts", "selection"]
    )
    def test_with_differential_privacy_no_score_is_told_on_the_way(self, noise):
        bins = [0.0, 1.0, 2.0]
        job = vertical("filter", score="gini", bins=bins, n_features_to_select=2, **noise)
        result, snapshot = watched(job, columns_homes(job))

        assert_tells_no_more(snapshot, result)
        assert snapshot.steps == ()

    def test_noisy_votes_are_not_told_on_the_way(self):
        job = horizontal("fpso", epsilon=5.0, n_particles=3, n_iterations=2)
        result, snapshot = watched(job, rows_homes(["income", "clicks", "visits"]))

        assert_tells_no_more(snapshot, result)
        assert (snapshot.site, snapshot.steps) == (HUB, ())

    def test_a_swarm_tells_what_all_parties_found_together(self):
        job = horizontal("fpso", n_particles=3, n_iterations=2, n_rounds=2)
        result, snapshot = watched(job, rows_homes(["income", "clicks", "visits"]))

        assert_tells_no_more(snapshot, result)
        assert len(snapshot.steps) == 2


class TestTheHub:
    """Its part of a job, without the processes around it."""

    SECRET = "income-of-the-rich"

    @pytest.fixture
    def keys(self):
        return {name: OrganisationKey.generate() for name in ("bank", "shop", HUB, "ann")}

    @pytest.fixture
    def hub(self, tmp_path):
        pytest.importorskip("nvflare", reason="the extra fedsift[flare] is not installed")
        from fedsift.deploy.flare.controller import HubController

        made = HubController("job", {})
        made._sites, made._folder = ("bank", "shop"), tmp_path
        return made

    def seal(self, keys, number=1, site="bank"):
        snapshot = ProgressSnapshot(
            site, number, latest=self.SECRET, steps=({"step": 1, "n": number},)
        )
        return seal_report(snapshot, site, keys[site], "ann", keys["ann"].public, "job")

    def report(self, hub, site, snapshot):
        from nvflare.apis.shareable import Shareable

        content = Shareable()
        content.update({"protocol": 1, "round": 2, "site": site, "snapshot": snapshot})
        return hub._take_progress("", content, None)

    def test_it_passes_on_what_it_cannot_read(self, hub, keys):
        sealed = self.seal(keys)
        self.report(hub, "bank", sealed)
        told = hub._show_reports("", 0, None)

        assert list(told["snapshots"]) == ["bank"]
        assert hub._snapshots == {"bank": sealed}
        assert self.SECRET.encode() not in sealed
        with pytest.raises(BadEnvelope):
            open_report(
                ProgressSnapshot, sealed, HUB, keys[HUB], "bank", keys["bank"].public, "job"
            )
        opened = open_report(
            ProgressSnapshot, sealed, "ann", keys["ann"], "bank", keys["bank"].public, "job"
        )
        assert opened.latest == self.SECRET

    def test_progress_is_passed_on_once_and_kept_in_no_file(self, hub, keys, tmp_path):
        self.report(hub, "bank", self.seal(keys, 1))
        first = hub._show_reports("", 0, None)
        self.report(hub, "bank", b"")
        again = hub._show_reports("", first["n_snapshots"], None)
        self.report(hub, "bank", self.seal(keys, 2))
        later = hub._show_reports("", again["n_snapshots"], None)

        assert first["snapshots"]
        assert again["snapshots"] == {}
        assert later["snapshots"] != first["snapshots"]
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("site", ["stranger", HUB, None, 7])
    def test_nobody_speaks_for_a_stranger_or_for_the_hub_itself(self, hub, keys, site):
        self.report(hub, site, self.seal(keys))
        assert hub._show_reports("", 0, None)["snapshots"] == {}

    @pytest.mark.parametrize("snapshot", [b"x" * 1_000_001, "text", None, 5])
    def test_what_is_no_snapshot_or_too_much_is_dropped(self, hub, snapshot):
        self.report(hub, "bank", snapshot)
        assert hub._show_reports("", 0, None)["n_snapshots"] == 0
