# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Results for trackers of experiments: MLflow and TensorBoard, both optional.

Parameters, counts, seconds and curves are logged, and the result file itself where a tracker keeps
files. All of it is in the result already; nothing else leaves.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from fedsift.errors import FileProblem, MissingPackage
from fedsift.report import curves
from fedsift.report.view import clean
from fedsift.result import SelectionResult

MOST_LETTERS = 500
"""Longest value of a parameter that MLflow takes."""


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
    try:
        from mlflow.entities import Metric, Param, RunTag
        from mlflow.exceptions import MlflowException
        from mlflow.tracking import MlflowClient
    except ImportError as error:
        raise _missing("MLflow", "mlflow") from error

    try:
        client = MlflowClient(tracking_uri)
        known = client.get_experiment_by_name(experiment)
        number = known.experiment_id if known else client.create_experiment(experiment)
        tags = {"fedsift.setting": result.setting, "fedsift.security": result.security}
        run = client.create_run(number, run_name=run_name or result.method, tags=tags)
        run_id: str = run.info.run_id
        start = run.info.start_time
        client.log_batch(
            run_id,
            metrics=[Metric(_key(n), v, start, step) for n, v, step in numbers_of(result)][:1000],
            params=[Param(_key(n), v[:MOST_LETTERS]) for n, v in parameters_of(result)][:100],
            tags=[RunTag("fedsift.headline", clean(result.headline())[:MOST_LETTERS])],
        )
        with tempfile.TemporaryDirectory() as folder:
            client.log_artifact(run_id, str(result.save(Path(folder) / "result.json")))
            client.log_artifact(run_id, str(result.to_html(Path(folder) / "report.html")))
        client.set_terminated(run_id)
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
    try:
        writer = EventFileWriter(str(target))
    except OSError as error:
        raise _unreachable("TensorBoard", error) from error
    now = time.time()
    for name, number, step in numbers_of(result):
        value = Summary.Value(tag=_key(name), simple_value=number)
        writer.add_event(Event(wall_time=now, step=step, summary=Summary(value=[value])))
    writer.close()
    return target


def numbers_of(result: SelectionResult) -> Iterator[tuple[str, float, int]]:
    """Names, values and steps of everything that is a number."""
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


def parameters_of(result: SelectionResult) -> Iterator[tuple[str, str]]:
    """Settings, seed and versions as texts."""
    yield "method", clean(result.method)
    yield "setting", clean(result.setting)
    yield "seed", clean(result.seed)
    for name, value in result.parameters.items():
        yield f"settings/{name}", clean(value)
    for name, version in result.versions.items():
        yield f"versions/{name}", clean(version)


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
    return FileProblem(
        f"{library} did not take the result ({type(error).__name__}).",
        "A server that answers, or a directory that can be written to, is needed.",
        "Check the address; the result itself is not lost.",
    )
