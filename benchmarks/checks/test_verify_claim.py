"""The committed run of the suite ``verify`` bears out what the threat model says of it."""

import json

import pytest

from benchmarks.pages.writer import ROOT
from benchmarks.suites.verify.alterations import KINDS


@pytest.fixture(scope="module")
def results():
    return json.loads((ROOT / "benchmarks/verify.json").read_text(encoding="utf-8"))


def test_every_alteration_was_found_and_named_and_no_clean_ledger_was_blamed(results):
    assert results["profile"] == "regular"
    rows = {row["case"]: row for row in results["rows"]}
    assert set(rows) == {"one process", "federation"}
    for row in rows.values():
        assert row["alarms"] == 0
        assert row["found"] == row["named"] == row["alterations"] == 500
        assert set(row["by_kind"]) == set(KINDS)
        for counts in row["by_kind"].values():
            assert counts["found"] == counts["named"] == counts["alterations"] == 100


def test_the_page_says_how_many(results):
    text = (ROOT / "docs/threat-model.md").read_text(encoding="utf-8")
    altered = sum(row["alterations"] for row in results["rows"])
    clean = sum(row["ledgers"] for row in results["rows"])
    assert f"{altered:,} alterations and {clean} clean ledgers" in text


def test_signing_costs_little(results):
    assert results["rows"][0]["signing"]["share"] < 0.1
