"""The page about attacks names options that exist."""

import re
from pathlib import Path

from typer.main import get_command

from fedsift.cli import app

PAGE = Path(__file__).resolve().parents[2] / "docs" / "attacks.md"


def test_every_option_of_the_page_exists():
    known = {name for option in get_command(app).commands["attack"].params for name in option.opts}
    used = re.findall(r"\$ fedsift attack([^\n#]*)", PAGE.read_text(encoding="utf-8"))
    assert len(used) == 4
    for rest in used:
        assert set(re.findall(r"(?<!\S)(--?\w[\w-]*)", rest)) <= known
