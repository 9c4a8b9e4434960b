# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pandas as pd
import pytest

from fedsift.data import EVERYONE, Federation, PartyTable
from fedsift.errors import (
    AlignmentError,
    ColumnError,
    ParameterError,
    PartyError,
    ValueProblem,
)


@pytest.fixture
def bank():
    return pd.DataFrame(
        {"id": [1, 2, 3, 4], "income": [1.0, 2.0, 3.0, 4.0], "default": ["n", "y", "n", "y"]}
    )


@pytest.fixture
def shop():
    return pd.DataFrame({"id": [4, 3, 2, 1], "visits": [40, 30, 20, 10], "kind": list("aabb")})


class TestVertical:
    def test_label_column_leaves_the_table(self, bank, shop):
        fed = Federation.vertical({"bank": bank, "shop": shop}, label=("bank", "default"), on="id")

        assert (fed.setting, fed.parties, fed.label_holder) == (
            "vertical",
            ("bank", "shop"),
            "bank",
        )
        assert fed.feature_names == (("bank", "income"), ("shop", "visits"), ("shop", "kind"))
        assert (fed.n_rows, fed.n_features) == (4, 3)
        assert fed.tables["shop"].column("visits").values.tolist() == [10.0, 20.0, 30.0, 40.0]
        assert fed.target.classes == ("n", "y")
        assert fed.target.codes.tolist() == [0, 1, 0, 1]
        assert fed.row_order["shop"].tolist() == [3, 2, 1, 0]

    def test_label_follows_its_holder_into_the_common_order(self, bank, shop):
        fed = Federation.vertical(
            [("shop", shop), ("bank", bank)], label=("bank", "default"), on="id"
        )

        assert fed.tables["bank"].ids.tolist() == ["4", "3", "2", "1"]
        assert fed.target.codes.tolist() == [1, 0, 1, 0]

    def test_id_column_may_differ_by_party(self, bank, shop):
        shop = shop.rename(columns={"id": "customer"})

        fed = Federation.vertical(
            {"bank": bank, "shop": shop},
            label=("bank", "default"),
            on={"bank": "id", "shop": "customer"},
        )

        assert fed.tables["shop"].column("visits").values[0] == 10.0

    @pytest.mark.parametrize("as_table", [True, False])
    def test_party_of_labels_only(self, bank, shop, as_table):
        registry = pd.DataFrame({"id": [2, 1, 4, 3], "default": ["y", "n", "y", "n"]})
        source = PartyTable.from_any(registry, name="r") if as_table else registry

        fed = Federation.vertical(
            {"bank": bank.drop(columns="default"), "shop": shop, "registry": source},
            label=("registry", "default"),
            on="id",
        )

        assert fed.parties == ("bank", "shop", "registry")
        assert list(fed.tables) == ["bank", "shop"]
        assert fed.label_holder == "registry"
        assert fed.target.codes.tolist() == [0, 1, 0, 1]

    def test_party_of_labels_only_without_ids(self):
        fed = Federation.vertical(
            {"bank": np.eye(4), "registry": {"y": [0, 1, 0, 1]}}, label=("registry", "y")
        )

        assert list(fed.tables) == ["bank"]
        assert "registry: labels only" in "\n".join(fed.describe())

    def test_labels_as_array(self, bank, shop):
        own = Federation.vertical({"bank": np.eye(4)}, label=("registry", [0, 1, 0, 1]))
        assert own.parties == ("bank", "registry")
        assert own.label_holder == "registry"

        attached = Federation.vertical(
            [("shop", shop), ("bank", bank.drop(columns="default"))],
            label=("bank", np.array([0, 1, 0, 1])),
            on="id",
        )
        assert attached.parties == ("shop", "bank")
        assert attached.target.codes.tolist() == [1, 0, 1, 0]

    def test_no_label(self):
        fed = Federation.vertical({"bank": np.eye(3), "shop": np.eye(3)})

        assert fed.label_holder is None
        assert fed.target is None
        assert "labels: none" in fed.describe()

    def test_label_in_a_table_object(self, bank):
        table = PartyTable.from_any(bank, name="x", ids="id")

        fed = Federation.vertical({"bank": table}, label=("bank", "default"), on="id")

        assert fed.tables["bank"].feature_names == ("income",)
        assert fed.tables["bank"].name == "bank"

    def test_files(self, bank, shop, tmp_path):
        bank.to_csv(tmp_path / "bank.csv", index=False)
        shop.to_parquet(tmp_path / "shop.parquet")

        fed = Federation.vertical(
            {"bank": tmp_path / "bank.csv", "shop": str(tmp_path / "shop.parquet")},
            label=("bank", "default"),
            on="id",
        )

        assert fed.n_features == 3

    def test_categorical_of_any_party(self, bank, shop, refused):
        fed = Federation.vertical(
            {"bank": bank, "shop": PartyTable.from_any(shop, name="s")},
            label=("bank", "default"),
            on="id",
            categorical=["visits", "income", "default"],
        )
        assert fed.tables["shop"].column("visits").kind == "categorical"
        assert fed.tables["bank"].column("income").kind == "categorical"

        with refused(ColumnError, "'visit'", "Did you mean 'visits'?"):
            Federation.vertical({"bank": bank, "shop": shop}, on="id", categorical=["visit"])

    def test_masks(self, bank, shop, refused):
        fed = Federation.vertical({"bank": bank, "shop": shop}, label=("bank", "default"), on="id")

        assert fed.columns_of(["shop"]).tolist() == [False, True, True]
        assert fed.columns_of([]).tolist() == [False, False, False]
        support = fed.original_support({"shop": ["kind"], "bank": ["income"]})
        assert support.tolist() == [True, False, True]
        with refused(PartyError, "Did you mean 'shop'?"):
            fed.columns_of(["shopp"])
        with refused(PartyError):
            fed.original_support({"post": []})
        with refused(ColumnError, "'shop'"):
            fed.original_support({"shop": ["income"]})

    def test_warnings_and_repr_show_no_values(self, secret):
        data = {
            "same": [1, 1, 1],
            "who": [secret, "b", "c"],
            "gaps": [1.0, np.nan, np.nan],
        }
        fed = Federation.vertical({"bank": data}, label=("bank", [0, 1, 1]))

        text = "\n".join([repr(fed), *fed.describe()])
        assert secret not in text
        assert "same value in every row" in text
        assert "like an id" in text
        assert "more than half" in text
        assert "fewer than 5 rows" in text
        constant = Federation.vertical(
            {"bank": np.eye(3)}, label=("bank", [1.0, 1.0, 1.0]), task="regression"
        )
        assert "The label is the same number in every row." in constant.warnings
        assert "labels: numbers" in constant.describe()


