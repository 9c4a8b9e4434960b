# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from fedsift.data import PartyTable, align, register_aligner
from fedsift.data.alignment import ALIGNERS, Aligned
from fedsift.errors import AlignmentError, ParameterError


def table_of(name, ids):
    return PartyTable.from_any(
        {"id": ids, "x": np.arange(len(ids), dtype=float)}, name=name, ids="id"
    )


def test_everyone_gets_the_first_partys_order():
    tables = {
        "bank": table_of("bank", ["c", "a", "b"]),
        "shop": table_of("shop", ["a", "b", "c"]),
        "post": table_of("post", ["b", "c", "a"]),
    }

    aligned = align(tables)

    assert [t.ids.tolist() for t in aligned.values()] == [["c", "a", "b"]] * 3
    assert aligned["shop"].column("x").values.tolist() == [2.0, 0.0, 1.0]
    assert aligned["post"].column("x").values.tolist() == [1.0, 2.0, 0.0]


def test_integer_and_float_ids_meet():
    tables = {"bank": table_of("bank", [1, 2]), "shop": table_of("shop", [2.0, 1.0])}

    assert align(tables)["shop"].column("x").values.tolist() == [1.0, 0.0]


def test_many_shuffled_ids():
    rng = np.random.default_rng(0)
    ids = np.array([f"id{number}" for number in rng.permutation(500)])
    order = rng.permutation(500)
    tables = {"bank": table_of("bank", ids), "shop": table_of("shop", ids[order])}

    assert (align(tables)["shop"].ids == ids).all()


def test_different_ids_are_counted_not_shown(refused, secret):
    tables = {
        "bank": table_of("bank", ["a", "b", secret]),
        "shop": table_of("shop", ["a", "b", "c", "d"]),
    }
    with refused(AlignmentError, "1 of the 3 ids of 'bank'", "2 of the 4 ids of 'shop'"):
        align(tables, "exact")


def test_private_intersection_keeps_common_rows_in_the_first_order():
    tables = {
        "bank": table_of("bank", ["d", "a", "b", "only bank"]),
        "shop": table_of("shop", ["a", "x", "b", "d"]),
        "post": table_of("post", ["b", "d", "only post"]),
    }

    aligned = align(tables, "psi")

    assert [t.ids.tolist() for t in aligned.values()] == [["d", "b"]] * 3
    assert aligned["shop"].column("x").values.tolist() == [3.0, 2.0]


def test_nothing_in_common(refused):
    tables = {"bank": table_of("bank", ["a"]), "shop": table_of("shop", ["b"])}
    with refused(AlignmentError, "No id is common"):
        align(tables, "psi")


def test_table_without_ids(refused):
    tables = {"bank": table_of("bank", ["a"]), "shop": PartyTable.from_any(np.eye(1), name="shop")}
    with refused(AlignmentError, "'shop'", "no row ids"):
        align(tables)


def test_repeated_ids_after_take(refused):
    tables = {"bank": table_of("bank", ["a", "b"]).take([0, 0])}
    with refused(AlignmentError, "duplicate"):
        align(tables)


def test_unknown_method_lists_the_known(refused):
    with refused(ParameterError, "'fuzzy'", "exact", "psi"):
        align({"bank": table_of("bank", ["a"])}, method="fuzzy")


def test_another_aligner_can_join(monkeypatch):
    monkeypatch.setattr("fedsift.data.alignment.ALIGNERS", dict(ALIGNERS))

    def intersection(ids):
        common = sorted(set.intersection(*(set(own.tolist()) for own in ids.values())))
        rows = {p: np.array([own.tolist().index(i) for i in common]) for p, own in ids.items()}
        return Aligned(rows)

    register_aligner("common", intersection)
    tables = {"bank": table_of("bank", ["b", "a"]), "shop": table_of("shop", ["a", "c"])}

    aligned = align(tables, method="common")

    assert [t.ids.tolist() for t in aligned.values()] == [["a"], ["a"]]
    with pytest.raises(AlignmentError):
        align(tables, "exact")
