"""FPSO-FS with differential privacy: blocks vote, only noisy sums open, nothing else is told."""

import numpy as np
import pandas as pd
import pytest

import fedsift as fs
from fedsift.engine import run_local
from fedsift.errors import ParameterError, PolicyViolation, ProtocolError
from fedsift.methods.fpso import block_votes
from fedsift.methods.fpso import (
    messages as fpso_messages,
)
from fedsift.methods.fpso import (
    third_party as fpso,
)
from fedsift.methods.fpso import (
    votes as fpso_votes,
)
from fedsift.methods.fpso.local_search import Params
from fedsift.methods.fpso.votes import Blocks, Voter, number_of_blocks
from fedsift.protocol import handles
from fedsift.result import SelectionResult
from helpers.arrays import labelled
from helpers.joint import at_sites, horizontal, rows_homes, run_joint
from helpers.runs import received

NEARLY_NONE = 999_999.0
PARTIES = ("party-1", "party-2", "party-3")


def task(n_rows=240):
    X, y = labelled(n_rows, 8)
    X[:, 3] += 3 * y
    return X, y


def federation(n_rows=240):
    return fs.split_horizontal(*task(n_rows), 3, random_state=0)


def selector(epsilon=2.0, **settings):
    choices = {"n_features_to_select": 2, "random_state": 0, **settings}
    return fs.FPSOSelector(epsilon=epsilon, **choices)


def run(params, own=None):
    own = own or federation()
    nodes = fpso.build_nodes(own.tables, own.targets, params)
    return run_local(fpso.PROTOCOL, nodes, keep_frames=True), nodes, own


def ballots(own, params):
    """The oracle: what every party's blocks vote for, on open rows."""
    return {
        party: Blocks.of(table, own.targets[party], params).ballots().sum(axis=0)
        for party, table in own.tables.items()
    }


class TestOutcome:
    @pytest.mark.usefixtures("repeatable")
    @pytest.mark.parametrize("n_features", [2, "auto"])
    @pytest.mark.parametrize("security", ["secure", "plain"])
    def test_votes_are_those_of_the_blocks_plus_noise(self, n_features, security):
        chosen = selector(n_features_to_select=n_features, security=security)
        own = federation()
        found = chosen.fit(own)
        params = chosen._prepare(own, None, simulated=True).params
        noise = params.noise(8)
        expected = sum(
            votes + noise.draw((8,), params.noise_source(party))
            for party, votes in ballots(own, params).items()
        )

        np.testing.assert_array_equal(found.votes_, expected)
        mask = block_votes.chosen(expected, None if n_features == "auto" else 2)
        np.testing.assert_array_equal(found.get_support(), mask)

    @pytest.mark.usefixtures("repeatable")
    def test_masked_and_open_sums_choose_the_same(self):
        secure, plain = (selector(security=how).fit(federation()) for how in ("secure", "plain"))
        np.testing.assert_array_equal(secure.votes_, plain.votes_)
        assert not np.array_equal(secure.votes_, selector(NEARLY_NONE).fit(federation()).votes_)

    def test_without_noise_the_best_feature_wins(self):
        found = selector(NEARLY_NONE, n_features_to_select=1).fit(federation())
        assert found.get_support(indices=True).tolist() == [3]
        assert found.votes_.max() <= 3 * 4  # 80 rows in blocks of 20, at three parties

    def test_noise_is_new_in_every_run(self):
        one, two = (selector(0.5, random_state=5).fit(federation()).votes_ for _ in range(2))
        assert (one != two).any()
        params = selector()._prepare(federation(), None, simulated=True).params
        assert params.noise_source("party-1") is None

    def test_blocks_may_be_judged_by_another_classifier(self):
        from sklearn.naive_bayes import GaussianNB

        found = selector(NEARLY_NONE, n_features_to_select=1, n_blocks=2, classifier=GaussianNB())
        assert found.fit(federation(120)).get_support()[3]


