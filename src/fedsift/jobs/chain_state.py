# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a site knows in the middle of a chain: what is left, its finished steps, and its model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import msgspec

from fedsift.config.steps import TRAIN
from fedsift.data.part import Part
from fedsift.data.state_files import State
from fedsift.engine import LOCAL_ENGINE, Engine, Outcome
from fedsift.engine.observer import Watching, as_observer
from fedsift.jobs import chain_messages as chain
from fedsift.jobs import setup
from fedsift.jobs.chain_files import StepFiles
from fedsift.jobs.chain_model import ChainModel
from fedsift.jobs.chain_plan import Opening
from fedsift.jobs.chain_results import Rows
from fedsift.jobs.run import LocalParty
from fedsift.jobs.spec import JointJob
from fedsift.methods.fedsdg.messages import Params
from fedsift.protocol import Message, RemoteRole, Role
from fedsift.result import SelectionResult

Keep = Callable[[str, dict[str, Any]], None]


class ChainState:
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
        self._params: Params | None = None
        self._start: SelectionResult | None = None
        self._results: list[SelectionResult] = []
        self.interrupted_ = False
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

    def _participant(
        self, party: str, done: chain.StepsDone | None = None, n_rows: int = 0
    ) -> chain.Participant:
        nothing = chain.StepsDone("", (), keeps=False)
        return chain.Participant(self._parties, self._columns[party], n_rows, done or nothing)

    def _play(
        self,
        used: tuple[type[Message], ...],
        here: Mapping[str, Role],
        parties: tuple[str, ...],
    ) -> Outcome:
        nodes = chain.build_nodes(self._job.coordinator, self._neutrals, parties, here)
        return self._engine.run(
            chain.PROTOCOL,
            nodes,
            planned=used,
            policies={party: home.policy for party, home in self._homes.items()},
            timeout_seconds=self._job.timeout_seconds,
            observer=self._observer,
        )

    def _watch(self, n_stages: int) -> None:
        """Be there without a role until the others are done."""
        for _ in range(n_stages):
            self._engine.run(
                setup.PROTOCOL, {self._job.coordinator: (RemoteRole(setup.Coordinator),)}
            )

    # Finished steps

    def _save(self, files: Mapping[str, StepFiles], step: int) -> None:
        for party, own in files.items():
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
            own.save(self._run, step, state)

    def _take_over(self, party: str, state: State) -> None:
        self._parties = tuple(state["parties"])
        self._n_features = int(state["n_features"])
        self._columns[party] = tuple(state["columns"])
        if "rows" in state:
            self._rows[party] = (state["rows"], state["apart"])
        if state["model"]:
            self._models[party] = state["model"]
        if state["params"]:
            self._params = Params(**state["params"])
        if "results" in state:
            start, *results = (
                msgspec.json.decode(text, type=SelectionResult) for text in state["results"]
            )
            self._start, self._results = start, list(results)

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
