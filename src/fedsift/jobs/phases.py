# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""One method on the parties' own tables: the same run at every site, or all in one process.

A run has four phases with messages: the *setup* (who brings what, and does everybody agree), the
*alignment* of rows by private set intersection where ids are given, the *method*, and the
*collection* of what the coordinator needs to write the result down. A site has its own tables only.
In one process all tables are there and the phases are the same, so that the result, its traffic
and its ledger are the same too; there everything is checked once before the first message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, cast

import msgspec

from fedsift.crypto import psi
from fedsift.data.federation import JointFederation, remarks_on
from fedsift.data.ids import Ids
from fedsift.data.part import Part, load_anonymous
from fedsift.engine import Engine, Outcome
from fedsift.engine.observer import Watching, as_observer, merge_traffic, sum_timings
from fedsift.jobs import align, collect, setup
from fedsift.jobs.foresight import refuse_missing_kinds, with_room
from fedsift.jobs.history import JobRecord
from fedsift.jobs.setup_terms import Agreed, PartySetup, messages_used
from fedsift.jobs.spec import (
    JointJob,
    Rows,
    join_federation,
    match_rows_here,
    remark_left_out,
    remarks_of,
)
from fedsift.methods.execution import (
    Facts,
    Plan,
    PreparedRun,
    execute,
    facts_by_party,
    facts_of,
    make_plan,
    replace_remote_roles,
    with_prices,
)
from fedsift.protocol import Message, Policy, Protocol, RemoteRole, Role
from fedsift.protocol.commitments import sign_result
from fedsift.protocol.message import Declaration
from fedsift.protocol.policy import (
    OPEN,
    PlannedDisclosure,
    RemotePolicy,
    check_before,
    check_names,
    check_rows,
    only_kinds,
)
from fedsift.protocol.resume import forget_finished
from fedsift.protocol.role import placement_of
from fedsift.result import SelectionResult

_Phase = tuple[Protocol, tuple[type[Message], ...], Mapping[str, Any]]
"""A protocol, the messages of it that are used, and the roles of all parties."""

_SetupRole = setup.SetupCoordinator | setup.SetupParticipant | setup.SetupNeutral
_IN_THE_CLEAR = (
    "Rows were matched in the clear, in this process: openmined-psi is not installed "
    "(pip install 'fedsift[psi]')."
)


KeepOwn = Callable[[str, dict[str, Any]], None]
"""Given a party of this site and what it may keep of a run for itself."""


@dataclass(frozen=True, eq=False)
class LocalParty:
    """What a site brings to a joint run for one of its parties.

    Parameters
    ----------
    load : callable, optional
        Reads the party's data; a party without data has none.
    policy : Policy
    record : JobRecord, optional
        Where the party keeps a history: its record of this job.
    """

    load: Callable[[], Part] | None = None
    policy: Policy = OPEN
    record: JobRecord | None = None

    def __post_init__(self) -> None:
        if self.load is not None and self.policy.anonymous_names:
            object.__setattr__(self, "load", partial(load_anonymous, self.load))

    def read_once(self) -> LocalParty:
        """The same party, whose data is read when it is first needed, and only then."""
        return self if self.load is None else replace(self, load=cache(self.load))

    @classmethod
    def of(cls, part: Part, policy: Policy | None = None) -> LocalParty:
        """A party whose data has been read."""
        return cls(lambda: part, OPEN if policy is None else policy)