class TestBadVertical:
    def test_party_named_twice(self, bank, shop, refused):
        with refused(PartyError, "'bank'", "twice"):
            Federation.vertical([("bank", bank), ("bank", shop)])
        with refused(PartyError, "twice"):
            Federation.vertical({"bank": bank, " Bank ": shop})
        with refused(PartyError, "twice"):
            Federation.vertical({"bank": np.eye(2)}, label=("BANK", [0, 1]))

    def test_no_or_nameless_party(self, refused):
        with refused(PartyError, "no party"):
            Federation.vertical({})
        with refused(PartyError, "name"):
            Federation.vertical({" ": np.eye(2)})
        with refused(PartyError, "No party has features"):
            Federation.vertical({"bank": {"y": [0, 1]}}, label=("bank", "y"))

    def test_empty_party(self, refused):
        with refused(PartyError, "empty", "'shop'"):
            Federation.vertical({"bank": np.eye(2), "shop": np.empty((2, 0))})

    def test_different_numbers_of_rows(self, refused):
        with refused(AlignmentError, "3", "4"):
            Federation.vertical({"bank": np.eye(3), "shop": np.eye(4)})
        with refused(AlignmentError, "3", "2"):
            Federation.vertical({"bank": np.eye(3)}, label=("bank", [0, 1]))
        with refused(AlignmentError, "3", "2"):
            Federation.vertical({"bank": np.eye(3)}, label=("registry", [0, 1]))

    def test_ids_do_not_match(self, bank, shop, refused):
        shop["id"] = [4, 3, 2, 98765]
        with refused(AlignmentError, "1 of the 4 ids"):
            Federation.vertical({"bank": bank, "shop": shop}, on="id", alignment="exact")

    def test_private_set_intersection_keeps_the_common_rows(self, bank, shop):
        shop["id"] = [4, 3, 2, 98765]
        joined = Federation.vertical({"bank": bank, "shop": shop}, ("bank", "default"), on="id")
        assert joined.n_rows == 3
        assert joined.tables["bank"].column("income").values.tolist() == [2.0, 3.0, 4.0]
        assert {row.kind for row in joined.disclosures} == {"row-count", "common-ids"}
        assert any("3 of 4 rows" in text for text in joined.warnings)

    def test_ids_in_another_order_need_on(self, bank, shop, refused):
        tables = {
            "bank": PartyTable.from_any(bank, name="bank", ids="id"),
            "shop": PartyTable.from_any(shop, name="shop", ids="id"),
        }
        with refused(AlignmentError, "4 of 4 rows"):
            Federation.vertical(tables)
        assert Federation.vertical(tables, on="id").n_rows == 4

    def test_duplicate_ids(self, bank, shop, refused):
        shop["id"] = [4, 4, 2, 1]
        with refused(AlignmentError, "duplicate", "'shop'"):
            Federation.vertical({"bank": bank, "shop": shop}, on="id")

    def test_labels_without_ids(self, bank, refused):
        with refused(AlignmentError, "'registry'"):
            Federation.vertical({"bank": bank}, label=("registry", [0, 1, 0, 1]), on="id")

    def test_missing_columns(self, bank, shop, refused):
        with refused(ColumnError, "Did you mean 'default'?"):
            Federation.vertical({"bank": bank, "shop": shop}, label=("bank", "defalt"), on="id")
        with refused(ColumnError, "'customer'"):
            Federation.vertical({"bank": bank, "shop": shop}, on="customer")

    def test_bad_label(self, bank, refused):
        with refused(PartyError, "'registry'"):
            Federation.vertical({"bank": bank}, label=("registry", "default"))
        with refused(ParameterError, "pair"):
            Federation.vertical({"bank": bank}, label="default")
        with refused(ValueProblem, "one class"):
            Federation.vertical({"bank": bank.assign(default="n")}, label=("bank", "default"))
        with refused(ParameterError, "exact"):
            Federation.vertical({"bank": bank}, on="id", alignment="fuzzy")


