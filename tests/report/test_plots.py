"""Plots: the numbers of a result, drawn, and nothing else."""

import sys

import numpy as np
import pytest

from fedsift.errors import MissingPackage, ParameterError
from fedsift.result import SelectionResult
from helpers.reports import result_of

EPOCHS = tuple(
    {"epoch": i, "max_epochs": 3, "open_features": 5 - i, "open_embeddings": 4,
     "training_loss": 1.0 / (i + 1), "validation_loss": 1.1 / (i + 1), "validation_score": 0.5}
    for i in range(3)
)  # fmt: skip


@pytest.fixture(scope="module")
def results():
    found = {name: result_of(name) for name in ("interaction", "vfps", "fpso")}
    trained = SelectionResult("fedsdg", "vertical", {"a": ("x",)}, history=EPOCHS)
    return {**found, "fedsdg": trained, "fedsdg blind": result_of("fedsdg blind")}


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
        ("ranking", "fpso", "share of subsets"),
        ("interaction", "interaction", ""),
        ("participants", "vfps", "importance"),
        ("redundancy", "vfps", ""),
        ("convergence", "fpso", "step"),
        ("accuracy", "fpso", "features"),
        ("gates", "fedsdg", "epoch"),
        ("losses", "fedsdg", "epoch"),
        ("frontier", "fedsdg blind", "features"),
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


def test_the_frontier_has_the_smallest_losses_and_marks_the_selection(pyplot, results):
    found = results["fedsdg blind"]
    line, cut = found.plot_frontier().get_lines()
    shown = dict(zip(line.get_xdata().tolist(), line.get_ydata().tolist(), strict=True))
    losses: dict[float, float] = {}
    for entry in found.history:
        n_open = float(entry["open_features"])
        losses[n_open] = min(entry["validation_loss"], losses.get(n_open, np.inf))
    assert shown == {
        n: loss for n, loss in losses.items()
        if n and all(loss < other for m, other in losses.items() if 0 < m < n)
    }  # fmt: skip
    assert cut.get_xdata() == [found.n_selected] * 2


def test_ranking_lists_features_best_first(pyplot, results):
    found = results["interaction"]
    labels = [tick.get_text() for tick in found.plot_ranking().get_yticklabels()]
    ranks = {name: rank for own in found.ranking.values() for name, rank in own.items()}

    assert labels == sorted(ranks, key=ranks.get)


def test_ranking_has_bars_of_one_standard_error(pyplot):
    found = result_of("filter")
    (entry,) = [one for one in found.history if "standard_errors" in one]
    errors = {name: e for own in entry["standard_errors"].values() for name, e in own.items()}

    axes = found.plot_ranking()

    names = [tick.get_text() for tick in axes.get_yticklabels()]
    bars = [box.get_children()[-1].get_segments()[0] for box in axes.containers]
    half = {name: (bar[1][0] - bar[0][0]) / 2 for name, bar in zip(names, bars, strict=True)}
    assert half == pytest.approx({name: errors[name] for name in names})


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


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch, results):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingPackage, match=r"fedsift\[plots\]"):
        results["fpso"].plot_convergence()


def test_a_result_file_is_enough(pyplot, results, tmp_path):
    path = results["interaction"].save(tmp_path / "r.json")
    again = SelectionResult.load(path)

    assert again.plot_interaction().has_data()
