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
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fedsift.config.steps import PREDICT, TRAIN
from fedsift.data.part import Part
from fedsift.data.remote_table import JointFederation, RemoteTable
from fedsift.engine import LOCAL_ENGINE, Engine, Outcome
from fedsift.engine.observer import Watching
from fedsift.engine.outcome import sum_timings
from fedsift.errors import ValueProblem
from fedsift.jobs import chain_messages as chain
from fedsift.jobs.chain_files import StepFiles, digest_of, forget_places, step_place
from fedsift.jobs.chain_model import ChainModel, parts_of_model
from fedsift.jobs.chain_plan import Opening
from fedsift.jobs.chain_results import (
    Rows,
    at_most,
    named_predictions,
    predictions_text,
    rows_apart,
    score_of,
    staying,
    summed,
    tagged,
)
from fedsift.jobs.chain_state import ChainState, Keep, names_of
from fedsift.jobs.run import JointRun, LocalParty, merge_traffic
from fedsift.jobs.setup_terms import Agreed
from fedsift.jobs.spec import JointJob
from fedsift.methods.execution import Plan, PreparedRun, execute
from fedsift.methods.fedsdg.messages import messages_to_predict
from fedsift.methods.release import refuse_checkpoints
from fedsift.protocol import Role
from fedsift.result import SelectionResult

_STAGES = 3
"""Stages of a step that a joint run plays: meeting, method, findings."""


def run_chain(
    job: JointJob,
    homes: Mapping[str, LocalParty],
    engine: Engine = LOCAL_ENGINE,
    *,
    observer: Watching = None,
    place: Path | None = None,
    keep_own: Keep | None = None,
    keep_predictions: Callable[[str], None] | None = None,
    keep_model: Callable[[ChainModel], None] | None = None,
) -> SelectionResult | None:
    """Play this site's part of a chained job.

    Parameters
    ----------
    job : JointJob
        With steps; the same at every site.
    homes : mapping of party to Home
        The parties at home here.
    player : Player
        Reaches the other sites.
    observer : callable, optional
        Told after every message.
    place : Path, optional
        Where finished steps and checkpoints are kept. If it holds an interrupted run of the same
        job, this one goes on there.
    keep_own : callable, optional
        Given what each party at home may keep of every step for itself.
    keep_predictions : callable, optional
        Given the predictions at the label holder, as the text of a CSV file.
    keep_model : callable, optional
        Given the parts of a trained model that belong to the parties at home.

    Returns
    -------
    result : SelectionResult or None
        At the site of the coordinator.
    """
    return ChainRun(
        job, homes, engine, observer, place, keep_own, keep_predictions, keep_model
    ).run()


def plan_chain(job: JointJob, homes: Mapping[str, LocalParty]) -> tuple[JointFederation, Plan]:
    """Who will learn what if all steps run; needs all parties here, and sends nothing."""
    return Opening(job, homes, LOCAL_ENGINE).plan()


