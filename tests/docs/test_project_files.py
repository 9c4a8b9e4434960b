"""Files that every project has agree with the code, and with each other."""

import re
import tomllib
from pathlib import Path

import yaml

import fedsift

ROOT = Path(__file__).resolve().parents[2]


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_version_is_the_same_everywhere():
    project = tomllib.loads(read("pyproject.toml"))["project"]
    citation = yaml.safe_load(read("CITATION.cff"))
    assert project["version"] == fedsift.__version__ == citation["version"]
    assert project["license"] == citation["license"]


def test_the_changelog_has_an_entry_for_this_version():
    headings = re.findall(r"^## (\d+\.\d+\.\d+)", read("CHANGELOG.md"), re.MULTILINE)
    assert fedsift.__version__ in headings
    assert headings == sorted(headings, reverse=True)


def test_hooks_before_a_commit_run_what_make_check_runs():
    hooks = yaml.safe_load(read(".pre-commit-config.yaml"))["repos"][0]["hooks"]
    target = re.search(r"^check:.*\n((?:\t.*\n)+)", read("Makefile"), re.MULTILINE)
    checked = re.findall(r"\$\(BIN\)/([\w-]+(?: (?:format|check))?)", target[1])
    hooked = [
        re.match(r"\.venv/bin/([\w-]+(?: (?:format|check))?)", hook["entry"]) for hook in hooks
    ]
    assert sorted(found[1] for found in hooked) == sorted(checked)


def test_the_glossary_has_at_most_fifteen_words():
    words = read("CONTRIBUTING.md").split("\n## Words\n")[1]
    rows = re.findall(r"^\| (?!word|---)([^|]+) \|", words, re.MULTILINE)
    assert 10 <= len(rows) <= 15


def test_every_layer_is_on_the_page_for_contributors():
    page = read("CONTRIBUTING.md").split("\n## Where things are\n")[1].split("\n## ")[0]
    contract = tomllib.loads(read("pyproject.toml"))["tool"]["importlinter"]["contracts"][0]
    layers = {name for layer in contract["layers"] for name in re.findall(r"fedsift\.(\w+)", layer)}
    named = re.findall(r"`(\w+)`", page)
    assert layers <= set(named)
    down = ["cli", "lab", "deploy", "jobs", "methods", "engine", "protocol", "crypto", "config"]
    assert sorted(down, key=named.index) == down


def test_templates_for_issues_are_well_formed():
    forms = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
    assert {form.stem for form in forms} == {"bug", "config", "idea"}
    for form in forms:
        fields = yaml.safe_load(form.read_text(encoding="utf-8"))
        if form.stem != "config":
            assert {"name", "description", "body"} <= set(fields)
            assert any(field["type"] == "textarea" for field in fields["body"])


def test_every_decision_is_listed_under_its_title():
    page = read("docs/decisions.md")
    decisions = sorted((ROOT / "docs" / "adr").glob("*.md"))
    assert decisions
    for number, path in enumerate(decisions, start=1):
        title = path.read_text(encoding="utf-8").splitlines()[0].removeprefix(f"# {number}. ")
        assert f"| {number} | [{title}](adr/{path.name}) |" in page
