# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Vertical stepwise selection equals the same search on pooled columns, and says what is refused."""

import numpy as np
import pandas as pd
import pytest

import fedsift as fs
from fedsift.data import Target
from fedsift.engine import run_local
from fedsift.errors import ParameterError, PartyFailed, PolicyViolation
from fedsift.lab.pooled import pooled_selection
from fedsift.methods.stepwise import label_holder
from fedsift.methods.stepwise.columns import label_columns, make_design, shuffle_rows
from fedsift.methods.stepwise.messages import Params
from fedsift.methods.stepwise.pooled import search_pooled

PLAIN = {"security": "plain"}


def correlated(n_rows, n_columns, n_classes=2, seed=0):
    """Columns in pairs of near copies; of each pair one tells of the label, less and less."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n_rows) % n_classes)
    centres = rng.normal(size=(n_classes, n_columns))
    X = rng.normal(size=(n_rows, n_columns)) + centres[y] / np.arange(1, n_columns + 1) ** 0.5
    X[:, 1::2] = X[:, ::2][:, : n_columns // 2] + 0.3 * rng.normal(size=(n_rows, n_columns // 2))
    return X, y


def numbers(n_rows, n_columns, seed=0):
    X, _ = correlated(n_rows, n_columns, seed=seed)
    return X, X[:, 0] - 0.7 * X[:, 3] + 0.5 * np.random.default_rng(seed).normal(size=n_rows)


def pooled(selector, federation):
    """The same search in the open, by party and name."""
    params = selector.prepare(federation, simulated=True).params
    own = federation.tables.get(federation.label_holder)
    kept = frozenset(range(own.n_columns)) if own is not None and params.keep_own else frozenset()
    found = search_pooled(federation, params, kept)
    names = {p: federation.tables[p].feature_names for p in federation.tables}
    steps = [
        (s["feature"][0], names[s["feature"][0]][s["feature"][1]], s)
        for s in found.steps
        if s["step"] == "add"
    ]
    return found, steps, names


def check_equal(selector, federation):
    """Same columns in the same order, and all statistics."""
    selector.fit(federation)
    found, steps, names = pooled(selector, federation)
    told = [entry for entry in selector.result_.history if entry.get("step") == "add"]
    assert [(s["party"], s["feature"]) for s in told] == [s[:2] for s in steps]
    for one, (*_, other) in zip(told, steps, strict=True):
        for key in ("score", "p_value", "q_value", "adds", "explained", "redundancy"):
            assert one[key] == pytest.approx(other[key], rel=1e-6, abs=1e-8), key
    for party, values in found.scores.items():
        scores = [selector.result_.scores[party][name] for name in names[party]]
        np.testing.assert_allclose(scores, values, rtol=1e-6, atol=1e-6)
    return told


@pytest.mark.parametrize(
    ("n_parties", "keep_own"), [(2, True), (2, False), (3, True), (3, False), (5, True)]
)
def test_encrypted_equals_pooled(n_parties, keep_own):
    X, y = correlated(120, 10)
    federation = fs.split_vertical(X, y, n_parties, random_state=0)
    selector = fs.StepwiseSelector(n_features_to_select=2, keep_own=keep_own, random_state=0)
    assert len(check_equal(selector, federation)) == 2


@pytest.mark.parametrize("n_classes", [3, 26])
def test_any_number_of_classes(n_classes):
    X, y = correlated(12 * n_classes, 6, n_classes)
    federation = fs.split_vertical(X, y, 2, random_state=0)
    check_equal(fs.StepwiseSelector(n_features_to_select=2, random_state=0), federation)


@pytest.mark.parametrize("n_parties", [2, 3])
def test_numbers(n_parties):
    X, y = numbers(150, 8)
    federation = fs.split_vertical(X, y, n_parties, random_state=0)
    check_equal(fs.StepwiseSelector(n_features_to_select=2, random_state=0), federation)


def survival_times(effect, seed=0):
    """Survival times that are shorter the larger the effect, a third of them censored."""
    rng = np.random.default_rng(seed)
    time, end = rng.exponential(np.exp(-effect)), rng.exponential(2.0, size=len(effect))
    pairs = np.empty(len(effect), dtype=[("event", bool), ("time", float)])
    pairs["event"], pairs["time"] = time <= end, np.minimum(time, end)
    return pairs


@pytest.mark.parametrize("n_parties", [2, 3])
def test_survival_times(n_parties):
    X, effect = numbers(150, 8)
    y = survival_times(effect)
    federation = fs.split_vertical(X, y, n_parties, random_state=0)
    selector = fs.StepwiseSelector(n_features_to_select=2, random_state=0)
    told = check_equal(selector, federation)
    # The first number is the F of the residuals, given the own columns that are kept.
    names = [entry["feature"] for entry in selector.result_.history if entry.get("step") == "keep"]
    given, column = [int(name[1:]) for name in names], int(told[0]["feature"][1:])
    expected = partial_f(X, federation.target.values, given, column)
    assert told[0]["score"] == pytest.approx(expected, rel=1e-6)


def test_paillier():
    X, y = correlated(24, 5)
    federation = fs.split_vertical(
        X, y, [[0, 1], [2, 3, 4]], label_holder=None, names=["shop", "mill"]
    )
    selector = fs.StepwiseSelector(n_features_to_select=1, he="paillier", random_state=0)
    check_equal(selector, federation)


@pytest.mark.parametrize("ridge", [0.0, 3.0])
def test_ridges(ridge):
    X, y = correlated(120, 12)
    federation = fs.split_vertical(X, y, 3, random_state=0)
    check_equal(
        fs.StepwiseSelector(n_features_to_select=6, ridge=ridge, random_state=0, **PLAIN),
        federation,
    )


def partial_f(X, y, given, column):
    """By two least-squares fits."""

    def rest(columns):
        design = np.column_stack([np.ones(len(y)), *columns])
        fitted = design @ np.linalg.lstsq(design, y, rcond=None)[0]
        return ((y - fitted) ** 2).sum(), len(y) - design.shape[1]

    before, _ = rest([X[:, i] for i in given])
    after, free = rest([X[:, i] for i in (*given, column)])
    return (before - after) / after * free


def wilks_f(X, y, given, column):
    """By determinants of scatter inside and around classes, given other columns."""
    groups = np.eye(y.max() + 1)[y]

    def determinant(columns, around):
        rest = X[:, columns] - around @ np.linalg.lstsq(around, X[:, columns], rcond=None)[0]
        return np.linalg.det(rest.T @ rest)

    ones = np.ones((len(y), 1))

    def wilks(columns):
        return determinant(columns, groups) / determinant(columns, ones) if columns else 1.0

    share = wilks([*given, column]) / wilks(list(given))
    n_classes = groups.shape[1]
    free = len(y) - n_classes - len(given)
    return (1 - share) / share * free / (n_classes - 1)


@pytest.mark.parametrize("oracle", ["partial F", "Wilks"])
def test_statistics_are_those_of_textbooks(oracle):
    X, y = numbers(200, 8) if oracle == "partial F" else correlated(200, 8, 4)
    selector = fs.StepwiseSelector(n_features_to_select=4, keep_own=False, random_state=0, **PLAIN)
    selector.fit(X, y)
    order = [int(name[1:]) for _, name in selector.added_]
    compute = partial_f if oracle == "partial F" else wilks_f
    for place, column in enumerate(order):
        expected = compute(X, y, order[:place], column)
        assert selector.scores_[column] == pytest.approx(expected, rel=1e-6)
    for column in set(range(8)) - set(order):
        assert selector.scores_[column] == pytest.approx(compute(X, y, order, column), rel=1e-5)


class TestAuto:
    def test_it_stops_where_shuffled_labels_do_as_well(self):
        rng = np.random.default_rng(0)
        y = np.arange(300) % 2
        X = rng.normal(size=(300, 8))
        X[:, 6] += y
        federation = fs.split_vertical(X, y, [range(5), [5, 6, 7]], label_holder=None)
        selector = fs.StepwiseSelector(random_state=0).fit(federation)
        assert [name for _, name in selector.added_] == ["x6"]
        (step,) = [e for e in selector.result_.history if e.get("step") == "add"]
        assert step["chance"] == pytest.approx(1 / 31)
        assert selector.result_.parameters["n_shuffles"] == 30

    def test_pure_chance_is_seldom_selected(self):
        hits = 0
        for seed in range(40):
            rng = np.random.default_rng(seed)
            X, y = rng.normal(size=(300, 8)), rng.permutation(np.arange(300) % 2)
            selector = fs.StepwiseSelector(keep_own=False, random_state=seed, **PLAIN)
            hits += bool(selector.fit(X, y).added_)
        assert hits <= 6  # 2 are expected, and 6 are 2.9 standard errors more

    def test_few_rows_have_no_shuffled_labels(self):
        X, y = correlated(100, 6)
        selector = fs.StepwiseSelector(random_state=0, **PLAIN)
        planned = {d.kind for d in selector.plan(X, y).disclosures}
        assert "shuffled-products" in planned
        result = selector.fit(X, y).result_
        assert result.parameters["n_shuffles"] == 0
        assert "shuffled-products" not in {d.kind for d in result.disclosures}

    def test_copies_follow_from_rows(self):
        params = Params(min_class_size=5)
        assert params.copies(1000, 10, 1) == 50
        assert params.copies(1000, 10, 3) == 30
        assert params.copies(300, 20, 1) == 0
        assert Params(min_class_size=1).copies(30, 5, 2) == 50
        assert Params(n_features_to_select=3, min_class_size=5).copies(1000, 0, 1) == 0


def test_kept_features_stay_and_a_copy_of_them_adds_nothing():
    rng = np.random.default_rng(1)
    own = rng.normal(size=(300, 2))
    y = (own.sum(axis=1) + rng.normal(size=300) > 0).astype(int)
    news = rng.normal(size=300) + y
    tables = {
        "bank": pd.DataFrame(own, columns=["income", "age"]),
        "copy": pd.DataFrame({"wage": own[:, 0] + 0.1 * rng.normal(size=300)}),
        "news": pd.DataFrame({"visits": news, "noise": rng.normal(size=300)}),
    }
    federation = fs.Federation.vertical(tables, ("bank", pd.Series(y, name="y")))
    selector = fs.StepwiseSelector(n_features_to_select=1, random_state=0, **PLAIN).fit(federation)
    assert selector.added_ == [("news", "visits")]
    assert set(selector.result_.selected["bank"]) == {"income", "age"}
    gains = selector.gains_
    assert gains["news"][0] > 0.05 > abs(gains["copy"][0])
    assert gains["news"][0] > 2 * gains["news"][1]
    copies = fs.StepwiseSelector(n_features_to_select=2, keep_own=False, random_state=0, **PLAIN)
    alone = copies.fit(federation)
    assert ("copy", "wage") not in alone.added_ or ("bank", "income") not in alone.added_


def test_covariates_are_in_from_the_start():
    X, y = correlated(150, 6)
    frame = pd.DataFrame(X, columns=list("abcdef"))
    federation = fs.Federation.vertical(
        {"bank": frame[list("abc")], "shop": frame[list("def")]}, ("bank", pd.Series(y, name="y"))
    )
    settings = {"n_features_to_select": 1, "random_state": 0, **PLAIN}
    selector = fs.StepwiseSelector(keep_own=False, adjust=["b"], **settings).fit(federation)
    assert "b" in selector.result_.selected["bank"]
    assert all(name != "b" for _, name in selector.added_)
    with pytest.raises(ParameterError, match="adjust names 'd'"):
        fs.StepwiseSelector(adjust="d", **settings).fit(federation)


class TestFalseDiscoveries:
    def many(self, seed, n_rows=800, n_columns=40, n_true=12):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n_rows, n_columns))
        true = rng.choice(n_columns, n_true, replace=False)
        y = (X[:, true].sum(axis=1) * 0.3 + rng.normal(size=n_rows) > 0).astype(int)
        return X, y, {f"x{i}" for i in true}

    def test_the_rate_is_kept_and_causes_are_found(self):
        shares, powers = [], []
        for seed in range(20):
            X, y, true = self.many(seed, n_columns=24, n_true=8)
            federation = fs.split_vertical(X, y, 3, label_holder=None, random_state=seed)
            selector = fs.StepwiseSelector(
                n_features_to_select="fdr", fdr=0.2, random_state=seed, **PLAIN
            ).fit(federation)
            found = {name for _, name in selector.added_}
            shares.append(len(found - true) / max(1, len(found)))
            powers.append(len(found & true) / len(true))
        assert np.mean(shares) < 0.2 + 2 * np.std(shares) / 20**0.5
        assert np.mean(powers) > 0.8

    def test_plain_and_secure_select_the_same(self):
        X, y, _ = self.many(1, n_rows=200, n_columns=6, n_true=3)
        federation = fs.split_vertical(X, y, 2, random_state=0)
        settings = {"n_features_to_select": "fdr", "fdr": 0.5, "random_state": 0}
        runs = [fs.StepwiseSelector(**settings, **one).fit(federation) for one in ({}, PLAIN)]
        assert runs[0].added_ == runs[1].added_
        np.testing.assert_allclose(runs[0].scores_, runs[1].scores_, rtol=1e-6, atol=1e-9)

    def test_own_columns_that_are_kept_have_no_knockoffs(self):
        X, y, _ = self.many(2, n_rows=300, n_columns=12)
        federation = fs.split_vertical(X, y, 3, random_state=0)
        for keep_own in (True, False):
            selector = fs.StepwiseSelector(
                n_features_to_select="fdr", fdr=0.5, keep_own=keep_own, random_state=0, **PLAIN
            ).fit(federation)
            own = {name for party, name in selector.added_ if party == "party-1"}
            assert not own if keep_own else selector.added_

    @pytest.mark.parametrize("keep_own", [True, False])
    def test_what_is_kept_in_the_open(self, keep_own):
        """Other knockoffs, the same strong causes."""
        X, y, true = self.many(5, n_columns=30, n_true=6)
        y = (X[:, [int(name[1:]) for name in true]].sum(axis=1) > 0).astype(int)
        federation = fs.split_vertical(X, y, 3, random_state=0)
        own = set(federation.tables["party-1"].feature_names) if keep_own else set()
        given = {"n_features_to_select": "fdr", "fdr": 0.3, "keep_own": keep_own}
        mask = pooled_selection("stepwise", given, federation, 0)
        found = {f"x{i}" for i in np.flatnonzero(mask)}
        assert true | own <= found
        assert len(found - own - true) < 6


class TestGains:
    def test_the_standard_error_is_that_of_other_rows(self):
        """Over many tables the spread of the gain is what the error says."""
        found = []
        for seed in range(60):
            rng = np.random.default_rng(seed)
            own, other = rng.normal(size=(300, 2)), rng.normal(size=(300, 4))
            y = own[:, 0] + 0.4 * other[:, 0] + rng.normal(size=300)
            federation = fs.Federation.vertical({"bank": own, "shop": other}, ("bank", y))
            selector = fs.StepwiseSelector(n_features_to_select=1, random_state=0, **PLAIN)
            found.append(selector.fit(federation).gains_["shop"])
        gains, errors = np.array(found).T
        share = 0.16 / 2.16  # of the variance of the label
        assert gains.mean() == pytest.approx(share, abs=3 * gains.std() / 60**0.5)
        assert errors.mean() == pytest.approx(gains.std(), rel=0.3)

    def test_columns_that_say_nothing_add_nothing(self):
        rng = np.random.default_rng(3)
        gains = []
        for _ in range(30):
            federation = fs.Federation.vertical(
                {"shop": rng.normal(size=(200, 10))}, ("bank", rng.permutation(np.arange(200) % 2))
            )
            selector = fs.StepwiseSelector(n_features_to_select=1, random_state=0, **PLAIN)
            gains.append(selector.fit(federation).gains_["shop"][0])
        assert np.mean(gains) == pytest.approx(0, abs=3 * np.std(gains) / 30**0.5)

    def test_wide_tables_have_none(self):
        rng = np.random.default_rng(3)
        federation = fs.Federation.vertical(
            {"shop": rng.normal(size=(60, 10))}, ("bank", np.arange(60) % 2)
        )
        selector = fs.StepwiseSelector(n_features_to_select=1, random_state=0, **PLAIN)
        assert selector.fit(federation).gains_ == {}


class TestColumns:
    @pytest.fixture
    def federation(self):
        rng = np.random.default_rng(5)
        y = rng.permutation(np.arange(200) % 2)
        frame = pd.DataFrame(
            {
                "region": np.where(
                    y == 1, rng.choice(["a", "b"], 200), rng.choice(["b", "c"], 200)
                ),
                "spend": np.where(rng.random(200) < 0.2, np.nan, rng.normal(size=200)),
                "same": 1.0,
                "noise": rng.normal(size=200),
            }
        )
        return fs.Federation.vertical({"shop": frame}, ("bank", pd.Series(y, name="y")))

    def test_categories_and_missing_values(self, federation):
        design = make_design(federation.tables["shop"], 200, 5)
        assert design.widths.tolist() == [3, 2, 0, 1]
        assert np.allclose(design.values.mean(axis=0), 0)
        assert np.allclose((design.values**2).sum(axis=0), 1)
        selector = fs.StepwiseSelector(n_features_to_select=1, random_state=0)
        check_equal(selector, federation)
        assert selector.added_ == [("shop", "region")]
        assert selector.result_.ranking["shop"]["same"] == 4

    def test_two_categories_are_one_column(self):
        frame = pd.DataFrame({"paid": ["yes", "no"] * 30})
        table = fs.PartyTable.from_any(frame, name="shop")
        assert make_design(table, 60, 5).widths.tolist() == [1]

    def test_columns_that_lean_on_few_rows_take_no_part(self):
        rng = np.random.default_rng(0)
        y = np.arange(100) % 2
        frame = pd.DataFrame(
            {"debt": np.where(np.arange(100) == 7, 1e6, 0.0) + y, "age": rng.normal(size=100)}
        )
        federation = fs.Federation.vertical({"shop": frame}, ("bank", pd.Series(y, name="y")))
        selector = fs.StepwiseSelector(n_features_to_select=1, random_state=0, **PLAIN)
        result = selector.fit(federation).result_
        assert result.selected["shop"] == ("age",)
        assert any("too few rows make up" in text for text in result.warnings)

    def test_those_of_the_label_holder_stay_at_home(self):
        X, y = correlated(100, 4)
        X[:, 0] = np.arange(100) == 3
        federation = fs.split_vertical(X, y, [[0, 1], [2, 3]], random_state=0)
        settings = {"n_features_to_select": 1, "random_state": 0, **PLAIN}
        result = fs.StepwiseSelector(**settings).fit(federation).result_
        assert "party-1: 1 columns that too few rows make up take no part." in result.warnings
        kept = [entry["feature"] for entry in result.history if entry.get("step") == "keep"]
        assert kept == ["x1"]
        assert set(result.selected["party-1"]) == {"x0", "x1"}
        with pytest.raises(PolicyViolation, match="1/5 of the squared length of 'x0'") as error:
            fs.StepwiseSelector(keep_own=False, adjust=["x0"], **settings).fit(federation)
        assert "Nothing was sent" in str(error.value)

    def test_contrasts_are_orthonormal_and_span_the_classes(self):
        codes = np.random.default_rng(0).integers(0, 4, 90)
        labels = label_columns(Target.from_values(codes))
        np.testing.assert_allclose(labels.T @ labels, np.eye(3), atol=1e-12)
        np.testing.assert_allclose(labels.mean(axis=0), 0, atol=1e-12)
        assert len(np.unique(labels.round(9), axis=0)) == 4
        copies = shuffle_rows(labels, 2, np.random.default_rng(1))
        np.testing.assert_allclose(copies[:, :3].T @ copies[:, :3], np.eye(3), atol=1e-12)

    def test_a_label_that_does_not_vary(self):
        with pytest.raises(ParameterError, match="same number in every row"):
            label_columns(Target("numbers", values=np.ones(9)))


class TestRefused:
    def run(self, federation, twin, **settings):
        params = Params(n_features_to_select=2, scheme="plain", seed=0, **settings)
        nodes = label_holder.build_nodes(
            federation.tables, federation.label_holder, federation.target, federation.n_rows, params
        )
        twin(nodes)
        return run_local(label_holder.PROTOCOL, nodes, protected=False)

    @pytest.fixture
    def federation(self):
        X, y = correlated(100, 6)
        return fs.split_vertical(X, y, [[0, 1, 2], [3, 4, 5]], label_holder=None)

    def test_more_products_than_rows_allow(self):
        X, y = correlated(60, 10)
        federation = fs.split_vertical(X, y, [range(8), [8, 9]], random_state=0)
        with pytest.raises(PolicyViolation, match="8 products of every column"):
            fs.StepwiseSelector(n_features_to_select=1, random_state=0).fit(federation)

    def test_products_that_columns_cannot_have(self, federation):
        def longer(nodes):
            holder = nodes["party-1"][0]
            holder._columns = 3 * holder._values()

        with pytest.raises(PartyFailed, match="party-1"):
            self.run(federation, longer, own_columns=False)

    def test_a_column_is_multiplied_once(self, federation):
        def again(nodes):
            nodes["party-1"][0]._wanted.update(range(3))
            nodes["party-2"][0]._wanted.update(range(3))

        with pytest.raises(PartyFailed, match="second time"):
            self.run(federation, again, own_columns=False)

    def test_what_a_policy_has_to_name(self):
        X, y = correlated(100, 4)
        federation = fs.split_vertical(X, y, 2, random_state=0)
        with pytest.raises(PolicyViolation, match="numeric-scores"):
            fs.StepwiseSelector(n_features_to_select=1, policy=fs.Policy()).fit(federation)
        named = fs.Policy(may_reveal=("basic", "products"))
        alone = fs.split_vertical(X, y, 2, label_holder=None, random_state=0)
        fs.StepwiseSelector(n_features_to_select=1, policy=named).plan(alone)
        X, y = numbers(100, 4)
        alone = fs.split_vertical(X, y, 2, label_holder=None, random_state=0)
        with pytest.raises(PolicyViolation, match="numeric-scores"):
            fs.StepwiseSelector(n_features_to_select=1, policy=named).plan(alone)


def test_p_values_and_q_values_are_kept():
    X, y = correlated(160, 8)
    result = fs.StepwiseSelector(n_features_to_select=2, random_state=0, **PLAIN).fit(X, y).result_
    for values in (result.p_values, result.q_values):
        assert {p: set(own) for p, own in values.items()} == {
            p: set(own) for p, own in result.scores.items()
        }
        assert all(0 <= value <= 1 for own in values.values() for value in own.values())
