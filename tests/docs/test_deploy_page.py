"""The page about federations says what is true: its files are read, its commands exist."""

import re
import tomllib
from pathlib import Path

import pytest
from typer.main import get_command

from fedsift.cli import app
from fedsift.deploy.kits import load_policy
from fedsift.deploy.project import load_project
from fedsift.methods.registry import schemas

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
KINDS = frozenset(kind for schema in schemas().values() for kind in schema.kinds)


@pytest.mark.parametrize("text", [PAGE, README], ids=["page", "readme"])
def test_every_command_and_option_exists(text):
    deploy = get_command(app).commands["deploy"].commands
    used = re.findall(r"fedsift deploy (\w+)([^\n`#|]*)", text)
    assert used
    for command, rest in used:
        options = {name for option in deploy[command].params for name in option.opts}
        assert set(re.findall(r"(?<!\S)(--?\w[\w-]*)", rest)) <= options, command


def test_the_files_of_the_page_are_read(tmp_path):
    blocks = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    project, policy, runtime = blocks
    (tmp_path / "project.toml").write_text(project)
    (tmp_path / "policy.toml").write_text(policy)

    assert load_project(tmp_path / "project.toml").organisations == ("bank", "shop")
    assert load_policy(tmp_path / "policy.toml", KINDS)["min_rows"] == 100
    assert tomllib.loads(runtime)["runtime"]["engine"] == "flare"


def test_the_examples_are_those_of_the_page():
    page = load_project_text(re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)[0])
    example = load_project_text((ROOT / "examples" / "project.toml").read_text())

    assert page == example
    assert load_policy(ROOT / "examples" / "shop_policy.toml", KINDS)["methods"] == ["filter"]


def load_project_text(text):
    return tomllib.loads(text)
