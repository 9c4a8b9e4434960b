# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A chained job on the parties' own tables: the same script at every site, or all in one process.

The parties meet once for the whole chain, where every site looks at all steps with its own policy,
and match their rows once. Then every step is a joint run of its own among those who are left, with
what is left. The coordinator tells every party what of its own stays. A party that has left, or has
no part in a step, stays at the table without a role: nothing reaches it but the end of each stage.
"""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from fedsift.config.steps import TRAIN
from fedsift.data.federation import JointFederation, RemoteTable
from fedsift.data.part import Part
from fedsift.engine import LOCAL_ENGINE, Engine, Outcome
from fedsift.engine.observer import merge_traffic, sum_timings
from fedsift.errors import ValueProblem
from fedsift.jobs import chain_messages as chain
from fedsift.jobs.chain_plan import Opening
from fedsift.jobs.chain_state import (
    ChainState,
    Keep,
    StepFiles,
    digest_of,
    forget_places,
    names_of,
    parts_of_model,
    step_place,
)
from fedsift.jobs.chain_steps import (
    Rows,
    at_most,
    named_predictions,
    predictions_text,
    rows_apart,
    staying,
    tagged,
)
from fedsift.jobs.run import JointRun, LocalParty
from fedsift.jobs.setup_terms import Agreed
from fedsift.jobs.spec import JointJob
from fedsift.methods.execution import Plan, PreparedRun, execute, refuse_checkpoints
from fedsift.methods.fedsdg.model import prepare_prediction
from fedsift.protocol.commitments import Record
from fedsift.protocol.policy import RemotePolicy
from fedsift.result import SelectionResult

_STAGES = 3
"""Stages of a step that a joint run plays: meeting, method, findings."""


def run_chain(
    job: JointJob, homes: Mapping[str, LocalParty], engine: Engine = LOCAL_ENGINE, **options: Any
) -> SelectionResult | None:
    """Run this site's part of a chained job; options are those of :class:`ChainRun`.

    The result is at the site of the coordinator.
    """
    return ChainRun(job, homes, engine, **options).run()


def plan_chain(
    job: JointJob, homes: Mapping[str, LocalParty], *, simulated: bool = True
) -> tuple[JointFederation, Plan]:
    """As :func:`~fedsift.jobs.run.plan_joint`, for all steps of a chain."""
    opening = Opening(job, homes, LOCAL_ENGINE)
    opening.simulated = simulated
    return opening.plan()


class ChainRun(ChainState):
    """One run of a chain at one site.

    Parameters
    ----------
    job : JointJob
        With steps; the same at every site.
    homes : mapping of party to LocalParty
        The parties at home here.
    engine : Engine
        Reaches the other sites.
    observer : Observer or callable, optional
    place : Path, optional
        Where finished steps and checkpoints are kept. If it holds an interrupted run of the same
        job, this one goes on there.
    keep_own : callable, optional
        Given what each party at home may keep of every step for itself.
    keep_predictions : callable, optional
        Given the predictions at the label holder, as the text of a CSV file.
    keep_model : callable, optional
        Given the parts of a trained model that belong to the parties at home.
    """

    def run(self) -> SelectionResult | None:
        """All steps that are not finished yet."""
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
                self._opening.plan()
        agreed, self._whole = self._opening.set_up()
        self._n_features = agreed.n_features
        self._columns = {party: part.feature_names for party, part in self._whole.items()}
        digests = {party: digest_of(part, self._job.task) for party, part in self._whole.items()}
        self._files = {
            party: StepFiles(self._place, party, self._job.run_key, digests.get(party, ""))
            for party in self._at_home
            if party in self._job.parties or party == self._job.coordinator
        }
        outcomes, done = self._agree_on_start(self._files)
        self._resumed = done != chain.NOTHING
        if self._resumed:
            for party, own in self._files.items():
                state = own.load(done)
                with own.reading(done):
                    self._take_over(party, state)
            self._count_again(outcomes)
            self._note_model()
        else:
            self._note_start([*outcomes, *self._set_rows_apart(agreed)])
            self._save(0)
        return max(done, 0)

    def _close_record(self) -> Record | None:
        # Those who left earlier have no selected columns, and were told so.
        left = {party: names for party, names in self._columns.items() if party in self._parties}
        return self._engine.close_record(
            self._job.coordinator, selected=left, resumed=self._resumed
        )

    def _forget(self) -> None:
        for own in self._files.values():
            own.clear()
        if self._place is not None:
            forget_places(self._place, len(self._job.steps))

    # Before the first step

    def _agree_on_start(self, files: Mapping[str, StepFiles]) -> tuple[list[Outcome], int]:
        """Play which step all go on after; nothing is sent where the coordinator keeps nothing."""
        found = {party: own.found() for party, own in files.items()}
        errand = None
        if self._coordinators_here:
            own = found[self._job.coordinator]
            left = {step: files[self._job.coordinator].left(step) for step in own.steps}
            errand = chain.agree_on_start(own, secrets.token_hex(16), left)
        outcome, here = self._play(chain.AT_START, errand, self._job.parties, done=found)
        done = chain.NOTHING
        for role in here.values():
            if isinstance(role, chain.Participant):
                self._run, done = role.go_on_after
            elif isinstance(role, chain.Neutral) and role.staying is not None:
                done, self._parties, self._n_features = role.staying
        if self._coordinators_here:
            self._run, done = outcome.value
        return [outcome], done

    def _set_rows_apart(self, agreed: Agreed) -> list[Outcome]:
        """Match the rows, and take away those that are to be predicted."""
        rows = self._opening.match_rows(agreed, self._whole)
        common = {
            party: rows.get(party, np.arange(part.n_rows)) for party, part in self._whole.items()
        }
        outcomes = []
        apart: Rows = np.empty(0, dtype=np.int64)
        n_rows = len(next(iter(common.values()))) if common else 0
        predicts = self._job.predicts
        if self._job.has_gaps:
            outcome, apart = self._tell_rows(common)
            outcomes.append(outcome)
        elif predicts is not None and common:
            apart = rows_apart(n_rows, predicts["share"], self._job.seed)[1]
        self._rows = {party: (np.delete(own, apart), own[apart]) for party, own in common.items()}
        for party, (learning, _) in self._rows.items():
            record = self._homes[party].record
            if record is not None and predicts is not None:
                record.admit(learning, set_apart=True)
        return outcomes

    def _tell_rows(self, common: Mapping[str, Rows]) -> tuple[Outcome, Rows]:
        """The coordinator tells which of the common rows have no label."""
        party, errand = self._job.coordinator, None
        apart: Rows = np.empty(0, dtype=np.int64)
        if self._coordinators_here:
            apart = np.flatnonzero(self._whole[party].unlabelled()[common[party]])
            if not len(apart):
                raise ValueProblem(
                    f"Every row of party {party!r} that takes part has a label.",
                    "Rows without a label are to be predicted.",
                    "Leave labels empty, or hold a share of the rows out.",
                )
            errand = chain.tell_rows(apart)
        n_rows = len(next(iter(common.values()), ()))
        outcome, here = self._play(chain.ROWS_APART, errand, self._job.parties, n_rows=n_rows)
        for role in here.values():
            if isinstance(role, chain.Participant):
                apart = role.apart
        return outcome, apart

    def _count_again(self, outcomes: list[Outcome]) -> None:
        """Agreeing on where to go on was sent and signed too: it counts with the start."""
        if self._start is None:
            return
        self._start = msgspec.structs.replace(
            self._start,
            traffic=merge_traffic(
                [self._start.traffic, *(outcome.transcript.traffic() for outcome in outcomes)]
            ),
            disclosures=(
                *self._start.disclosures,
                *(row for outcome in outcomes for row in outcome.ledger.rows()),
            ),
        )

    def _note_start(self, outcomes: list[Outcome]) -> None:
        """What came before the first step, for the sum of all costs."""
        every = [*self._opening.outcomes, *outcomes]
        self._start = SelectionResult(
            method="start",
            setting=self._job.setting,
            selected={},
            traffic=merge_traffic([outcome.transcript.traffic() for outcome in every]),
            disclosures=tuple(row for outcome in every for row in outcome.ledger.rows()),
            timings=sum_timings(outcome.timings for outcome in every),
            warnings=tuple(self._opening.remarks),
        )

    # The steps

    def _step(self, number: int) -> None:
        name = self._job.steps[number - 1].method
        job = self._job.step(number, self._parties)
        if number > 1:
            fewer = at_most(job.parameters, self._n_features)
            job = msgspec.structs.replace(job, parameters=fewer)
        result: SelectionResult | None = None
        if self._takes_part(job):
            result = self._run_step(number, name, job)
        else:
            self._watch(_STAGES)
        self._let_stay(number, name, result)
        if result is not None:
            self._results[-1] = self._with_cost(self._results[-1], number)
        if name == TRAIN:
            self._note_model()

    def _run_step(self, number: int, name: str, job: JointJob) -> SelectionResult | None:
        place = None
        if self._place is not None and self._run:
            place = str(step_place(self._place, number))
        selector = job.selector(checkpoint=place)
        homes = {party: self._home(party) for party in self._at_home}
        run = JointRun(
            job, homes, self._engine, self._observer, selector, self._keep(number), settled=True
        )
        result = run.run()
        if name == TRAIN and run.prepared is not None:
            self._models = parts_of_model(run.prepared.nodes)
            self._params = run.prepared.params
        if result is not None:
            self._results.append(tagged(result, number, name))
            self.interrupted_ = getattr(selector, "interrupted_", False)
        return result

    def _keep(self, number: int) -> Keep | None:
        keep, name = self._keep_own, self._job.steps[number - 1].method
        if keep is None:
            return None
        return lambda party, known: keep(party, {"step": number, "method": name, **known})

    def _let_stay(self, number: int, name: str, result: SelectionResult | None) -> None:
        """The coordinator tells everybody what is left after a step."""
        coordinator, before = self._job.coordinator, self._parties
        parties, features = before, dict[str, tuple[str, ...]]()
        if result is not None and name == TRAIN:
            features = {party: names_of(result, party) for party in before}
        elif result is not None:
            features = {party: tuple(result.selected.get(party, ())) for party in before}
            parties = staying(self._job.setting, coordinator, before, features)
        if result is not None:
            horizontal = self._job.setting == "horizontal"
            counted = list(features.values())[:1] if horizontal else features.values()
            self._n_features = sum(len(names) for names in counted)
        errand = chain.tell_staying(number, parties, features, self._n_features)
        self._step_outcome, here = self._play(chain.AFTER_A_STEP, errand, before)
        self._parties = parties
        for party, role in here.items():
            if isinstance(role, chain.Participant) and role.staying is not None:
                self._parties, self._columns[party], self._n_features = role.staying
            elif isinstance(role, chain.Neutral) and role.staying is not None:
                _, self._parties, self._n_features = role.staying
        if coordinator in self._columns and result is not None:
            self._columns[coordinator] = features.get(coordinator, ())

    def _with_cost(self, result: SelectionResult, number: int) -> SelectionResult:
        """A step's result with what it cost to tell everybody about it."""
        rows = (
            msgspec.structs.replace(row, step=number) for row in self._step_outcome.ledger.rows()
        )
        return msgspec.structs.replace(
            result,
            traffic=merge_traffic([result.traffic, self._step_outcome.transcript.traffic()]),
            timings=sum_timings([result.timings, self._step_outcome.timings]),
            disclosures=(*result.disclosures, *rows),
        )

    def _predict(self, number: int) -> None:
        """Predict the rows that were set apart; only the label holder learns what comes out."""
        coordinator = self._job.coordinator
        here = [party for party in self._at_home if party in self._parties]
        if not here:
            self._watch(1)
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
        bits = 0 if params.scheme == "plain" else params.security_bits
        outcome = execute(
            PreparedRun(
                protocol=protocol,
                nodes=nodes,
                used=used,
                security_bits=bits,
                policies={
                    party: self._homes[party].policy if party in here else RemotePolicy()
                    for party in nodes
                },
                observer=self._observer,
            ),
            timeout_seconds=self._job.timeout_seconds,
            engine=self._engine,
        )
        own_part = parts.get(coordinator)
        if own_part is not None:
            self._write_down(number, outcome, own_part)

    def _write_down(self, number: int, outcome: Outcome, part: Part) -> None:
        """Predictions for the label holder, and a result that holds none of them."""
        coordinator = self._job.coordinator
        names = [str(name) for name in self._models[coordinator]["classes"]]
        predicted, sure = named_predictions(outcome.value, names)
        truth = None
        if not self._job.has_gaps:
            task = "classification" if names else "regression"
            truth = part.target(task, fewest_classes=1)
        by_id = part.ids is not None
        rows = self._rows[coordinator][1].tolist() if part.ids is None else part.ids.tolist()
        if self._keep_predictions is not None:
            self._keep_predictions(predictions_text(rows, predicted, sure, by_id=by_id))
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
