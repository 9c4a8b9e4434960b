"""A filter's selection with differential privacy: drawn by secret scores, and paid for."""

import json
import math

import numpy as np
import pandas as pd
import pytest

import fedsift as fs
from fedsift.data import PartyTable, Target
from fedsift.engine import run_local
from fedsift.errors import ParameterError, PolicyViolation
from fedsift.methods.filter import (
    coordinator as filters_horizontal,
)
from fedsift.methods.filter import (
    messages as filter_messages,
)
from fedsift.methods.filter import (
    noise as filter_release,
)
from fedsift.methods.filter import scores
from fedsift.methods.filter.features import fixed_bins
from fedsift.methods.filter.ranking import Params, contingency, plain_scores
from fedsift.methods.filter.scores import gini_error_bound
from fedsift.privacy.release import Release
from fedsift.result import SelectionResult
from helpers.runs import received, run_filter

EDGES = [-1.0, -0.5, 0.0, 0.5, 1.0]


def made_up(n_rows=240, n_columns=6, n_classes=3):
    rng = np.random.default_rng(0)
    y = rng.integers(0, n_classes, n_rows)
    X = rng.normal(size=(n_rows, n_columns))
    X[:, 1] += y
    X[:, 4] -= 0.7 * y
    return X, y


def vertical(**sizes):
    return fs.split_vertical(*made_up(**sizes), 3, random_state=0)


def horizontal(**sizes):
    return fs.split_horizontal(*made_up(**sizes), 3, random_state=0)


def selector(release_epsilon, score="gini", **settings):
    choices = {"n_features_to_select": 2, "bins": EDGES, "random_state": 0, **settings}
    return fs.FilterSelector(score, release_epsilon=release_epsilon, **choices)


def in_fixed_point(table, y):
    """Gini impurities with weights 1 / size as they are under encryption: nearly the exact ones."""
    binned = fixed_bins(table, EDGES)
    counts = contingency(binned.codes, binned.n_bins, y, 3)
    weights = scores.gini_weights(counts.sum(axis=2), len(y), fine=True)
    scale = 2.0 ** scores.gini_weight_bits(len(y), fine=True)
    found = 1 - (weights * (counts**2).sum(axis=2)).sum(axis=1) / scale / len(y)
    np.testing.assert_allclose(found, scores.gini(counts), atol=gini_error_bound(len(y), fine=True))
    return found


class TestOutcome:
    @pytest.mark.usefixtures("repeatable")
    @pytest.mark.parametrize("score", ["gini", "mi"])
    @pytest.mark.parametrize("epsilon", [0.3, 4.0])
    def test_encrypted_runs_draw_what_the_open_one_draws(self, score, epsilon):
        ways = ({}, {"he": "paillier"}, {"security": "plain"})
        drawn = [selector(epsilon, score, **way).fit(vertical()) for way in ways]

        for other in drawn[1:]:
            np.testing.assert_array_equal(other.ranking_, drawn[0].ranking_)
        assert drawn[0].get_support().sum() == 2

    @pytest.mark.parametrize("score", ["gini", "mi"])
    def test_the_draw_is_that_of_exact_scores(self, score):
        """The oracle: open scores in the parties' secret order, and the exponential mechanism."""
        federation = vertical()
        X, y = made_up()
        params = Params(
            score, 3, EDGES, seed=0, noise_seed=5, release_epsilon=1.0, release_delta=1e-6
        )
        outcome, nodes = run_filter(federation, params)
        order = [
            np.asarray(federation.column_order[party])[
                getattr(nodes[party][0], "order", slice(None))
            ]
            for party in nodes
        ]
        table = PartyTable.from_any(X, name="all")
        values = plain_scores(table, Target.from_values(y), params)
        if score == "gini":
            others = np.concatenate(order[1:])
            values[others] = in_fixed_point(table, y)[others]
        utilities = (-values if score == "gini" else values)[np.concatenate(order)]

        reach = filter_release.sensitivity(params, 240, 3)
        seed = [5, *b"selection"]
        expected = Release(1.0, 1e-6).top(utilities, reach, 3, seed)
        ranks = np.concatenate([outcome.value.ranks[party] for party in nodes])
        assert [int(np.flatnonzero(ranks == place)[0]) for place in (1, 2, 3)] == expected
        assert (np.delete(ranks, expected) == 4).all()

    @pytest.mark.parametrize("federation", [vertical, horizontal])
    @pytest.mark.parametrize("score", ["gini", "mi"])
    def test_with_a_large_budget_the_best_are_drawn(self, federation, score):
        found = selector(5000.0, score).fit(federation())

        assert found.get_support(indices=True).tolist() == [1, 4]
        assert found.ranking_.tolist() == [3, 1, 3, 3, 2, 3]

    def test_with_a_tiny_budget_anything_is_drawn(self):
        federation = vertical()
        drawn = {
            tuple(selector(0.001, random_state=s, security="plain").fit(federation).ranking_)
            for s in range(8)
        }
        assert len(drawn) > 4

    @pytest.mark.usefixtures("repeatable")
    def test_columns_and_rows_in_parts_are_drawn_alike(self):
        """The same scores and seed draw the same places, however many members add up."""
        counts = [
            selector(2.0, "mi", parties=parties).fit(*made_up()).ranking_.tolist()
            for parties in (np.arange(240) % 2, np.arange(240) % 5)
        ]
        assert counts[0] == counts[1]

    def test_noisy_counts_and_a_drawn_selection_go_together(self):
        found = selector(5000.0, epsilon=5000.0).fit(vertical(n_rows=2000))

        assert found.get_support(indices=True).tolist() == [1, 4]
        privacy = found.result_.parameters["privacy"]
        assert privacy["spent"] == {"party-2": 5000.0, "party-3": 5000.0}
        assert privacy["release"]["spent"] == 5000.0
        texts = [row.what for row in found.result_.disclosures]
        assert sum("with noise, spent epsilon 5000" in text for text in texts) == 4


