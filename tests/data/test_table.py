# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedsift.data import PartyTable
from fedsift.errors import (
    AlignmentError,
    ColumnError,
    FileProblem,
    ParameterError,
    PartyError,
    ValueProblem,
)


def table_of(source, **options):
    return PartyTable.from_any(source, name="bank", **options)


@pytest.fixture
def frame():
    return pd.DataFrame(
        {
            "customer": [11, 12, 13, 14],
            "age": [31, 52, 47, 29],
            "income": [1.5, np.nan, 2.5, 4.0],
            "job": ["cook", None, "smith", " cook "],
            "active": [True, False, True, True],
        }
    )


class TestKinds:
    def test_frame_columns_get_their_kind(self, frame):
        table = table_of(frame, ids="customer")

        assert table.feature_names == ("age", "income", "job", "active")
        assert [c.kind for c in table.columns] == ["numeric", "numeric", "categorical", "numeric"]
        assert table.column("job").categories == ("cook", "smith")
        assert table.column("job").values.tolist() == [0, -1, 1, 0]
        assert table.column("job").values.dtype == np.int64
        assert table.column("active").values.tolist() == [1.0, 0.0, 1.0, 1.0]
        assert table.column("income").values.dtype == np.float64
        assert table.column("income").missing.tolist() == [False, True, False, False]
        assert table.ids.tolist() == ["11", "12", "13", "14"]

    def test_numbers_listed_as_categorical_become_categories_in_order_of_size(self):
        table = table_of({"grade": [10, 2, 10, 3]}, categorical=["grade"])

        assert table.column("grade").categories == ("2", "3", "10")
        assert table.column("grade").values.tolist() == [2, 0, 2, 1]

    def test_pandas_categories_keep_an_order_given_on_purpose(self):
        sizes = pd.Categorical(["m", "s", "m"], categories=["s", "m", "l"], ordered=True)
        numbers = pd.Categorical([3, 1, 3])

        table = table_of(pd.DataFrame({"size": sizes, "number": numbers}))

        assert table.column("size").categories == ("s", "m")
        assert table.column("number").categories == ("1", "3")

    def test_nullable_and_object_numbers_are_numeric(self):
        frame = pd.DataFrame(
            {
                "whole": pd.array([1, None, 3], dtype="Int64"),
                "flag": pd.array([True, None, False], dtype="boolean"),
                "loose": pd.Series([1, 2.5, None], dtype=object),
                "exact": pd.array([1, 2, 3], dtype="Int64"),
            }
        )

        table = table_of(frame)

        assert {column.kind for column in table.columns} == {"numeric"}
        np.testing.assert_equal(table.column("whole").values, [1.0, np.nan, 3.0])
        np.testing.assert_equal(table.column("flag").values, [1.0, np.nan, 0.0])

    def test_blank_text_counts_as_missing(self):
        table = table_of({"job": ["cook", "  ", ""]})

        assert table.column("job").values.tolist() == [0, -1, -1]

    def test_bytes_and_number_like_categories(self):
        table = table_of({"code": np.array([b"a", b"b"]), "zip": ["01", "2"]}, categorical=["zip"])

        assert table.column("code").categories == ("a", "b")
        assert table.column("zip").categories == ("01", "2")

    @pytest.mark.parametrize("values", [np.array([1j, 2j]), pd.to_datetime(["2020-01-01"] * 2)])
    def test_other_types_are_refused(self, values, refused):
        with refused(ColumnError, "'when'", "'bank'"):
            table_of(pd.DataFrame({"when": values}))


