# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Results for trackers of experiments: MLflow and TensorBoard, both optional.

Parameters, counts, seconds and curves are logged, and the result file itself where a tracker keeps
files. All of it is in the result already; nothing else leaves.
"""

from __future__ import annotations

import importlib.util
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from fedsift.errors import FileProblem, MissingPackage
from fedsift.report import curves, html
from fedsift.report.view import clean
from fedsift.result import SelectionResult

MOST_LETTERS = 500
"""Longest value of a parameter that MLflow takes."""

_AT_ONCE = 100
"""Most entries that MLflow takes in one request, of any kind."""

# MLflow reports on its users unless it is told not to, and waits minutes for a server that is away.
_MLFLOW_SETTINGS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "GIT_PYTHON_REFRESH": "quiet",
}


@dataclass(frozen=True)
class Entries:
    """What a tracker is given of a result, under names that every tracker takes.

    Parameters
    ----------
    numbers : tuple of (name, value, step)
    parameters, tags : dict of str to str
    files : dict of name to text
    """

    numbers: tuple[tuple[str, float, int], ...]
    parameters: Mapping[str, str]
    tags: Mapping[str, str]
    files: Mapping[str, str]


def entries_of(result: SelectionResult) -> Entries:
    """Everything that is logged of a result; needs no tracker."""
    parameters = {_key(name): text[:MOST_LETTERS] for name, text in parameters_of(result)}
    tags = {
        "fedsift.setting": clean(result.setting),
        "fedsift.security": clean(result.security),
        "fedsift.headline": clean(result.headline())[:MOST_LETTERS],
    }
    files = {"result.json": result.to_json() + "\n", "report.html": html.render(result)}
    numbers = tuple((_key(name), value, step) for name, value, step in numbers_of(result))
    return Entries(numbers, parameters, tags, files)


def check_installed(*, mlflow: bool = False, tensorboard: bool = False) -> None:
    """Refuse trackers whose packages are missing: before a long run rather than after it."""
    if mlflow and importlib.util.find_spec("mlflow") is None:
        raise _missing("MLflow", "mlflow")
    if tensorboard and importlib.util.find_spec("tensorboard") is None:
        raise _missing("TensorBoard", "tensorboard")


def log_to_mlflow(
    result: SelectionResult,
    tracking_uri: str | None = None,
    *,
    experiment: str = "fedsift",
    run_name: str | None = None,
) -> str:
    """Log a result as one MLflow run.

    Parameters
    ----------
    tracking_uri : str, optional
        Of a server, or of a local store such as ``sqlite:///mlruns.db``; MLflow's own setting if
        missing.
    experiment : str
        Made if it is not there.
    run_name : str, optional
        The method if missing.

    Returns
    -------
    run_id : str
    """
    for name, value in _MLFLOW_SETTINGS.items():
        os.environ.setdefault(name, value)
    try:
        from mlflow.entities import Metric, Param, RunTag
        from mlflow.exceptions import MlflowException
        from mlflow.tracking import MlflowClient
    except ImportError as error:
        raise _missing("MLflow", "mlflow") from error

    entries = entries_of(result)
    try:
        client = MlflowClient(tracking_uri)
        known = client.get_experiment_by_name(experiment)
        number = known.experiment_id if known else client.create_experiment(experiment)
        run = client.create_run(number, run_name=run_name or result.method)
        run_id: str = run.info.run_id
        start = run.info.start_time
        client.log_batch(run_id, tags=[RunTag(*tag) for tag in entries.tags.items()])
        parameters = [Param(*one) for one in entries.parameters.items()]
        metrics = [Metric(name, value, start, step) for name, value, step in entries.numbers]
        for first in range(0, len(parameters), _AT_ONCE):
            client.log_batch(run_id, params=parameters[first : first + _AT_ONCE])
        for first in range(0, len(metrics), _AT_ONCE):
            client.log_batch(run_id, metrics=metrics[first : first + _AT_ONCE])
        with tempfile.TemporaryDirectory() as folder:
            for name, text in entries.files.items():
                path = Path(folder) / name
                path.write_text(text, encoding="utf-8")
                client.log_artifact(run_id, str(path))
        client.set_terminated(run_id)
    except ImportError as error:
        raise MissingPackage(
            "This kind of MLflow store needs a package that is not installed.",
            "A server needs none but mlflow-skinny, which the extra installs; a database does.",
            "Name a server (http://...), or install the whole with: pip install mlflow",
        ) from error
    except (MlflowException, OSError) as error:
        raise _unreachable("MLflow", error) from error
    return run_id


def log_to_tensorboard(result: SelectionResult, directory: str | os.PathLike[str]) -> Path:
    """Write a result as event files that TensorBoard reads.

    Parameters
    ----------
    directory : path
        Of one run; made if it is not there.
    """
    try:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter
    except ImportError as error:
        raise _missing("TensorBoard", "tensorboard") from error
    target = Path(directory)
    now = time.time()
    try:
        writer = EventFileWriter(str(target))
        for name, number, step in entries_of(result).numbers:
            value = Summary.Value(tag=name, simple_value=number)
            writer.add_event(Event(wall_time=now, step=step, summary=Summary(value=[value])))
        writer.close()
    except OSError as error:
        raise _unreachable("TensorBoard", error) from error
    return target


def numbers_of(result: SelectionResult) -> Iterator[tuple[str, float, int]]:
    """Names, values and steps of everything that is a number; of a chain, step by step too."""
    yield "selected", float(result.n_selected), 0
    yield "traffic/bytes", float(result.traffic.n_bytes), 0
    yield "traffic/messages", float(result.traffic.messages), 0
    yield "traffic/rounds", float(result.traffic.rounds), 0
    yield "traffic/ciphertexts", float(result.traffic.ciphertexts), 0
    for phase, seconds in result.timings.items():
        yield f"seconds/{phase}", float(seconds), 0
    for one in curves.participants(result):
        yield f"participants/{one.name}", one.score, 0
    series: dict[str, Mapping[str, curves.Curve]] = {
        "training": curves.training(result),
        "accuracy": curves.swarm(result),
        "subset size": curves.swarm_sizes(result),
    }
    for group, found in series.items():
        for name, points in found.items():
            shown = "all parties" if name == curves.JOINT else name
            for x, y in points:
                yield f"{group}/{shown}", y, int(x)
    for number, step in enumerate(result.steps, start=1):
        for name, value, place in numbers_of(step):
            yield f"step {number} {step.method}/{name}", value, place


def parameters_of(result: SelectionResult) -> Iterator[tuple[str, str]]:
    """Settings, seed and versions as texts."""
    yield "method", clean(result.method)
    yield "setting", clean(result.setting)
    yield "seed", clean(result.seed)
    for name, value in result.parameters.items():
        yield f"settings/{name}", clean(value)
    for name, version in result.versions.items():
        yield f"versions/{name}", clean(version)
    for number, step in enumerate(result.steps, start=1):
        for name, value in step.parameters.items():
            yield f"step {number} {step.method}/{name}", clean(value)


def _key(name: str) -> str:
    """A name of letters that every tracker takes."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "_-. /") else "_" for c in clean(name))


def _missing(library: str, extra: str) -> MissingPackage:
    return MissingPackage(
        f"{library} is not installed.",
        f"Logging to {library} needs it; nothing else does.",
        f"Install it with: pip install 'fedsift[{extra}]'",
    )


def _unreachable(library: str, error: Exception) -> FileProblem:
    # The text of such an error may hold the address, and an address may hold a password.
    return FileProblem(
        f"{library} did not take the result ({type(error).__name__}).",
        "A server that answers, or a directory that can be written to, is needed.",
        "Check the address; the result itself is not lost.",
    )
