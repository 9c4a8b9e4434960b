# SPDX-FileCopyrightText: The fedsift authors
"""Members with different rows find together what regressions on all rows say, and tell no more."""

import msgspec
import numpy as np
import pandas as pd
import pytest

import fedsift as fs
from fedsift.crypto.masking import unmask_sum
from fedsift.data import PartyTable, Target
from fedsift.engine import run_local
from fedsift.errors import FedsiftError, ParameterError, PartyFailed, PolicyViolation
from fedsift.methods.stepwise import coordinator as stepwise
from fedsift.methods.stepwise import horizontal_messages as messages
from fedsift.methods.stepwise.messages import Params
from fedsift.methods.stepwise.own_rows import as_products
from fedsift.methods.stepwise.pooled import search_rows
from fedsift.protocol import PublicArray
from helpers.runs import received


def sites(n_sites, n_classes=0, n_rows=240, n_columns=6, seed=0):
    """Columns whose means differ between sites, labels, and whose each row is."""
    rng = np.random.default_rng(seed)
    where = rng.permutation(np.arange(n_rows) % n_sites)
    values = rng.normal(size=(n_rows, n_columns)) @ rng.normal(size=(n_columns, n_columns))
    effect = values[:, 1] / values[:, 1].std() - 0.7 * values[:, 4] / values[:, 4].std()
    effect = effect + 0.7 * rng.normal(size=n_rows)
    y = effect if not n_classes else np.argsort(np.argsort(effect)) * n_classes // n_rows
    return values + 10.0 * where[:, None], y, where


def nodes_of(X, y, where, forced=(), **settings):
    params = Params(**{"n_features_to_select": 3, "ridge": 0.3, "min_class_size": 5, **settings})
    tables, targets = {}, {}
    for site in np.unique(where):
        rows = where == site
        own = X[rows] if isinstance(X, np.ndarray) else X.loc[rows].reset_index(drop=True)
        tables[f"site-{site}"] = PartyTable.from_any(own, name=f"site-{site}")
        targets[f"site-{site}"] = Target.from_values(y[rows])
    return stepwise.build_nodes(tables, targets, params, forced)


def play(X, y, where, forced=(), **settings):
    nodes = nodes_of(X, y, where, forced, **settings)
    return run_local(stepwise.PROTOCOL, nodes, keep_frames=True), nodes


def within_sites(columns, where):
    """What regressions on indicators of the sites leave."""
    sites = np.eye(where.max() + 1)[where]
    q, _ = np.linalg.qr(sites)
    return columns - q @ (q.T @ columns)


def expected_f(X, y, where, inside, candidate, n_classes):
    """Partial F given the sites and the columns inside: by residuals, or by determinants."""
    n_labels = max(1, n_classes - 1)
    labels = np.eye(n_classes)[y][:, :-1] if n_classes else y[:, None]

    def left(columns):
        rest = within_sites(labels, where)
        if columns:
            q, _ = np.linalg.qr(within_sites(X[:, columns], where))
            rest = rest - q @ (q.T @ rest)
        return np.linalg.det(rest.T @ rest)

    share = 1 - left([*inside, candidate]) / left(inside)
    degrees = len(X) - where.max() - 1 - n_labels - len(inside)
    return share / (1 - share) * degrees / n_labels


@pytest.mark.parametrize("n_sites", [2, 3, 5])
@pytest.mark.parametrize("n_classes", [0, 2, 6])
def test_statistics_are_those_of_regressions_on_all_rows(n_sites, n_classes):
    X, y, where = sites(n_sites, n_classes)
    outcome, _ = play(X, y, where)
    found, inside = outcome.value, []
    assert len(found.steps) == 3
    for step in found.steps:
        _, column = step["feature"]
        expected = expected_f(X, y, where, inside, column, n_classes)
        assert step["score"] == pytest.approx(expected, rel=1e-6)
        inside.append(column)
    assert found.selected == {"all": tuple(sorted(inside))}
    for column in set(range(6)) - set(inside):
        expected = expected_f(X, y, where, inside, column, n_classes)
        assert found.scores["all"][column] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("scheme", ["bgv", "plain"])