class TestWhoLearnsWhat:
    def test_the_third_party_opens_noisy_sums_and_nothing_else(self):
        params = Params(max_features=2, seed=0, epsilon=1.0, noise_seed=1)
        outcome, _, own = run(params)
        kinds = {entry.message for entry in outcome.transcript.view("third-party")}
        assert kinds == {"Greeting", "NoisyVotes", "Done"}
        parts = received(outcome, "third-party", fpso_messages.NoisyVotes, protocol=fpso.PROTOCOL)
        truth = ballots(own, params)
        noise = params.noise(8)
        for part, (party, votes) in zip(parts, truth.items(), strict=True):
            noisy = votes + noise.draw((8,), params.noise_source(party))
            seen = part.votes.array(shape=(8, 1))[:, 0]
            assert not np.isin(seen, noisy.astype(np.int64).view(np.uint64)).any()
        assert not np.array_equal(outcome.value.votes, sum(truth.values()))

    def test_participants_learn_the_selection_only(self):
        outcome, _, _ = run(Params(max_features=2, seed=0, epsilon=1.0))
        for party in PARTIES:
            kinds = {entry.message for entry in outcome.transcript.view(party)}
            assert kinds == {"Hello", "Roster", "VotesWanted", "GlobalSubset"}
            (told,) = received(outcome, party, fpso_messages.GlobalSubset, protocol=fpso.PROTOCOL)
            assert told.__struct_fields__ == ("mask",)

    def test_votes_are_told_once(self):
        """A third party that asks twice gets one answer."""

        class Greedy(fpso_votes.VoteCounter, name="third party"):
            async def drive(self, net):
                await super().drive(net)
                await net.ask("participant", fpso_messages.VotesWanted(), fpso_messages.NoisyVotes)

        own = federation()
        params = Params(max_features=2, seed=0, epsilon=1.0)
        nodes = fpso.build_nodes(own.tables, own.targets, params)
        nodes["third-party"] = (Greedy(params),)
        with pytest.raises(fs.errors.FedsiftError, match="would spend more than epsilon 1"):
            run_local(fpso.PROTOCOL, nodes)
        assert nodes["party-1"][0].budget.total == pytest.approx(1.0)

    def test_different_columns_are_refused(self):
        class Wide(Voter, name="participant"):
            @handles(fpso_messages.Hello)
            async def greet(self, ask, net):
                reply = await super().greet(ask, net)
                return fpso_messages.Greeting(reply.key, reply.n_features + 1)

        own = federation()
        params = Params(max_features=2, seed=0, epsilon=1.0)
        nodes = fpso.build_nodes(own.tables, own.targets, params)
        nodes["party-2"] = (Wide(own.tables["party-2"], own.targets["party-2"], params),)
        with pytest.raises(ProtocolError, match="different numbers of columns"):
            run_local(fpso.PROTOCOL, nodes)

    def test_the_result_tells_nothing_that_a_party_knows_of_its_own_rows(self):
        X, y = task()
        X[:, 5] = 1.0
        own = fs.split_horizontal(X, y, 3, random_state=0)
        assert own.warnings
        found = selector().fit(own)
        result = found.result_

        assert result.participants == {}
        assert not any("columns of" in text or "own subset" in text for text in result.warnings)
        assert found.accuracy_ is None
        assert found.history_ == []
        *rounds, bars = result.history
        assert all(set(entry) == {"round", "messages", "n_bytes"} for entry in rounds)
        # The bars are those of the noise, which follow from the settings.
        assert bars["errors_are"] == "noise"
        assert len({e for own in bars["standard_errors"].values() for e in own.values()}) == 1
        # What a party would use is here because all parties are.
        assert set(found.party_support_) == set(PARTIES)

    def test_a_party_keeps_its_own_subset_where_that_is_better(self):
        X, y = labelled(240, 6)
        owner = np.arange(240) % 3
        X = np.random.default_rng(0).normal(size=X.shape)
        X[:, 0] += 4 * y * (owner != 2)
        X[:, 1] += 4 * y * (owner == 2)
        found = selector(NEARLY_NONE, n_features_to_select=1, parties=owner).fit(X, y)

        assert found.get_support(indices=True).tolist() == [0]
        assert np.flatnonzero(found.party_support_["party-3"]).tolist() == [1]
        assert np.flatnonzero(found.party_support_["party-1"]).tolist() == [0]


class TestBetweenOrganisations:
    def job(self, **settings):
        return horizontal(
            "fpso", n_features_to_select=1, epsilon=3.0, n_blocks=2, **settings
        ), rows_homes(["income", "visits"])

    def test_sites_vote_and_only_noisy_votes_cross(self):
        job, homes = self.job()
        coordinator, ended = at_sites(job, homes)
        result = ended[coordinator].value
        assert result.parameters["privacy"]["spent"] == dict.fromkeys(job.parties, 3.0)
        kinds = {row.kind for row in result.disclosures}
        assert kinds == {"outline", "schema", "noisy-votes", "selection"}
        assert result.warnings == () or "hardly more than noise" in result.warnings[0]

    def test_the_seed_of_a_job_does_not_fix_the_noise(self):
        job, homes = self.job()
        votes = {tuple(run_joint(job, homes).scores["north"].values()) for _ in range(6)}
        assert len(votes) > 1