class TestHorizontal:
    def test_arrays(self):
        fed = Federation.horizontal(
            {"north": (np.eye(3), [0, 1, 1]), "south": (np.eye(4)[:, :3], [2, 2, 2, 2])}
        )

        assert (fed.setting, fed.n_rows, fed.n_features) == ("horizontal", 7, 3)
        assert fed.feature_names[0] == (EVERYONE, "x0")
        assert fed.targets["south"].classes == ("0", "1", "2")
        assert fed.targets["south"].codes.tolist() == [2, 2, 2, 2]
        assert fed.label_holder is None
        assert fed.target is None
        assert "labels: 3 classes" in fed.describe()
        assert fed.columns_of(["north"]).all()
        for owner in ("north", EVERYONE):
            assert fed.original_support({owner: ["x1"]}).tolist() == [False, True, False]

    def test_columns_categories_and_classes_agree(self, tmp_path):
        north = pd.DataFrame({"age": [1, 2], "job": ["cook", "smith"], "y": ["b", "a"]})
        south = pd.DataFrame({"y": ["c", "c"], "job": ["baker", "cook"], "age": [3, 4]})
        south.to_csv(tmp_path / "south.csv", index=False)

        fed = Federation.horizontal({"north": north, "south": tmp_path / "south.csv"}, label="y")

        assert fed.tables["south"].feature_names == ("age", "job")
        for table in fed.tables.values():
            assert table.column("job").categories == ("baker", "cook", "smith")
        assert fed.tables["north"].column("job").values.tolist() == [1, 2]
        assert fed.tables["south"].column("job").values.tolist() == [0, 1]
        assert fed.targets["north"].codes.tolist() == [1, 0]
        assert fed.targets["south"].codes.tolist() == [2, 2]

    def test_missing_categories_stay_missing(self):
        fed = Federation.horizontal({"north": {"job": ["b", None]}, "south": {"job": ["a", "b"]}})

        assert fed.tables["north"].column("job").values.tolist() == [1, -1]
        assert fed.targets == {"north": None, "south": None}

    def test_table_with_label_and_ids(self):
        north = PartyTable.from_any({"id": [1, 2], "a": [1, 2], "y": ["s", "t"]}, name="n")
        south = pd.DataFrame({"id": [1, 2], "a": [3, 4], "y": ["t", "t"]})

        fed = Federation.horizontal({"north": north, "south": south}, label="y", ids="id")

        assert fed.tables["north"].feature_names == ("a",)
        assert fed.targets["south"].codes.tolist() == [1, 1]

    def test_some_parties_without_labels_and_mixed_types(self):
        fed = Federation.horizontal(
            {"a": ([[1], [2]], [0, 1]), "b": (np.eye(2)[:, :1], None), "c": ([[1]], ["1"])}
        )

        assert fed.targets["b"] is None
        assert fed.targets["c"].codes.tolist() == [1]
        assert fed.targets["a"].classes == ("0", "1")

    def test_numbers(self):
        fed = Federation.horizontal({"a": (np.eye(2), [0.5, 1.5]), "b": (np.eye(2), [2, 3])})

        assert fed.targets["b"].values.tolist() == [2.0, 3.0]


class TestBadHorizontal:
    def test_other_columns_are_named(self, refused):
        with refused(ColumnError, "'south'", "'b'", "'c'"):
            Federation.horizontal({"north": {"a": [1], "b": [2]}, "south": {"a": [1], "c": [2]}})

    def test_other_kinds_are_named(self, refused, secret):
        with refused(ColumnError, "'a'"):
            Federation.horizontal({"north": {"a": [1, 2]}, "south": {"a": [secret, "v"]}})

    def test_one_class_at_all_parties(self, refused):
        with refused(ValueProblem, "one class"):
            Federation.horizontal({"n": (np.eye(2), [1, 1]), "s": (np.eye(2), [1, 1])})

    def test_labels_and_names(self, refused):
        with refused(AlignmentError, "2 rows", "3 labels"):
            Federation.horizontal({"north": (np.eye(2), [0, 1, 1])})
        with refused(ColumnError, "'y'"):
            Federation.horizontal({"north": {"a": [1]}}, label="y")
        with refused(PartyError, "twice"):
            Federation.horizontal([("north", np.eye(2)), ("North", np.eye(2))])
        with refused(PartyError, "empty"):
            Federation.horizontal({"north": (np.empty((0, 2)), [])})
