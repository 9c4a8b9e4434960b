# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A chained job on the parties' own tables: the same run at every site, or all in one process.

The parties agree once on the whole chain, where every site checks all steps with its own policy,
and match their rows once. Then every step is a joint run of its own among those who are left, with
what is left. The coordinator lets every party know which of its own features stay. A party that has
left, or has no part in a step, stays connected without a role: it learns no more than that a phase
has ended.
"""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fedsift.config.steps import TRAIN
from fedsift.data.federation import RemoteTable
from fedsift.data.part import Part
from fedsift.data.state_files import State
from fedsift.engine import LOCAL_ENGINE, Engine, Outcome
from fedsift.engine.observer import Watching, as_observer, merge_traffic, sum_timings
from fedsift.errors import ValueProblem
from fedsift.jobs import chain_messages as messages
from fedsift.jobs.chain_files import (
    ChainModel,
    StepFiles,
    digest_of,
    forget_places,
    names_of,
    parts_of_model,
    step_place,
)
from fedsift.jobs.chain_plan import ChainSetup
from fedsift.jobs.chain_steps import (
    Rows,
    StepsRun,
    find_staying,
    limit_features,
    name_predictions,
    split_rows,
    tag_result,
    write_predictions,
)
from fedsift.jobs.phases import JointRun, KeepOwn, LocalParty, stand_by
from fedsift.jobs.setup_terms import Agreed
from fedsift.jobs.spec import JointJob
from fedsift.methods.execution import PreparedRun, execute, refuse_checkpoints
from fedsift.methods.fedsdg.model import prepare_prediction
from fedsift.methods.fedsdg.model_files import AnyParams, params_of
from fedsift.protocol import Message, Role
from fedsift.protocol.commitments import Record
from fedsift.protocol.policy import RemotePolicy
from fedsift.result import SelectionResult

_PHASES = 3
"""Phases of a step: setup, method, collection."""


class ChainRun(StepsRun):
    """One run of a chain at one site.

    Parameters
    ----------
    job : JointJob
        With steps.
    local_parties, engine, observer, place, keep_own, keep_predictions, keep_model
        As of :func:`~fedsift.jobs.run.run_joint`.

    Attributes
    ----------
    model_ : ChainModel, optional
        What a training left at this site.
    interrupted_ : bool
        Whether Ctrl-C ended it early.
    """

    def __init__(
        self,
        job: JointJob,
        local_parties: Mapping[str, LocalParty],
        engine: Engine = LOCAL_ENGINE,
        observer: Watching = None,
        place: Path | None = None,
        keep_own: KeepOwn | None = None,
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
        self._setup = ChainSetup(job, local_parties, engine, observer)
        everybody = (*job.parties, *job.neutrals)
        self._here = [p for p in everybody if engine.home is None or p in engine.home]
        self._local = {party: local_parties.get(party, LocalParty()) for party in self._here}
        self._neutrals = tuple(party for party in job.neutrals if party != job.coordinator)
        self._leads = job.coordinator in self._here
        self._run = ""
        # What is left; columns and parts of this site's parties only.
        self._parties = job.parties
        self._n_features = 0
        self._columns: dict[str, tuple[str, ...]] = {}
        self._rows: dict[str, tuple[Rows, Rows]] = {}
        self._whole: dict[str, Part] = {}
        self._models: dict[str, State] = {}
        self._params: AnyParams | None = None
        self._start = None
        self._files: dict[str, StepFiles] = {}
        self._resumed = False
        self.model_: ChainModel | None = None

    def run(self) -> SelectionResult | None:
        """Run all steps that are not finished yet; the result is at the coordinator's site."""
        job = self._job
        refuse_checkpoints((step.parameters for step in job.steps), self._place)
        names = [step.method for step in job.steps]
        alone = self._engine.home is None
        return self._run_steps(names, job.parties, job.seed, may_interrupt=alone)

    def _begin(self) -> int:
        if self._engine.home is None:
            with warnings.catch_warnings():
                # The run itself warns too.
                warnings.simplefilter("ignore", UserWarning)
                self._setup.plan()
        agreed, self._whole = self._setup.set_up()
        self._n_features = agreed.n_features
        self._columns = {party: part.feature_names for party, part in self._whole.items()}
        digests = {party: digest_of(part, self._job.task) for party, part in self._whole.items()}
        self._files = {
            party: StepFiles(self._place, party, self._job.run_key, digests.get(party, ""))
            for party in self._here
            if party in self._job.parties or party == self._job.coordinator
        }
        outcome, done = self._agree_on_start()
        self._resumed = done != messages.NOTHING
        if self._resumed:
            for party, own in self._files.items():
                state = own.load(done)
                with own.reading(done):
                    self._restore(party, state)
            self._add_to_start(outcome)
            self._note_model()
        else:
            self._note_start([outcome, *self._set_rows_apart(agreed)])
            self._save(0)
        return max(done, 0)

    def _close_record(self) -> Record | None:
        # Those who left earlier have no selected columns, and know so.
        left = {party: names for party, names in self._columns.items() if party in self._parties}
        return self._engine.close_record(
            self._job.coordinator, selected=left, resumed=self._resumed
        )

    def _exchange(
        self,
        planned: tuple[type[Message], ...],
        lead: messages.Lead | None,
        parties: tuple[str, ...],
        *,
        done: Mapping[str, messages.StepsDone] | None = None,
        n_rows: int = 0,
    ) -> tuple[Outcome, dict[str, Role]]:
        """Exchange messages among ``parties``; the outcome, and the roles of this site."""
        here: dict[str, Role] = {}
        for party in self._here:
            if party == self._job.coordinator and lead is not None:
                here[party] = messages.ChainCoordinator(lead)
            elif party in parties:
                own = (done or {}).get(party, messages.StepsDone("", (), keeps=False))
                columns = self._columns[party]
                here[party] = messages.ChainParticipant(self._parties, columns, n_rows, own)
            elif party in self._neutrals:
                here[party] = messages.ChainNeutral()
        nodes = messages.build_nodes(
            self._job.coordinator, self._neutrals, parties if here else (), here
        )
        outcome = self._engine.run(
            messages.PROTOCOL,
            nodes,
            planned=planned,
            policies={party: own.policy for party, own in self._local.items()},
            timeout_seconds=self._job.timeout_seconds,
            observer=self._observer,
        )
        return outcome, here

    # Before the first step

    def _agree_on_start(self) -> tuple[Outcome, int]:
        """Find the step that all go on after; nothing is sent if the coordinator keeps nothing."""
        found = {party: own.found() for party, own in self._files.items()}
        lead = None
        if self._leads:
            own = found[self._job.coordinator]
            left = {step: self._files[self._job.coordinator].left(step) for step in own.steps}
            lead = messages.agree_on_start(own, secrets.token_hex(16), left)
        outcome, here = self._exchange(messages.AT_START, lead, self._job.parties, done=found)
        done = messages.NOTHING
        for role in here.values():
            if isinstance(role, messages.ChainParticipant):
                self._run, done = role.go_on_after
            elif isinstance(role, messages.ChainNeutral) and role.staying is not None:
                done, self._parties, self._n_features = role.staying
        if self._leads:
            self._run, done = outcome.value
        return outcome, done

    def _set_rows_apart(self, agreed: Agreed) -> list[Outcome]:
        """Match the rows, and take away those that are to be predicted."""
        rows = self._setup.match_rows(agreed, self._whole)
        common = {
            party: rows.get(party, np.arange(part.n_rows)) for party, part in self._whole.items()
        }
        outcomes = []
        apart: Rows = np.empty(0, dtype=np.int64)
        n_rows = len(next(iter(common.values()))) if common else 0
        predicts = self._job.predicts
        if self._job.has_gaps:
            outcome, apart = self._find_unlabelled(common)
            outcomes.append(outcome)
        elif predicts is not None and common:
            apart = split_rows(n_rows, predicts["share"], self._job.seed)[1]
        self._rows = {party: (np.delete(own, apart), own[apart]) for party, own in common.items()}
        for party, (learning, _) in self._rows.items():
            record = self._local[party].record
            if record is not None and predicts is not None:
                record.admit(learning, set_apart=True)
        return outcomes

    def _find_unlabelled(self, common: Mapping[str, Rows]) -> tuple[Outcome, Rows]:
        """Let everybody know which of the common rows have no label."""
        lead = None
        apart: Rows = np.empty(0, dtype=np.int64)
        if self._leads:
            party = self._job.coordinator
            apart = np.flatnonzero(self._whole[party].unlabelled()[common[party]])
            if not len(apart):
                raise ValueProblem(
                    f"Every row of party {party!r} that takes part has a label.",
                    "Rows without a label are to be predicted.",
                    "Leave labels empty, or hold a share of the rows out.",
                )
            lead = messages.send_rows(apart)
        n_rows = len(next(iter(common.values()), ()))
        outcome, here = self._exchange(messages.ROWS_APART, lead, self._job.parties, n_rows=n_rows)
        for role in here.values():
            if isinstance(role, messages.ChainParticipant):
                apart = role.apart
        return outcome, apart

    def _add_to_start(self, outcome: Outcome) -> None:
        """Agreeing on where to go on was sent and signed too: it counts with the start."""
        if self._start is not None:
            self._start = _with_outcome(self._start, outcome)

    def _note_start(self, outcomes: list[Outcome]) -> None:
        """What came before the first step, for the sum of all costs."""
        every = [*self._setup.outcomes, *outcomes]
        self._start = SelectionResult(
            method="start",
            setting=self._job.setting,
            selected={},
            traffic=merge_traffic([outcome.transcript.traffic() for outcome in every]),
            disclosures=tuple(row for outcome in every for row in outcome.ledger.rows()),
            timings=sum_timings(outcome.timings for outcome in every),
            warnings=tuple(self._setup.remarks),
        )

    # The steps

    def _step(self, number: int) -> None:
        name = self._job.steps[number - 1].method
        job = self._job.step(number, self._parties)
        if number > 1:
            fewer = limit_features(job.parameters, self._n_features)
            job = msgspec.structs.replace(job, parameters=fewer)
        result: SelectionResult | None = None
        if any(party in job.parties or party == job.neutral for party in self._here):
            result = self._run_step(number, name, job)
        else:
            stand_by(self._engine, self._job.coordinator, _PHASES)
        outcome = self._keep_survivors(number, name, result)
        if result is not None:
            self._results[-1] = _with_outcome(self._results[-1], outcome, step=number)
        if name == TRAIN:
            self._note_model()

    def _run_step(self, number: int, name: str, job: JointJob) -> SelectionResult | None:
        place = None
        if self._place is not None and self._run:
            place = str(step_place(self._place, number))
        selector = job.selector(checkpoint=place)
        left = {party: self._left(party) for party in self._here}
        keep = self._keep(number)
        run = JointRun(job, left, self._engine, self._observer, selector, keep, settled=True)
        result = run.run()
        if name == TRAIN and run.prepared is not None:
            self._models = parts_of_model(run.prepared.nodes)
            self._params = run.prepared.params
        if result is not None:
            self._results.append(tag_result(result, number, name))
            self.interrupted_ = getattr(selector, "interrupted_", False)
        return result

    def _left(self, party: str) -> LocalParty:
        """A party of this site with the rows and columns that are left."""
        policy = self._local[party].policy
        part = self._part(party, apart=False)
        return LocalParty(None, policy) if part is None else LocalParty.of(part, policy)

    def _part(self, party: str, *, apart: bool) -> Part | None:
        if party not in self._whole:
            return None
        rows = self._rows[party][1 if apart else 0]
        part = self._whole[party].take(rows).select(self._columns[party])
        return part if apart else replace(part, has_gaps=False)

    def _keep(self, number: int) -> KeepOwn | None:
        keep, name = self._keep_own, self._job.steps[number - 1].method
        if keep is None:
            return None
        return lambda party, known: keep(party, {"step": number, "method": name, **known})

    def _keep_survivors(self, number: int, name: str, result: SelectionResult | None) -> Outcome:
        """Let everybody know what is left after a step."""
        coordinator, before = self._job.coordinator, self._parties
        parties, features = before, dict[str, tuple[str, ...]]()
        if result is not None and name == TRAIN:
            features = {party: names_of(result, party) for party in before}
        elif result is not None:
            features = {party: tuple(result.selected.get(party, ())) for party in before}
            parties = find_staying(self._job.setting, coordinator, before, features)
        if result is not None:
            horizontal = self._job.setting == "horizontal"
            counted = list(features.values())[:1] if horizontal else features.values()
            self._n_features = sum(len(names) for names in counted)
        lead = messages.send_staying(number, parties, features, self._n_features)
        outcome, here = self._exchange(messages.AFTER_A_STEP, lead, before)
        self._parties = parties
        for party, role in here.items():
            if isinstance(role, messages.ChainParticipant) and role.staying is not None:
                self._parties, self._columns[party], self._n_features = role.staying
            elif isinstance(role, messages.ChainNeutral) and role.staying is not None:
                _, self._parties, self._n_features = role.staying
        if coordinator in self._columns and result is not None:
            self._columns[coordinator] = features.get(coordinator, ())
        return outcome

    # The prediction

    def _predict(self, number: int) -> None:
        """Predict the rows that were set apart; only the label holder learns the predictions."""
        coordinator = self._job.coordinator
        here = [party for party in self._here if party in self._parties]
        if not here:
            stand_by(self._engine, coordinator)
            return
        parts = {party: self._part(party, apart=True) for party in here}
        n_rows = len(self._rows[here[0]][1])
        tables: dict[str, Any] = {}
        for party in self._parties:
            if party not in here:
                tables[party] = RemoteTable(party, (), n_rows)
            elif (own := parts[party]) is not None and own.table is not None:
                tables[party] = own.table
        params = self._params
        assert params is not None  # noqa: S101 - the training came before
        protocol, used, nodes = prepare_prediction(tables, coordinator, self._models, params)
        prepared = PreparedRun(
            protocol=protocol,
            nodes=nodes,
            used=used,
            security_bits=0 if params.scheme == "plain" else params.security_bits,
            policies={
                party: self._local[party].policy if party in here else RemotePolicy()
                for party in nodes
            },
            observer=self._observer,
        )
        limit = self._job.timeout_seconds
        outcome = execute(prepared, timeout_seconds=limit, engine=self._engine)
        own_part = parts.get(coordinator)
        if own_part is not None:
            self._keep_prediction(number, outcome, own_part)

    def _keep_prediction(self, number: int, outcome: Outcome, part: Part) -> None:
        """Predictions for the label holder, and a result that holds none of them."""
        coordinator = self._job.coordinator
        names = [str(name) for name in self._models[coordinator]["classes"]]
        predicted, sure = name_predictions(outcome.value, names)
        truth = None
        if not self._job.has_gaps:
            task = "classification" if names else "regression"
            truth = part.target(task, fewest_classes=1)
        by_id = part.ids is not None
        rows = self._rows[coordinator][1].tolist() if part.ids is None else part.ids.tolist()
        if self._keep_predictions is not None:
            self._keep_predictions(write_predictions(rows, predicted, sure, by_id=by_id))
        own = self._job.steps[number - 1]
        self._add_prediction(
            number,
            own.parameters,
            predicted,
            truth,
            traffic=outcome.transcript.traffic(),
            timings=outcome.timings,
            disclosures=outcome.ledger.rows(),
            seed=own.seed,
        )

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

    def _restore(self, party: str, state: State) -> None:
        self._parties = tuple(state["parties"])
        self._n_features = int(state["n_features"])
        self._columns[party] = tuple(state["columns"])
        if "rows" in state:
            self._rows[party] = (state["rows"], state["apart"])
        if state["model"]:
            self._models[party] = state["model"]
        if state["params"]:
            self._params = params_of(state["params"])
        if "results" in state:
            self._start, *self._results = (
                msgspec.json.decode(text, type=SelectionResult) for text in state["results"]
            )

    def _forget(self) -> None:
        for own in self._files.values():
            own.clear()
        if self._place is not None:
            forget_places(self._place, len(self._job.steps))


def _with_outcome(result: SelectionResult, outcome: Outcome, step: int = 0) -> SelectionResult:
    """A result with what another exchange of messages cost and disclosed."""
    rows = (msgspec.structs.replace(row, step=step) for row in outcome.ledger.rows())
    return msgspec.structs.replace(
        result,
        traffic=merge_traffic([result.traffic, outcome.transcript.traffic()]),
        timings=sum_timings([result.timings, outcome.timings]),
        disclosures=(*result.disclosures, *rows),
    )