class TestBudget:
    def test_what_was_spent_is_in_result_ledger_and_report(self, tmp_path):
        result = selector(0.8).fit(federation()).result_
        privacy = result.parameters["privacy"]

        assert privacy["spent"] == dict.fromkeys(PARTIES, 0.8)
        assert privacy["mechanism"] == "discrete Laplace"
        assert privacy["votes_of_a_block"] == 1
        priced = [row for row in result.disclosures if "with noise, spent epsilon 0.8" in row.what]
        assert {row.about for row in priced} == set(PARTIES)
        assert {row.kind for row in priced} == {"noisy-votes"}
        assert "mode" not in result.parameters
        assert SelectionResult.load(result.save(tmp_path / "result.json")) == result
        page = result.to_html(tmp_path / "result.html").read_text(encoding="utf-8")
        assert "epsilon 0.8, delta 0, discrete Laplace" in page
        assert "each block voted" in page

    def test_runs_without_a_budget_show_no_settings_of_votes(self):
        result = fs.FPSOSelector(n_iterations=2, n_rounds=1, random_state=0).fit(*task(90)).result_
        assert not {"privacy", "n_blocks", "n_votes", "epsilon"} & set(result.parameters)

    def test_a_plan_tells_the_promise_and_the_noise(self):
        plan = selector(0.5).plan(federation())
        assert "noisy-votes" in {row.kind for row in plan.disclosures}
        assert not {row.kind for row in plan.disclosures} & {"accuracies", "own-subset"}
        assert "epsilon 0.5 for the values and the label of one row" in plan.notes[0]
        assert plan.notes[1] == (
            "party-1: a feature gets at most 4 votes; the noise has a standard deviation of 5.7."
        )

    @pytest.mark.usefixtures("repeatable")
    def test_a_selection_that_is_noise_is_called_so(self):
        assert "nearly random" in selector(0.05).fit(federation()).result_.warnings[0]
        assert selector(NEARLY_NONE).fit(federation()).result_.warnings == ()

    @pytest.mark.parametrize("key", ["max_epsilon", "max_release_epsilon"])
    def test_policies_limit_the_budget(self, key):
        policy = {"party-2": {key: 1.0}}
        for epsilon in (None, 2.0):
            with pytest.raises(PolicyViolation, match="epsilon of at most 1"):
                selector(epsilon, policy=policy).plan(federation())
        assert selector(1.0, policy=policy).plan(federation()).notes


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"epsilon": 0}, "epsilon=0"),
        ({"delta": 1.5}, "delta=1.5"),
        ({"epsilon": None, "n_blocks": 3}, "n_blocks=3 without an epsilon"),
        ({"epsilon": None, "n_votes": 3}, "n_votes=3 without an epsilon"),
        ({"n_blocks": 1}, "n_blocks=1"),
        ({"n_blocks": 2.5}, "n_blocks=2.5"),
        ({"n_votes": True}, "n_votes=True"),
        ({"n_votes": 0}, "n_votes=0"),
        ({"mode": "federated-fitness"}, "mode='federated-fitness' together with an epsilon"),
        ({"integration": "max-min"}, "integration='max-min' together with an epsilon"),
        ({"aggregation": "third-party"}, "aggregation='third-party' together with an epsilon"),
        ({"checkpoint": "somewhere"}, "A checkpoint together with an epsilon"),
        ({"n_blocks": 50}, "has 80 rows for 50 blocks"),
    ],
)
def test_settings_that_mean_nothing_or_tell_more_are_refused(settings, words):
    with pytest.raises(ParameterError) as caught:
        selector().set_params(**settings).fit(federation())
    error = caught.value
    assert words in error.found
    assert error.needed
    assert error.action


def test_blocks_follow_from_numbers_of_rows_and_classes():
    params = Params(epsilon=1.0)
    assert number_of_blocks(400, 2, params, "own") == 20
    assert number_of_blocks(400, 5, params, "own") == 8
    assert number_of_blocks(25, 2, params, "own") == 2
    assert number_of_blocks(400, 2, Params(epsilon=1.0, n_blocks=7), "own") == 7
    with pytest.raises(ParameterError, match="has 19 rows for 2 blocks"):
        number_of_blocks(19, 2, params, "own")


def test_few_rows_are_divided_among_fewer_parties():
    found = selector(parties=5).fit(*task(45))
    assert len(found.result_.shape["parties"]) == 2


def test_missing_values_and_categories_are_refused_before_anything_is_told():
    frame = pd.DataFrame({"a": np.arange(80.0), "b": ["x", "y"] * 40})
    with pytest.raises(fs.errors.DataError, match="'b'"):
        selector(n_features_to_select=1).fit(
            fs.split_horizontal(frame, np.arange(80) % 2, 2, random_state=0)
        )
