"""Parties with different rows open no small count, whatever the coordinator says."""

import msgspec
import numpy as np
import pytest

import fedsift as fs
from fedsift.data import PartyTable, Target
from fedsift.engine import run_local
from fedsift.errors import PartyFailed, PolicyViolation
from fedsift.methods.filter import coordinator as filters
from fedsift.methods.filter import horizontal_messages as messages
from fedsift.methods.filter.course import Tables, join_groups
from fedsift.methods.filter.pooled import pooled_scores
from fedsift.methods.filter.ranking import Params
from fedsift.protocol import PublicArray

N = 90
TEN = fs.Policy(min_class_size=10, min_bin_size=10)
BINNED = ["gini", "mi", "iv", "chi2"]


def federation(X, y, parties=3):
    shares = np.array_split(np.arange(len(X)), parties)
    return fs.Federation.horizontal({f"h{i}": (X[rows], y[rows]) for i, rows in enumerate(shares)})


def normal(seed=0, n_columns=4):
    return np.random.default_rng(seed).normal(size=(N, n_columns))


def play(X, y, score, parties=3, **settings):
    """A run of the roles; the coordinator as it is at the end."""
    params = Params(score, 1, **{"min_class_size": 5, **settings})
    own = federation(X, y, parties)
    nodes = filters.build_nodes(own.tables, own.targets, params)
    outcome = run_local(filters.PROTOCOL, nodes, keep_frames=True)
    return nodes["coordinator"][0], outcome


def opened_tables(coordinator, n_columns, n_classes):
    return np.array(coordinator._totals).reshape(n_columns, -1, n_classes)


class Liar:
    """A coordinator's network that changes what it sends."""

    def __init__(self, net, change):
        self._net, self._change = net, change

    def __getattr__(self, name):
        return getattr(self._net, name)

    async def ask(self, role, message, reply, **options):
        return await self._net.ask(role, self._change(message), reply, **options)


def lied_to(monkeypatch, change, score="gini", X=None, y=None):
    """How a run ends whose coordinator changes messages; its codes and the last total."""
    drive, seen = filters.Coordinator.drive, []

    async def lie(self, net):
        seen.append(self)
        return await drive(self, Liar(net, change))

    monkeypatch.setattr(filters.Coordinator, "drive", lie)
    X, y = (normal() if X is None else X), (np.arange(N) % 2 if y is None else y)
    with pytest.raises(PartyFailed) as caught:
        play(X, y, score)
    return caught.value, seen[0]


class TestLies:
    def changing(self, kind, **fields):
        def change(message):
            if not isinstance(message, kind):
                return message
            found = {name: make(message) for name, make in fields.items()}
            return msgspec.structs.replace(message, **found)

        return change

    def test_totals_that_are_wrong_end_the_run(self, monkeypatch):
        def wrong(message):
            totals = message.totals.array().copy()
            if len(totals) > 1:
                totals[0] += 1
            return PublicArray.of(totals)

        error, liar = lied_to(monkeypatch, self.changing(messages.CountsBelow, totals=wrong))
        assert error.cause_code == "E307"
        assert "tampers with the run" in str(error) or "not the sums" in str(error)
        assert not liar._totals

    @pytest.mark.parametrize("score", ["gini", "f", "chi2"])
    def test_a_small_class_cannot_be_denied(self, monkeypatch, score):
        def deny(message):
            return PublicArray.of(np.zeros_like(message.small.array()))

        answer = filters.Coordinator._answer

        async def silent(self, course, net):
            small = await answer(self, course, net)
            return np.zeros_like(small) if small.dtype == bool else small

        monkeypatch.setattr(filters.Coordinator, "_answer", silent)
        y = (np.arange(N) < 1).astype(int)
        change = self.changing(messages.Due, small=deny)
        error, liar = lied_to(monkeypatch, change, score, y=y)
        assert error.cause_code == "E307"
        assert not liar._totals

    def test_a_small_cell_cannot_be_denied(self, monkeypatch):
        y, X = np.arange(N) % 2, normal()
        X[:, 0] = np.where(np.arange(N) < 2, 1 - 2 * y, 2 * y - 1)  # one row of each class astray

        def deny(message):
            return PublicArray.of(np.zeros_like(message.small.array()))

        change = self.changing((messages.CellsWanted, messages.TablesWanted), small=deny)
        error, liar = lied_to(monkeypatch, change, X=X, y=y)
        assert error.cause_code == "E307"
        assert not liar._totals

    @pytest.mark.parametrize("step", [-1, 0, 1, 7])
    def test_no_step_comes_twice_or_early(self, monkeypatch, step):
        asked = []

        def change(message):
            if isinstance(message, messages.CountsBelow):
                asked.append(message)
                if len(asked) == 4:
                    return msgspec.structs.replace(message, step=step)
            return message

        error, _ = lied_to(monkeypatch, change)
        assert "answer what is due, once" in str(error) or "asks for step" in str(error)

    def test_members_that_are_told_different_things_cannot_be_added_up(self, monkeypatch):
        X = np.abs(normal())

        def change(message):
            if isinstance(message, dict) and "h1" in message:
                one = message["h1"]
                if isinstance(one, messages.Roster):
                    return {**message, "h1": msgspec.structs.replace(one, frequencies=False)}
            return message

        error, liar = lied_to(monkeypatch, change, "chi2", X=X)
        assert "asks for" in str(error)
        assert not liar._totals

    def test_columns_that_are_no_frequencies_are_not_added_up_as_such(self, monkeypatch):
        def change(message):
            if isinstance(message, dict):
                return {
                    p: msgspec.structs.replace(one, frequencies=True)
                    if isinstance(one, messages.Roster)
                    else one
                    for p, one in message.items()
                }
            return message

        error, _ = lied_to(monkeypatch, change, "chi2")
        assert "sums of frequencies" in str(error)