class JointRun:
    """One run at one site.

    Parameters
    ----------
    job, local_parties, engine, observer, selector, keep_own
        As of :func:`~fedsift.jobs.run.run_joint`.
    settled : bool
        Whether the whole job has been checked before.

    Attributes
    ----------
    simulated : bool
        Whether all parties belong to whoever runs it; otherwise a seed drives public draws only.
    outcomes : list of Outcome
        Of the phases so far.
    remarks : list of str
        On the matching of rows.
    prepared : PreparedRun, optional
        The method, once it has been prepared.
    """

    def __init__(
        self,
        job: JointJob,
        local_parties: Mapping[str, LocalParty],
        engine: Engine,
        observer: Watching = None,
        selector: Any = None,
        keep_own: KeepOwn | None = None,
        settled: bool = False,
    ) -> None:
        self._job = job
        self._settled = settled
        self._engine = engine
        self.simulated = engine.home is None
        self._observer = as_observer(observer)
        self._keep_own = keep_own
        self._selector = job.selector() if selector is None else selector
        self._terms, self._settings = job.terms(self._selector), job.step_parameters
        everybody = [*job.parties, *([] if job.neutral is None else [job.neutral])]
        here = everybody if engine.home is None else engine.home
        self._local = {
            party: local_parties.get(party, LocalParty()).read_once()
            for party in everybody
            if party in here
        }
        if job.setting == "horizontal":
            check_names({party: local.policy for party, local in self._local.items()})
        self._needs = self._selector._asked(job.setting)
        self.outcomes: list[Outcome] = []
        self.remarks: list[str] = []
        self.prepared: PreparedRun | None = None
        self._reviewed: Agreed | None = None

    def run(self) -> SelectionResult | None:
        """Run all phases."""
        alone = self._engine.home is None
        if alone and not self._settled:
            self.plan()
        agreed, parts = self.set_up()
        parts = self._aligned(agreed, parts)
        federation = join_federation(self._terms, agreed, parts)
        # Where all tables are here, or this site has reviewed the very same, nothing has changed.
        checked = self.prepared is not None and (alone or agreed is self._reviewed)
        if not checked:
            self.prepared = self._prepare(agreed, federation)
        prepared = cast("PreparedRun", self.prepared)
        limit = self._job.timeout_seconds
        outcome = execute(prepared, timeout_seconds=limit, engine=self._engine, checked=checked)
        self.outcomes.append(outcome)
        own = facts_of(prepared.nodes)
        found = self._collect(agreed, parts, own)
        record = None
        if not self._settled:
            names = {p: agreed.columns or part.feature_names for p, part in parts.items()}
            selected = collect.find_own_selected(names, own)
            record = self._engine.close_record(self._job.coordinator, selected=selected)
        # Not before: a run that breaks off while facts are collected can still be resumed.
        forget_finished(prepared.nodes)
        self._keep_facts(agreed, parts, own)
        if found is None:
            return None
        known = [(party, facts) for party, facts in own if party == self._job.coordinator]
        known += ((party, one.facts) for party, one in found.items())
        self._selector.keep_result(prepared, outcome, known)
        result = self._completed(self._selector.result_, federation, parts, found)
        return result if self._settled else sign_result(result, record)

    def plan(self) -> tuple[JointFederation, Plan]:
        """Check everything that can be checked without a message."""
        agreed, parts = setup.agree_here(self._terms, self._party_setups(reviewing=False))
        remarks: tuple[str, ...] = ()
        if self._terms.aligned:
            ids = {party: _ids(part) for party, part in parts.items()}
            rows = match_rows_here(ids, self._job.coordinator)
            parts = {party: part.take(rows[party]) for party, part in parts.items()}
            remarks = remark_left_out(agreed.n_rows, len(rows[self._job.coordinator]))
        parts = self._in_use(parts)
        federation = join_federation(self._terms, agreed, parts)
        plan = self._checked(agreed, federation)
        for party, part in parts.items():
            check_rows(party, self._local[party].policy, part.n_rows)
        self._note_plan(plan)
        on_data = remarks_on(federation.tables, [federation.target])
        return replace(federation, warnings=(*on_data, *remarks)), plan

    # The phases

    def set_up(self) -> tuple[Agreed, dict[str, Part]]:
        """Find out who brings what, and whether everybody agrees."""
        nodes = setup.build_nodes(self._terms, self._party_setups(self._engine.home is not None))
        self._run_phase(setup.PROTOCOL, messages_used(self._terms), nodes)
        roles = {party: cast("_SetupRole", nodes[party][0]) for party in self._local}
        agreed = {party: _known(role) for party, role in roles.items()}
        parts = {
            party: role.part
            for party, role in roles.items()
            if not isinstance(role, setup.SetupNeutral) and self._local[party].load is not None
        }
        codes = {party: own for one in agreed.values() for party, own in one.codes.items()}
        # The coordinator knows most; at other sites, one party's knowledge is all there is.
        first = agreed.get(self._job.coordinator) or next(iter(agreed.values()))
        return (replace(first, codes=codes) if codes else first), parts

    def match_rows(self, agreed: Agreed, parts: Mapping[str, Part]) -> dict[str, Rows]:
        """Find the rows that all parties have, in the coordinator's order; empty without ids."""
        if not self._terms.aligned:
            return {}
        ids = {party: parts[party].ids if party in parts else None for party in self._job.parties}
        policies = {party: local.policy for party, local in self._local.items()}
        if self._engine.home is None and not psi.is_installed():
            rows = match_rows_here(
                {p: _ids(part) for p, part in parts.items()}, self._job.coordinator
            )
            self.remarks.append(_IN_THE_CLEAR)
            for party, record in self._records.items():
                record.admit(rows[party])
        else:
            psi.library()
            nodes = align.build_nodes(ids, self._job.coordinator, policies, self._records)
            self._run_phase(align.PROTOCOL, align.PROTOCOL.messages, nodes)
            rows = {party: nodes[party][0].facts()["rows"] for party in parts}
        n_common = len(next(iter(rows.values()))) if rows else 0
        self.remarks = [*remark_left_out(agreed.n_rows, n_common), *self.remarks]
        return rows

    def _aligned(self, agreed: Agreed, parts: dict[str, Part]) -> dict[str, Part]:
        rows = self.match_rows(agreed, parts)
        return {party: part.take(rows[party]) for party, part in parts.items()} if rows else parts

    def _prepare(self, agreed: Agreed, federation: JointFederation) -> PreparedRun:
        """The method, with stand-ins for the roles of parties at other sites."""
        self._selector.set_params(policy=self._policies(agreed))
        prepared: PreparedRun = self._selector.prepare(
            federation, simulated=self.simulated, observer=self._observer
        )
        return replace(prepared, nodes=replace_remote_roles(prepared.nodes, self._engine.home))

    def _collect(
        self, agreed: Agreed, parts: Mapping[str, Part], own: Facts
    ) -> dict[str, collect.PartyFacts] | None:
        """What the others add to the result; None at sites without the coordinator."""
        coordinator, neutral = self._job.coordinator, self._job.neutral
        facts = facts_by_party(own)
        here: dict[str, Role] = {}
        for party in self._local:
            if party == coordinator:
                here[party] = collect.ResultCoordinator(agreed.features, self._needs)
            elif party == neutral:
                here[party] = collect.ResultNeutral(facts.get(party, {}))
            else:
                part = parts[party]
                here[party] = collect.ResultParticipant(
                    party, part.feature_names, facts.get(party, {}), remarks_of(part)
                )
        nodes = collect.build_nodes(coordinator, neutral, self._job.parties, here)
        outcome = self._run_phase(collect.PROTOCOL, self._after(agreed.features)[1], nodes)
        found: dict[str, collect.PartyFacts] | None = outcome.value
        return found

    def _keep_facts(self, agreed: Agreed, parts: Mapping[str, Part], own: Facts) -> None:
        """Give every party of this site what it may keep of the run for itself."""
        if self._keep_own is None:
            return
        for party, known in facts_by_party(own).items():
            names = parts[party].feature_names if party in parts else ()
            kept = {"columns": list(agreed.columns or names), **known}
            if party in parts and parts[party].own_names:
                kept["own_names"] = dict(parts[party].own_names)
            self._keep_own(party, kept)

    def _run_phase(
        self, protocol: Protocol, used: tuple[type[Message], ...], nodes: Mapping[str, Any]
    ) -> Outcome:
        outcome = self._engine.run(
            protocol,
            nodes,
            planned=used,
            policies={party: local.policy for party, local in self._local.items()},
            timeout_seconds=self._job.timeout_seconds,
            observer=self._observer,
        )
        self.outcomes.append(outcome)
        return outcome

    # What everybody agrees to

    def _party_setups(self, reviewing: bool) -> dict[str, PartySetup]:
        review = self._review if reviewing else None
        phases = (*self._before(), self._after(self._job.parties))
        sends = [pair for phase in phases for pair in self._foreseen(*phase)[0]]
        foresee = self._foresee if reviewing else None
        return {
            p: PartySetup(local.policy, local.load, review, sends, foresee)
            for p, local in self._local.items()
        }

    def _foresee(self, known: Agreed) -> None:
        """See whether the lists of kinds of the parties of this site will do."""
        others = [party for party in self._job.parties if party not in self._local]
        local_parties = {
            p: LocalParty(one.load, only_kinds(one.policy)) for p, one in self._local.items()
        }
        guess = with_room(known, self._settings)
        refuse_missing_kinds(guess, others, self._terms.needs, self._again(local_parties)._review)

    def _again(self, local_parties: Mapping[str, LocalParty]) -> JointRun:
        """The same run, only to be looked at."""
        return JointRun(self._job, local_parties, self._engine)

    def _review(self, agreed: Agreed) -> None:
        """See whether all of it fits, at a site, before anything is sent that depends on values."""
        if self._terms.aligned:
            psi.library()
        loaded = {p: local.load() for p, local in self._local.items() if local.load is not None}
        federation = join_federation(self._terms, agreed, self._in_use(loaded))
        self._note_plan(self._checked(agreed, federation))
        if not self._terms.aligned:  # otherwise the rows that take part are not known yet
            self._reviewed = agreed

    def _note_plan(self, plan: Plan) -> None:
        """Write down what will be revealed, and over which rows unless they are matched later."""
        for record in self._records.values():
            record.note_plan(plan.disclosures)
            if not self._terms.aligned:
                record.admit()

    @property
    def _records(self) -> dict[str, JobRecord]:
        """The records of the parties of this site that keep one."""
        return {p: local.record for p, local in self._local.items() if local.record is not None}

    def _in_use(self, parts: dict[str, Part]) -> dict[str, Part]:
        """Rows of the parties here that the method will see, as far as that is known."""
        return parts

    def _checked(self, agreed: Agreed, federation: JointFederation) -> Plan:
        """The plan of all phases, if settings, data and policies allow it."""
        self.prepared = self._prepare(agreed, federation)
        plan = make_plan(self.prepared)
        before = [self._foreseen(*phase) for phase in self._before()]
        after = self._foreseen(*self._after(agreed.features))
        own = {party: local.policy for party, local in self._local.items()}
        sent = [pair for sends, _ in (*before, after) for pair in sends if pair[0] in own]
        check_before(self._job.method, own, sent, security_bits=plan.security_bits)
        rows = [row for _, planned in before for row in planned]
        return replace(plan, disclosures=(*rows, *plan.disclosures, *after[1]))

    def _foreseen(
        self, protocol: Protocol, used: tuple[type[Message], ...], nodes: Mapping[str, Any]
    ) -> tuple[list[tuple[str, Declaration]], list[PlannedDisclosure]]:
        """Who sends what in a phase, and who learns what."""
        placement = placement_of(nodes)
        return protocol.sends(used, placement), protocol.planned(used, placement)

    def _before(self) -> list[_Phase]:
        """Setup and alignment."""
        job, terms = self._job, self._terms
        phases: list[_Phase] = [
            (setup.PROTOCOL, messages_used(terms), setup.build_nodes(terms, {}))
        ]
        if terms.aligned and (self._engine.home is not None or psi.is_installed()):
            nodes = align.build_nodes(dict.fromkeys(job.parties), job.coordinator)
            phases.append((align.PROTOCOL, align.PROTOCOL.messages, nodes))
        return phases

    def _after(self, owners: Iterable[str]) -> _Phase:
        """The collection of facts from the owners of features."""
        job = self._job
        used = collect.messages_used(
            self._needs,
            participants=any(party != job.coordinator for party in owners),
            neutral=job.neutral not in (None, job.coordinator),
        )
        nodes = collect.build_nodes(job.coordinator, job.neutral, job.parties, {})
        return collect.PROTOCOL, used, nodes

    def _policies(self, agreed: Agreed) -> dict[str, Policy]:
        """Own policies, and stand-ins for those that are enforced at other sites."""
        choices = frozenset(cls.declaration.kind for cls in self._terms.needs.choices)
        return {
            party: (
                self._local[party].policy
                if party in self._local
                else RemotePolicy(
                    choices=choices,
                    granted=frozenset(agreed.allowed.get(party, ())),
                    min_class_size=agreed.min_class_size,
                )
            )
            for party in self._job.parties
        }

    # The result

    def _completed(
        self,
        result: SelectionResult,
        federation: JointFederation,
        parts: Mapping[str, Part],
        found: Mapping[str, collect.PartyFacts],
    ) -> SelectionResult:
        """The method's result with what the other phases cost, disclosed and remarked."""
        rows = [row for outcome in self.outcomes for row in outcome.ledger.rows()]
        return msgspec.structs.replace(
            result,
            traffic=merge_traffic([outcome.transcript.traffic() for outcome in self.outcomes]),
            disclosures=with_prices(rows, result.parameters),
            timings=sum_timings([outcome.timings for outcome in self.outcomes]),
            warnings=(
                *self._remarks_on(federation, parts, found),
                *self.remarks,
                *result.warnings,
            ),
        )

    def _remarks_on(
        self,
        federation: JointFederation,
        parts: Mapping[str, Part],
        found: Mapping[str, collect.PartyFacts],
    ) -> list[str]:
        """On everybody's tables and the labels; none where rows have a budget of privacy."""
        if not self._needs.remarks:
            return []
        coordinator = self._job.coordinator
        tables = {party: one.table_remarks for party, one in found.items()}
        if coordinator in parts:
            tables[coordinator] = remarks_of(parts[coordinator])
        remarks = [text for party in self._job.parties for text in tables.get(party, ())]
        on_labels = remarks_on({}, [federation.target]) if federation.target is not None else ()
        return [*remarks, *on_labels]


def _ids(part: Part) -> Ids:
    assert part.ids is not None  # noqa: S101 - checked during setup
    return part.ids


def _known(role: _SetupRole) -> Agreed:
    assert role.agreed is not None  # noqa: S101 - setup ends when all have agreed
    return role.agreed


def stand_by(engine: Engine, coordinator: str, n_phases: int = 1) -> None:
    """Be connected without a role until the others have ended some phases."""
    for _ in range(n_phases):
        engine.run(setup.PROTOCOL, {coordinator: (RemoteRole(setup.SetupCoordinator),)})