class ChainRun(ChainState):
    """One run of a chain at one site."""

    def run(self) -> SelectionResult | None:
        """All steps that are not finished yet."""
        refuse_checkpoints((step.parameters for step in self._job.steps), self._place)
        if self._engine.home is None:
            with warnings.catch_warnings():
                # The run itself warns too.
                warnings.simplefilter("ignore", UserWarning)
                self._opening.plan()
        agreed, self._whole = self._opening.set_up()
        self._n_features = agreed.n_features
        self._columns = {party: part.feature_names for party, part in self._whole.items()}
        digests = {party: digest_of(part, self._job.task) for party, part in self._whole.items()}
        files = {
            party: StepFiles(self._place, party, self._job.run_key, digests.get(party, ""))
            for party in self._at_home
            if party in self._job.parties or party == self._job.coordinator
        }
        outcomes, done = self._agree_on_start(files)
        if done == chain.NOTHING:
            outcomes += self._set_rows_apart(agreed)
            self._note_start(outcomes)
            self._save(files, 0)
        else:
            for party, own in files.items():
                self._take_over(party, own.load(done))
            self._note_model()
        for number in range(max(done, 0) + 1, len(self._job.steps) + 1):
            try:
                self._step(number)
            except KeyboardInterrupt:
                if not self._results or self._engine.home is not None:
                    raise
                self.interrupted_ = True
            if self.interrupted_:
                break
            self._save(files, number)
        return self._finished(files)

    def _finished(self, files: Mapping[str, StepFiles]) -> SelectionResult | None:
        if not self.interrupted_:
            for own in files.values():
                own.clear()
            if self._place is not None:
                forget_places(self._place, len(self._job.steps))
        if not self._coordinators_here:
            return None
        remarks = []
        if self.interrupted_:
            of = f"{len(self._results)} of {len(self._job.steps)}"
            remarks.append(f"Interrupted: {of} steps are finished.")
        return summed(
            self._start,
            self._results,
            parties=self._job.parties,
            seed=self._job.seed,
            remarks=remarks,
        )

    # Before the first step

    def _agree_on_start(self, files: Mapping[str, StepFiles]) -> tuple[list[Outcome], int]:
        """Play which step all go on after; nothing is sent where the coordinator keeps nothing."""
        found = {party: own.found() for party, own in files.items()}
        here: dict[str, Role] = {}
        for party in self._at_home:
            if party == self._job.coordinator:
                left = {step: files[party].left(step) for step in found[party].steps}
                new_run = secrets.token_hex(16)
                here[party] = chain.Coordinator(chain.agree_on_start(found[party], new_run, left))
            elif party in self._job.parties:
                here[party] = self._participant(party, found[party])
            else:
                here[party] = chain.Neutral()
        outcome = self._play(chain.AT_START, here, self._job.parties)
        agreed = [role.go_on_after for role in here.values() if isinstance(role, chain.Participant)]
        if self._coordinators_here:
            agreed = [outcome.value]
        neutral = [role for role in here.values() if isinstance(role, chain.Neutral)]
        if agreed:
            self._run, done = agreed[0]
            return [outcome], done
        done = chain.NOTHING
        for role in neutral:
            if role.staying is not None:
                done, self._parties, self._n_features = role.staying
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
        return outcomes

    def _tell_rows(self, common: Mapping[str, Rows]) -> tuple[Outcome, Rows]:
        """The coordinator tells which of the common rows have no label."""
        here: dict[str, Role] = {}
        apart: Rows = np.empty(0, dtype=np.int64)
        for party in self._at_home:
            if party == self._job.coordinator:
                apart = np.flatnonzero(self._whole[party].unlabelled()[common[party]])
                if not len(apart):
                    raise ValueProblem(
                        f"Every row of party {party!r} that takes part has a label.",
                        "Rows without a label are to be predicted.",
                        "Leave labels empty, or hold a share of the rows out.",
                    )
                here[party] = chain.Coordinator(chain.tell_rows(apart))
            elif party in self._job.parties:
                here[party] = self._participant(party, n_rows=len(common[party]))
            else:
                here[party] = chain.Neutral()
        outcome = self._play(chain.ROWS_APART, here, self._job.parties)
        for role in here.values():
            if isinstance(role, chain.Participant):
                apart = role.apart
        return outcome, apart

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
        self._observer.begin(number, len(self._job.steps), name)
        if name == PREDICT:
            self._predict(number)
            return
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
        here: dict[str, Role] = {}
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
        for party in self._at_home:
            if party == coordinator:
                errand = chain.tell_staying(number, parties, features, self._n_features)
                here[party] = chain.Coordinator(errand)
            elif party in before:
                here[party] = self._participant(party)
            elif party in self._neutrals:
                here[party] = chain.Neutral()
        outcome = self._play(chain.AFTER_A_STEP, here, before if here else ())
        self._step_outcome = outcome
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
        from fedsift.methods.fedsdg import predictor as fedsdg_predict

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
        nodes = fedsdg_predict.build_nodes(tables, coordinator, self._models, params)
        n_holders = sum(party != coordinator for party in self._parties)
        bits = 0 if params.scheme == "plain" else params.security_bits
        outcome = execute(
            PreparedRun(
                protocol=fedsdg_predict.PROTOCOL,
                nodes=nodes,
                used=messages_to_predict(n_holders),
                security_bits=bits,
                policies={party: self._homes[party].policy for party in here},
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
        coordinator, before = self._job.coordinator, self._results[-1]
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
        score = score_of(predicted, truth)
        asked = dict(self._job.steps[number - 1].parameters) | {"n_rows": len(predicted)}
        result = msgspec.structs.replace(
            before,
            scores={},
            ranking={},
            history=(),
            parameters=asked if score is None else asked | {"score": score},
            traffic=outcome.transcript.traffic(),
            timings=outcome.timings,
            disclosures=outcome.ledger.rows(),
            warnings=(),
            seed=self._job.steps[number - 1].seed,
        )
        self._results.append(tagged(result, number, PREDICT))
