# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What the steps of a chain leave to each other, and one result made of all of theirs."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from fedsift.config.steps import PREDICT, TRAIN
from fedsift.data.target import Target
from fedsift.engine.outcome import sum_timings
from fedsift.errors import ParameterError
from fedsift.jobs.run import merge_traffic
from fedsift.result import SelectionResult

Rows = npt.NDArray[np.int64]
PREDICTIONS = "predictions.csv"
"""Name of the label holder's file."""


def rows_apart(n_rows: int, share: float, seed: int | None) -> tuple[Rows, Rows]:
    """Rows for all steps but the last, and rows to predict; the same at all parties.

    Labels have no say in it, since most parties have none.
    """
    n_apart = max(1, round(share * n_rows))
    if n_apart >= n_rows:
        raise ParameterError(
            f"share={share} holds {n_apart} of {n_rows} rows out.",
            "Rows to learn from must be left.",
            "Hold a smaller share out.",
        )
    chosen = np.random.default_rng([seed or 0, n_rows]).permutation(n_rows)[:n_apart]
    apart = np.zeros(n_rows, dtype=bool)
    apart[chosen] = True
    return np.flatnonzero(~apart), np.flatnonzero(apart)


def staying(
    setting: str, coordinator: str, parties: Sequence[str], selected: Mapping[str, Sequence[str]]
) -> tuple[str, ...]:
    """Parties of the next step: those with a selected feature, and the coordinator."""
    if setting == "horizontal":
        return tuple(parties)
    return tuple(party for party in parties if party == coordinator or selected.get(party))


def at_most(parameters: Mapping[str, Any], n_features: int) -> dict[str, Any]:
    """Parameters of a step that cannot choose more features than are left."""
    wanted = parameters.get("n_features_to_select")
    if isinstance(wanted, int) and not isinstance(wanted, bool) and wanted > n_features:
        return {**parameters, "n_features_to_select": n_features}
    return dict(parameters)


def tagged(result: SelectionResult, number: int, name: str) -> SelectionResult:
    """The result of a step, with its number in the ledger."""
    rows = tuple(msgspec.structs.replace(row, step=number) for row in result.disclosures)
    return msgspec.structs.replace(result, method=name, disclosures=rows)


def summed(
    start: SelectionResult | None,
    steps: Sequence[SelectionResult],
    *,
    parties: Sequence[str],
    seed: int | None,
    remarks: Sequence[str] = (),
) -> SelectionResult:
    """One result for the chain: its last selection, and what all of it cost and disclosed.

    Parameters
    ----------
    start : SelectionResult, optional
        Cost and ledger of what came before the first step.
    steps : sequence of SelectionResult
        Of the finished steps.
    parties : sequence of str
        All parties of the job; those that left have no features.
    seed : int, optional
        Of the job.
    remarks : sequence of str
        On the chain as a whole.
    """
    selections = [step for step in steps if step.method not in (TRAIN, PREDICT)]
    last = selections[-1] if selections else steps[0]
    everything = [*([] if start is None else [start]), *steps]
    warnings = dict.fromkeys(text for one in everything for text in one.warnings)
    return msgspec.structs.replace(
        last,
        selected={party: last.selected.get(party, ()) for party in parties},
        traffic=merge_traffic([one.traffic for one in everything]),
        timings=sum_timings(one.timings for one in everything),
        disclosures=tuple(row for one in everything for row in one.disclosures),
        security="plain" if any(one.security == "plain" for one in steps) else "secure",
        security_bits=min(one.security_bits for one in steps),
        shape=steps[0].shape,
        seed=seed,
        warnings=(*warnings, *remarks),
        steps=tuple(steps),
    )


def named_predictions(
    values: npt.NDArray[Any], classes: Sequence[str]
) -> tuple[list[Any], list[float] | None]:
    """Predicted classes with their probability, or predicted numbers."""
    if not len(classes):
        return [float(value) for value in values[:, 0]], None
    best = values.argmax(axis=1)
    return [classes[i] for i in best], [float(p) for p in values.max(axis=1)]


def predictions_text(
    rows: Sequence[Any], predicted: Sequence[Any], sure: Sequence[float] | None, *, by_id: bool
) -> str:
    """A CSV file: one line per row, with its id or its number."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    first = "id" if by_id else "row"
    writer.writerow([first, "prediction", *([] if sure is None else ["probability"])])
    for place, (row, value) in enumerate(zip(rows, predicted, strict=True)):
        writer.writerow([row, value, *([] if sure is None else [f"{sure[place]:.6g}"])])
    return stream.getvalue()


def score_of(predicted: Sequence[Any], truth: Target | None) -> float | None:
    """Accuracy, or R2 of numbers; None without labels to compare with."""
    if truth is None:
        return None
    if truth.kind == "classes":
        own = [truth.classes[code] for code in truth.codes]
        return float(np.mean([a == b for a, b in zip(predicted, own, strict=True)]))
    spread = float(((truth.values - truth.values.mean()) ** 2).sum())
    missed = float(((truth.values - np.asarray(predicted, dtype=float)) ** 2).sum())
    return None if not spread else 1.0 - missed / spread