class TestWhoLearnsWhat:
    def test_feature_holders_get_a_selection_and_no_scores(self):
        params = Params("gini", 2, EDGES, seed=0, release_epsilon=1.0)
        outcome, _ = run_filter(vertical(), params)

        for party in ("party-2", "party-3"):
            kinds = {entry.message for entry in outcome.transcript.view(party)}
            assert kinds == {"Introduction", "EncryptedLabels", "Selected"}
            (told,) = received(outcome, party, filter_messages.Selected)
            assert list(told.features) == sorted(told.features)  # the order of draws stays
        assert outcome.value.scores == {}

    def test_even_a_label_holder_who_may_tell_scores_does_not(self):
        policy = {
            "party-1": fs.Policy(may_reveal=("own-scores", "row-count", "class-count", "selection"),
                                 min_bin_size=1)
        }  # fmt: skip
        exact = fs.FilterSelector(n_features_to_select=2, bins=EDGES, policy=policy)
        told = {row.message for row in exact.fit(vertical()).result_.disclosures}
        drawn = selector(1.0, policy=policy).fit(vertical())

        assert "OwnScores" in told
        assert "OwnScores" not in {row.message for row in drawn.result_.disclosures}
        assert "OwnScores" not in {row.message for row in drawn.plan(vertical()).disclosures}

    def test_members_are_told_nothing_that_depends_on_rows_but_the_selection(self):
        params = Params("mi", 2, EDGES, min_class_size=5, release_epsilon=1.0)
        views = []
        for flipped in (False, True):
            federation = horizontal(n_classes=2)
            targets = {
                party: Target.from_values(1 - own.codes if flipped else own.codes)
                for party, own in federation.targets.items()
            }
            nodes = filters_horizontal.build_nodes(federation.tables, targets, params)
            protocol = filters_horizontal.PROTOCOL
            outcome = run_local(protocol, nodes, keep_frames=True)
            seen = received(
                outcome,
                "party-1",
                *(m for m in protocol.messages if m.__name__ in ("SizesWanted", "TablesWanted")),
                protocol=protocol,
            )
            views.append([repr(message) for message in seen])
            kinds = {entry.message for entry in outcome.transcript.view("party-1")}
            keys = {"Hello", "Roster"}  # the first member deals the secret to the others
            assert kinds == keys | {"SizesWanted", "TablesWanted", "Chosen"}
        assert views[0] == views[1]
        assert len(views[0]) == 2

    @pytest.mark.parametrize("federation", [vertical, horizontal])
    def test_the_result_holds_no_score_and_no_remark(self, federation):
        X, y = made_up()
        X[:, 5] = 1.0
        X[:150, 0] = np.nan
        y[3] = 7  # a rare class
        split = fs.split_vertical if federation is vertical else fs.split_horizontal
        own = split(X, y, 3, random_state=0)
        assert len(own.warnings) == 3 if federation is vertical else len(own.warnings) > 1

        found = selector(1.0, policy=fs.Policy(min_bin_size=1, min_class_size=1)).fit(own)
        noisy = fs.FilterSelector(
            "mi", n_features_to_select=2, bins=EDGES, epsilon=1.0, random_state=0
        ).fit(own)

        assert np.isnan(found.scores_).all()
        assert found.result_.scores == {}
        assert found.result_.warnings == noisy.result_.warnings == ()
        assert all(set(entry) == {"round", "messages", "n_bytes"} for entry in
                   found.result_.history)  # fmt: skip

    def test_a_second_selection_is_refused(self):
        params = Params("gini", 2, EDGES, release_epsilon=1.0)
        account = filter_release.budget_of(params).account()
        known = {"all": np.array([0.1, 0.2, 0.3])}
        filter_release.chosen(known, params, 0.01, account)

        with pytest.raises(PolicyViolation, match="Telling the selection would spend more"):
            filter_release.chosen(known, params, 0.01, account)
        assert account.total == pytest.approx(1.0)

    @pytest.mark.parametrize("simulated", [True, False])
    def test_draws_never_follow_a_seed(self, simulated):
        params = selector(1.0)._prepare(vertical(), None, simulated=simulated).params
        assert params.noise_source("selection") is None