@pytest.mark.parametrize(("n_sites", "n_classes"), [(2, 2), (3, 26), (5, 0)])
def test_masked_sums_select_what_pooled_rows_select(scheme, n_sites, n_classes):
    X, y, where = sites(n_sites, n_classes, n_rows=400)
    X[::9, 2] = np.nan
    outcome, _ = play(X, y, where, scheme=scheme)
    federation = fs.Federation.horizontal(
        {f"site-{s}": (X[where == s], y[where == s]) for s in range(n_sites)},
        task="classification" if n_classes else "regression",
    )
    pooled = search_rows(federation, Params(n_features_to_select=3, ridge=0.3, min_class_size=5))
    for mine, theirs in zip(outcome.value.steps, pooled.steps, strict=True):
        assert mine["feature"] == theirs["feature"]
        for name in ("score", "p_value", "q_value", "adds", "redundancy"):
            assert mine[name] == pytest.approx(theirs[name], rel=1e-6)
    assert np.allclose(outcome.value.scores["all"], pooled.scores["all"], rtol=1e-6)


@pytest.mark.parametrize("n_sites", [2, 3])
def test_survival_times_are_compared_within_sites(n_sites):
    """Each site takes residuals of its own model: a score test that is stratified by site."""
    X, effect, where = sites(n_sites, n_rows=300)
    rng = np.random.default_rng(1)
    pairs = np.empty(len(X), dtype=[("event", bool), ("time", float)])
    pairs["time"] = rng.exponential(np.exp(-effect)) * (1 + where)
    pairs["event"] = rng.uniform(size=len(X)) < 0.7
    federation = fs.Federation.horizontal(
        {f"site-{s}": (X[where == s], pairs[where == s]) for s in range(n_sites)}
    )
    settings = {"n_features_to_select": 3, "ridge": 0.3}
    selector = fs.StepwiseSelector(**settings, random_state=0).fit(federation)
    pooled = search_rows(federation, Params(**settings, min_class_size=5))
    told = [entry for entry in selector.result_.history if entry.get("step") == "add"]
    residuals = np.empty(len(X))
    for s in range(n_sites):
        residuals[where == s] = federation.targets[f"site-{s}"].values
    inside = []
    for mine, theirs in zip(told, pooled.steps, strict=True):
        column = theirs["feature"][1]
        assert mine["feature"] == f"x{column}"
        for name in ("score", "p_value", "q_value", "adds", "redundancy"):
            assert mine[name] == pytest.approx(theirs[name], rel=1e-6)
        expected = expected_f(X, residuals, where, inside, column, 0)
        assert mine["score"] == pytest.approx(expected, rel=1e-6)
        inside.append(column)


