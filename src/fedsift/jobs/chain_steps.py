# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The steps of a chain one after the other, for a federation as for the parties' own tables.

Here is also what steps leave to each other, and one result made of all of theirs.
"""

from __future__ import annotations

import csv
import io
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from fedsift.config.steps import PREDICT, TRAIN
from fedsift.crypto.kernels import run_distance, sum_distances
from fedsift.data import Federation
from fedsift.data.files import plain_cell
from fedsift.data.target import Target
from fedsift.engine.observer import Observer, merge_traffic, sum_timings
from fedsift.errors import FedsiftError, ParameterError, PolicyViolation
from fedsift.methods.execution import Plan
from fedsift.methods.fedsdg.model import foresee_prediction
from fedsift.protocol import Policy
from fedsift.protocol.commitments import sign_result
from fedsift.protocol.policy import PlannedDisclosure, check_before
from fedsift.protocol.role import placement_of
from fedsift.result import SelectionResult


class StepsRun(ABC):
    """Runs the steps that are not finished yet, and makes one result of all of them.

    Subclasses say how a run begins, how one step is run, and what is kept of it.
    """

    _results: list[SelectionResult]
    _start: SelectionResult | None
    _observer: Observer
    interrupted_: bool

    def _run_steps(
        self,
        names: Sequence[str],
        parties: Sequence[str],
        seed: int | None,
        *,
        may_interrupt: bool = True,
    ) -> SelectionResult | None:
        """All steps; None at a site that gets no result."""
        self._results, self.interrupted_ = [], False
        for number in range(self._begin() + 1, len(names) + 1):
            self._observer.begin(number, len(names), names[number - 1])
            try:
                if names[number - 1] == PREDICT:
                    self._predict(number)
                else:
                    self._step(number)
            except KeyboardInterrupt:
                if not self._results or not may_interrupt:
                    raise
                self.interrupted_ = True
            if self.interrupted_:
                break
            self._save(number)
        record = self._close_record()
        if not self.interrupted_:
            self._forget()
        if not self._results:
            return None
        remarks = []
        if self.interrupted_:
            remarks.append(f"Interrupted: {len(self._results)} of {len(names)} steps are finished.")
        together = sum_results(
            self._start, self._results, parties=parties, seed=seed, remarks=remarks
        )
        return sign_result(together, record)

    @abstractmethod
    def _begin(self) -> int:
        """Do what comes before the first step; the number of the last step that is finished."""

    @abstractmethod
    def _step(self, number: int) -> None:
        """Run a step that selects or trains."""

    @abstractmethod
    def _predict(self, number: int) -> None:
        """Predict the rows that were set apart."""

    @abstractmethod
    def _save(self, number: int) -> None:
        """Keep what a run that is interrupted later can go on from."""

    @abstractmethod
    def _forget(self) -> None:
        """Remove what was kept of the steps."""

    def _close_record(self) -> Any:
        """What signs the ledger; in one process keys are made for it."""
        return None

    def _add_prediction(
        self,
        number: int,
        asked: Mapping[str, Any],
        predicted: Sequence[Any],
        truth: Target | None,
        **cost: Any,
    ) -> None:
        """The result of a prediction, which holds no single one; ``cost`` is cost and ledger."""
        score, last = score_predictions(predicted, truth), self._results[-1]
        parameters = {**asked, "n_rows": len(predicted)}
        if score is not None:
            parameters["score"] = score
        result = msgspec.structs.replace(
            last,
            scores={},
            ranking={},
            p_values={},
            q_values={},
            history=(),
            warnings=(),
            parameters=parameters,
            distance_bits=run_distance(
                last.crypto, cost["traffic"].ciphertexts, last.security_bits
            ),
            **cost,
        )
        self._results.append(tag_result(result, number, PREDICT))


def plan_steps(
    names: Sequence[str],
    label_holder: str | None,
    groups: Callable[[int], Iterable[Plan]],
    alone: Callable[[int], Mapping[str, Callable[[], Plan]]],
) -> Plan:
    """One plan of all steps.

    Parameters
    ----------
    names : sequence of str
    label_holder : str, optional
        Stays in any case.
    groups : callable
        Plans of a step, by its number, for the parties that may run it.
    alone : callable
        By party: plans the step as if that party alone were left besides the label holder. A
        policy that forbids it is only remarked on.
    """
    rows: list[PlannedDisclosure] = []
    notes: list[str] = []
    bits: list[int] = []
    for number, name in enumerate(names, start=1):
        plans = list(groups(number))
        bits += (plan.security_bits for plan in plans)
        remarks = [note for plan in plans for note in plan.notes]
        for party, plan_alone in (alone(number) if number > 1 else {}).items():
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UserWarning)
                    plans.append(plan_alone())
            except PolicyViolation as error:
                found = f"If {party!r} alone is left besides {label_holder!r}: {error.found}"
                remarks.append(found)
            except FedsiftError:
                continue  # the method needs more parties, and will say so
        rows += (replace(row, step=number) for plan in plans for row in plan.disclosures)
        notes += (f"Step {number} ({name}): {remark}" for remark in remarks)
    together, said = tuple(dict.fromkeys(rows)), tuple(dict.fromkeys(notes))
    return Plan(" > ".join(names), together, said, min(bits, default=0))


def plan_prediction(
    selector: Any,
    federation: Federation,
    policies: Mapping[str, Policy],
    here: Collection[str],
) -> Plan:
    """Who learns what when rows are predicted, if the policies of the parties here allow it."""
    protocol, used, nodes, bits = foresee_prediction(selector, federation)
    placement = placement_of(nodes)
    sends = [pair for pair in protocol.sends(used, placement) if pair[0] in here]
    check_before(protocol.name, policies, sends, security_bits=bits)
    return Plan(PREDICT, tuple(protocol.planned(used, placement)), (), bits)


Rows = npt.NDArray[np.int64]
PREDICTIONS = "predictions.csv"
"""Name of the label holder's file."""


