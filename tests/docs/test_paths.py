"""Tests and folders of tests that documents and docstrings name exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMED = re.compile(r"(?<![\w/])tests/[\w*/.-]*[\w*]")
PLACES = ("*.md", "Makefile", ".ci/*", "docs/**/*.md", "tests/*.md", "src/**/*.py", "benchmarks/**/*.py", "benchmarks/**/*.toml")  # fmt: skip
NAMES = sorted(
    {
        (str(path.relative_to(ROOT)), name)
        for place in PLACES
        for path in ROOT.glob(place)
        if path.is_file() and path.name != "CHANGELOG.md"  # history keeps its names
        for name in NAMED.findall(path.read_text(encoding="utf-8"))
    }
)


def test_some_are_named():
    assert len(NAMES) > 10


@pytest.mark.parametrize(("page", "name"), NAMES)
def test_it_exists(page, name):
    assert list(ROOT.glob(name)), f"{page} names {name}"
