"""The README says what is true: its code runs, its commands exist."""

import importlib.util
import re
from pathlib import Path

from fedsift.methods.filter.scores import gini_error_bound

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_first_example_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code = re.findall(r"```python\n(.*?)```", README, re.DOTALL)[0]
    exec(compile(code, "README.md", "exec"), {})  # noqa: S102
    printed = capsys.readouterr().out
    assert "feature-scores" in printed
    assert (tmp_path / "report.html").stat().st_size > 5_000


def test_the_two_commands_come_first():
    first = README.index("```console")
    assert README.index("make demo") < README.index("make test")
    assert first < README.index("make demo") < README.index("```python")


def test_every_command_of_the_readme_exists():
    from typer.main import get_command

    from fedsift.cli import app

    known = set(get_command(app).commands)
    named = set(re.findall(r"^fedsift (\w+)", README, re.MULTILINE))
    assert named <= known


def test_the_tables_of_the_method_pages_come_from_the_declarations():
    spec = importlib.util.spec_from_file_location("learns", ROOT / "docs" / "who_learns_what.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    pages = sorted((ROOT / "docs" / "methods").glob("*.md"))
    assert pages
    for page in (*pages, ROOT / "docs" / "evidence" / "fedsdg.md"):
        text = page.read_text(encoding="utf-8")
        assert "<!-- learns:" in text, page.name
        assert module.updated(text) == text, page.name


def test_the_bound_of_rounded_scores_is_that_of_the_code():
    page, evidence = (
        (ROOT / "docs" / folder / "filter.md").read_text(encoding="utf-8")
        for folder in ("methods", "evidence")
    )
    most = max(gini_error_bound(2**k) for k in range(4, 21))

    assert f"within {most:.1e} with".replace("e-0", "e-") in page
    assert f"that is {most:.1e};".replace("e-0", "e-") in evidence
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "fixed-point bound below 1e-4" in readme
    assert most < 1e-4
