# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Made-up tables of given shapes, to plan a job whose tables are somewhere else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedsift.config.toml import did_you_mean
from fedsift.errors import ParameterError

if TYPE_CHECKING:
    from fedsift.cli.prepare import JobRunner
    from fedsift.config.job import Job
    from fedsift.config.parties import PartyEntry

NOTE = (
    "Tables are made up of numbers in the given shapes. What the organisations' own policies say, "
    "and columns with categories or gaps, is not known here."
)
_SHAPE = re.compile(r"(?P<party>.+)=(?P<rows>\d+)[xX](?P<columns>\d+)")


def prepare_shapes(job: Job, given: Sequence[str], classes: int, common: int | None) -> JobRunner:
    """A job on made-up tables.

    Parameters
    ----------
    job : Job
    given : sequence of str
        ``PARTY=ROWSxCOLUMNS`` for every party; columns without ids and label.
    classes : int
        Of the label; 0 for numbers.
    common : int, optional
        Rows that the parties have in common, where they are matched by ids; without it the
        fewest rows of a party.
    """
    from fedsift.cli.prepare import prepare_tables

    if job.data.dataset is not None:
        raise ParameterError(
            "Shapes are given for a job on a catalogued data set.",
            "Its shapes are known.",
            "Leave --shape out.",
        )
    if classes < 0 or classes == 1:
        raise ParameterError(
            f"{classes} classes of the label were given.",
            "Two or more are needed, or 0 for a label of numbers.",
            "Change --classes.",
        )
    shapes = _read([entry.name for entry in job.parties], given)
    fewest = min(rows for rows, _ in shapes.values())
    if common is not None and not 1 <= common <= fewest:
        raise ParameterError(
            f"{common} rows in common were given.",
            f"The smallest table has {fewest}.",
            "Give a number from 1 to that, or leave --common out.",
        )
    n_common = fewest if common is None else common
    frames = {
        entry.name: _made_up(job, entry, number, shapes[entry.name], classes, n_common)
        for number, entry in enumerate(job.parties)
    }
    return prepare_tables(job, frames)


def _read(parties: Sequence[str], given: Sequence[str]) -> dict[str, tuple[int, int]]:
    shapes = {}
    for text in given:
        found = _SHAPE.fullmatch(text.strip())
        if found is None or not int(found["rows"]):
            raise ParameterError(
                f"The shape {text[:60]!r} cannot be read.",
                "A shape is PARTY=ROWSxCOLUMNS, such as bank=20000x40.",
                "Write --shape once per party.",
            )
        party = found["party"].strip()
        if party not in parties:
            raise ParameterError(
                f"A shape is given for {party[:60]!r}, which is no party of the job.",
                f"Its parties: {', '.join(parties)}.",
                did_you_mean(party, parties, "Use their names."),
            )
        shapes[party] = int(found["rows"]), int(found["columns"])
    missing = [party for party in parties if party not in shapes]
    if missing:
        raise ParameterError(
            f"No shape is given for: {', '.join(missing)}.",
            "The organisations hold the tables, so 'plan' needs the size of each.",
            f"Add --shape {missing[0]}=ROWSxCOLUMNS.",
        )
    return shapes


def _made_up(
    job: Job, entry: PartyEntry, number: int, shape: tuple[int, int], classes: int, common: int
) -> Any:
    """A table of random numbers; the first rows of all parties have the same ids."""
    import pandas as pd

    rng, data = np.random.default_rng(number), job.data
    vertical = data.setting == "vertical"
    n_rows, n_columns = shape
    if vertical and not any(one.id_columns for one in job.parties):
        n_rows = common  # without ids the rows are the same at all parties
    # Where rows are split, all parties have the same columns.
    prefix = entry.name if vertical else "x"
    names = entry.columns or tuple(f"{prefix}_{i}" for i in range(n_columns))
    frame = pd.DataFrame(rng.normal(size=(n_rows, len(names))), columns=list(names))
    ids = np.arange(n_rows)
    ids[common:] += (number + 1) * 10**9
    for column in entry.id_columns:
        frame[column] = ids
    if data.label_column is not None and data.label_party in (None, entry.name):
        rows = np.random.default_rng(99).permutation(n_rows)
        frame[data.label_column] = rows % classes if classes else rng.normal(size=n_rows)
    return frame
