# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Private set intersection: exact, silent about other ids, and refusing what is wrong."""

import sys

import numpy as np
import pandas as pd
import pytest

import fedsift as fs
from fedsift.crypto import psi
from fedsift.crypto.wire import Ciphertexts
from fedsift.engine import run_local
from fedsift.errors import AlignmentError, BadCiphertext, MissingPackage, PartyFailed
from fedsift.jobs import align
from fedsift.jobs.align import intersect
from helpers.cli import call


def ids_of(*texts):
    return np.array(texts, dtype=np.str_)


@pytest.mark.parametrize("n_parties", [2, 3, 4])
def test_equals_set_intersection(n_parties):
    rng = np.random.default_rng(n_parties)
    ids = {
        f"p{i}": ids_of(*(f"id {k}" for k in rng.permutation(300)[:200])) for i in range(n_parties)
    }

    rows, outcome = intersect(ids)

    common = set.intersection(*(set(own.tolist()) for own in ids.values()))
    taken = [ids[party][rows[party]].tolist() for party in ids]
    assert set(taken[0]) == common
    assert all(order == taken[0] for order in taken)
    assert (np.diff(rows["p0"]) > 0).all()
    assert outcome.value[""] == len(common)


def test_no_id_and_no_plain_digest_is_on_the_wire_outside_the_intersection():
    ids = {"bank": ids_of("a", "b", "lonely"), "shop": ids_of("b", "hermit", "c")}
    nodes = align.build_nodes(ids, "bank")
    outcome = run_local(align.PROTOCOL, nodes, keep_frames=True)
    frames = b"".join(entry.frame for entry in outcome.transcript.entries)
    start = next(e for e in outcome.transcript.entries if e.message == "AlignmentStart")
    salt = start.frame[start.frame.index(b"salt") + 4 :][2:34].decode()

    for text in ("a", "lonely", "hermit", "c"):
        assert bytes.fromhex(psi.salted([text], salt)[0]) not in frames
    for word in (b"lonely", b"hermit"):
        assert word not in frames
    assert bytes.fromhex(psi.salted(["b"], salt)[0]) in frames  # the check can fail


def test_two_alignments_cannot_be_compared():
    first, second = psi.new_salt(), psi.new_salt()
    assert set(psi.salted(["a", "b"], first)).isdisjoint(psi.salted(["a", "b"], second))


def test_ids_of_other_types_and_spellings_meet():
    bank = pd.DataFrame({"id": [1, 2, 30], "x": [1.0, 2.0, 3.0], "y": ["n", "y", "n"]})
    shop = pd.DataFrame({"id": [" 30", "2 ", "7"], "z": [5.0, 6.0, 7.0]})

    joined = fs.Federation.vertical({"bank": bank, "shop": shop}, ("bank", "y"), on="id")

    assert joined.tables["shop"].column("z").values.tolist() == [6.0, 5.0]


def test_ids_of_several_columns():
    bank = {"shop": ["a", "ab"], "no": ["bc", "c"], "x": [1.0, 2.0]}
    post = {"shop": ["ab", "q"], "no": ["c", "c"], "z": [3.0, 4.0]}

    joined = fs.Federation.vertical({"bank": bank, "post": post}, on=["shop", "no"])

    assert joined.n_rows == 1
    assert joined.tables["bank"].column("x").values.tolist() == [2.0]


def test_duplicate_ids_are_refused_and_not_named():
    with pytest.raises(AlignmentError, match="1 of its 3 rows") as caught:
        intersect({"bank": ids_of("a", "b", "b"), "shop": ids_of("a")})
    assert "'b'" not in str(caught.value)


def test_what_was_learned_reaches_the_result():
    rng = np.random.default_rng(0)
    n = 60
    bank = pd.DataFrame({"id": np.arange(n), "x": rng.normal(size=n)})
    bank["y"] = bank.x > 0
    shop = pd.DataFrame({"id": np.arange(10, n + 10), "z": rng.normal(size=n)})
    joined = fs.Federation.vertical({"bank": bank, "shop": shop}, ("bank", "y"), on="id")

    result = fs.FilterSelector(n_features_to_select=1, security="plain").fit(joined).result_

    kinds = {(d.learner, d.kind) for d in result.disclosures}
    assert {("bank", "common-ids"), ("shop", "common-ids"), ("shop", "row-count")} <= kinds
    assert any("50 of 60 rows" in text for text in result.warnings)


class Liar(align.IdHolder):
    """Sends garbage instead of blinded ids."""

    @align.handles(align.BlindedIds)
    async def blind_again(self, ask, net):
        return align.TwiceBlinded(Ciphertexts(psi.SCHEME, (b"\xff\x01garbage",)))


def test_garbage_is_blamed_on_its_sender():
    nodes = align.build_nodes({"bank": ids_of("a"), "shop": ids_of("a")}, "bank")
    nodes["shop"] = (Liar("shop", ids_of("a")),)
    with pytest.raises(PartyFailed, match="shop"):
        run_local(align.PROTOCOL, nodes)


def test_points_of_another_request_are_refused():
    asker, holder = psi.SetAsker(["a", "b"]), psi.SetHolder()
    setup = holder.setup(["a"], 2)
    short = holder.answer(psi.SetAsker(["a"]).request)
    with pytest.raises(BadCiphertext):
        asker.common(setup, short)
    with pytest.raises(BadCiphertext):
        holder.answer(Ciphertexts("bgv", (b"x",)))


def test_without_the_package_the_advice_comes_first(monkeypatch):
    monkeypatch.setitem(sys.modules, "private_set_intersection.python", None)
    with pytest.raises(MissingPackage, match=r"fedsift\[psi\]"):
        intersect({"bank": ids_of("a"), "shop": ids_of("a")})


class TestCommand:
    def test_writes_aligned_files(self, tmp_path):
        pd.DataFrame({"id": ["c", "a", "b"], "x": [1, 2, 3]}).to_csv(
            tmp_path / "bank.csv", index=False
        )
        pd.DataFrame({"id": ["a", "c", "z"], "y": [7, 8, 9]}).to_parquet(tmp_path / "shop.parquet")
        out = tmp_path / "aligned"

        ran = call(
            "align", tmp_path / "bank.csv", tmp_path / "shop.parquet", "--on", "id", "--out", out
        )

        assert ran.exit_code == 0
        assert pd.read_csv(out / "bank.csv").id.tolist() == ["c", "a"]
        assert pd.read_parquet(out / "shop.parquet").y.tolist() == [8, 7]
        assert "common-ids" in ran.out

    def test_a_missing_column_is_named(self, tmp_path):
        for name in ("bank", "shop"):
            pd.DataFrame({"id": ["a"], "x": [1]}).to_csv(tmp_path / f"{name}.csv", index=False)

        ran = call("align", tmp_path / "bank.csv", tmp_path / "shop.csv", "--on", "di")

        assert ran.exit_code == 2
        assert "'di'" in ran.err

    def test_one_file_is_not_enough(self, tmp_path):
        pd.DataFrame({"id": ["a"], "x": [1]}).to_csv(tmp_path / "bank.csv", index=False)
        assert call("align", tmp_path / "bank.csv", "--on", "id").exit_code == 2
