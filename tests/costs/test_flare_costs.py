"""Jobs between organisations: counts from shapes."""

import numpy as np
import pandas as pd
import pytest

from benchmarks.suites.runtime.jobs import ID, LABEL
from fedsift.config.toml import toml_text
from fedsift.costs.estimate import ROUND_SECONDS, START_SECONDS
from helpers.cli import call


def job_file(folder, method, parameters, parties, *, engine, setting="vertical", ids=False):
    data = {"setting": setting, "label": {"party": parties[0], "column": LABEL}}
    if setting == "horizontal":
        data = {"setting": setting, "label": LABEL}
    content = {
        "job": {"method": method, "seed": 0},
        "data": data | ({"id": ID} if ids else {}),
        "method": parameters,
        "party": [{"name": name, "data": f"{name}.csv"} for name in parties],
        "runtime": {"engine": engine} | ({"kit": "kit"} if engine == "flare" else {}),
    }
    path = folder / f"{engine}.toml"
    path.write_text(toml_text(content), encoding="utf-8")
    return path


def shapes_of(sizes):
    return [part for name, size in sizes.items() for part in ("--shape", f"{name}={size}")]


CASES = {
    "filter": ({"n_features_to_select": 3}, "vertical"),
    "interaction": ({"n_features_to_select": 3}, "vertical"),
    "dcfs": ({"n_features_to_select": 3}, "horizontal"),
}


@pytest.mark.parametrize("method", CASES)
def test_a_plan_from_shapes_has_the_counts_of_a_run_on_such_tables(method, tmp_path):
    parameters, setting = CASES[method]
    rng, sizes = np.random.default_rng(3), {"bank": (90, 4), "shop": (90, 6), "clinic": (90, 5)}
    for name, (n_rows, n_columns) in sizes.items():
        width = n_columns if setting == "vertical" else 5
        sizes[name] = (n_rows, width)
        prefix = name if setting == "vertical" else "x"
        frame = pd.DataFrame(
            rng.normal(size=(n_rows, width)), columns=[f"{prefix}_{i}" for i in range(width)]
        )
        if name == "bank" or setting == "horizontal":
            frame[LABEL] = np.arange(n_rows) % 2
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    options = {"parameters": parameters, "parties": list(sizes), "setting": setting}
    here = job_file(tmp_path, method, **options, engine="embedded")
    there = job_file(tmp_path, method, **options, engine="flare")
    shapes = shapes_of({name: f"{rows}x{columns}" for name, (rows, columns) in sizes.items()})

    told = call("plan", there, *shapes, "--json").json
    ran = call("run", here, "--out", tmp_path / "out", "--json").json["result"]

    assert (told["n_rows"], told["n_features"]) == (
        ran["shape"]["n_rows"],
        ran["shape"]["n_features"],
    )
    for count in ("rounds", "messages", "ciphertexts"):
        assert told["cost"][count] == ran["traffic"][count], count
    assert told["cost"]["bytes"] == pytest.approx(ran["traffic"]["n_bytes"], rel=0.02)


def test_the_parts_of_a_flare_prediction_add_up_and_say_what_they_are(tmp_path):
    path = job_file(tmp_path, "filter", {}, ["bank", "shop"], engine="flare")
    asked = ("plan", path, *shapes_of({"bank": "200x4", "shop": "200x6"}))

    told = call(*asked, "--json").json["cost"]
    shown = call(*asked).out

    assert told["seconds"] == pytest.approx(told["cpu_seconds"] + sum(told["waiting"].values()))
    assert told["cpu_seconds"] == pytest.approx(sum(told["phases"].values()))
    assert "messages" not in told["phases"]
    assert told["waiting"]["rounds"] == pytest.approx(told["rounds"] * ROUND_SECONDS)
    assert "FLARE on a loopback: rounds" in shown
    assert "Every organisation's own policy decides" in shown


def test_a_range_of_epochs_is_a_range_on_flare_too(tmp_path):
    path = job_file(
        tmp_path, "interaction", {"n_features_to_select": "auto"}, ["a", "b"], engine="flare"
    )

    told = call("plan", path, *shapes_of({"a": "100x4", "b": "100x6"}), "--json").json["cost"]

    assert told["lowest"]["seconds"] < told["seconds"] < told["highest"]["seconds"]
    assert told["lowest"]["seconds"] > START_SECONDS


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ((), "tables of this job are at the organisations"),
        (("--shape", "bank=100x3"), "No shape is given for: shop"),
        (("--shape", "bank=100"), "cannot be read"),
        (("--shape", "bank=0x3"), "cannot be read"),
        (("--shape", "bnk=100x3"), "no party of the job"),
        (("--shape", "bank=100x3", "--shape", "shop=90x3", "--common", "91"), "91 rows in common"),
        (("--shape", "bank=100x3", "--shape", "shop=90x3", "--classes", "1"), "1 classes"),
    ],
)
def test_shapes_that_cannot_be_are_refused(arguments, found, tmp_path):
    path = job_file(tmp_path, "filter", {}, ["bank", "shop"], engine="flare")

    refused = call("plan", path, *arguments)

    assert refused.exit_code == 2
    assert found in " ".join(refused.err.split())


def test_a_catalogued_set_needs_no_shapes(tmp_path):
    path = tmp_path / "job.toml"
    path.write_text('[job]\nmethod = "filter"\n[data]\ndataset = "wine"\nparties = ["a", "b"]\n')

    refused = call("plan", path, "--shape", "a=10x2", "--shape", "b=10x2")

    assert refused.exit_code == 2
    assert "Leave --shape out" in refused.err