class TestSources:
    def test_array(self):
        table = table_of(np.arange(6).reshape(3, 2))

        assert table.feature_names == ("x0", "x1")
        assert (table.n_rows, table.n_columns) == (3, 2)

    def test_array_with_names(self):
        assert table_of((np.eye(2), ["a", "b"])).feature_names == ("a", "b")

    def test_table_is_renamed_and_narrowed(self, frame):
        first = PartyTable.from_any(frame, name="old", ids="customer")

        second = table_of(first, columns=["job", "age"], categorical=["age"])

        assert (second.name, second.feature_names) == ("bank", ("job", "age"))
        assert second.column("age").kind == "categorical"
        assert second.ids.tolist() == first.ids.tolist()

    def test_table_can_give_ids_from_its_columns(self, frame):
        table = table_of(table_of(frame), ids="customer")

        assert table.ids.tolist() == ["11", "12", "13", "14"]
        assert "customer" not in table.feature_names

    def test_table_with_other_ids_is_refused(self, frame, refused):
        with refused(ColumnError, "other id columns"):
            table_of(table_of(frame, ids="customer"), ids="nobody")

    @pytest.mark.parametrize("suffix", ["csv", "parquet"])
    @pytest.mark.parametrize("as_text", [True, False])
    def test_files_give_the_same_as_the_frame(self, frame, tmp_path, suffix, as_text):
        path = tmp_path / f"bank.{suffix}"
        if suffix == "csv":
            frame.to_csv(path, index=False)
        else:
            frame.to_parquet(path)

        read = table_of(str(path) if as_text else path, ids="customer")
        direct = table_of(frame, ids="customer")

        assert read.ids.tolist() == direct.ids.tolist()
        np.testing.assert_equal(read.numeric_matrix(), direct.numeric_matrix())
        assert read.column("job").categories == direct.column("job").categories

    def test_csv_keeps_leading_zeros_of_ids_and_categories(self, tmp_path):
        path = tmp_path / "bank.csv"
        path.write_text("\ufeffid;zip;age\n007;01234;5\n7;1234;6\n", encoding="utf-8")

        table = table_of(path, ids="id", categorical=["zip"])

        assert table.ids.tolist() == ["007", "7"]
        assert set(table.column("zip").categories) == {"01234", "1234"}

    def test_an_unknown_type_is_refused(self, refused):
        with refused(ParameterError, "'bank'", "set"):
            table_of({1, 2})

    def test_source_array_is_neither_shared_nor_changed(self):
        X = np.zeros((2, 2))
        table = table_of(X)
        X[0, 0] = 5.0

        assert table.column("x0").values[0] == 0.0
        with pytest.raises(ValueError, match="read-only"):
            table.column("x0").values[0] = 1.0


