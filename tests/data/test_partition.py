# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pandas as pd
import pytest

from fedsift.data import split_horizontal, split_vertical
from fedsift.errors import (
    AlignmentError,
    ColumnError,
    ParameterError,
    PartyError,
    ValueProblem,
)


@pytest.fixture
def Xy():
    rng = np.random.default_rng(0)
    return rng.normal(size=(60, 7)), np.arange(60) % 3


class TestVertical:
    def test_blocks_without_seed(self, Xy):
        fed = split_vertical(*Xy, parties=3)

        assert fed.parties == ("party-1", "party-2", "party-3")
        assert fed.column_order == {
            "party-1": (0, 1, 2),
            "party-2": (3, 4),
            "party-3": (5, 6),
        }
        assert fed.label_holder == "party-1"
        assert fed.target.n_classes == 3
        np.testing.assert_array_equal(fed.tables["party-2"].numeric_matrix(), Xy[0][:, 3:5])

    def test_seed_deals_columns_out(self, Xy):
        one, two = (split_vertical(*Xy, parties=3, random_state=4) for _ in range(2))
        other = split_vertical(*Xy, parties=3, random_state=np.random.default_rng(5))

        assert one.column_order == two.column_order
        assert one.column_order != other.column_order
        assert sorted(sum(other.column_order.values(), ())) == list(range(7))
        assert all(list(share) == sorted(share) for share in one.column_order.values())

    def test_original_support(self, Xy):
        fed = split_vertical(*Xy, parties=3, random_state=1)

        for party, columns in fed.column_order.items():
            names = [f"x{column}" for column in columns]
            assert fed.tables[party].feature_names == tuple(names)
            assert np.flatnonzero(fed.original_support({party: names})).tolist() == list(columns)

    def test_old_random_state(self, Xy):
        old = np.random.RandomState(0)
        assert split_vertical(*Xy, random_state=old).n_features == 7

    def test_column_lists_keep_frame_names(self, Xy):
        frame = pd.DataFrame(Xy[0], columns=list("abcdefg"))

        fed = split_vertical(
            frame, Xy[1], [["g", "a", "b"], [2, 3, 4, 5]], names=["bank", "shop"], label_holder=1
        )

        assert fed.tables["bank"].feature_names == ("a", "b", "g")
        assert fed.label_holder == "shop"
        assert fed.original_support({"bank": ["g"]}).tolist() == [False] * 6 + [True]

    def test_label_holder(self, Xy):
        assert split_vertical(*Xy, label_holder="party-2").label_holder == "party-2"
        own = split_vertical(*Xy, label_holder=None)
        assert own.parties == ("party-1", "party-2", "label-holder")
        assert own.label_holder == "label-holder"
        assert "label-holder" not in own.tables
        assert split_vertical(Xy[0], label_holder=None).parties == ("party-1", "party-2")

    def test_lists_and_categories(self):
        fed = split_vertical([[1, 2], [2, 1], [1, 1]], [0, 1, 1], categorical=["x0"])
        assert fed.tables["party-1"].column("x0").kind == "categorical"

    def test_bad_input(self, Xy, refused):
        X, y = Xy
        with refused(ParameterError, "parties=8", "7 columns"):
            split_vertical(X, y, parties=8)
        with refused(ParameterError, "parties=0"):
            split_vertical(X, y, parties=0)
        with refused(ParameterError, "more than once"):
            split_vertical(X, y, parties=[[0, 1, 2, 3], [3, 4, 5, 6]])
        with refused(ParameterError, "2 of 7 columns"):
            split_vertical(X, y, parties=[[0, 1, 2], [3, 4]])
        with refused(ParameterError, "Column number 7"):
            split_vertical(X, y, parties=[[0, 7]])
        with refused(ColumnError, "'x9'"):
            split_vertical(X, y, parties=[["x9"]])
        for no_lists in ([0, 1], ["x0", "x1"], "x0", 1.5):
            with refused(ParameterError, "no list of column lists"):
                split_vertical(X, y, parties=no_lists)
        with refused(PartyError, "1 of 2"):
            split_vertical(X, y, parties=[list(range(7)), []])
        with refused(PartyError):
            split_vertical(X, y, parties=[])
        with refused(ParameterError, "3 names for 2"):
            split_vertical(X, y, names=["a", "b", "c"])
        with refused(PartyError, "twice"):
            split_vertical(X, y, names=["a", "A"])
        with refused(PartyError, "twice"):
            split_vertical(X, y, names=["a", "Label-Holder"], label_holder=None)
        with refused(ParameterError, "label_holder=2"):
            split_vertical(X, y, label_holder=2)
        with refused(PartyError, "'party-2'"):
            split_vertical(X, y, label_holder="party-22")
        with refused(AlignmentError, "60", "59"):
            split_vertical(X, y[1:])
        with refused(ParameterError, "random_state"):
            split_vertical(X, y, random_state="seed")
        with refused(ValueProblem, "one class"):
            split_vertical(X, np.zeros(60, dtype=int))


