"""Figures on pages are those of committed result files; none is typed by hand."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

from fedsift.maths.scores import gini_error_bound

ROOT = Path(__file__).resolve().parents[2]
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
    "above 4 % of the features lowers it": "a rule of the method",
    "accuracies of 98.7 to 99.9 % on MADELON": "the paper's",
    "80 % of the rows train": "a setting",
    "between 5 and 50 percent": "a setting",
    "70 to 80 % accuracy on white wine": "the paper's",
    "The price is 8 kB": "follows from the number of steps",
    "blocks of 1 MiB are searched": "a setting",
    "more than 2.7 times as likely": "e",
    "two classes has to tell (0.69 nats)": "the logarithm of 2",
    "18.9 ms\nper round": "compared with the result file by tests/costs/test_flare_costs.py",
}
"""Numbers with a unit that no run has measured or that another test compares, and what they are."""
INLINE = {
    "docs/methods/fedsdg.md": "fedsdg",
    "docs/methods/fpso.md": "fpso",
    "docs/methods/interaction.md": "interaction",
    "docs/methods/vfps.md": "vfps",
    "docs/runtime.md": "runtime",
}
"""Pages with figures inside sentences, and the result file that they come from."""


def pages():
    """Everything a reader is shown; the page on reproduction is generated as a whole."""
    found = [ROOT / "README.md", ROOT / "SECURITY.md", *(ROOT / "docs").rglob("*.md")]
    return sorted(path for path in found if path.name != "reproduction.md")


def tables_of(name):
    path = ROOT / "benchmarks" / f"{name}_tables.py"
    spec = importlib.util.spec_from_file_location(f"{name}_tables", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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


def test_figures_inside_sentences_have_a_result_file():
    marked = {
        str(path.relative_to(ROOT))
        for path in pages()
        if "<!-- figure:" in path.read_text(encoding="utf-8")
    }
    assert marked == set(INLINE)


@pytest.mark.parametrize(("page", "name"), INLINE.items())
def test_figures_inside_sentences_follow_the_result_file(page, name):
    tables, text = tables_of(name), (ROOT / page).read_text(encoding="utf-8")
    one_file = ROOT / "benchmarks" / f"{name}.json"
    several = hasattr(tables, "read")
    results = tables.read() if several else json.loads(one_file.read_text(encoding="utf-8"))

    assert tables.updated(text, results) == text
    for match in tables.INLINE.finditer(text):
        wrong = text.replace(match[0], f"{match[1]}something else{match[3]}")
        assert tables.updated(wrong, results) == text, match[2]


def test_another_run_would_change_the_interaction_page():
    tables = tables_of("interaction")
    text = (ROOT / "docs" / "methods" / "interaction.md").read_text(encoding="utf-8")
    results = json.loads((ROOT / "benchmarks" / "interaction.json").read_text(encoding="utf-8"))
    results["xor"]["right_after_its_mate"]["paper"] = 0.5
    results["accuracy_summary"]["mean"]["miw"] += 1
    results["rows"][0]["seconds"] += 100
    fresh = tables.updated(text, results)

    assert "found in <!-- figure:xor -->50 to 100 %<!-- /figure -->" in fresh
    assert "<!-- figure:lead -->3.2 points<!-- /figure --> ahead of Gini" in fresh
    assert "| wine_white miw complete | 116 |" in fresh


def test_the_bound_of_rounded_scores_is_that_of_the_code():
    page = (ROOT / "docs" / "methods" / "filter.md").read_text(encoding="utf-8")
    most = max(gini_error_bound(2**k) for k in range(4, 21))

    assert f"within {most:.1e} with".replace("e-0", "e-") in page
    assert f"that is {most:.1e};".replace("e-0", "e-") in page
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "fixed-point bound below 1e-4" in readme
    assert most < 1e-4