class TestBadColumns:
    def test_missing_column_suggests_the_right_one(self, frame, refused):
        with refused(ColumnError, "'incme'", "Did you mean 'income'?"):
            table_of(frame, columns=["incme"])
        with refused(ColumnError, "Did you mean 'customer'?"):
            table_of(frame, ids="Customer")
        with refused(ColumnError, "Did you mean 'job'?"):
            table_of(frame, categorical=["jobs"])
        with refused(ColumnError, "Known columns"):
            table_of(frame).column("zzzzzz")

    @pytest.mark.parametrize("gone", [[np.nan, np.nan], [None, None], ["", None]])
    def test_column_without_values(self, gone, refused):
        with refused(ColumnError, "'empty'", "'bank'"):
            table_of({"empty": gone, "age": [1, 2]})

    def test_infinite_values(self, refused, secret_number):
        with refused(ValueProblem, "infinity", "'income'", "row 1"):
            table_of({"income": [secret_number, np.inf, -np.inf]})
        with refused(ValueProblem, "infinity"):
            table_of({"income": np.array([1, 10**400], dtype=object)})

    def test_text_in_a_numeric_column(self, refused, secret):
        values = ["1.5"] * 9 + [secret] + [None]
        with refused(ValueProblem, "'income'", "row 9", "text in a numeric column", "categorical"):
            table_of({"income": values})
        with refused(ValueProblem, "'income'", "row 9"):
            table_of({"income": np.array([*range(9), secret], dtype=object)})

    def test_text_in_a_numeric_column_of_a_file(self, tmp_path, refused, secret):
        path = tmp_path / "bank.csv"
        path.write_text("income\n" + "1\n" * 19 + f"{secret}\n")

        with refused(ValueProblem, "'income'", "row 19"):
            table_of(path)
        assert table_of(path, categorical=["income"]).column("income").kind == "categorical"

    def test_numbers_stored_as_text(self, refused):
        with refused(ValueProblem, "stored as text", "row 0"):
            table_of({"income": ["98765.4321", "2"]})

    def test_some_numbers_among_text_are_fine(self):
        assert table_of({"size": ["1", "s", "m", "l"]}).column("size").kind == "categorical"

    def test_duplicate_names(self, refused):
        with refused(ColumnError, "'age'"):
            table_of(pd.DataFrame([[1, 2]], columns=["age", "age"]))
        with refused(ColumnError, "'age'"):
            table_of((np.eye(2), ["age", "age"]))
        with refused(ColumnError, "'age'"):
            table_of({"age": [1], "job": ["a"]}, columns=["age", "age"])

    def test_duplicate_names_in_a_file(self, tmp_path, refused):
        path = tmp_path / "bank.csv"
        path.write_text("age,age\n1,2\n")
        with refused(ColumnError, "'age'"):
            table_of(path)

    def test_shapes(self, refused):
        with refused(ColumnError, "3", "2"):
            table_of({"a": [1, 2, 3], "b": [1, 2]})
        with refused(ColumnError, "dimension"):
            table_of({"a": np.zeros((2, 2))})
        with refused(ColumnError, "dimension"):
            table_of(np.zeros(3))
        with refused(ColumnError, "3 names for 2"):
            table_of((np.eye(2), ["a", "b", "c"]))

    @pytest.mark.parametrize(
        "empty", [np.empty((0, 2)), np.empty((2, 0)), {}, pd.DataFrame(), {"a": []}]
    )
    def test_empty_table(self, empty, refused):
        with refused(PartyError, "empty", "'bank'"):
            table_of(empty)

    def test_table_of_ids_only(self, refused):
        with refused(PartyError, "empty"):
            table_of({"id": [1, 2]}, ids="id")
        with refused(PartyError, "empty"):
            table_of(table_of({"id": [1, 2]}), ids="id")


class TestIds:
    def test_text_of_ids(self):
        def ids(values):
            return table_of({"id": values, "x": [1.0, 2.0]}, ids="id").ids.tolist()

        assert ids(np.array([7.0, 8.0])) == ["7", "8"]
        assert ids([" a ", "b"]) == ["a", "b"]
        assert ids(np.array([2**60, 2**60 + 1])) == [str(2**60), str(2**60 + 1)]
        assert ids(np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[ns]"))[0][:10] == (
            "2020-01-01"
        )

    def test_ids_of_several_columns_stay_apart(self):
        source = {"a": ["ab", "a"], "b": ["c", "bc"], "x": [1.0, 2.0]}

        table = table_of(source, ids=["a", "b"])

        assert len(set(table.ids.tolist())) == 2
        assert table.id_names == ("a", "b")

    def test_ids_in_a_named_index(self, frame):
        assert table_of(frame.set_index("customer"), ids="customer").ids[0] == "11"

    def test_duplicate_ids(self, refused, secret):
        source = {"id": [secret, secret, "b", secret], "x": [1, 2, 3, 4]}
        with refused(AlignmentError, "2 of its 4 rows"):
            table_of(source, ids="id")

    def test_missing_ids(self, refused):
        with refused(AlignmentError, "1 of 2 rows"):
            table_of({"id": ["a", None], "x": [1, 2]}, ids="id")


