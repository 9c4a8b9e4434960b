# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a party keeps of a chain: its finished steps, and its part of a trained model."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedsift.data.part import Part
from fedsift.data.state_files import Checkpoints, State, fingerprint
from fedsift.errors import AlignmentError, ParameterError
from fedsift.jobs.chain_messages import StepsDone
from fedsift.methods.fedsdg import model_files as files
from fedsift.protocol import Role
from fedsift.result import SelectionResult

_ROLE = "chain"
_PARTS = frozenset({"run", "job", "data", "state"})


def names_of(result: SelectionResult, party: str) -> tuple[str, ...]:
    """All features of a party in a training, which selects nothing."""
    return tuple(result.scores.get(party, result.selected.get(party, ())))


@dataclass(frozen=True, eq=False, repr=False)
class ChainModel:
    """Parts of a trained model.

    Parameters
    ----------
    params : Params or BlindParams
        Of the training.
    coordinator : str
        The label holder.
    parts : mapping of party to state
        Of the parties of this site.
    columns : mapping of party to names
        Features in the model, of all parties; known at the coordinator.
    """

    params: files.AnyParams
    coordinator: str
    parts: Mapping[str, State]
    columns: Mapping[str, tuple[str, ...]]

    def save(self, directory: Path) -> None:
        """Write a file per party of this site; the coordinator also writes the common header.

        Where all files of a model are in one folder, ``FedSDGSelector.load`` reads it.
        """
        parts, classes = dict(self.parts), None
        if self.coordinator not in parts:
            files.write_parts(directory, parts)
            return
        known = parts[self.coordinator]
        if known["classes"]:
            labels = np.array(known["classes"])
            order = np.argsort(labels, kind="stable")
            classes = labels[order]
            parts[self.coordinator] = known | {"class_order": order.tolist()}
        places: dict[str, tuple[int, ...]] = {}
        n_columns = 0
        for party, names in self.columns.items():
            places[party] = tuple(range(n_columns, n_columns + len(names)))
            n_columns += len(names)
        layout = files.Layout(self.coordinator, places, None, from_federation=True)
        files.write_model(directory, self.params, parts, layout, classes, tuple(self.columns))


def parts_of_model(nodes: Mapping[str, Sequence[Role]]) -> dict[str, State]:
    """Parts of a trained model that belong to the parties here, if the method leaves one."""
    return {
        party: role.part_state()
        for party, roles in nodes.items()
        for role in roles
        if hasattr(role, "part_state")
    }


class StepFiles:
    """Finished steps of one party, the last two, bound to a job and to the party's data.

    Parameters
    ----------
    place : Path or None
        The party's directory; nothing is kept without one.
    party, job, data : str
        The job's and the data's digests are compared here and never sent.
    """

    def __init__(self, place: Path | None, party: str, job: str, data: str) -> None:
        self._files = None if place is None else Checkpoints(place, party, _ROLE)
        self._party = party
        self._job = job
        self._data = data

    def found(self) -> StepsDone:
        """What can be gone on from; refuses the steps of another job or of other data."""
        if self._files is None:
            return StepsDone("", (), keeps=False)
        steps = self._files.readable_units(_PARTS)
        if not steps:
            return StepsDone("", (), keeps=True)
        return StepsDone(str(self._checked(steps[-1])["run"]), tuple(steps), keeps=True)

    def save(self, run: str, step: int, state: State) -> None:
        """Note that a step is finished, in a run that keeps anything."""
        if self._files is not None and run:
            header = {"run": run, "job": self._job, "data": self._data}
            self._files.save(step, {**header, "state": state})

    def load(self, step: int) -> State:
        """What there was after a step; later ones are about to be done again."""
        assert self._files is not None  # noqa: S101 - there was something to go on from
        state: State = self._checked(step)["state"]
        self._files.forget_after(step)
        return state

    def left(self, step: int) -> tuple[list[str], int]:
        """Parties and number of features that were left after a step."""
        state = self._checked(step)["state"]
        with self.reading(step):
            return list(state["parties"]), int(state["n_features"])

    def reading(self, step: int) -> AbstractContextManager[None]:
        """Refuse a state that is none of this version of fedsift."""
        assert self._files is not None  # noqa: S101 - asked for files that are there
        return self._files.reading(step)

    def clear(self) -> None:
        """Forget the run."""
        if self._files is not None:
            self._files.clear()

    def _checked(self, step: int) -> State:
        assert self._files is not None  # noqa: S101 - asked for files that are there
        saved = self._files.load(step)
        if not set(saved) >= _PARTS:
            raise self._files.unreadable(step)
        if saved["job"] != self._job:
            raise ParameterError(
                "The finished steps belong to another job.",
                "An interrupted run continues with the settings it began with.",
                "Restore the job, or choose another checkpoint directory to start again.",
            )
        if saved["data"] != self._data:
            raise AlignmentError(
                f"The data of party {self._party!r} is not what it was at the checkpoint.",
                "An interrupted run continues on the same rows and columns.",
                "Restore the data, or remove the checkpoints of all parties and start again.",
            )
        return saved


def step_place(place: Path, number: int) -> Path:
    """Where a step that is not finished keeps its own checkpoints."""
    return place / f"step-{number}"


def forget_places(place: Path, n_steps: int) -> None:
    """Remove the directories of finished steps, which are empty."""
    for number in range(1, n_steps + 1):
        with contextlib.suppress(OSError):
            step_place(place, number).rmdir()


def digest_of(part: Part | None, task: str) -> str:
    """Digest of a party's columns, labels and ids; it stays with the party."""
    if part is None:
        return ""
    target = part.target(task, fewest_classes=1)
    ids = b"" if part.ids is None else "\n".join(part.ids.tolist()).encode()
    return fingerprint(part.table, target) + hashlib.sha256(ids).hexdigest()
