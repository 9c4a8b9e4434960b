"""The notebooks were run when they were saved, and their code still runs."""

import dataclasses
import json
from pathlib import Path

import pytest
from sklearn.base import clone

from fedsift.errors import PolicyViolation

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


def cells_of(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def test_there_are_two():
    assert [path.stem for path in NOTEBOOKS] == ["bank_and_shop", "hospitals"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_was_saved_after_a_complete_run(path):
    cells = cells_of(path)
    counts = [cell["execution_count"] for cell in cells]
    assert counts == list(range(1, len(cells) + 1))
    kinds = {output["output_type"] for cell in cells for output in cell["outputs"]}
    assert kinds <= {"execute_result", "stream", "display_data"}
    assert sum(bool(cell["outputs"]) for cell in cells) >= 6
    assert "/tmp" not in path.read_text(encoding="utf-8")  # noqa: S108 - no path of a machine


def run(name, folder, monkeypatch):
    monkeypatch.chdir(folder)
    names = {"__name__": "__main__"}
    for cell in cells_of(ROOT / "examples" / "notebooks" / f"{name}.ipynb"):
        exec(compile("".join(cell["source"]), f"{name}.ipynb", "exec"), names)  # noqa: S102
    return names


def check_list(selector, federation):
    """Its run disclosed what its list names, and it could not do without any of it."""
    given = set(selector.policy.may_reveal)
    assert {row.kind for row in selector.result_.disclosures} <= given
    for kind in sorted(given):
        rest = dataclasses.replace(selector.policy, may_reveal=tuple(given - {kind}))
        with pytest.raises(PolicyViolation, match=f"'{kind}'"):
            clone(selector).set_params(policy=rest).plan(federation)


@pytest.mark.timeout(400)  # on a machine with other work to do
def test_bank_and_shop(tmp_path, monkeypatch, capsys):
    names = run("bank_and_shop", tmp_path, monkeypatch)
    assert set(names["vfps"].selected_participants_) == {"shop"}
    check_list(names["vfps"], names["federation"](names["train"]))
    selected = names["fedsdg"].result_.selected
    assert set(selected) == {"bank", "shop"}
    assert "returns_share" in selected["shop"]
    assert names["fedsdg"].score(names["federation"](names["test"], names["pair"])) > 0.75
    assert "E501" in capsys.readouterr().out
    assert (tmp_path / "bank_and_shop.html").stat().st_size > 5_000


@pytest.mark.timeout(400)
def test_hospitals(tmp_path, monkeypatch, capsys):
    names = run("hospitals", tmp_path, monkeypatch)
    assert names["rows"]["f"][0] > 0.93
    assert names["rows"]["f"][2] == 0
    assert set(names["chosen"]["mi"]) <= set(names["X"].columns)
    assert "E501" in capsys.readouterr().out