class TestThePromise:
    """Neighbours that move all scores against each other: one row has another label."""

    @staticmethod
    def ratio(score, epsilon, share=1.0, n_rows=101, n_others=30, n_draws=5000):
        """How differently the first feature is drawn, as logarithm, and its standard error."""
        half = n_rows // 2
        codes = np.r_[np.zeros(half), np.ones(half)]
        first, others = np.r_[codes, 0.0], np.r_[codes, 1.0]
        table = PartyTable.from_any(
            pd.DataFrame({"first": first} | {f"other{i}": others for i in range(n_others)}),
            name="all",
        )
        counts = []
        for label in (0, 1):
            y = np.r_[codes, label].astype(int)
            params = Params(score, 1, [0.5], release_epsilon=epsilon)
            values = plain_scores(table, Target.from_values(y), params)
            reach = share * filter_release.sensitivity(params, n_rows, 2)
            drawn = 0
            for seed in range(n_draws):
                own = Params(
                    score, 1, [0.5], release_epsilon=epsilon, noise_seed=seed + 10**6 * label
                )
                account = filter_release.budget_of(own).account()
                ranking = filter_release.chosen({"all": values}, own, reach, account)
                drawn += ranking.selected["all"] == (0,)
            counts.append(drawn)
        error = math.sqrt(1 / counts[0] + 1 / max(1, counts[1]))
        return math.log(counts[0] / max(1, counts[1])), error

    def test_neighbours_draw_nearly_alike(self):
        ratio, error = self.ratio("gini", 2.0)
        assert ratio < 2.0 + 3 * error
        assert ratio > 1.3  # most of the budget is used: the bound is no larger than it must be

    def test_half_the_sensitivity_would_break_the_promise(self):
        ratio, error = self.ratio("gini", 2.0, share=0.5)
        assert ratio > 2.0 + 3 * error

    def test_neighbours_draw_nearly_alike_by_information(self):
        ratio, error = self.ratio("mi", 2.0)
        assert 0.2 < ratio < 2.0 + 3 * error

    def test_fixed_point_weights_are_part_of_the_bound(self):
        params = Params("gini", 2, EDGES, release_epsilon=1.0)
        for n_rows in (20, 999, 10**6):
            reach = filter_release.sensitivity(params, n_rows, 2)
            assert reach == pytest.approx(2 / n_rows + 2 * gini_error_bound(n_rows, fine=True))
            assert reach <= 2.2 / n_rows


