"""Every list of disclosures in examples and pages is the whole list: runs disclose nothing else."""

import re
import runpy
import shutil
import tomllib
from pathlib import Path

import pytest

from fedsift.config.parties import KIND_SETS
from fedsift.methods.registry import schemas
from fedsift.protocol.policy import expand_kinds
from helpers.cli import call

ROOT = Path(__file__).resolve().parents[2]
LIST = re.compile(r"may_reveal\s*=\s*[\[(](?P<names>\"[^\])]*)[\])]")
JOBS = {
    "filters_vertical.toml": {},
    "filters_horizontal.toml": {},
    "interaction.toml": {},
    "stepwise.toml": {},
    "survival.toml": {},
    "vfps.toml": {},
    "fedsdg.toml": {},
    "dcfs.toml": {},
    "fpso.toml": {},
    "select_then_train.toml": {},
    "hospital/job.toml": dict.fromkeys(("laboratory", "imaging"), "hospital/policy.toml"),
}
"""Jobs and the policy files that are meant for their parties."""
FORESEEN = {
    # They lead, and have columns of their own: nobody else learns how many.
    ("vfps.toml", "harbour"): {"feature-count"},
    ("interaction.toml", "bank"): {"feature-count"},
}
"""Kinds that a list must name, and that nobody learns in the ledger of the run."""
MAY_REVEAL = re.compile(r"may_reveal = \[[^\]]*\]")
KINDS = frozenset().union(*(schema.kinds for schema in schemas().values()))


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    folder = tmp_path_factory.mktemp("examples") / "examples"
    shutil.copytree(ROOT / "examples", folder, ignore=shutil.ignore_patterns("out"))
    runpy.run_path(str(folder / "hospital/make_data.py"))["write"](folder / "hospital")
    for job, policies in JOBS.items():
        for party, file in policies.items():
            write_policy(folder / job, party, (folder / file).read_text().partition("[policy]")[2])
    return folder


def write_policy(job, party, lines):
    name = f'name = "{party}"\n'
    text = job.read_text()
    start = text.index(name) + len(name)
    end = text.index("\n\n", start)
    job.write_text(f"{text[:end]}\n[party.policy]\n{lines.strip()}{text[end:]}")


def lists_in(job):
    parties = tomllib.loads(job.read_text())["party"]
    lists = {p["name"]: p.get("policy", {}).get("may_reveal") for p in parties}
    return {name: given for name, given in lists.items() if given is not None}


def test_every_job_has_a_list():
    jobs = [p for p in ROOT.glob("examples/**/*.toml") if "[job]" in p.read_text().splitlines()]

    assert {p.relative_to(ROOT / "examples").as_posix() for p in jobs} == set(JOBS)


def test_every_example_with_a_list_is_run_here():
    own = [p for p in ROOT.glob("examples/**/*.toml") if "may_reveal" in p.read_text()]
    tested = {*JOBS, *(file for files in JOBS.values() for file in files.values())}

    # The policy of the shop is that of its own job, for a federation.
    assert {p.relative_to(ROOT / "examples").as_posix() for p in own} <= {
        *tested,
        "shop_policy.toml",
    }
    shop = tomllib.loads((ROOT / "examples/shop_policy.toml").read_text())["policy"]
    assert shop["may_reveal"] == lists_in(ROOT / "examples/filters_vertical.toml")["shop"]


@pytest.mark.parametrize("name", JOBS)
def test_an_example_discloses_what_its_lists_name_and_needs_all_of_it(examples, name):
    job = examples / name
    lists = lists_in(job)
    assert lists

    rows = call("run", job, "--json").json["result"]["disclosures"]

    for party, given in lists.items():
        told = {row["kind"] for row in rows if party in row["about"].split(", ")}
        named = {kind for kind in given if kind not in KIND_SETS}
        assert told <= expand_kinds(given)
        assert named <= told | FORESEEN.get((name, party), set())
        for kind in sorted(told | named):
            shorter = job.with_name(f"without_{kind}.toml")
            rest = sorted(expand_kinds(given) - {kind})
            shorter.write_text(with_list(job.read_text(), party, rest))

            refused = call("run", shorter)

            assert refused.exit_code == 4
            assert f"{kind!r}" in refused.err
            assert "may_reveal" in refused.err
            shorter.unlink()


def with_list(text, party, names):
    """A job in which one party has another list."""
    before, found, after = text.partition(f'name = "{party}"\n')
    kinds = ", ".join(f'"{name}"' for name in names)
    assert found
    return before + found + MAY_REVEAL.sub(f"may_reveal = [{kinds}]", after, count=1)


def test_pages_name_kinds_that_exist_and_lists_that_are_tested():
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    found = [
        (page.name, tuple(re.findall(r"\"([^\"]+)\"", match["names"])))
        for page in pages
        for match in LIST.finditer(page.read_text())
    ]
    jobs = [ROOT / "examples" / job for job in JOBS]
    tested = {tuple(given) for job in jobs for given in lists_in(job).values()}

    assert len(found) >= 5
    for page, names in found:
        assert set(names) <= KINDS | set(KIND_SETS), page
        assert names in tested, page


def test_sets_hold_kinds_that_exist_and_are_no_kinds_themselves():
    for name, kinds in KIND_SETS.items():
        assert set(kinds) <= KINDS
        assert name not in KINDS
