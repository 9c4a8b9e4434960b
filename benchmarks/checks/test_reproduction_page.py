"""The reproduction page: every cell of the five papers has a verdict, and no number is typed by hand."""

import json
import math
import re
import tomllib

import pytest

from benchmarks.pages.writer import ROOT
from benchmarks.reproduce import experiments, page, verdicts

SUITE = ROOT / "benchmarks" / "reproduce"
PAPERS = ("000", "001", "002", "003", "004")
VERDICTS = ("reproduced", "not reproduced", "not testable")


@pytest.fixture(scope="module")
def text():
    return (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")


def printed(paper):
    return tomllib.loads((SUITE / f"paper_{paper}.toml").read_text(encoding="utf-8"))


def results(paper):
    return json.loads((SUITE / f"results_{paper}.json").read_text(encoding="utf-8"))


def test_the_page_is_made_from_the_committed_files(text):
    assert page.content() == text


def test_the_verdict_comes_first_and_is_short(text):
    first = text.split("\n## ")[1]
    assert first.startswith("Verdict\n")
    words = first.split("\n| paper |")[0].split()
    assert 100 < len(words) <= 300


@pytest.mark.parametrize("paper", PAPERS)
def test_every_cell_has_a_line_with_a_verdict_and_a_reason(paper, text):
    chapter = text.split(f"\n## {paper}: ")[1].split("\n## ")[0]
    for item in printed(paper)["item"]:
        heading = f"### {item['name']}: {item['what']}\n"
        assert chapter.count(heading) == 1, heading
        section = chapter.split(heading)[1].split("\n### ")[0]
        lines = [[c.strip() for c in line.split("|")[1:-1]] for line in section.splitlines()]
        lines = [line for line in lines if line and not set(line[0]) <= {"-"}]
        single = len(item["columns"]) == 1
        for row, *values in item["rows"]:
            for column, value in zip(item["columns"], values, strict=True):
                if value == "" and item["columns"] != ["claim"]:
                    continue
                wanted = [row.replace("*", r"\*"), column][: 1 if single else 2]
                own = [line for line in lines if line[: len(wanted)] == wanted]
                assert len(own) == 1, (paper, item["id"], wanted)
                verdict, why = own[0][-2:]
                assert verdict in VERDICTS
                if verdict != "reproduced":
                    assert f"\n{why} " in section, (paper, item["id"], wanted)


@pytest.mark.parametrize("paper", PAPERS)
def test_no_answer_is_without_a_cell_of_the_paper(paper):
    """A misspelt row would silently leave its cell untested."""
    cells = {
        (item["id"], row, column)
        for item in printed(paper)["item"]
        for row, *_ in item["rows"]
        for column in item["columns"]
    }
    found = results(paper)["cells"]
    answered = {(i, r, c) for i, rows in found.items() for r, by in rows.items() for c in by}
    assert answered <= cells
    assert answered


@pytest.mark.parametrize("paper", PAPERS)
def test_results_come_from_recorded_runs(paper):
    found = results(paper)
    assert found["paper"] == paper
    assert {"python", "system", "cores", "versions"} <= set(found["machine"])
    jobs = [json.dumps(run["job"], sort_keys=True) for run in found["runs"]]
    assert len(jobs) == len(set(jobs)) > 0
    assert all(run["result"] and "seed" in run["job"] for run in found["runs"])
    assert {run["job"]["seed"] for run in found["runs"]} == set(found["seeds"])


@pytest.mark.parametrize("paper", PAPERS)
def test_borrowed_numbers_are_those_of_the_benchmark_files(paper):
    for rows in results(paper)["cells"].values():
        for answers in rows.values():
            for answer in answers.values():
                if "source" in answer:
                    value = experiments.resolve(answer["source"]["path"])
                    assert math.isclose(answer["source"]["times"] * value, answer["ours"])


@pytest.mark.parametrize(
    ("kind", "paper", "answer", "verdict"),
    [
        ("percent", 90.0, {"ours": 91.9}, "reproduced"),
        ("percent", 90.0, {"ours": 92.1}, "not reproduced"),
        ("percent", 90.0, {"ours": 94.0, "error": 2.1}, "reproduced"),
        ("percent", 90.0, {"ours": 86.0, "error": 1.9}, "not reproduced"),
        ("percent", [90.0, 10.0], {"ours": 94.0, "error": 0.0}, "reproduced"),
        ("percent", [90.0, 1.0], {"ours": 94.0, "error": 0.0}, "not reproduced"),
        ("percent", 90.0, {"ours": 94.0, "error": 5.1}, "not testable"),
        ("percent", 90.0, {"ours": 70.0, "error": 5.1}, "not reproduced"),
        ("percent", 90.0, {"ours": 90.0, "stand_in": True}, "not testable"),
        ("fraction", 0.6, {"ours": 0.63}, "not reproduced"),
        ("share", 0.03, {"ours": 0.02}, "reproduced"),
        ("count", 100, {"ours": 100}, "reproduced"),
        ("count", 100, {"ours": 99}, "not reproduced"),
        ("cost", [[2, "nm"], [1, ""]], {"ours": 13}, "reproduced"),
        ("cost", [[2, "nm"], [1, ""]], {"ours": 14}, "not reproduced"),
        ("claim", True, {"holds": True, "shown": "so"}, "reproduced"),
        ("claim", True, {"holds": False, "shown": "not so"}, "not reproduced"),
        ("claim", True, None, "not testable"),
        ("percent", "?", {"ours": 50.0}, "not testable"),
        ("count", "Tabular", None, "not testable"),
    ],
)
def test_verdicts_follow_the_stated_rules(kind, paper, answer, verdict):
    item = {"kind": kind, "runs": 4, "sizes": {"n": 3, "m": 2}}
    assert verdicts.judge(item, paper, answer).verdict == verdict


def test_other_results_would_change_the_page(text, monkeypatch):
    """The comparison above can fail: every number of ours is read, none is written down."""

    def shifted(paper):
        facts, found, reasons = load(paper)
        for rows in found["cells"].values():
            for answers in rows.values():
                for answer in answers.values():
                    if "ours" in answer:
                        answer["ours"] += 1000
                    else:
                        answer["holds"] = not answer["holds"]
        return facts, found, reasons

    load = page.load
    monkeypatch.setattr(page, "load", shifted)
    before, after = (re.findall(r"^\| .* \|$", t, re.MULTILINE) for t in (text, page.content()))
    assert len(before) == len(after)
    unchanged = set(before) & set(after)
    assert [line for line in unchanged if line.endswith("| reproduced |  |")] == []