class TestCells:
    @pytest.mark.parametrize("score", BINNED)
    def test_no_cell_is_opened_that_is_small(self, score):
        X, y = normal(1), np.arange(N) % 3
        X[:, 0] += 2 * y
        X[::11, 1] = np.nan
        coordinator, _ = play(X, y, score)
        tables = opened_tables(coordinator, 4, 3)
        assert (tables.sum(axis=(1, 2)) == N).all()
        assert ((tables == 0) | (tables >= 5)).all()
        assert (tables.sum(axis=2) > 0).sum() > 4

    @pytest.mark.parametrize("score", BINNED)
    def test_two_single_rows_are_merged_with_the_others(self, score):
        y = np.arange(60) % 2
        X = np.where(np.arange(60) < 2, 1 - 2 * y, 2 * y - 1)[:, None] + np.zeros((60, 1))
        selector = fs.FilterSelector(score, n_features_to_select=1, bins=[0.0], min_bin_size=10,
                                     policy=TEN)  # fmt: skip
        selector.fit(federation(X, y))
        assert "were merged" in " ".join(selector.result_.warnings)
        coordinator, _ = play(X, y, score, bins=[0.0], min_class_size=10)
        tables = opened_tables(coordinator, 1, 2)
        assert tables[tables > 0].tolist() == [30, 30]

    def test_large_and_empty_cells_need_no_permission(self):
        y = np.arange(N) % 2
        X = np.hstack([(2.0 * y - 1)[:, None], np.sign(normal(2, 2))])
        found = fs.FilterSelector("gini", n_features_to_select=1, policy=TEN, min_bin_size=10,
                                  bins=[0.0]).fit(federation(X, y))  # fmt: skip
        assert found.scores_[0] == 0.0
        assert found.get_support().tolist() == [True, False, False]
        assert not found.result_.warnings

    def test_small_cells_are_opened_where_all_policies_name_them(self):
        X, y = normal(1), np.arange(N) % 3
        named = fs.Policy(may_reveal=("basic", "counts", "schema", "pooled-quantiles",
                                      "pooled-sizes", "pooled-sums", "selection"))  # fmt: skip
        for policies, opened in (
            ({"h0": named, "h1": named, "h2": named}, True),
            ({"h0": named, "h1": named, "h2": fs.Policy()}, False),
        ):
            chosen = fs.FilterSelector("mi", n_features_to_select=1, policy=policies)
            result = chosen.fit(federation(X, y)).result_
            assert ("bin-counts" in {row.kind for row in result.disclosures}) == opened
            planned = chosen.plan(federation(X, y)).disclosures
            assert ("bin-counts" in {row.kind for row in planned}) == opened
        coordinator, _ = play(X, y, "mi", small_cells=True)
        tables = opened_tables(coordinator, 4, 3)
        assert ((tables > 0) & (tables < 5)).any()
        sizes = tables.sum(axis=2)
        assert ((sizes == 0) | (sizes >= 15)).all()

    def test_bins_are_as_large_as_policies_want(self):
        coordinator, _ = play(normal(3), np.zeros(N, int) + (np.arange(N) % 2), "mi",
                              min_bin_size=20)  # fmt: skip
        sizes = opened_tables(coordinator, 4, 2).sum(axis=2)
        assert ((sizes == 0) | (sizes >= 20)).all()

    def test_neighbours_join_until_none_is_alone(self):
        assert join_groups(np.array([True, False, True]), ordered=True).tolist() == [0, 0, 0]
        assert join_groups(np.array([True, True, True, True]), ordered=True).tolist() == [
            0,
            0,
            1,
            1,
        ]
        assert join_groups(np.array([True, False, False]), ordered=False).tolist() == [1, 0, 1]

    def test_what_is_known_of_bins_is_that_cells_are_small(self):
        """Neither sizes of bins nor counts of classes are opened before the tables."""
        _, outcome = play(normal(4), np.arange(N) % 2, "gini", bins=[-0.5, 0.5])
        kinds = [entry.message for entry in outcome.transcript.view("coordinator")]
        assert "MaskedCounts" not in kinds
        assert kinds.count("MaskedSums") == 3
        told = {entry.message for entry in outcome.transcript.view("h0")}
        assert "CountsBelow" not in told


