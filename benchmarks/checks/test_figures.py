"""Figures on pages are those of committed result files; none is typed by hand."""

import importlib
import re

import pytest

from benchmarks.pages import interaction, readme
from benchmarks.pages.__main__ import NAMES
from benchmarks.pages.writer import INLINE, ROOT

GENERATED = re.compile(r"<!-- (?!not run|/)[^>]+? -->.*?<!-- /[^>]*-->", re.DOTALL)
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
MEASURED = re.compile(
    r"\d[\d.,]*(?: (?:to|and) \d[\d.,]*)?\s?(?:%|per ?cent\b|points?\b|ms\b|seconds?\b|minutes?\b|"
    r"[kMG]i?B\b|nats\b|times (?:as|faster|fewer|less|more)\b)"
)
NOT_MEASURED = {
    "with its 95 % interval": "a level of confidence",
    "One file below 2 MB": "a limit that a test keeps",
    "15 minutes by default": "a default",
    "plus 25 seconds": "what is allowed",
    "80 % of the rows for training": "a setting",
    "one of them with 90 % ones": "a setting",
    "accuracies of 98.7 to 99.9 % on MADELON": "the paper's",
    "80 % of the rows train": "a setting",
    "between 5 and 50 percent": "a setting",
    "70 to 80 % accuracy on white wine": "the paper's",
    "The price is 8 kB": "follows from the number of steps",
    "blocks of 1 MiB are searched": "a setting",
    "more than 2.7 times as likely": "e",
    "two classes has to tell (0.69 nats)": "the logarithm of 2",
    "18.9 ms\nper round": "compared with the result file by test_flare_costs.py",
}
"""Numbers with a unit that no run has measured or that another test compares, and what they are."""
PAGES = [importlib.import_module(f"benchmarks.pages.{name}").PAGE for name in NAMES]


def pages():
    """Everything a reader is shown; reproduction and the API are generated as a whole."""
    found = [ROOT / "README.md", ROOT / "SECURITY.md", *(ROOT / "docs").rglob("*.md")]
    return sorted(
        path for path in found if path.name != "reproduction.md" and path.parent.name != "api"
    )


def test_no_measured_figure_is_typed_by_hand():
    typed = []
    for path in pages():
        text = CODE.sub("", GENERATED.sub("", path.read_text(encoding="utf-8")))
        for known in NOT_MEASURED:
            text = text.replace(known, "")
        typed += [(path.name, match[0]) for match in MEASURED.finditer(text)]
    assert typed == []


def test_every_exception_is_still_needed():
    text = "".join(path.read_text(encoding="utf-8") for path in pages())
    assert [known for known in NOT_MEASURED if known not in text] == []


def test_typed_figures_would_be_found():
    for typed in ("2.2 points ahead", "about 15 ms", "93 to 100 % of", "3 times faster", "8.4 MB"):
        assert MEASURED.search(typed), typed


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_the_figures_are_those_of_the_committed_run(page):
    assert page.updated(page.text(), page.read()) == page.text()


def test_figures_inside_sentences_have_a_result_file():
    marked = {
        str(path.relative_to(ROOT))
        for path in pages()
        if "<!-- figure:" in path.read_text(encoding="utf-8")
    }
    assert marked == {page.path for page in PAGES if page.inline(page.read())}


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_figures_inside_sentences_follow_the_result_file(page):
    text, results = page.text(), page.read()
    for match in INLINE.finditer(text):
        wrong = text.replace(match[0], f"{match[1]}something else{match[3]}")
        assert page.updated(wrong, results) == text, match[2]


def test_another_run_would_change_the_interaction_page():
    results = interaction.PAGE.read()
    results["xor"]["right_after_its_mate"]["paper"] = 0.5
    results["accuracy_summary"]["mean"]["miw"] += 1
    results["rows"][0]["seconds"] += 100
    means = results["accuracy_summary"]["mean"]
    lead, seconds = means["miw"] - means["gini"], results["rows"][0]["seconds"]

    fresh = interaction.PAGE.updated(interaction.PAGE.text(), results)

    assert "found in <!-- figure:xor -->50 to 100 %<!-- /figure -->" in fresh
    assert f"<!-- figure:lead -->{lead:.1f} points<!-- /figure --> ahead of Gini" in fresh
    assert f"| wine_white miw complete | {seconds:.0f} |" in fresh


def test_the_committed_runs_of_the_readme_met_their_bars():
    results = readme.PAGE.read()
    assert results["profile"] == "regular"
    assert [row["case"] for row in results["rows"] if not all(row["bars"].values())] == []
    results = interaction.PAGE.read()
    assert all(results["accuracy_summary"]["bars"].values())
    assert all(results["xor"]["bars"].values())


def test_a_page_without_a_result_file_says_so():
    for page in (ROOT / "docs" / "methods").glob("*.md"):
        text = page.read_text(encoding="utf-8")
        named = set(re.findall(r"benchmarks/(\w+\.json)", text))
        missing = {name for name in named if not (ROOT / "benchmarks" / name).exists()}
        assert not missing or "not in the repository yet" in text, (page.name, missing)