class TestFalseDiscoveries:
    """Knockoffs are made of products of all columns; nobody has all rows."""

    @pytest.mark.parametrize(("n_sites", "n_classes"), [(2, 0), (3, 2), (5, 4)])
    def test_masked_sums_keep_what_pooled_rows_keep(self, n_sites, n_classes):
        X, y, where = sites(n_sites, n_classes, n_rows=500, n_columns=8)
        settings = {"n_features_to_select": "fdr", "fdr": 0.5, "seed": 3, "ridge": None}
        outcome, _ = play(X, y, where, forced=(2,), **settings)
        federation = fs.Federation.horizontal(
            {f"site-{s}": (X[where == s], y[where == s]) for s in range(n_sites)},
            task="classification" if n_classes else "regression",
        )
        params = Params(**settings, min_class_size=5)
        found, pooled = outcome.value, search_rows(federation, params, frozenset({2}))
        assert found.selected == pooled.selected
        assert {1, 4} & set(found.selected["all"])
        for mine, theirs in zip(found.steps, pooled.steps, strict=True):
            assert mine["feature"] == theirs["feature"]
            assert mine["score"] == pytest.approx(theirs["score"], rel=1e-6)
        assert np.allclose(found.scores["all"], pooled.scores["all"], rtol=1e-6)

    def test_the_estimator_finds_causes_among_many(self):
        rng = np.random.default_rng(0)
        where, X = np.arange(600) % 3, rng.normal(size=(600, 20))
        frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(20)])
        frame["kind"] = rng.choice(["a", "b", "c"], 600)
        y = X[:, :8] @ rng.choice([-0.5, 0.5], 8) + (frame["kind"] == "b") > rng.normal(size=600)
        federation = fs.Federation.horizontal(
            {f"site-{s}": (frame[where == s], y[where == s]) for s in range(3)}
        )
        selector = fs.StepwiseSelector(n_features_to_select="fdr", fdr=0.2, random_state=0)
        planned = {(d.learner, d.kind) for d in selector.plan(federation).disclosures}
        result = selector.fit(federation).result_
        assert {(d.learner, d.kind) for d in result.disclosures} == planned
        added = {name for _, name in selector.added_}
        assert {f"x{i}" for i in range(8)} | {"kind"} <= added
        assert len(added) < 13

    def test_too_few_rows_are_refused(self):
        X, y, where = sites(2, n_rows=60, n_columns=40)
        with pytest.raises(ParameterError, match="with 58 rows, less a mean"):
            play(X, y, where, n_features_to_select="fdr")

    def test_all_products_are_given_only_where_the_job_says_so(self, monkeypatch):
        def change(message):
            return messages.PairsWanted() if isinstance(message, messages.ColumnWanted) else message

        error, liar = lied_to(monkeypatch, change, *sites(3))
        assert "asks for all products" in str(error)
        assert {type(m) for m in liar.opened} == {messages.MaskedLabelProducts}

    def test_nor_are_those_of_one_column_with_knockoffs(self, monkeypatch):
        def change(message):
            single = isinstance(message, messages.PairsWanted)
            return messages.ColumnWanted(0, 0) if single else message

        error, liar = lied_to(monkeypatch, change, *sites(3), n_features_to_select="fdr")
        assert "asks for column 0" in str(error)
        assert {type(m) for m in liar.opened} == {messages.MaskedLabelProducts}

    def test_one_masked_answer_looks_random(self):
        X, y, where = sites(2, 2)

        def answers():
            outcome, _ = play(X, y, where, n_features_to_select="fdr")
            kind = messages.MaskedPairs
            told = received(outcome, "coordinator", kind, protocol=stepwise.PROTOCOL)
            return [m.sums.array() for m in told]

        here, there = answers(), answers()
        assert len(here) == 2
        assert np.abs(as_products(unmask_sum(here))).max() <= 1 + 1e-9
        words = np.concatenate(here).ravel()
        assert len(np.unique(words >> np.uint64(52))) > 0.9 * len(words)
        assert not set(words.tolist()) & set(np.concatenate(there).ravel().tolist())


def test_the_estimator_takes_rows_and_stops_by_itself():
    X, y, where = sites(3, 2, n_rows=450)
    federation = fs.Federation.horizontal(
        {f"site-{s}": (X[where == s], y[where == s]) for s in range(3)}
    )
    selector = fs.StepwiseSelector(random_state=0)
    planned = {(d.learner, d.about, d.kind) for d in selector.plan(federation).disclosures}
    selector.fit(federation)
    happened = {(d.learner, d.about, d.kind) for d in selector.result_.disclosures}
    assert happened == planned
    assert {kind for *_, kind in happened} == {
        "schema", "pooled-sizes", "pooled-sums", "selection"
    }  # fmt: skip
    added = [name for _, name in selector.added_]
    assert {"x1", "x4"} <= set(added)
    assert selector.n_features_to_select_ == len(added) < 6
    assert selector.result_.crypto == "masked sums"