class TestBadFiles:
    @pytest.mark.parametrize("name", ["none.csv", "none.parquet"])
    def test_not_found(self, tmp_path, name, refused):
        with refused(FileProblem, name, "not found"):
            table_of(tmp_path / name)

    def test_directory(self, tmp_path, refused):
        (tmp_path / "folder.csv").mkdir()
        with refused(FileProblem, "directory"):
            table_of(tmp_path / "folder.csv")

    def test_unknown_suffix(self, tmp_path, refused):
        with refused(FileProblem, "'.xlsx'"):
            table_of(tmp_path / "bank.xlsx")

    @pytest.mark.parametrize(
        ("error", "words"), [(PermissionError, "permission"), (OSError, "cannot be opened")]
    )
    def test_closed_file(self, tmp_path, monkeypatch, error, words, refused):
        path = tmp_path / "bank.csv"
        path.write_text("a\n1\n")

        def closed(*args, **kwargs):
            raise error("no")

        monkeypatch.setattr(Path, "open", closed)
        with refused(FileProblem, words):
            table_of(path)

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"\n",
            b"a,b\n1,2\ns3cr3t-cell,2,3\n",
            b"a,b\ns3cr3t-cell,2,3\n",
            b'a,b\n"s3cr3t-cell,2\n',
            b"a,b\n\xff\xfe,s3cr3t-cell\n",
            b"\xff\xfe\x00,\n",
            b"a\x00b,c\n1,2\n",
        ],
    )
    def test_bad_csv(self, tmp_path, content, refused):
        path = tmp_path / "bank.csv"
        path.write_bytes(content)
        with refused(FileProblem, "bank.csv"):
            table_of(path)

    def test_bad_parquet(self, tmp_path, refused, secret):
        path = tmp_path / "bank.parquet"
        path.write_text(secret)
        with refused(FileProblem, "bank.parquet"):
            table_of(path)

    def test_header_only(self, tmp_path, refused):
        path = tmp_path / "bank.csv"
        path.write_text("a,b\n")
        with refused(PartyError, "0 rows"):
            table_of(path)


class TestUse:
    def test_take_select_drop(self, frame):
        table = table_of(frame, ids="customer")

        taken = table.take([2, 0])
        assert taken.ids.tolist() == ["13", "11"]
        assert taken.column("age").values.tolist() == [47.0, 31.0]
        assert taken.column("job").categories == ("cook", "smith")
        assert table.take([True, False, False, True]).n_rows == 2
        assert table.select(["job", "age"]).feature_names == ("job", "age")
        assert table.drop(["job"]).feature_names == ("age", "income", "active")

    def test_bad_use(self, frame, refused):
        table = table_of(frame)
        with refused(ParameterError, "4 rows"):
            table.take([4])
        with refused(ParameterError, "4 rows"):
            table.take([-1])
        with refused(ColumnError):
            table.select(["nobody"])
        with refused(ColumnError):
            table.drop(["nobody"])

    def test_numeric_matrix(self, frame):
        matrix = table_of(frame, ids="customer").numeric_matrix()

        np.testing.assert_equal(matrix[1], [52.0, np.nan, np.nan, 0.0])
        matrix[0, 0] = 0.0

    def test_to_pandas_round_trip(self, frame):
        table = table_of(frame, ids="customer")

        again = table_of(table.to_pandas(), ids="customer")

        assert again.ids.tolist() == table.ids.tolist()
        np.testing.assert_equal(again.numeric_matrix(), table.numeric_matrix())
        assert table.drop(table.feature_names).n_rows == 4

    def test_repr_shows_no_values(self, secret):
        table = table_of({"job": [secret, "b"], "x": [1, 2]})

        assert repr(table) == "PartyTable('bank', 2 rows x 2 columns)"
        assert secret not in repr(table.column("job"))


def test_an_array_with_too_many_columns_is_refused_before_they_have_names():
    with pytest.raises(ColumnError, match="1,000,000 columns are possible") as refused:
        PartyTable.from_any(np.empty((0, 2**60), dtype=np.int8), name="bank")

    assert refused.value.action
