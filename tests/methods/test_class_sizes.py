"""Labels that few rows share are refused before anything is sent, by every method."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import fedsift as fs
from fedsift.data import Target
from fedsift.engine import run_local
from fedsift.errors import FedsiftError, ParameterError, PolicyViolation
from fedsift.lab.attacks.rare_class import uneven_labels
from fedsift.methods.checks import check_target, rows_with_variance
from fedsift.methods.filter import coordinator as filters_horizontal
from fedsift.methods.filter.horizontal_messages import HiddenCounts
from fedsift.methods.filter.ranking import Params
from fedsift.protocol import Network
from helpers.joint import columns_homes, refusal, vertical
from helpers.runs import received, run_filter

N_ROWS = 60
ANY_CLASS = fs.Policy(min_class_size=1, min_bin_size=1, min_security_bits=0)
QUICK = {
    "FilterSelector": {"score": "f", "n_features_to_select": 1},
    "InteractionSelector": {"n_features_to_select": 1},
    "VFPSSelector": {"n_queries": 10, "n_participants": 1, "parties": 3},
    "FedSDGSelector": {"max_epochs": 1, "min_epochs": 0},
}


def table(n_columns=4):
    return np.random.default_rng(0).normal(size=(N_ROWS, n_columns))


def rare(n_rare):
    return (np.arange(N_ROWS) < n_rare).astype(int)


def selector(name, policy=None):
    return getattr(fs, name)(security="plain", policy=policy, random_state=0, **QUICK[name])


@pytest.mark.parametrize("name", QUICK)
class TestLabelHolders:
    def test_a_small_class_is_refused_before_anything_is_sent(self, name):
        sent = []
        with pytest.raises(PolicyViolation, match="fewer than 5 rows") as error:
            selector(name).run(table(), rare(1), observer=sent.append)
        assert not sent
        assert "Merge small classes" in str(error.value)
        with pytest.raises(PolicyViolation, match="min_class_size"):
            selector(name).plan(table(), rare(4))

    def test_all_parties_have_to_lower_the_number_by_name(self, name):
        federation = fs.split_vertical(table(6), rare(3), 4, random_state=0)
        one = dict.fromkeys(federation.parties[:1], ANY_CLASS)
        unnamed = fs.Policy(min_bin_size=1, min_security_bits=0)
        for policy in (one, unnamed, replace(ANY_CLASS, min_class_size=4)):
            with pytest.raises(PolicyViolation, match="rows in every class"):
                selector(name, policy).plan(federation)
        assert selector(name, ANY_CLASS).plan(federation).disclosures


@pytest.mark.parametrize("score", ["gini", "f", "mi", "chi2", "iv"])
def test_every_score_refuses_a_class_for_every_row(score):
    with pytest.raises(PolicyViolation, match="fewer than 5 rows"):
        fs.FilterSelector(score, n_features_to_select=1).fit(table(), np.arange(N_ROWS) // 1 % 50)


def test_scores_without_labels_do_not_look_at_them():
    fs.FilterSelector("variance", n_features_to_select=1).fit(table(), rare(1))


def test_a_policy_on_bins_is_one_on_classes_unless_it_says_otherwise():
    sizes = [
        fs.Policy().smallest_class,
        fs.Policy(min_bin_size=10).smallest_class,
        fs.Policy(min_bin_size=1).smallest_class,
        fs.Policy(min_bin_size=10, min_class_size=2).smallest_class,
    ]
    assert sizes == [5, 10, 5, 2]
    with pytest.raises(PolicyViolation, match="at least 10 rows"):
        fs.FilterSelector(
            "f", n_features_to_select=1, policy=fs.Policy(min_bin_size=10)
        ).fit(table(), rare(9))  # fmt: skip


@pytest.mark.parametrize("size", [0, -3])
def test_a_class_has_at_least_one_row(size):
    for policy in (partial(fs.Policy), lambda **own: fs.Policy.from_mapping(own)):
        with pytest.raises(ParameterError, match=f"min_class_size of {size}") as caught:
            policy(min_class_size=size)
        assert "at least one row" in caught.value.needed
        assert "Give 1 or more" in caught.value.action


class TestNumbers:
    @pytest.mark.parametrize("noise", [0.0, 0.05])
    def test_a_number_that_marks_a_row_is_refused(self, noise):
        y = 10.0 * rare(1) + noise * np.random.default_rng(1).normal(size=N_ROWS)
        federation = fs.split_vertical(table(), y, 2, task="regression", random_state=0)
        with pytest.raises(PolicyViolation, match="variance of the label"):
            fs.FilterSelector("f", n_features_to_select=1).fit(federation)

    def test_rows_that_carry_the_variance_are_counted(self):
        for n_marked in (1, 4, 5, 20):
            assert rows_with_variance(3.0 * rare(n_marked) - 7) == pytest.approx(n_marked)
        assert rows_with_variance(np.full(9, 2.0)) == 9
        assert rows_with_variance(1e308 * np.array([-1.0, 0, 0, 0, 0, 1])) == pytest.approx(2)
        check_target(Target.from_values(np.random.default_rng(0).normal(size=60)), 5)

    def test_no_single_row_carries_more_than_its_share(self):
        """By the fourth moment, five rows share the variance of this label; one has 41 % of it."""
        _, uneven, most, equal = uneven_labels(5, np.random.default_rng(0))
        squares = uneven**2
        assert squares.sum() ** 2 / (squares**2).sum() > 5
        assert squares.max() / squares.sum() == pytest.approx(0.41)
        with pytest.raises(PolicyViolation, match="more than a share of 1/5 of the variance"):
            check_target(Target.from_values(uneven), 5)
        check_target(Target.from_values(uneven), 2)
        centred = most - most.mean()
        assert 0.19 < (centred**2).max() / (centred**2).sum() <= 0.2
        for label in (most, equal):
            check_target(Target.from_values(label), 5)

    def test_four_marks_in_a_short_table_do_not_pass_for_five(self):
        with pytest.raises(PolicyViolation, match="min_class_size"):
            check_target(Target.from_values(1.0 * (np.arange(20) < 4)), 5)

    @pytest.mark.parametrize("setting", ["vertical", "horizontal"])
    def test_small_classes_of_a_number_are_merged(self, setting):
        y = np.concatenate([np.zeros(45), np.full(3, 1.0), np.linspace(2, 3, 12)])
        split = fs.split_vertical if setting == "vertical" else fs.split_horizontal
        federation = split(table(), y, 2, task="regression", random_state=0)
        fitted = fs.FilterSelector("gini", n_features_to_select=1).fit(federation)
        assert np.isfinite(fitted.scores_).all()


class TestFeatureHolders:
    def test_more_classes_than_rows_can_fill_are_refused(self):
        """A label holder that does not look at its own labels is noticed."""
        y = np.arange(N_ROWS) % 20
        federation = fs.split_vertical(table(), y, 2, random_state=0)
        with pytest.raises(FedsiftError, match="20 classes in 60 rows"):
            run_filter(federation, Params("gini", 1, min_class_size=5))

    def test_numbers_where_classes_were_agreed_are_refused(self):
        federation = fs.split_vertical(table(), table()[:, 0], 2, task="regression", random_state=0)
        with pytest.raises(FedsiftError, match=r"'share' with 0 classes.*a label of classes"):
            run_filter(federation, Params("f", 1))
        run_filter(federation, Params("f", 1, numeric_label=True))

    def test_bins_whose_counts_are_opened_are_large_enough_for_all_classes(self):
        y = np.arange(N_ROWS) % 3
        given = {"n_features_to_select": 1, "random_state": 0}
        counts = fs.FilterSelector("mi", **given).fit(table(), y)
        assert "fewer than 15 rows" in " ".join(counts.result_.warnings)
        scores = fs.FilterSelector("gini", **given).fit(table(), y)
        assert not scores.result_.warnings

    @pytest.mark.parametrize("score", ["mi", "iv", "gini"])
    def test_counts_whose_cells_nobody_can_check_have_to_be_named(self, score):
        given = {"n_features_to_select": 1, "random_state": 0, "disclose": "counts"}
        federation = fs.split_vertical(table(), np.arange(N_ROWS) % 2, 2, random_state=0)
        for policy in (fs.Policy(), fs.Policy(min_rows=10)):
            sent = []
            with pytest.raises(PolicyViolation, match=r"'bin-counts'.*may_reveal"):
                fs.FilterSelector(score, policy=policy, **given).run(
                    federation, observer=sent.append
                )
            assert not sent
        named = fs.Policy(may_reveal=("basic", "counts"))
        for policy in (named, None):  # in a simulation without policies one user has all tables
            result = fs.FilterSelector(score, policy=policy, **given).fit(federation).result_
            assert "bin-counts" in {row.kind for row in result.disclosures}


class TestMembers:
    def federation(self, n_rare):
        X, y = table() + 3, rare(n_rare)
        parts = {"north": slice(0, 20), "south": slice(20, 40), "west": slice(40, 60)}
        return fs.Federation.horizontal({p: (X[rows], y[rows]) for p, rows in parts.items()})

    @pytest.mark.parametrize("score", ["f", "gini", "chi2"])
    def test_pooled_classes_come_first_and_small_ones_end_the_run(self, score):
        federation = self.federation(3)
        params = Params(score, 1, min_class_size=5)
        nodes = filters_horizontal.build_nodes(federation.tables, federation.targets, params)
        (coordinator,) = nodes["coordinator"]
        with pytest.raises(PolicyViolation, match="fewer than 5 rows"):
            run_local(filters_horizontal.PROTOCOL, nodes)
        # It knows that the second class is small, and not how small.
        (small,) = coordinator._answers
        assert small[:2].tolist() == [False, True]
        assert not coordinator._totals
        assert fs.FilterSelector(score, n_features_to_select=1).fit(self.federation(5))

    def test_what_comes_first_are_hidden_sizes(self):
        federation = self.federation(20)
        params = Params("f", 1, min_class_size=5)
        nodes = filters_horizontal.build_nodes(federation.tables, federation.targets, params)
        protocol = filters_horizontal.PROTOCOL
        outcome = run_local(protocol, nodes, keep_frames=True)
        replies = received(outcome, "coordinator", HiddenCounts, protocol=protocol)
        # Four comparisons of each class and one of the number of missing values, with a proof; two
        # residues share a word.
        assert [message.residues.shape for message in replies] == [(4 * 2 + 1,)] * 3

    def test_a_coordinator_that_skips_the_sizes_is_refused(self, monkeypatch):
        async def skip(self, course, net: Network):
            return np.zeros(len(course.request.smallest), dtype=np.bool_)

        monkeypatch.setattr(filters_horizontal.Coordinator, "_answer", skip)
        with pytest.raises(FedsiftError, match="asks for step"):
            fs.FilterSelector("f", n_features_to_select=1).fit(self.federation(1))

    def test_fpso_and_dcfs_want_as_many_rows_at_every_party(self):
        with pytest.raises(PolicyViolation, match="fewer than 5 rows"):
            fs.FPSOSelector(n_rounds=1, n_features_to_select=1).fit(self.federation(3))
        few = {"north": table()[:4], "south": table()[4:]}
        with pytest.raises(PolicyViolation, match="A party has fewer than 5 rows"):
            fs.DCFSSelector(n_features_to_select=1).fit(fs.Federation.horizontal(few))


def test_between_sites_the_strictest_policy_counts():
    job = vertical("filter", score="f", n_features_to_select=2)
    homes = columns_homes(job, policies={"store": fs.Policy(min_class_size=45)})
    error = refusal(job, homes)
    assert isinstance(error, PolicyViolation)
    assert "at least 45 rows in every class" in str(error)