def test_categories_and_missing_values_have_columns_of_their_own():
    rng = np.random.default_rng(0)
    where, kind = np.arange(300) % 3, rng.choice(["a", "b", "c"], 300)
    frame = pd.DataFrame({"noise": rng.normal(size=300), "kind": kind})
    frame["holes"] = rng.normal(size=300)
    gone = rng.uniform(size=300) < 0.3
    frame.loc[gone, "holes"] = np.nan
    y = ((kind == "b") + gone + 0.3 * rng.normal(size=300) > 0.5).astype(int)
    federation = fs.Federation.horizontal(
        {f"site-{s}": (frame[where == s], y[where == s]) for s in range(3)}
    )
    selector = fs.StepwiseSelector(n_features_to_select=2, random_state=0).fit(federation)
    assert selector.get_support().tolist() == [False, True, True]


def test_a_covariate_is_kept_and_its_copies_add_nothing():
    X, y, where = sites(2)
    X[:, 0] = X[:, 1] + 0.2 * X[:, 1].std() * np.random.default_rng(5).normal(size=len(X))
    federation = fs.Federation.horizontal(
        {f"site-{s}": (X[where == s], y[where == s]) for s in range(2)}
    )
    settings = {"n_features_to_select": 1, "random_state": 0}
    selector = fs.StepwiseSelector(adjust=["x1"], **settings).fit(federation)
    assert [name for _, name in selector.added_] == ["x4"]
    assert selector.get_support(indices=True).tolist() == [1, 4]


class TestPrivacy:
    def test_one_masked_answer_looks_random_and_the_sum_does_not(self):
        X, y, where = sites(2, 2)
        kinds = (messages.MaskedLabelProducts, messages.MaskedProducts)

        def answers():
            outcome, _ = play(X, y, where)
            return [
                m.sums.array()
                for m in received(outcome, "coordinator", *kinds, protocol=stepwise.PROTOCOL)
            ]

        here, there = answers(), answers()
        assert len(here) == 2 * 4
        words = np.concatenate([one.ravel() for one in here])
        # Open products of columns of length 1 are below 2**51: the highest bits would all agree.
        high = words >> np.uint64(52)
        assert len(np.unique(high)) > 0.8 * min(len(words), 4096) * (1 - np.exp(-1)) / 2
        assert not set(words.tolist()) & set(np.concatenate([o.ravel() for o in there]).tolist())
        totals = as_products(unmask_sum(here[:2]))
        assert np.abs(totals).max() <= 1 + 1e-9

    def test_without_masks_they_would_be_open(self):
        X, y, where = sites(2, 2)
        outcome, _ = play(X, y, where, scheme="plain")
        (first, *_) = received(
            outcome, "coordinator", messages.MaskedProducts, protocol=stepwise.PROTOCOL
        )
        assert np.abs(as_products(unmask_sum([first.sums.array()]))).max() <= 1

    def test_a_member_learns_no_product(self):
        X, y, where = sites(3, 2)
        outcome, _ = play(X, y, where)
        told = outcome.transcript.messages("site-0", stepwise_codec(), list(messages.MESSAGES))
        arrays = [m for m in told if isinstance(m, messages.Due) and m.totals.array().size]
        assert [type(m) for m in arrays] == [messages.LeaningWanted]
        assert not any(
            isinstance(
                m, messages.MaskedProducts | messages.MaskedLabelProducts | messages.Greeting
            )
            for m in told
        )

    def test_the_coordinator_gets_no_size_of_a_class(self):
        X, y, where = sites(3, 2)
        for_real, _ = play(X, y, where)
        hidden = received(
            for_real, "coordinator", messages.HiddenCounts, protocol=stepwise.PROTOCOL
        )
        assert len(hidden) == 6
        sizes = np.bincount(y)
        assert not any(size in m.residues.array() for m in hidden for size in sizes.tolist())


