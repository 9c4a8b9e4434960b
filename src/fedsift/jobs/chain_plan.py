# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Setup and plan of a chain: every site checks all steps once, and rows are matched once.

What a step discloses can depend on who is left. Where a choice of participants comes before, the
step is planned for groups of that size in which every party is once. A choice of features may leave
everybody or a single party: the plan shows what either would disclose, but a policy that forbids
the latter is only remarked on. Each step is checked again when it begins, with those who are left.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial

import msgspec
import numpy as np

from fedsift.config.steps import PREDICT
from fedsift.data.federation import JointFederation
from fedsift.data.part import Part
from fedsift.engine import LOCAL_ENGINE, Engine
from fedsift.engine.observer import Watching
from fedsift.jobs import chain_messages as messages
from fedsift.jobs.chain_steps import Rows, plan_prediction, plan_steps, split_rows
from fedsift.jobs.phases import JointRun, LocalParty, stand_by
from fedsift.jobs.setup_terms import Agreed
from fedsift.jobs.spec import JointJob
from fedsift.methods.checks import SetupNeeds
from fedsift.methods.execution import Plan
from fedsift.protocol.policy import PlannedDisclosure, check_before, check_budget_of_steps
from fedsift.protocol.role import placement_of


class ChainSetup(JointRun):
    """Setup, plan and matching of rows for all steps.

    Parameters
    ----------
    job : JointJob
        With steps.
    local_parties, engine, observer
        As of :class:`JointRun`.
    """

    def __init__(
        self,
        job: JointJob,
        local_parties: Mapping[str, LocalParty],
        engine: Engine = LOCAL_ENGINE,
        observer: Watching = None,
    ) -> None:
        first = msgspec.structs.replace(
            job.step(1), aligned=job.aligned, categorical=job.categorical
        )
        if job.has_gaps and job.coordinator in local_parties:
            local_parties = {
                **local_parties,
                job.coordinator: _with_gaps(local_parties[job.coordinator]),
            }
        super().__init__(first, local_parties, engine, observer)
        self._chain, self._settings = job, job.step_parameters
        self._every_local = local_parties
        needs = _needs_of_steps(job)
        self._terms = replace(
            self._terms,
            job=job.fingerprint,
            run=job.run_key,
            labelled=job.labelled and needs.labels,
            needs=needs,
        )

    def _again(self, local_parties: Mapping[str, LocalParty]) -> ChainSetup:
        return ChainSetup(self._chain, local_parties, self._engine)

    def set_up(self) -> tuple[Agreed, dict[str, Part]]:
        """Find out who brings what, and whether everybody agrees to all steps."""
        if self._local:
            return super().set_up()
        stand_by(self._engine, self._job.coordinator)
        return Agreed(0, {}, {}, "", 0, {}), {}

    def match_rows(self, agreed: Agreed, parts: Mapping[str, Part]) -> dict[str, Rows]:
        """Find the rows that all parties have, in the coordinator's order."""
        if self._local or not self._terms.aligned:
            return super().match_rows(agreed, parts)
        stand_by(self._engine, self._job.coordinator)
        return {}

    def _in_use(self, parts: dict[str, Part]) -> dict[str, Part]:
        """Without the rows that are to be predicted, as far as they are known."""
        coordinator, predicts = self._chain.coordinator, self._chain.predicts
        if predicts is None:
            return parts
        rows: Rows | None = None
        if self._chain.has_gaps and coordinator in parts:
            rows = np.flatnonzero(~parts[coordinator].unlabelled())
        elif not self._chain.has_gaps and len({part.n_rows for part in parts.values()}) == 1:
            n_rows = next(iter(parts.values())).n_rows
            rows = split_rows(n_rows, predicts["share"], self._chain.seed)[0]
        if rows is None:
            return parts
        # Before rows are matched, those of the label holder are no others' rows.
        matched = self._engine.home is None
        return {
            party: replace(part.take(rows), has_gaps=False)
            if matched or party == coordinator
            else part
            for party, part in parts.items()
        }

    # All steps

    def _checked(self, agreed: Agreed, federation: JointFederation) -> Plan:
        """The plan of all steps, if settings, data and policies allow all of them."""
        own = {party: local.policy for party, local in self._local.items()}
        check_budget_of_steps(own, self._chain.step_parameters)

        def groups(number: int) -> Iterator[Plan]:
            for left, owners in self._possibly_left(number, agreed):
                yield self._plan_of_step(number, left, _among(agreed, owners), federation)

        def alone(number: int) -> Mapping[str, Callable[[], Plan]]:
            if self._chain.setting == "horizontal" or self._engine.home is not None:
                return {}
            plans = {}
            for party in agreed.features:
                left = tuple(p for p in self._chain.parties if p in (coordinator, party))
                few = _among(agreed, left)
                plans[party] = partial(self._plan_of_step, number, left, few, federation)
            return plans

        coordinator = self._chain.coordinator
        names = [step.method for step in self._chain.steps]
        plan = plan_steps(names, coordinator, groups, alone)
        before, after = self._phases_of_chain(plan.security_bits)
        after_steps = [
            replace(row, step=number)
            for number, name in enumerate(names, start=1)
            if name != PREDICT
            for row in after
        ]
        rows = sorted((*before, *plan.disclosures, *after_steps), key=lambda row: row.step)
        return replace(plan, disclosures=tuple(dict.fromkeys(rows)))

    def _phases_of_chain(
        self, security_bits: int
    ) -> tuple[list[PlannedDisclosure], list[PlannedDisclosure]]:
        """What is revealed before the first step, and after each one."""
        job, coordinator = self._chain, self._chain.coordinator
        participants = any(party != coordinator for party in job.parties)
        neutrals = tuple(party for party in job.neutrals if party != coordinator)
        nodes = messages.build_nodes(coordinator, neutrals, job.parties, {})
        first = [self._foreseen(*phase) for phase in self._before()]
        if job.has_gaps and participants:
            first.append(self._foreseen(messages.PROTOCOL, messages.ROWS_APART, nodes))
        present = {role for roles in placement_of(nodes).values() for role in roles}
        used = tuple(cls for cls in messages.AFTER_A_STEP if cls.declaration.receiver in present)
        later = self._foreseen(messages.PROTOCOL, used, nodes)
        own = {party: local.policy for party, local in self._local.items()}
        sent = [pair for sends, _ in (*first, later) for pair in sends if pair[0] in own]
        check_before(self._job.method, own, sent, security_bits=security_bits)
        return [row for _, planned in first for row in planned], later[1]

    def _plan_of_step(
        self, number: int, left: tuple[str, ...], agreed: Agreed, federation: JointFederation
    ) -> Plan:
        job = self._chain.step(number, left)
        here = self._here(job)
        own = {party: local for party, local in self._every_local.items() if party in here}
        tables = {party: federation.tables[party] for party in agreed.features}
        among = replace(federation, tables=tables, parties=left, column_order={})
        if self._chain.steps[number - 1].method == PREDICT:
            policies = {party: local.policy for party, local in own.items()}
            return plan_prediction(job.selector(), among, policies, policies)
        run = JointRun(job, own, self._engine)
        run.simulated = self.simulated
        return run._checked(agreed, among)

    def _here(self, job: JointJob) -> list[str]:
        here, everybody = self._engine.home, (*job.parties, job.neutral)
        return [party for party in everybody if party and (here is None or party in here)]

    def _possibly_left(
        self, number: int, agreed: Agreed
    ) -> Iterator[tuple[tuple[str, ...], list[str]]]:
        """Groups that may run a step, and who of them has features; if any is of this site."""
        owners, size = list(agreed.features), len(agreed.features)
        for before in (self._chain.step(place) for place in range(1, number)):
            if before.entry.selects == "participants":
                chosen = before.parameters.get("n_participants", 1)
                size = int(chosen) if chosen >= 1 else max(1, round(chosen * size))
        for start in range(len(owners) if size < len(owners) else 1):
            group = {owners[(start + place) % len(owners)] for place in range(size)}
            left = tuple(
                p for p in self._chain.parties if p in group or p == self._chain.coordinator
            )
            if size >= len(owners):
                left = self._chain.parties
            if self._here(self._chain.step(number, left)):
                yield left, [party for party in owners if party in group]


def _among(agreed: Agreed, owners: Collection[str]) -> Agreed:
    """What was agreed, with the features of some parties only."""
    return replace(agreed, features={p: n for p, n in agreed.features.items() if p in owners})


def _needs_of_steps(job: JointJob) -> SetupNeeds:
    """What the sites must know of each other for all steps."""
    steps = [n for n, step in enumerate(job.steps, start=1) if step.method != PREDICT]
    each = [job.step(number).selector()._wanted() for number in steps]
    return SetupNeeds(
        choices=tuple(dict.fromkeys(choice for one in each for choice in one.choices)),
        n_classes=any(one.n_classes for one in each),
        common_words=any(one.common_words for one in each),
        labels=any(one.labels for one in each),
    )


def _with_gaps(local: LocalParty) -> LocalParty:
    """A party whose rows need not all have a label."""
    load = local.load
    return local if load is None else replace(local, load=lambda: replace(load(), has_gaps=True))
