# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Relevance less redundancy under encryption equals the same search over pooled bins."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import mutual_info_score

import fedsift as fs
from fedsift.data import Target
from fedsift.engine import run_local
from fedsift.errors import BadFrame, ParameterError, PartyFailed, PolicyViolation
from fedsift.lab.pooled import pooled_selection
from fedsift.methods.stepwise import label_holder, messages
from fedsift.methods.stepwise.binned import BinnedSearch
from fedsift.methods.stepwise.columns import bin_codes, label_bins, make_bins
from fedsift.methods.stepwise.messages import Params
from fedsift.methods.stepwise.pooled import search_bins
from helpers.runs import received

PLAIN = {"security": "plain"}


def people(n_rows=120, n_classes=2, seed=0):
    """Numbers, a near copy, categories with a rare one, missing values, and a constant."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n_rows) % n_classes)
    frame = pd.DataFrame(rng.normal(size=(n_rows, 4)), columns=["age", "debt", "wage", "visits"])
    frame["age"] += y
    frame["wage"] = frame["age"] + 0.2 * rng.normal(size=n_rows)
    region = np.where(rng.random(n_rows) < 0.7, y, rng.integers(0, 3, n_rows))
    frame["region"] = np.array(["north", "south", "west"])[region]
    frame.loc[:2, "region"] = "rare"
    frame["spend"] = np.where(rng.random(n_rows) < 0.2, np.nan, rng.normal(size=n_rows) - y)
    frame["same"] = 1.0
    return frame, pd.Series(y, name="y")


def split(frame, y, n_parties):
    parts = np.array_split(np.random.default_rng(1).permutation(frame.columns), n_parties)
    tables = {f"p{i}": frame[list(part)] for i, part in enumerate(parts)}
    return fs.Federation.vertical(tables, ("p0", y))


def check_equal(selector, federation):
    """Same features in the same order, all criteria, relevances and redundancies."""
    selector.fit(federation)
    params = selector.prepare(federation, simulated=True).params
    own = federation.tables.get(federation.label_holder)
    kept = range(own.n_columns) if own is not None and params.keep_own else ()
    names, search = search_bins(federation, params, frozenset(kept))
    told = [entry for entry in selector.result_.history if entry.get("step") == "add"]
    named = [(p, federation.tables[p].feature_names[f]) for p, f in names]
    assert [(s["party"], s["feature"]) for s in told] == [named[i] for i in search.selected]
    np.testing.assert_allclose([s["score"] for s in told], search.entered, rtol=1e-9, atol=1e-12)
    for entry, place in zip(told, search.selected, strict=True):
        assert entry["relevance"] == pytest.approx(search.relevance[place])
    scores = search.criterion()
    scores[search.selected] = search.entered
    mine = [selector.result_.scores[p][name] for p, name in named]
    np.testing.assert_allclose(mine, scores, rtol=1e-9, atol=1e-12)
    return told


@pytest.mark.parametrize("keep_own", [True, False])
@pytest.mark.parametrize(("n_parties", "n_classes"), [(2, 2), (3, 3)])
def test_encrypted_equals_pooled(n_parties, n_classes, keep_own):
    federation = split(*people(n_classes=n_classes), n_parties)
    selector = fs.StepwiseSelector(
        n_features_to_select=2, criterion="mrmr", keep_own=keep_own, random_state=0,
        # The label holder's bins are more than a tenth of so few rows.
        policy=fs.Policy(**ANY_NUMBER),
    )  # fmt: skip
    assert len(check_equal(selector, federation)) == 2


ANY_NUMBER = {
    "min_class_size": 1,
    "may_reveal": ("basic", "products", "bin-counts", "numeric-scores"),
}


def test_numbers_are_taken_in_bins():
    frame, y = people(300)
    y = y + np.random.default_rng(3).normal(size=300)
    federation = fs.Federation.vertical({"shop": frame}, ("bank", y))
    selector = fs.StepwiseSelector(n_features_to_select=4, criterion="mrmr", **PLAIN)
    check_equal(selector, federation)


def test_many_rounds_and_all_features():
    frame, y = people(600)
    federation = fs.Federation.vertical(
        {"shop": frame.iloc[:, :3], "mill": frame.iloc[:, 3:]}, ("bank", y)
    )
    selector = fs.StepwiseSelector(
        n_features_to_select=7, criterion="mrmr", random_state=0, **PLAIN
    )
    told = check_equal(selector, federation)
    order = [entry["feature"] for entry in told]
    assert "same" not in order
    assert len(order) == 6
    assert abs(order.index("age") - order.index("wage")) > 1
    # By scikit-learn, from the first two features.
    codes = {c.name: bin_codes(c, 5) for t in federation.tables.values() for c in t.columns}
    first, second = order[:2]
    relevance = {name: mutual_info_score(own, y) for name, own in codes.items()}
    assert first == max(relevance, key=relevance.get)
    shared = mutual_info_score(codes[first], codes[second])
    assert told[1]["score"] == pytest.approx(relevance[second] - shared)
    assert told[1]["redundancy"] == pytest.approx(shared)
    given = {"criterion": "mrmr", "n_features_to_select": 2}
    mask = pooled_selection("stepwise", given, federation, 0)
    assert set(frame.columns[mask]) == {first, second}


def test_bins_have_enough_rows():
    frame, _ = people(100)
    table = fs.PartyTable.from_any(frame, name="shop")
    for smallest in (5, 20):
        design = make_bins(table, 100, smallest, np.random.default_rng(0))
        assert design.sizes.min() >= smallest
        for feature in range(7):
            own = design.sizes[design.owners == feature]
            assert not len(own) or 100 - own.sum() >= smallest
        codes = bin_codes(table.columns[4], smallest)
        assert np.bincount(codes).min() >= smallest
    residuals = Target("numbers", values=np.r_[np.zeros(96), 1.0, 2.0, 3.0, 4.0])
    assert np.bincount(label_bins(residuals, 5).codes).min() >= 5


class TestRefused:
    def test_what_does_not_go_with_it(self):
        frame, y = people()
        federation = split(frame, y, 2)
        with pytest.raises(ParameterError, match='with n_features_to_select="auto"'):
            fs.StepwiseSelector(criterion="mrmr").fit(federation)
        rows = fs.split_horizontal(frame[["age", "debt"]], y, 2)
        with pytest.raises(ParameterError, match="different rows"):
            fs.StepwiseSelector(criterion="mrmr", n_features_to_select=1).fit(rows)

    def test_policies_have_to_name_counts(self):
        frame, y = people()
        federation = fs.Federation.vertical({"shop": frame}, ("bank", y))
        settings = {"n_features_to_select": 1, "criterion": "mrmr"}
        named = {"may_reveal": ("basic", "products", "bin-counts")}

        def plan(**policy):
            fs.StepwiseSelector(**settings, policy=fs.Policy(**policy)).plan(federation)

        with pytest.raises(PolicyViolation, match="bin-counts"):
            plan(may_reveal=("basic", "products"))
        plan(**named)
        with pytest.raises(PolicyViolation, match="bins of 5 rows"):
            plan(**named, min_bin_size=10)

    @pytest.mark.parametrize("change", [1, 40, -1000])
    def test_sizes_that_products_cannot_have(self, change):
        frame, y = people()
        federation = fs.Federation.vertical({"shop": frame}, ("bank", y))
        nodes = nodes_of(federation)
        holder = nodes["shop"][0]
        holder._design().sizes[0] += change
        with pytest.raises((BadFrame, PartyFailed)):
            run_local(label_holder.PROTOCOL, nodes, protected=False)


def nodes_of(federation, **settings):
    common = {"min_class_size": 5, "min_bin_size": 5, "scheme": "plain", "seed": 0}
    params = Params(**{"n_features_to_select": 1, "criterion": "mrmr", **common, **settings})
    return label_holder.build_nodes(
        federation.tables, federation.label_holder, federation.target, federation.n_rows, params
    )


@pytest.fixture(scope="module")
def run():
    frame, y = people()
    tables = {"shop": frame[["age", "debt"]], "mill": frame[["visits", "spend"]]}
    federation = fs.Federation.vertical(tables, ("bank", y))
    nodes = nodes_of(federation, scheme="bgv")
    return federation, run_local(label_holder.PROTOCOL, nodes, keep_frames=True)


class TestPrivacy:
    def test_what_each_role_sees(self, run):
        _, outcome = run
        seen = {
            p: {e.message for e in outcome.transcript.view(p)} for p in ("bank", "shop", "mill")
        }
        assert seen["bank"] == {"OfferOfBins", "LabelProducts", "OpenedProducts", "Masks", "Done"}
        common = {"Introduction", "EncryptedLabels", "Selected"}
        assert seen["shop"] == common | {"ColumnWanted", "HiddenProducts"}
        assert seen["mill"] == common | {"EncryptedColumn", "MasksWanted"}

    def test_the_owner_of_a_feature_opens_uniform_numbers(self, run):
        _, outcome = run
        told = received(outcome, "bank", messages.OpenedProducts, protocol=label_holder.PROTOCOL)
        assert len(told) == 4  # bins but one
        words = np.concatenate([one.masked["mill"].array()[:, 0] for one in told])
        # Products of length 1 would have the same high bits.
        assert len(np.unique(words >> np.uint64(56))) > 0.7 * len(words)

    def test_the_ledger_says_exactly_what_is_learned(self, run):
        federation, _ = run
        selector = fs.StepwiseSelector(
            n_features_to_select=1, criterion="mrmr", random_state=0, **PLAIN
        )
        planned = {(d.learner, d.kind) for d in selector.plan(federation).disclosures}
        learned = {(d.learner, d.kind) for d in selector.fit(federation).result_.disclosures}
        # One feature was selected: its owner alone opened masked products.
        assert planned - learned == {("mill", "feature-count")}
        assert learned <= planned
        kinds = {kind for learner, kind in learned if learner == "bank"}
        assert kinds == {"bin-counts", "class-sums", "correlations"}

    def test_bins_and_features_have_no_order(self):
        frame, _ = people()
        table = fs.PartyTable.from_any(frame[["age"]], name="shop")
        orders = set()
        for seed in range(20):
            design = make_bins(table, 120, 5, np.random.default_rng(seed))
            means = frame["age"].to_numpy() @ design.values
            orders.add(tuple(np.argsort(means)))
        assert len(orders) > 8

    @pytest.mark.parametrize("smallest", [1, 5])
    def test_a_bin_of_one_row_reads_that_row(self, monkeypatch, smallest):
        """Of a row that is alone in its bin, counts say in which bins of others it is."""
        frame, y = people()
        frame.loc[7, "region"] = "far"
        frame["region"] = np.where(frame["region"] == "rare", "north", frame["region"])
        tables = {"shop": frame[["region"]], "mill": frame[["visits"]]}
        federation = fs.Federation.vertical(tables, ("bank", y))
        seen, make = [], BinnedSearch._tables

        def note(self, counts, totals):
            seen.append((make(self, counts, totals), np.asarray(totals)))
            return seen[-1][0]

        monkeypatch.setattr(BinnedSearch, "_tables", note)
        settings = {"min_class_size": smallest, "min_bin_size": smallest, "n_features_to_select": 1}
        nodes = nodes_of(federation, **settings)
        run_local(label_holder.PROTOCOL, nodes, protected=False)
        tables, totals = seen[-1]
        visits = bin_codes(federation.tables["mill"].columns[0], smallest)
        of_visits = tables[1]
        assert of_visits.sum(axis=1).tolist() == pytest.approx(totals_of(visits, of_visits))
        if smallest == 5:
            assert totals.min() >= 5
            return
        (alone,) = np.flatnonzero(totals == 1)
        assert of_visits[:, alone].sum() == 1
        holder = nodes["mill"][0]
        found = int(np.argmax(of_visits[:, alone]))
        marks = holder._design().values[7] > 0
        assert found == (int(np.argmax(marks)) if marks.any() else len(marks))


def totals_of(codes, table):
    """Sizes of the bins in the order of a table, whose bins are shuffled; both sorted alike."""
    sizes = np.sort(np.bincount(codes, minlength=len(table)))
    return sizes[np.argsort(np.argsort(table.sum(axis=1), kind="stable"), kind="stable")].tolist()


class Cut(Exception):
    """Ends a run in this test."""


def test_an_interrupted_run_goes_on_within_a_feature(tmp_path):
    frame, y = people()
    tables = {"shop": frame[["age", "debt"]], "mill": frame[["visits", "spend"]]}
    federation = fs.Federation.vertical(tables, ("bank", y))
    settings = {"n_features_to_select": 2, "criterion": "mrmr", "random_state": 0, **PLAIN}
    whole = fs.StepwiseSelector(**settings).fit(federation)
    asked = []

    def cut_at_third_bin(step):
        asked.append(step.message)
        if asked.count("ColumnWanted") == 3:
            raise Cut

    kept = {"checkpoint": tmp_path / "kept"}
    with pytest.raises(Cut):
        fs.StepwiseSelector(**settings, **kept).run(federation, observer=cut_at_third_bin)
    resumed = fs.StepwiseSelector(**settings, **kept).fit(federation)
    assert resumed.added_ == whole.added_
    np.testing.assert_allclose(resumed.scores_, whole.scores_)
    assert not [e for e in resumed.result_.disclosures if e.kind == "numeric-scores"]
