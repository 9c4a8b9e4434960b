"""A project of two organisations, as text that can be bent in many ways."""

import json
from pathlib import Path

PROJECT = """\
[project]
name = "credit"

[hub]
host = "hub.example.org"
port = 8002

[[organisation]]
name = "bank"

[[organisation]]
name = "shop-2"

[[submitter]]
name = "ann@bank.example"
organisation = "bank"
"""
ANN = "ann@bank.example"


def write_project(folder: Path, swap: dict[str, str] | None = None) -> Path:
    text = PROJECT
    for old, new in (swap or {}).items():
        assert old in text
        text = text.replace(old, new, 1)
    path = folder / "project.toml"
    path.write_text(text, encoding="utf-8")
    return path


def files_of(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def content(path: Path):
    return json.loads(path.read_text(encoding="utf-8"))