class TestValues:
    def test_a_column_with_one_value_in_a_class_is_left_out_and_named(self):
        X, y = normal(5), np.arange(60) % 2
        X = X[:60]
        X[np.flatnonzero(y == 1)[1:], 2] = np.nan
        found = fs.FilterSelector("f", n_features_to_select=1, policy=TEN).fit(federation(X, y))
        assert found.scores_[2] == 0.0
        assert (found.scores_[[0, 1, 3]] > 0).all()
        assert "'x2'" in " ".join(found.result_.warnings)
        coordinator, _ = play(X, y, "f", min_class_size=10)
        assert coordinator.course.request.columns == (0, 1, 3)

    def test_a_run_without_any_column_is_refused(self):
        X, y = np.full((60, 2), np.nan), np.arange(60) % 2
        X[[0, 1, 30, 31]] = [[1.0, 2.0], [2.0, 3.0], [1.0, 5.0], [4.0, 3.0]]
        with pytest.raises(PolicyViolation, match="In every column fewer than 10 rows"):
            fs.FilterSelector("f", n_features_to_select=1, policy=TEN).fit(federation(X, y, 2))

    @pytest.mark.parametrize("n_missing", [1, 30])
    def test_numeric_labels_of_the_few_rows_without_a_value_are_not_told(self, n_missing):
        X = normal(6)
        y = np.sign(X[:, 0]) + np.random.default_rng(0).uniform(-1, 1, N)  # no row stands out
        X[:: N // n_missing, 1] = np.nan
        found = fs.FilterSelector("f", n_features_to_select=1).fit(federation(X, y))
        assert (found.scores_[1] == 0.0) == (n_missing == 1)
        assert ("'x1'" in " ".join(found.result_.warnings)) == (n_missing == 1)

    @pytest.mark.parametrize("score", ["variance", "f", "gini"])
    def test_members_of_a_single_row_do_not_take_part(self, score):
        X, y = normal(7)[:6], np.arange(6) % 2
        own = fs.Federation.horizontal({f"h{i}": (X[[i]], y[[i]]) for i in range(6)})
        with pytest.raises(PolicyViolation, match="A party has fewer than 5 rows"):
            fs.FilterSelector(score, n_features_to_select=1).fit(own)

    def test_variances_of_few_values_are_not_told(self):
        X = normal(8)
        X[np.arange(N) % 30 > 0, 0] = np.nan  # every party has one value
        found = fs.FilterSelector("variance", n_features_to_select=1).fit(
            federation(X, np.arange(N) % 2)
        )
        assert found.scores_[0] == 0.0
        assert np.allclose(found.scores_[1:], X[:, 1:].var(axis=0))


class TestNumericLabelsAndFrequencies:
    def test_chi2_cuts_the_label_into_classes(self):
        X = np.abs(normal(9))
        y = 3 * X[:, 0] + np.random.default_rng(1).normal(size=N)
        found = fs.FilterSelector("chi2", n_features_to_select=1).fit(federation(X, y))
        table, target = PartyTable.from_any(X, name="all"), Target.from_values(y)
        wanted = pooled_scores(table, target, Params("chi2", min_class_size=5)).values
        assert np.allclose(found.scores_, wanted, rtol=1e-9)
        assert found.get_support().tolist() == [True, False, False, False]

    def test_its_classes_are_about_quarters(self):
        X = np.abs(normal(10))
        y = np.random.default_rng(2).normal(size=N)
        coordinator, _ = play(X, y, "gini")
        request = coordinator.course.request
        assert isinstance(request, Tables)
        sizes = np.bincount(np.searchsorted(request.target_edges, y))
        assert len(sizes) == 4
        assert sizes.min() >= 12