def split_rows(n_rows: int, share: float, seed: int | None) -> tuple[Rows, Rows]:
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


def find_staying(
    setting: str, coordinator: str, parties: Sequence[str], selected: Mapping[str, Sequence[str]]
) -> tuple[str, ...]:
    """Parties of the next step: those with a selected feature, and the coordinator."""
    if setting == "horizontal":
        return tuple(parties)
    return tuple(party for party in parties if party == coordinator or selected.get(party))


def limit_features(parameters: Mapping[str, Any], n_features: int) -> dict[str, Any]:
    """Parameters of a step that cannot choose more features than are left."""
    wanted = parameters.get("n_features_to_select")
    if isinstance(wanted, int) and not isinstance(wanted, bool) and wanted > n_features:
        return {**parameters, "n_features_to_select": n_features}
    return dict(parameters)


def tag_result(result: SelectionResult, number: int, name: str) -> SelectionResult:
    """The result of a step, with its number in the ledger."""
    rows = tuple(msgspec.structs.replace(row, step=number) for row in result.disclosures)
    return msgspec.structs.replace(result, method=name, disclosures=rows)


def sum_results(
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
        distance_bits=sum_distances(one.distance_bits for one in steps),
        steps=tuple(steps),
    )


def name_predictions(
    values: npt.NDArray[Any], classes: Sequence[str]
) -> tuple[list[Any], list[float] | None]:
    """Predicted classes with their probability, or predicted numbers."""
    if not len(classes):
        return [float(value) for value in values[:, 0]], None
    best = values.argmax(axis=1)
    return [classes[i] for i in best], [float(p) for p in values.max(axis=1)]


def write_predictions(
    rows: Sequence[Any], predicted: Sequence[Any], sure: Sequence[float] | None, *, by_id: bool
) -> str:
    """A CSV file: one line per row, with its id or its number."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    first = "id" if by_id else "row"
    writer.writerow([first, "prediction", *([] if sure is None else ["probability"])])
    for place, (row, value) in enumerate(zip(rows, predicted, strict=True)):
        probability = [] if sure is None else [f"{sure[place]:.6g}"]
        writer.writerow([plain_cell(row), plain_cell(value), *probability])
    return stream.getvalue()


def score_predictions(predicted: Sequence[Any], truth: Target | None) -> float | None:
    """Accuracy, or R2 of numbers; None without labels to compare with."""
    if truth is None:
        return None
    if truth.kind == "classes":
        own = [truth.classes[code] for code in truth.codes]
        return float(np.mean([a == b for a, b in zip(predicted, own, strict=True)]))
    spread = float(((truth.values - truth.values.mean()) ** 2).sum())
    missed = float(((truth.values - np.asarray(predicted, dtype=float)) ** 2).sum())
    return None if not spread else 1.0 - missed / spread
