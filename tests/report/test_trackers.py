"""Sinks: what a tracker of experiments gets of a result, and nothing else."""

import json
import sys

import numpy as np
import pytest

import fedsift as fs
from fedsift.config.job import Trackers
from fedsift.errors import FileProblem, JobError, MissingPackage
from fedsift.report import trackers as sinks
from fedsift.result import SelectionResult
from helpers.cli import CELL, Workshop

EPOCHS = tuple(
    {"epoch": i, "max_epochs": 3, "open_features": 5 - i, "open_embeddings": 4,
     "training_loss": 1.0 / (i + 1), "validation_loss": 1.1 / (i + 1), "validation_score": 0.5}
    for i in range(3)
)  # fmt: skip
TRAINED = SelectionResult(
    "fedsdg", "vertical", {"a": ("x",)}, history=EPOCHS, seed=4, parameters={"lam": 0.1}
)


@pytest.fixture(scope="module")
def filtered():
    """A result of a real run on a table with one conspicuous value."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4)), np.arange(60) % 2
    X[3, 2] = CELL
    few = {"n_features_to_select": 2, "security": "plain", "random_state": 0}
    return fs.FilterSelector("gini", **few).fit(X, y).result_


@pytest.fixture
def workshop(tmp_path):
    made = Workshop(tmp_path)
    made.sections["method"]["security"] = "plain"
    return made


def test_curves_are_logged_by_epoch():
    told = sinks.entries_of(TRAINED).numbers
    losses = [(value, step) for name, value, step in told if name == "training/training_loss"]

    assert losses == [(1.0, 1), (0.5, 2), (pytest.approx(1 / 3), 3)]
    assert all(isinstance(value, float) for _, value, _ in told)
    assert ("selected", 1.0, 0) in told


def test_settings_cost_and_files_of_a_run_are_logged(filtered):
    entries = sinks.entries_of(filtered)

    numbers = {name: value for name, value, _ in entries.numbers}
    assert numbers["traffic/bytes"] == filtered.traffic.bytes
    assert numbers["seconds/encrypt"] == filtered.timings["encrypt"]
    assert entries.parameters["method"] == "filter"
    assert entries.parameters["seed"] == "0"
    assert entries.parameters["settings/score"] == "gini"
    assert entries.parameters["versions/fedsift"] == fs.__version__
    assert entries.tags["fedsift.security"] == "plain"
    assert json.loads(entries.files["result.json"])["method"] == "filter"
    assert "<html" in entries.files["report.html"]


def test_nothing_of_the_table_is_logged(filtered):
    entries = sinks.entries_of(filtered)
    texts = [*entries.files.values(), *entries.parameters.values(), *entries.tags.values()]

    assert not any(str(CELL) in text or "7654321" in text for text in texts)
    assert CELL not in [value for _, value, _ in entries.numbers]


def test_steps_of_a_chain_are_logged_one_by_one(filtered):
    chain = SelectionResult("chain", "vertical", TRAINED.selected, steps=(filtered, TRAINED))
    entries = sinks.entries_of(chain)

    names = {name for name, _, _ in entries.numbers}
    assert {"selected", "step 1 filter/selected", "step 2 fedsdg/training/training_loss"} <= names
    assert entries.parameters["step 2 fedsdg/lam"] == "0.1"


def test_names_are_plain_letters_and_values_are_short():
    wild = SelectionResult("filter", "vertical", {}, parameters={"a/b <x>\n$": "v" * 900})
    entries = sinks.entries_of(wild)

    assert entries.parameters["settings/a/b _x_ _"] == "v" * sinks.MOST_LETTERS


def test_without_the_packages_errors_say_what_to_install(monkeypatch, tmp_path):
    # Modules that another test has imported are found by their whole names.
    loaded = [name for name in sys.modules if name.split(".")[0] in {"mlflow", "tensorboard"}]
    for name in {"mlflow", "tensorboard", *loaded}:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingPackage, match=r"fedsift\[mlflow\]"):
        sinks.log_to_mlflow(TRAINED, "http://127.0.0.1:1")
    with pytest.raises(MissingPackage, match=r"fedsift\[tensorboard\]"):
        sinks.log_to_tensorboard(TRAINED, tmp_path)


@pytest.mark.parametrize("key", ["mlflow", "tensorboard"])
def test_a_job_that_cannot_be_logged_does_not_start(workshop, monkeypatch, key):
    monkeypatch.setitem(sys.modules, key, None)
    workshop.sections["output"] = {key: "http://me:secret@127.0.0.1:1"}

    ran = workshop.run("--json")

    assert ran.exit_code == 2
    assert ran.json["error"]["code"] == "E204"
    assert f"fedsift[{key}]" in ran.json["error"]["action"]
    assert "secret" not in ran.out + ran.err
    assert not workshop.out.exists()


def test_an_address_is_not_shown():
    assert "secret" not in repr(Trackers("http://me:secret@tracker"))


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        ({"mlflow": " "}, "mlflow is empty"),
        ({"mlflow_experiment": "loans"}, "There is no MLflow"),
        ({"tensorbord": "runs"}, "Did you mean 'tensorboard'"),
    ],
)
def test_keys_of_trackers_are_checked(workshop, output, problem):
    from fedsift.cli.prepare import read_job

    workshop.sections["output"] = output
    with pytest.raises(JobError, match=problem):
        read_job(workshop.write())


@pytest.mark.filterwarnings("ignore")  # of TensorBoard itself
def test_a_job_is_logged_for_tensorboard(workshop):
    pytest.importorskip("tensorboard", reason="TensorBoard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    workshop.sections["output"] = {"tensorboard": "runs"}
    ran = workshop.run("--json")

    assert ran.exit_code == 0, ran.err
    (place,) = (workshop.folder / "runs").iterdir()
    assert ran.json["logged"] == {"tensorboard": str(place)}
    assert place.name.startswith("job-")
    found = EventAccumulator(str(place))
    found.Reload()
    result = SelectionResult.load(workshop.out / "result.json")
    for name, value, step in sinks.entries_of(result).numbers:
        assert (step, pytest.approx(value)) in [(e.step, e.value) for e in found.Scalars(name)]


def test_a_failing_tracker_says_where_the_result_is(workshop):
    pytest.importorskip("tensorboard", reason="TensorBoard is not installed")
    (workshop.folder / "runs").write_text("a file")
    workshop.sections["output"] = {"tensorboard": "runs"}

    ran = workshop.run()

    assert ran.exit_code == FileProblem.exit_code
    assert "did not take the result" in ran.err
    assert f"The result is in {workshop.out}" in ran.err
    assert (workshop.out / "result.json").exists()


@pytest.mark.filterwarnings("ignore")  # of MLflow itself
def test_mlflow_gets_everything(tmp_path, monkeypatch):
    """Runs where mlflow-skinny is installed, and what its local stores need."""
    tracking = pytest.importorskip("mlflow.tracking", reason="MLflow is not installed")
    pytest.importorskip("alembic", reason="MLflow's local stores need sqlalchemy and alembic")
    monkeypatch.chdir(tmp_path)  # where MLflow puts files
    uri = f"sqlite:///{tmp_path}/runs.db"
    run_id = sinks.log_to_mlflow(TRAINED, uri, experiment="loans")
    client = tracking.MlflowClient(uri)
    data = client.get_run(run_id).data

    assert data.params["method"] == "fedsdg"
    assert data.metrics["selected"] == 1
    history = client.get_metric_history(run_id, "training/open_features")
    assert [(one.step, one.value) for one in history] == [(1, 5), (2, 4), (3, 3)]
    assert {file.path for file in client.list_artifacts(run_id)} == {"report.html", "result.json"}
    assert client.get_experiment_by_name("loans") is not None
