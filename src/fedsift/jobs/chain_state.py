# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a site knows in the middle of a chain: what is left, its finished steps, and its model."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fedsift.config.steps import TRAIN
from fedsift.data.fingerprint import fingerprint
from fedsift.data.part import Part
from fedsift.data.state_files import Checkpoints, State
from fedsift.engine import LOCAL_ENGINE, Engine, Outcome
from fedsift.engine.observer import Watching, as_observer
from fedsift.errors import AlignmentError, ParameterError
from fedsift.jobs import chain_messages as chain
from fedsift.jobs import setup
from fedsift.jobs.chain_messages import StepsDone
from fedsift.jobs.chain_plan import Opening
from fedsift.jobs.chain_steps import Rows, StepsRun
from fedsift.jobs.run import LocalParty
from fedsift.jobs.spec import JointJob
from fedsift.methods.fedsdg import model_files as files
from fedsift.protocol import Message, RemoteRole, Role
from fedsift.result import SelectionResult

Keep = Callable[[str, dict[str, Any]], None]


class ChainState(StepsRun):
    """The parties at home in a chain, and how they reach the others."""

    def __init__(
        self,
        job: JointJob,
        homes: Mapping[str, LocalParty],
        engine: Engine = LOCAL_ENGINE,
        observer: Watching = None,
        place: Path | None = None,
        keep_own: Keep | None = None,
        keep_predictions: Callable[[str], None] | None = None,
        keep_model: Callable[[ChainModel], None] | None = None,
    ) -> None:
        self._job = job
        self._engine = engine
        self._observer = as_observer(observer)
        self._place = place
        self._keep_own = keep_own
        self._keep_predictions = keep_predictions
        self._keep_model = keep_model
        self._opening = Opening(job, homes, engine, observer)
        everybody = (*job.parties, *job.neutrals)
        self._at_home = [p for p in everybody if engine.home is None or p in engine.home]
        self._homes = {party: homes.get(party, LocalParty()) for party in self._at_home}
        self._neutrals = tuple(party for party in job.neutrals if party != job.coordinator)
        self._coordinators_here = job.coordinator in self._at_home
        self._run = ""
        # What is left; columns and parts of those at home only.
        self._parties = job.parties
        self._n_features = 0
        self._columns: dict[str, tuple[str, ...]] = {}
        self._rows: dict[str, tuple[Rows, Rows]] = {}
        self._whole: dict[str, Part] = {}
        self._models: dict[str, State] = {}
        self._params: files.AnyParams | None = None
        self._start = None
        self._files: dict[str, StepFiles] = {}
        self._resumed = False
        self.model_: ChainModel | None = None

    def _home(self, party: str) -> LocalParty:
        """A party at home with the rows and columns that are left."""
        policy = self._homes[party].policy
        part = self._part(party, apart=False)
        return LocalParty(None, policy) if part is None else LocalParty.of(part, policy)

    def _part(self, party: str, *, apart: bool) -> Part | None:
        if party not in self._whole:
            return None
        rows = self._rows[party][1 if apart else 0]
        part = self._whole[party].take(rows).select(self._columns[party])
        return part if apart else replace(part, has_gaps=False)

    def _takes_part(self, job: JointJob) -> bool:
        return any(party in job.parties or party == job.neutral for party in self._at_home)

    # The stages

    def _play(
        self,
        used: tuple[type[Message], ...],
        errand: chain.Errand | None,
        parties: tuple[str, ...],
        *,
        done: Mapping[str, chain.StepsDone] | None = None,
        n_rows: int = 0,
    ) -> tuple[Outcome, dict[str, Role]]:
        """Run one stage among ``parties``; the outcome, and the roles that were played here."""
        here: dict[str, Role] = {}
        for party in self._at_home:
            if party == self._job.coordinator and errand is not None:
                here[party] = chain.Coordinator(errand)
            elif party in parties:
                own = (done or {}).get(party, chain.StepsDone("", (), keeps=False))
                columns = self._columns[party]
                here[party] = chain.Participant(self._parties, columns, n_rows, own)
            elif party in self._neutrals:
                here[party] = chain.Neutral()
        outcome = self._engine.run(
            chain.PROTOCOL,
            chain.build_nodes(self._job.coordinator, self._neutrals, parties if here else (), here),
            planned=used,
            policies={party: home.policy for party, home in self._homes.items()},
            timeout_seconds=self._job.timeout_seconds,
            observer=self._observer,
        )
        return outcome, here

    def _watch(self, n_stages: int) -> None:
        """Be there without a role until the others are done."""
        for _ in range(n_stages):
            self._engine.run(
                setup.PROTOCOL, {self._job.coordinator: (RemoteRole(setup.Coordinator),)}
            )

    # Finished steps

    def _save(self, number: int) -> None:
        for party, own in self._files.items():
            rows, apart = self._rows.get(party, (None, None))
            state: State = {
                "parties": list(self._parties),
                "n_features": self._n_features,
                "columns": list(self._columns.get(party, ())),
                "model": self._models.get(party, {}),
                "params": {} if self._params is None else asdict(self._params),
            }
            if rows is not None:
                state |= {"rows": rows, "apart": apart}
            if party == self._job.coordinator and self._start is not None:
                state["results"] = [one.to_json() for one in (self._start, *self._results)]
            own.save(self._run, number, state)

    def _take_over(self, party: str, state: State) -> None:
        self._parties = tuple(state["parties"])
        self._n_features = int(state["n_features"])
        self._columns[party] = tuple(state["columns"])
        if "rows" in state:
            self._rows[party] = (state["rows"], state["apart"])
        if state["model"]:
            self._models[party] = state["model"]
        if state["params"]:
            self._params = files.params_of(state["params"])
        if "results" in state:
            self._start, *self._results = (
                msgspec.json.decode(text, type=SelectionResult) for text in state["results"]
            )

    # The model

    def _note_model(self) -> None:
        """What a training left here, in this run or in the one that it goes on with."""
        if not self._models or self._params is None:
            return
        columns: dict[str, tuple[str, ...]] = {}
        for result in self._results:
            if result.method == TRAIN:
                columns = {party: names_of(result, party) for party in self._parties}
        self.model_ = ChainModel(self._params, self._job.coordinator, dict(self._models), columns)
        if self._keep_model is not None:
            self._keep_model(self.model_)


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
        Of the parties at home.
    columns : mapping of party to names
        Features in the model, of all parties; known at the coordinator.
    """

    params: files.AnyParams
    coordinator: str
    parts: Mapping[str, State]
    columns: Mapping[str, tuple[str, ...]]

    def save(self, directory: Path) -> None:
        """Write a file per party at home; the coordinator also writes the header for all of them.

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


_ROLE = "chain"
_PARTS = frozenset({"run", "job", "data", "state"})


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
