"""Plans of jobs between organisations against the committed runs on FLARE."""

import numpy as np
import pytest

from benchmarks.pages.writer import ROOT, load
from benchmarks.suites.runtime.jobs import ID, LABEL
from fedsift.config.toml import toml_text
from fedsift.costs.estimate import BYTE_SECONDS, ROUND_SECONDS, START_SECONDS
from helpers.cli import call

RUNTIME = load("runtime")
ROWS = {row["case"]: row for row in RUNTIME["rows"]}
JOBS = [row for row in RUNTIME["rows"] if row["job"].get("engine") == "FLARE" and "messages" in row]


def test_the_seconds_of_flare_are_those_of_the_committed_runs():
    short, long = ROWS["echo 100 B, FLARE"], ROWS["echo 20 MB, FLARE"]
    per_byte = (long["seconds"] - short["seconds"]) / (2 * long["job"]["size"])
    around = min(row["seconds"] - row["protocol_seconds"] for row in JOBS)

    assert pytest.approx(short["seconds"], rel=0.01) == ROUND_SECONDS
    assert pytest.approx(per_byte, rel=0.01) == BYTE_SECONDS
    assert pytest.approx(around, rel=0.01) == START_SECONDS
    page = (ROOT / "docs" / "costs.md").read_text(encoding="utf-8")
    for words in (
        f"{1e3 * ROUND_SECONDS:.1f} ms",
        f"{1e9 * BYTE_SECONDS:.1f} ns",
        f"{START_SECONDS:.1f} s",
    ):
        assert words in page


@pytest.mark.parametrize("row", JOBS, ids=[row["case"] for row in JOBS])
def test_a_plan_from_shapes_has_the_counts_of_the_committed_run_on_flare(
    row, tmp_path, monkeypatch
):
    monkeypatch.setenv("FEDSIFT_CALIBRATION", "typical")
    job = row["job"]
    columns = np.array_split(np.arange(job["features"]), len(job["parties"]))
    n_rows = round(job["rows"] * (0.98 if job["ids"] else 1))
    sizes = {
        name: f"{n_rows}x{len(own)}" for name, own in zip(job["parties"], columns, strict=True)
    }
    label = {"party": job["parties"][0], "column": LABEL}
    content = {
        "job": {"method": job["method"], "seed": 0},
        "data": {"setting": "vertical", "label": label} | ({"id": ID} if job["ids"] else {}),
        "method": job["parameters"],
        "party": [{"name": name, "data": f"{name}.csv"} for name in job["parties"]],
        "runtime": {"engine": "flare", "kit": "kit"},
    }
    path = tmp_path / "job.toml"
    path.write_text(toml_text(content), encoding="utf-8")
    shapes = [part for name, size in sizes.items() for part in ("--shape", f"{name}={size}")]
    common = ["--common", str(round(job["rows"] * 0.98 ** len(sizes)))] if job["ids"] else []

    told = call("plan", path, *shapes, *common, "--json").json["cost"]

    assert (told["rounds"], told["messages"]) == (row["rounds"], row["messages"])
    assert told["bytes"] == pytest.approx(row["sent_bytes"], rel=0.1)
    # On a machine like that of the figures, which had other work to do.
    assert told["seconds"] == pytest.approx(row["seconds"], rel=0.5)