class TestHorizontal:
    @pytest.mark.parametrize("skew", [None, "kmeans", "dirichlet"])
    def test_every_row_has_one_owner(self, Xy, skew):
        X, y = Xy
        one, two = (split_horizontal(X, y, 4, skew=skew, random_state=3) for _ in range(2))

        rows = np.concatenate(list(one.row_order.values()))
        assert sorted(rows.tolist()) == list(range(60))
        for party, own in one.row_order.items():
            np.testing.assert_array_equal(one.tables[party].numeric_matrix(), X[own])
            np.testing.assert_array_equal(one.targets[party].codes, y[own])
            np.testing.assert_array_equal(own, two.row_order[party])
            assert one.tables[party].name == party
        assert one.setting == "horizontal"
        assert one.n_rows == 60

    def test_even_shares(self, Xy):
        fed = split_horizontal(*Xy, parties=7, random_state=0)
        assert {len(rows) for rows in fed.row_order.values()} == {8, 9}

    def test_kmeans_separates_clusters(self):
        rng = np.random.default_rng(0)
        blob = np.repeat([0, 1, 2], 20)
        X = rng.normal(size=(60, 2)) * 0.1 + np.column_stack([blob, -blob]) * 10

        fed = split_horizontal(X, parties=3, skew="kmeans", random_state=0)

        assert all(len(set(blob[rows])) == 1 for rows in fed.row_order.values())
        assert fed.targets == dict.fromkeys(fed.parties)

    def test_kmeans_with_equal_rows_and_gaps_leaves_nobody_empty(self):
        X = np.ones((10, 2))
        X[0, 0] = np.nan

        fed = split_horizontal(X, parties=3, skew="kmeans", random_state=0)

        assert all(len(rows) for rows in fed.row_order.values())

    @pytest.mark.parametrize("seed", range(5))
    def test_dirichlet_keeps_a_minimum(self, seed):
        y = np.arange(200) % 2
        fed = split_horizontal(np.eye(200), y, 5, skew="dirichlet", random_state=seed)

        assert min(len(rows) for rows in fed.row_order.values()) >= 4
        shares = [target.codes.mean() for target in fed.targets.values()]
        assert max(shares) - min(shares) > 0.1

    def test_dirichlet_of_numbers(self):
        y = np.linspace(0.0, 1.0, 40)
        fed = split_horizontal(np.eye(40), y, 3, skew="dirichlet", random_state=0)
        assert fed.targets["party-1"].kind == "numbers"

    def test_explicit_owners(self, Xy):
        X, y = Xy
        fed = split_horizontal(X, y, np.arange(60) % 2)
        assert fed.row_order["party-2"].tolist() == list(range(1, 60, 2))

        named = split_horizontal(X, y, ["south"] * 20 + ["north"] * 40)
        assert {p: len(r) for p, r in named.row_order.items()} == {"north": 40, "south": 20}
        renamed = split_horizontal(X, y, np.arange(60) % 2, names=["a", "b"])
        assert renamed.parties == ("a", "b")

    def test_categories_stay_common(self):
        fed = split_horizontal(pd.DataFrame({"job": ["a", "b"]}), parties=[0, 1])
        assert fed.tables["party-2"].column("job").values.tolist() == [1]

    def test_bad_input(self, Xy, refused):
        X, y = Xy
        with refused(ParameterError, "'zipf'", "dirichlet"):
            split_horizontal(X, y, skew="zipf")
        with refused(ParameterError, "parties=61", "60 rows"):
            split_horizontal(X, y, parties=61)
        with refused(ParameterError, "without labels"):
            split_horizontal(X, parties=2, skew="dirichlet")
        with refused(ParameterError, "at least 2 rows"):
            split_horizontal(X, y, parties=31, skew="dirichlet")
        with refused(ParameterError, "(2,)"):
            split_horizontal(X, y, parties=[0, 1])
        with refused(ParameterError, "1 of 60 rows"):
            split_horizontal(X, y, parties=[None] + ["a"] * 59)
        with refused(ParameterError, "skew='kmeans'"):
            split_horizontal(X, y, parties=np.arange(60) % 2, skew="kmeans")
        with refused(AlignmentError, "60", "59"):
            split_horizontal(X, y[1:])