def stepwise_codec():
    from fedsift.protocol import Codec

    return Codec(stepwise.PROTOCOL.messages)


class TestFewRows:
    """What would tell the values of single rows is left out, or ends the run."""

    def marked(self, smallest):
        """A column that marks one row: its products with others are that row's values."""
        X, y, where = sites(3)
        X = within_sites(X, where)
        X[:, 0] = 0.0
        X[7, 0] = 1000.0
        nodes = nodes_of(X, y, where, min_class_size=smallest, n_features_to_select=6, ridge=0.0)
        outcome = run_local(stepwise.PROTOCOL, nodes)
        coordinator = nodes["coordinator"][0]
        return X, coordinator, outcome.value

    def test_a_column_that_marks_a_row_reads_it(self, monkeypatch):
        add, seen = stepwise.ForwardSearch.add, []

        def note(self, column, products, **options):
            seen.append((column, np.array(products)))
            return add(self, column, products, **options)

        monkeypatch.setattr(stepwise.ForwardSearch, "add", note)
        X, _, _ = self.marked(1)
        products = dict(seen)[0]
        lengths = np.linalg.norm(X[:, 1:], axis=0)
        assert np.allclose(products[1:], X[7, 1:] / lengths, atol=0.02)
        seen.clear()
        _, coordinator, found = self.marked(5)
        assert not coordinator.agreed.kept[0]
        assert coordinator.agreed.n_leaning == 1
        assert found.scores["all"][0] == 0.0
        assert all(len(products) == 5 for _, products in seen)

    def test_a_label_that_marks_a_row_ends_the_run(self):
        X, y, where = sites(3)
        y[3] = 1e6
        with pytest.raises(PolicyViolation, match="share of 1/5") as caught:
            play(X, y, where)
        assert "1000000" not in str(caught.value)

    def test_a_class_that_few_rows_have_ends_the_run(self):
        X, y, where = sites(3, 2)
        y = np.where(np.arange(len(y)) < 4, 1, 0)
        federation = fs.Federation.horizontal(
            {f"site-{s}": (X[where == s], y[where == s]) for s in range(3)}
        )
        with pytest.raises(FedsiftError, match="fewer than 5 rows"):
            fs.StepwiseSelector(random_state=0).fit(federation)

    def test_a_category_that_few_rows_have_takes_no_part(self):
        X, y, where = sites(3, 2)
        frame = pd.DataFrame(X[:, :3], columns=["a", "b", "c"])
        frame["kind"] = np.where(np.arange(len(y)) < 3, "rare", np.where(y > 0, "yes", "no"))
        federation = fs.Federation.horizontal(
            {f"site-{s}": (frame[where == s], y[where == s]) for s in range(3)}
        )
        selector = fs.StepwiseSelector(n_features_to_select=1, random_state=0).fit(federation)
        assert selector.get_support().tolist() == [False, False, False, True]
        assert "1 categories or missing values of few rows" in " ".join(selector.result_.warnings)


class Liar:
    """A coordinator's network that changes what it sends."""

    def __init__(self, net, change):
        self._net, self._change, self.opened = net, change, []

    def __getattr__(self, name):
        return getattr(self._net, name)

    async def ask(self, role, message, reply, **options):
        told = await self._net.ask(role, self._change(message), reply, **options)
        self.opened += [m for m in told if hasattr(m, "sums")]
        return told


def lied_to(monkeypatch, change, X, y, where, **settings):
    drive, liars = stepwise.Coordinator.drive, []

    async def lie(self, net):
        liars.append(Liar(net, change))
        return await drive(self, liars[-1])

    monkeypatch.setattr(stepwise.Coordinator, "drive", lie)
    with pytest.raises(PartyFailed) as caught:
        play(X, y, where, **settings)
    return caught.value, liars[0]


