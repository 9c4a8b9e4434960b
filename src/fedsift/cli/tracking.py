# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Handing a result to the trackers of experiments that a job or a command names."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from fedsift.errors import FedsiftError

if TYPE_CHECKING:
    from fedsift.config.job import Trackers
    from fedsift.result import SelectionResult


def check_installed(trackers: Trackers) -> None:
    """Refuse trackers that are not installed, before anything runs."""
    if trackers.mlflow is None and trackers.tensorboard is None:
        return
    from fedsift.report import trackers as report_trackers

    report_trackers.check_installed(
        mlflow=trackers.mlflow is not None, tensorboard=trackers.tensorboard is not None
    )


def log(trackers: Trackers, result: SelectionResult, name: str, written: Path) -> dict[str, str]:
    """Log a result.

    Parameters
    ----------
    trackers : Trackers
    result : SelectionResult
    name : str
        Of the run.
    written : Path
        Where the result is already, which an error says.

    Returns
    -------
    logged : dict of str to str
        Number of the run in MLflow, directory of the run for TensorBoard.
    """
    if trackers.mlflow is None and trackers.tensorboard is None:
        return {}
    from fedsift.report.trackers import log_to_mlflow, log_to_tensorboard

    logged: dict[str, str] = {}
    try:
        if trackers.mlflow is not None:
            logged["mlflow"] = log_to_mlflow(
                result, trackers.mlflow, experiment=trackers.mlflow_experiment, run_name=name
            )
        if trackers.tensorboard is not None:
            # One directory for each run, side by side, as TensorBoard compares them.
            place = trackers.tensorboard / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
            logged["tensorboard"] = str(log_to_tensorboard(result, place))
    except FedsiftError as error:
        error.add_note(f"The result is in {written}.")
        raise
    return logged