class TestBudget:
    @pytest.mark.parametrize("federation", [vertical, horizontal])
    def test_what_was_spent_is_in_result_ledger_and_report(self, federation, tmp_path):
        result = selector(0.8, release_delta=1e-6).fit(federation()).result_
        release = result.parameters["privacy"]["release"]

        assert (release["epsilon"], release["delta"], release["choices"]) == (0.8, 1e-6, 2)
        assert 0 < release["spent"] <= 0.8
        assert release["mechanism"] == "exponential mechanism"
        priced = [row for row in result.disclosures if "spent epsilon 0.8, delta 1e-06" in row.what]
        assert {row.kind for row in priced} == {"selection"}
        assert len(priced) == (2 if federation is vertical else 3)
        assert SelectionResult.load(result.save(tmp_path / "result.json")) == result
        page = result.to_html(tmp_path / "result.html").read_text(encoding="utf-8")
        assert "epsilon 0.8, delta 1e-06, exponential mechanism" in page
        assert "features were drawn one after the other" in page
        assert "best features were kept" not in page

    def test_a_plan_tells_the_promise(self):
        plan = selector(0.5).plan(vertical())
        (note,) = (note for note in plan.notes if "Differential privacy" in note)
        assert "drawn with epsilon 0.5" in note
        assert "its values and its label" in note

    @pytest.mark.parametrize("federation", [vertical, horizontal])
    @pytest.mark.parametrize("epsilon", [None, 2.0])
    def test_a_party_refuses_selections_that_tell_too_much(self, federation, epsilon):
        policy = {
            "party-2": {"max_release_epsilon": 1.0, "min_security_bits": 0, "min_bin_size": 1}
        }
        with pytest.raises(PolicyViolation, match="release_epsilon of at most 1"):
            selector(epsilon, policy=policy).fit(federation())
        assert selector(1.0, policy=policy).fit(federation()).get_support().sum() == 2

    def test_noise_in_pooled_counts_is_enough_for_such_a_party_and_noise_in_others_is_not(self):
        policy = {"max_release_epsilon": 1.0, "min_security_bits": 0, "min_bin_size": 1}
        noisy = fs.FilterSelector(
            "mi", n_features_to_select=2, bins=EDGES, epsilon=1.0, policy={"party-2": policy}
        )
        assert noisy.fit(horizontal()).get_support().sum() == 2
        with pytest.raises(PolicyViolation, match="an exact selection"):
            noisy.fit(vertical())

    @pytest.mark.parametrize(
        "other",
        [
            fs.InteractionSelector(n_features_to_select=2),
            fs.VFPSSelector(n_participants=2),
            fs.FedSDGSelector(max_epochs=1),
        ],
    )
    def test_such_a_party_takes_no_part_in_methods_without_the_option(self, other):
        policy = {"party-2": {"max_release_epsilon": 10.0, "min_security_bits": 0}}
        with pytest.raises(PolicyViolation, match="an exact selection"):
            other.set_params(policy=policy).plan(fs.split_vertical(*made_up(), 4, random_state=0))

    def test_small_bins_are_refused_by_a_party_that_minds_them(self):
        """Bins are not merged, so that no minimum can be kept; with noisy counts none is needed."""
        policy = {"party-2": {"min_bin_size": 5}}
        with pytest.raises(PolicyViolation, match="bins of 1 rows"):
            selector(1.0, policy=policy).plan(vertical())
        assert selector(1.0, epsilon=1.0, policy=policy).plan(vertical()).notes


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"score": "f"}, "release_epsilon with score='f'"),
        ({"score": "iv"}, "release_epsilon with score='iv'"),
        ({"score": "chi2"}, "release_epsilon with score='chi2'"),
        ({"bins": 10}, "depend on every row"),
        ({"checkpoint": "somewhere"}, "A checkpoint together with a release_epsilon"),
        ({"release_epsilon": 0}, "release_epsilon=0"),
        ({"release_epsilon": True}, "release_epsilon=True"),
        ({"release_delta": 1}, "release_delta=1"),
        ({"score": "mi", "epsilon": 1.0}, "together with release_epsilon, and score='mi'"),
    ],
)
def test_settings_that_would_not_protect_are_refused(settings, words):
    with pytest.raises(ParameterError) as caught:
        selector(1.0).set_params(**settings).fit(vertical())
    error = caught.value
    assert words in error.found
    assert error.needed
    assert error.action


def test_both_budgets_are_refused_where_one_covers_everything():
    with pytest.raises(ParameterError, match="parties with different rows"):
        selector(1.0, epsilon=1.0).fit(horizontal())


def test_a_numeric_label_is_refused():
    X, _ = made_up()
    with pytest.raises(ParameterError, match="The label is a number"):
        selector(1.0).fit(fs.split_vertical(X, X[:, 0] * 1.5, 2, random_state=0))


def test_a_chain_draws_in_one_step_and_keeps_no_checkpoint_of_it(tmp_path):
    steps = [
        fs.FilterSelector("gini", n_features_to_select=4, security="plain"),
        selector(1.0, security="plain", random_state=None),
    ]
    chain = fs.Chain(steps, random_state=0).fit(vertical())
    assert chain.result_.n_selected == 2
    last = chain.result_.steps[-1]
    assert last.parameters["privacy"]["release"]["spent"] == 1.0
    rows = [row for row in chain.result_.disclosures if "drawn with noise" in row.what]
    assert {row.step for row in rows} == {2}

    with pytest.raises(ParameterError, match="step 2 has a budget of privacy"):
        fs.Chain(steps, checkpoint=tmp_path / "kept", random_state=0).fit(vertical())
    assert not (tmp_path / "kept").exists()


def test_the_numbers_in_a_result_are_json():
    result = selector(1.0).fit(vertical()).result_
    assert json.loads(result.to_json())["parameters"]["privacy"]["release"]["each"] == 0.5
