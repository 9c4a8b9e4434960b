"""The page about attacks says what its committed run found, and what is left open to them."""

import json

from benchmarks.pages import attacks as tables
from fedsift.lab.attacks.suite import list_attacks

RESULTS = tables.PAGE.read()


def test_other_results_would_change_every_table():
    other = json.loads(json.dumps(RESULTS))
    for row in other["rows"]:
        row["found"] += 0.3
        row["runs"] += 1
    for name, write in tables.BLOCKS.items():
        assert write(other) != write(RESULTS), name


def test_the_committed_run_is_complete_and_every_default_is_closed_or_declared():
    assert RESULTS["profile"] == "regular"
    found = {(row["attack"], row["variant"]): row for row in RESULTS["rows"]}
    assert set(found) == {(a.name, v) for a in list_attacks() for v in a.variants}
    for attack in list_attacks():
        assert found[attack.name, "unprotected"]["verdict"] == "succeeds", attack.name
        assert found[attack.name, "default"]["verdict"] in ("closed", "declared"), attack.name
        for variant, text in attack.variants.items():
            row = found[attack.name, variant]
            assert (row["runs"], row["protection"]) == (attack.runs[1], text), attack.name


def test_outside_the_papers_fedsdg_alignments_and_selections_alone_still_answer():
    default = [row for row in RESULTS["rows"] if row["variant"] == "default"]
    works = {row["attack"] for row in default if row["verdict"] == "declared"}
    assert works - {row["attack"] for row in default if row["method"] == "fedsdg"} == {
        "psi-padded-list",
        "selection-labels",
    }
