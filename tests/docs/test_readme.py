"""The README says what is true: its figures come from files, its code runs, its commands exist."""

import importlib.util
import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_figures_come_from_the_committed_results():
    spec = importlib.util.spec_from_file_location("table", ROOT / "benchmarks" / "readme_table.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    results = json.loads((ROOT / "benchmarks" / "filters.json").read_text(encoding="utf-8"))
    assert results["profile"] == "regular"
    assert module.updated(README, results) == README
    missed = [row["case"] for row in results["rows"] if not all(row["bars"].values())]
    assert missed == []


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
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert "<!-- learns:" in text, page.name
        assert module.updated(text) == text, page.name


def test_the_tables_of_the_interaction_page_are_those_of_the_committed_run():
    page = (ROOT / "docs" / "methods" / "interaction.md").read_text(encoding="utf-8")
    results = json.loads((ROOT / "benchmarks" / "interaction.json").read_text(encoding="utf-8"))
    for row in results["rows"]:
        counts = row["operations"]
        cells = (
            row["case"],
            f"{row['seconds']:.0f}",
            f"{row['bytes'] / 1e6:.0f}",
            f"{row['peak_memory'] / 2**20:.0f}",
            *(str(counts[k]) for k in ("encryptions", "ciphertext products", "rotations")),
        )
        assert "| " + " | ".join(cells) + " |" in page, row["case"]
    for row in results["accuracy"][:10]:
        n, m = row["shape"]
        cells = [f"{v:.1f} ({row['standard_error'][k]:.1f})" for k, v in row["accuracy"].items()]
        line = f"| {row['data']} | {n} x {m}, {row['n_classes']} | " + " | ".join(cells) + " |"
        assert line in page, row["data"]
    assert all(results["accuracy_summary"]["bars"].values())
    assert all(results["xor"]["bars"].values())


def test_a_page_without_a_result_file_says_so():
    for page in (ROOT / "docs" / "methods").glob("*.md"):
        text = page.read_text(encoding="utf-8")
        named = set(re.findall(r"benchmarks/(\w+\.json)", text))
        missing = {name for name in named if not (ROOT / "benchmarks" / name).exists()}
        assert not missing or "not in the repository yet" in text, (page.name, missing)
