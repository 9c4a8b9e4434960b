# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A toy federation made of one table: a file per party, and a job that runs on them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedsift.config.toml_write import toml_text
from fedsift.errors import ColumnError, FileProblem, ParameterError
from fedsift.methods.spec import Demo, Missing

if TYPE_CHECKING:
    import pandas as pd

    from fedsift.methods.registry import Method

JOB_FILE = "job.toml"
MADE_ID = "row_id"


def demo_of(method: Method) -> Demo:
    """Settings for a quick look at a method."""
    if isinstance(method.demo, Missing):
        raise ParameterError(
            f"The method {method.name!r} has no quick job: {method.demo.reason}",
            "A toy federation runs the quick job of a method.",
            "Write a job of your own with 'fedsift init'.",
        )
    return method.demo


@dataclass(frozen=True)
class Toy:
    """How to cut a table into parties.

    Parameters
    ----------
    label : str, optional
        The label column; the first party holds it if columns are dealt out.
    setting : {"vertical", "horizontal"}
        Deal out columns, or rows.
    n_parties : int
    id_column : str, optional
        Identifies a row, for columns dealt out; numbers are made if missing.
    overlap : float
        Share of the rows that every party keeps, for columns dealt out.
    method : str
    parameters : mapping
        For ``[method]`` of the job.
    seed : int
    """

    label: str | None
    setting: str = "vertical"
    n_parties: int = 3
    id_column: str | None = None
    overlap: float = 1.0
    method: str = "filter"
    parameters: Mapping[str, Any] | None = None
    seed: int = 0


def write_toy(frame: pd.DataFrame, folder: Path, toy: Toy) -> Path:
    """Write the parties' files and the job.

    Parameters
    ----------
    frame : DataFrame
    folder : Path
        Must not hold a job yet.
    toy : Toy

    Returns
    -------
    job : Path
    """
    _check(frame, folder, toy)
    rng = np.random.default_rng(toy.seed)
    cut = _columns_dealt if toy.setting == "vertical" else _rows_dealt
    tables = cut(frame, toy, rng)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(dir=folder, prefix=".fedsift-"))
        try:
            for name, table in tables.items():
                table.to_csv(aside / f"{name}.csv", index=False)
            (aside / JOB_FILE).write_text(_job(toy, list(tables)), encoding="utf-8")
            for made in aside.iterdir():
                made.rename(folder / made.name)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    except OSError as error:
        raise FileProblem(
            f"Cannot write to {folder}: {error.strerror}.",
            "A writable folder with free space is needed.",
            "Choose another place with --out.",
        ) from None
    return folder / JOB_FILE


def _check(frame: pd.DataFrame, folder: Path, toy: Toy) -> None:
    if (folder / JOB_FILE).exists():
        raise FileProblem(
            f"{folder / JOB_FILE} is there already.",
            "A folder without a job is needed.",
            "Choose another place with --out.",
        )
    for column in (toy.label, toy.id_column):
        if column is not None and column not in frame.columns:
            raise ColumnError(
                f"The table has no column {column!r}.",
                f"It must be one of its {len(frame.columns)} columns.",
                "Mend the name.",
            )
    if toy.id_column is not None and frame[toy.id_column].duplicated().any():
        raise ColumnError(
            f"Column {toy.id_column!r} has the same id twice.",
            "An id identifies one row.",
            "Choose another column, or leave --id out.",
        )
    if not 0 < toy.overlap <= 1:
        raise ParameterError(
            f"overlap is {toy.overlap}.", "It is a share above 0, up to 1.", "Change it."
        )
    n_features = len(_features(frame, toy))
    most = n_features if toy.setting == "vertical" else len(frame)
    if not 2 <= toy.n_parties <= most:
        what = "features" if toy.setting == "vertical" else "rows"
        raise ParameterError(
            f"{toy.n_parties} parties were asked for, and there are {most} {what}.",
            f"There must be at least 2 parties and at least as many {what}.",
            "Change --parties.",
        )


def _features(frame: pd.DataFrame, toy: Toy) -> list[Any]:
    return [column for column in frame.columns if column not in (toy.label, toy.id_column)]


def _columns_dealt(
    frame: pd.DataFrame, toy: Toy, rng: np.random.Generator
) -> dict[str, pd.DataFrame]:
    id_column = toy.id_column or MADE_ID
    if toy.id_column is None:
        frame = frame.assign(**{MADE_ID: [f"r{number:06d}" for number in range(len(frame))]})
    features = _features(frame, toy)
    features = [column for column in features if column != MADE_ID or toy.id_column == MADE_ID]
    tables = {}
    for number, share in enumerate(np.array_split(rng.permutation(len(features)), toy.n_parties)):
        own = [features[position] for position in sorted(share)]
        if number == 0 and toy.label is not None:
            own.append(toy.label)
        # Every party lists its customers in an order of its own, and may lack some.
        n_kept = max(1, round(toy.overlap * len(frame)))
        rows = rng.permutation(len(frame))[:n_kept]
        tables[f"party-{number + 1}"] = frame[[id_column, *own]].iloc[rows]
    return tables


def _rows_dealt(frame: pd.DataFrame, toy: Toy, rng: np.random.Generator) -> dict[str, pd.DataFrame]:
    shares = np.array_split(rng.permutation(len(frame)), toy.n_parties)
    return {f"party-{number + 1}": frame.iloc[np.sort(rows)] for number, rows in enumerate(shares)}


def _job(toy: Toy, parties: list[str]) -> str:
    data: dict[str, Any] = {"setting": toy.setting}
    if toy.label is not None and toy.setting == "vertical":
        data["label"] = {"party": parties[0], "column": toy.label}
    elif toy.label is not None:
        data["label"] = toy.label
    if toy.setting == "vertical":
        data["id"] = toy.id_column or MADE_ID
    elif toy.id_column is not None:
        data["id"] = toy.id_column
    return toml_text(
        {
            "job": {"method": toy.method, "seed": toy.seed},
            "data": data,
            "method": dict(toy.parameters or {}),
            "party": [{"name": name, "data": f"{name}.csv"} for name in parties],
        }
    )