def changing(kind, **fields):
    def change(message):
        if not isinstance(message, kind):
            return message
        found = {name: make(getattr(message, name)) for name, make in fields.items()}
        return msgspec.structs.replace(message, **found)

    return change


class TestLies:
    def test_longer_columns_than_there_are_end_the_run(self, monkeypatch):
        """With long columns no row would make up too much of one."""

        def longer(totals):
            found = totals.array().copy()
            if len(found) > 1:
                found[1:-1] += 1
            return PublicArray.of(found)

        change = changing(messages.LeaningWanted, totals=longer)
        error, liar = lied_to(monkeypatch, change, *sites(3))
        assert error.cause_code == "E307"
        assert not liar.opened

    @pytest.mark.parametrize("kind", [messages.LengthsWanted, messages.LabelsWanted])
    def test_small_counts_cannot_be_denied(self, monkeypatch, kind):
        X, y, where = sites(3, 2)
        X[:, 0] = np.where(np.arange(len(X)) == 7, 1e3, 0.0)
        y = y if kind is messages.LabelsWanted else (np.arange(len(y)) < 3).astype(int)
        answer = stepwise.Coordinator._answer

        async def silent(self, course, net):
            found = await answer(self, course, net)
            return np.zeros_like(found) if found.dtype == bool else found

        monkeypatch.setattr(stepwise.Coordinator, "_answer", silent)
        change = changing(kind, small=lambda small: PublicArray.of(np.zeros_like(small.array())))
        if kind is messages.LabelsWanted:
            error, liar = lied_to(monkeypatch, change, X, y, where)
        else:
            error, liar = lied_to(monkeypatch, change, X, classes_everywhere(y, where), where)
        assert error.cause_code == "E307"
        assert not liar.opened

    def test_products_are_not_given_before_the_checks(self, monkeypatch):
        def change(message):
            if isinstance(message, messages.LengthsWanted):
                return messages.LabelsWanted(
                    message.step, message.after, message.totals, message.small, message.proof
                )
            return message

        error, liar = lied_to(monkeypatch, change, *sites(3))
        assert "asks for LabelsWanted" in str(error)
        assert not liar.opened

    @pytest.mark.parametrize("column", [-1, 10_000])
    def test_columns_that_take_no_part_have_no_products(self, monkeypatch, column):
        change = changing(messages.ColumnWanted, column=lambda _: column)
        error, liar = lied_to(monkeypatch, change, *sites(3))
        assert "asks for column" in str(error)
        assert {type(m) for m in liar.opened} == {messages.MaskedLabelProducts}

    def test_no_column_is_asked_for_twice(self, monkeypatch):
        change = changing(messages.ColumnWanted, column=lambda _: 1)
        error, _ = lied_to(monkeypatch, change, *sites(3))
        assert "asks for column 1" in str(error)

    def test_members_told_of_different_columns_cannot_be_added_up(self, monkeypatch):
        X, y, where = sites(2)
        ask = stepwise.ForwardSearch.add
        seen = []

        def note(self, column, products, **options):
            seen.append(np.array(products))
            return ask(self, column, products, **options)

        monkeypatch.setattr(stepwise.ForwardSearch, "add", note)

        def change(message):
            if isinstance(message, messages.ColumnWanted):
                other = msgspec.structs.replace(message, column=(message.column + 1) % 6)
                return {"site-0": message, "site-1": other}
            return message

        drive = stepwise.Coordinator.drive

        async def lie(self, net):
            return await drive(self, Liar(net, change))

        monkeypatch.setattr(stepwise.Coordinator, "drive", lie)
        play(X, y, where, n_features_to_select=1)
        # Masks of different contexts do not cancel: what is opened is noise.
        assert np.abs(seen[0]).max() > 10


def classes_everywhere(y, where):
    """Both classes at every site, one of them with three rows in all."""
    y = np.zeros_like(y)
    for site in np.unique(where):
        y[np.flatnonzero(where == site)[0]] = 1
    return y
