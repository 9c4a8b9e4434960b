"""Plots and sinks: the numbers of a result, drawn or handed on, and nothing else."""

import sys

import pytest

from browser_helpers import result_of
from fedsift import sinks
from fedsift.errors import FileProblem, MissingPackage, ParameterError
from fedsift.result import SelectionResult

EPOCHS = tuple(
    {"epoch": i, "max_epochs": 3, "open_features": 5 - i, "open_embeddings": 4,
     "training_loss": 1.0 / (i + 1), "validation_loss": 1.1 / (i + 1), "validation_score": 0.5}
    for i in range(3)
)  # fmt: skip


@pytest.fixture(scope="module")
def results():
    found = {name: result_of(name) for name in ("interaction", "vfps", "fpso")}
    trained = SelectionResult("fedsdg", "vertical", {"a": ("x",)}, history=EPOCHS)
    return {**found, "fedsdg": trained}


@pytest.fixture
def pyplot():
    matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    yield plt
    plt.close("all")


@pytest.mark.parametrize(
    ("plot", "method", "x_label"),
    [
        ("ranking", "interaction", "score"),
        ("interaction", "interaction", ""),
        ("participants", "vfps", "importance"),
        ("redundancy", "vfps", ""),
        ("convergence", "fpso", "step"),
        ("accuracy", "fpso", "features"),
        ("gates", "fedsdg", "epoch"),
        ("losses", "fedsdg", "epoch"),
        ("traffic", "vfps", "bytes"),
    ],
)
def test_every_plot_draws(pyplot, results, plot, method, x_label):
    axes = getattr(results[method], f"plot_{plot}")()

    assert axes.get_xlabel() == x_label
    assert axes.has_data()
    axes.figure.canvas.draw()


def test_curves_have_the_numbers_of_the_history(pyplot, results):
    (features, _) = results["fedsdg"].plot_gates().get_lines()
    assert features.get_ydata().tolist() == [5, 4, 3]
    assert features.get_xdata().tolist() == [1, 2, 3]


def test_ranking_lists_features_best_first(pyplot, results):
    found = results["interaction"]
    labels = [tick.get_text() for tick in found.plot_ranking().get_yticklabels()]
    ranks = {name: rank for own in found.ranking.values() for name, rank in own.items()}

    assert labels == sorted(ranks, key=ranks.get)


def test_own_axes_are_used(pyplot, results):
    _, mine = pyplot.subplots()
    assert results["vfps"].plot_traffic(mine, by="phase") is mine


def test_names_are_no_formulas(pyplot):
    """A lone dollar sign would be a syntax error of matplotlib's formulas."""
    evil = "$\\frac{1}$ $"
    result = SelectionResult(
        "filter",
        "vertical",
        {"a": (evil,)},
        {"a": {evil: 1.0, "_b": 2.0}},
        {"a": {evil: 1, "_b": 2}},
    )
    result.plot_ranking().figure.canvas.draw()


def test_what_a_method_does_not_report_cannot_be_drawn(pyplot, results):
    with pytest.raises(ParameterError, match="has no interactions"):
        results["fpso"].plot_interaction()
    with pytest.raises(ParameterError, match="by='x'"):
        results["fpso"].plot_traffic(by="x")


def test_without_the_libraries_errors_say_what_to_install(monkeypatch, results, tmp_path):
    for name in ("matplotlib", "mlflow", "mlflow.entities", "tensorboard", "tensorboard.compat"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingPackage, match=r"fedsift\[plots\]"):
        results["fpso"].plot_convergence()
    with pytest.raises(MissingPackage, match=r"fedsift\[mlflow\]"):
        sinks.log_to_mlflow(results["fpso"], str(tmp_path))
    with pytest.raises(MissingPackage, match=r"fedsift\[tensorboard\]"):
        sinks.log_to_tensorboard(results["fpso"], tmp_path)


def test_numbers_for_sinks(results):
    told = list(sinks.numbers_of(results["fedsdg"]))
    losses = [(value, step) for name, value, step in told if name == "training/training_loss"]

    assert losses == [(1.0, 1), (0.5, 2), (pytest.approx(1 / 3), 3)]
    assert all(isinstance(value, float) for _, value, _ in told)
    assert ("selected", 1.0, 0) in told
    assert dict(sinks.parameters_of(results["fedsdg"]))["method"] == "fedsdg"


def test_keys_for_sinks_are_plain_letters():
    assert sinks._key("a/b <x>\n$") == "a/b _x_ _"


@pytest.mark.filterwarnings("ignore")  # of MLflow itself
def test_mlflow_gets_everything(results, tmp_path, monkeypatch):
    """Runs where mlflow-skinny is installed, and what its local stores need."""
    tracking = pytest.importorskip("mlflow.tracking", reason="MLflow is not installed")
    pytest.importorskip("alembic", reason="MLflow's local stores need sqlalchemy and alembic")
    monkeypatch.chdir(tmp_path)  # where MLflow puts files
    uri = f"sqlite:///{tmp_path}/runs.db"
    run_id = sinks.log_to_mlflow(results["fedsdg"], uri)
    client = tracking.MlflowClient(uri)
    data = client.get_run(run_id).data

    assert data.params["method"] == "fedsdg"
    assert data.metrics["selected"] == 1
    history = client.get_metric_history(run_id, "training/open_features")
    assert [(one.step, one.value) for one in history] == [(1, 5), (2, 4), (3, 3)]
    assert {file.path for file in client.list_artifacts(run_id)} == {"report.html", "result.json"}


@pytest.mark.filterwarnings("ignore")  # of TensorBoard itself
def test_tensorboard_gets_every_number(results, tmp_path):
    """Runs where TensorBoard is installed."""
    pytest.importorskip("tensorboard", reason="TensorBoard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(sinks.log_to_tensorboard(results["fpso"], tmp_path / "run")))
    found.Reload()
    for name in {sinks._key(name) for name, _, _ in sinks.numbers_of(results["fpso"])}:
        assert found.Scalars(name)


def test_tensorboard_into_a_file_is_refused(results, tmp_path):
    pytest.importorskip("tensorboard", reason="TensorBoard is not installed")
    place = tmp_path / "file"
    place.write_text("x")
    with pytest.raises(FileProblem, match="did not take the result"):
        sinks.log_to_tensorboard(results["fpso"], place)


def test_a_result_file_is_enough(pyplot, results, tmp_path):
    path = results["interaction"].save(tmp_path / "r.json")
    again = SelectionResult.load(path)

    assert again.plot_interaction().has_data()
