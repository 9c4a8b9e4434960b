"""The page on chained jobs: its job file passes the plan, its code runs."""

import re
import shutil
from pathlib import Path

import pytest

from fedsift.cli.prepare import read_job
from helpers.cli import call

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "chains.md").read_text(encoding="utf-8")


@pytest.fixture
def job(tmp_path):
    block = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)[0]
    shutil.copytree(ROOT / "examples" / "data", tmp_path / "examples" / "data")
    path = tmp_path / "job.toml"
    path.write_text(block, encoding="utf-8")
    return path


def test_the_job_of_the_page_passes_the_plan(job):
    plan = call("plan", job, "--json")

    assert plan.exit_code == 0, plan.err
    assert plan.json["steps"] == ["filter", "fedsdg", "train", "predict"]
    assert {row["step"] for row in plan.json["disclosures"]} == {0, 1, 2, 3, 4}
    assert [step.seed for step in read_job(job).steps] == [None] * 4


def test_the_code_of_the_page_runs():
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names = {}
    exec(compile(block, "chains.md", "exec"), names)  # noqa: S102 - the documentation's own code

    chain = names["chain"]
    assert [step.method for step in chain.result_.steps][-2:] == ["train", "predict"]
    assert 0 <= chain.result_.steps[-1].parameters["score"] <= 1
