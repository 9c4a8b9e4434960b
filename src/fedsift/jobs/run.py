# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A job on the parties' own tables: the same run at every site, or all parties in one process.

A run has four phases with messages: the *setup* (who brings what, and does everybody agree), the
*alignment* of rows by private set intersection where ids are given, the *method*, and the
*collection* of what the coordinator needs to write the result down. A site has its own tables only.
In one process all tables are at home and the phases are the same, so that the result, its traffic
and its ledger are the same too; there everything is checked once before the first message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, cast

import msgspec

from fedsift.crypto import psi
from fedsift.data.federation import JointFederation
from fedsift.data.ids import Ids
from fedsift.data.part import Part, load_anonymous
from fedsift.data.remarks import remarks_on
from fedsift.engine import LOCAL_ENGINE, Engine, Outcome
from fedsift.engine.observer import Watching, as_observer, merge_traffic, sum_timings
from fedsift.jobs import align, collect, setup
from fedsift.jobs.foresight import refuse_missing_kinds, with_room
from fedsift.jobs.history import JobRecord
from fedsift.jobs.setup_terms import Agreed, Seat, messages_used
from fedsift.jobs.spec import (
    JointJob,
    Rows,
    joint_federation,
    remarks_of,
    rows_in_common,
    rows_left_out,
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
from fedsift.protocol import Message, Policy, Protocol, Role
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
from fedsift.protocol.protocol import placement_of
from fedsift.protocol.resume import forget_finished
from fedsift.result import SelectionResult

_Phase = tuple[Protocol, tuple[type[Message], ...], Mapping[str, Any]]
"""A protocol, the messages of it that are used, and the roles of all parties."""

_SetupRole = setup.Coordinator | setup.Participant | setup.Neutral
_IN_THE_CLEAR = (
    "Rows were matched in the clear, in this process: openmined-psi is not installed "
    "(pip install 'fedsift[psi]')."
)


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


def run_joint(
    job: JointJob, homes: Mapping[str, LocalParty], engine: Engine = LOCAL_ENGINE, **options: Any
) -> SelectionResult | None:
    """Run this site's part of a job; options are those of :class:`JointRun`.

    The result is at the site of the coordinator.
    """
    return JointRun(job, homes, engine, **options).run()


def plan_joint(
    job: JointJob, homes: Mapping[str, LocalParty], *, simulated: bool = True
) -> tuple[JointFederation, Plan]:
    """Who will learn what if the job runs; needs all parties here, and sends nothing.

    Parameters
    ----------
    job : JointJob
    homes : mapping of party to LocalParty
        All parties with data.
    simulated : bool
        False for a job whose parties will be at other sites.

    Returns
    -------
    federation : JointFederation
        As the run will have it.
    plan : Plan
    """
    run = JointRun(job, homes, LOCAL_ENGINE)
    run.simulated = simulated
    return run.plan()


class JointRun:
    """One run at one site.

    Parameters
    ----------
    job : JointJob
        The same at every site.
    homes : mapping of party to LocalParty
        The parties at home here: all parties with data, if no engine is given.
    engine : Engine
        Reaches the other sites.
    observer : Observer or callable, optional
        Follows the run; a callable is called after every message.
    selector : estimator, optional
        Made by ``job.selector()``, for a caller who wants to keep it; fitted at the coordinator.
    keep_own : callable, optional
        Given what each party at home may keep of the run for itself.
    settled : bool
        Whether the whole job has been checked before.

    Attributes
    ----------
    simulated : bool
        Whether all parties belong to whoever runs it; otherwise a seed drives public draws only.
    """

    def __init__(
        self,
        job: JointJob,
        homes: Mapping[str, LocalParty],
        engine: Engine,
        observer: Watching = None,
        selector: Any = None,
        keep_own: Callable[[str, dict[str, Any]], None] | None = None,
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
        at_home = everybody if engine.home is None else engine.home
        self._homes = {
            party: homes.get(party, LocalParty()).read_once()
            for party in everybody
            if party in at_home
        }
        if job.setting == "horizontal":
            check_names({party: home.policy for party, home in self._homes.items()})
        self._asked = self._selector._asked(job.setting)
        self._outcomes: list[Outcome] = []
        self._remarks: list[str] = []
        self.prepared: PreparedRun | None = None

    def run(self) -> SelectionResult | None:
        """Run all phases."""
        checked = self._engine.home is None and not self._settled
        if checked:
            self.plan()  # with all tables here, the method is prepared as it will run
        agreed, parts = self.set_up()
        parts = self._aligned(agreed, parts)
        federation = joint_federation(self._terms, agreed, parts)
        if not checked:
            self.prepared = self._prepare(self._selector, agreed, federation)
        prepared = cast("PreparedRun", self.prepared)
        limit = self._job.timeout_seconds
        outcome = execute(prepared, timeout_seconds=limit, engine=self._engine, checked=checked)
        self._outcomes.append(outcome)
        own = facts_of(prepared.nodes)
        found = self._collect(agreed, parts, own)
        record = None
        if not self._settled:
            names = {p: agreed.columns or part.feature_names for p, part in parts.items()}
            selected = collect.own_selected(names, own)
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
        agreed, parts = setup.agree_here(self._terms, self._seats(reviewing=False))
        remarks: tuple[str, ...] = ()
        if self._terms.aligned:
            ids = {party: _ids(part) for party, part in parts.items()}
            rows = rows_in_common(ids, self._job.coordinator)
            parts = {party: part.take(rows[party]) for party, part in parts.items()}
            remarks = rows_left_out(agreed.n_rows, len(rows[self._job.coordinator]))
        parts = self._in_use(parts)
        federation = joint_federation(self._terms, agreed, parts)
        plan = self._checked(agreed, federation)
        for party, part in parts.items():
            check_rows(party, self._homes[party].policy, part.n_rows)
        self._note_plan(plan)
        on_data = remarks_on(federation.tables, [federation.target])
        return replace(federation, warnings=(*on_data, *remarks)), plan

    # The phases

    def set_up(self) -> tuple[Agreed, dict[str, Part]]:
        """Find out who brings what, and whether everybody agrees."""
        nodes = setup.build_nodes(self._terms, self._seats(self._engine.home is not None))
        self._run_phase(setup.PROTOCOL, messages_used(self._terms), nodes)
        roles = {party: cast("_SetupRole", nodes[party][0]) for party in self._homes}
        agreed = {party: _known(role) for party, role in roles.items()}
        parts = {
            party: role.part
            for party, role in roles.items()
            if not isinstance(role, setup.Neutral) and self._homes[party].load is not None
        }
        codes = {party: own for one in agreed.values() for party, own in one.codes.items()}
        # The coordinator was told most; where it is not at home, one party's knowledge is all there
        # is.
        first = agreed.get(self._job.coordinator) or next(iter(agreed.values()))
        return replace(first, codes=codes), parts

    def match_rows(self, agreed: Agreed, parts: Mapping[str, Part]) -> dict[str, Rows]:
        """Find the rows that all parties have, in the coordinator's order; empty without ids."""
        if not self._terms.aligned:
            return {}
        ids = {party: parts[party].ids if party in parts else None for party in self._job.parties}
        policies = {party: home.policy for party, home in self._homes.items()}
        if self._engine.home is None and not psi.is_installed():
            rows = rows_in_common(
                {p: _ids(part) for p, part in parts.items()}, self._job.coordinator
            )
            self._remarks.append(_IN_THE_CLEAR)
            for party, record in self._records.items():
                record.admit(rows[party])
        else:
            psi.library()
            nodes = align.build_nodes(ids, self._job.coordinator, policies, self._records)
            self._run_phase(align.PROTOCOL, align.PROTOCOL.messages, nodes)
            rows = {party: nodes[party][0].facts()["rows"] for party in parts}
        n_common = len(next(iter(rows.values()))) if rows else 0
        self._remarks = [*rows_left_out(agreed.n_rows, n_common), *self._remarks]
        return rows

    def _aligned(self, agreed: Agreed, parts: dict[str, Part]) -> dict[str, Part]:
        rows = self.match_rows(agreed, parts)
        return {party: part.take(rows[party]) for party, part in parts.items()} if rows else parts

    def _prepare(self, selector: Any, agreed: Agreed, federation: JointFederation) -> PreparedRun:
        """The method, with stand-ins for the roles of parties at other sites."""
        selector.set_params(policy=self._policies(agreed))
        prepared: PreparedRun = selector.prepare(
            federation, simulated=self.simulated, observer=self._observer
        )
        return replace(prepared, nodes=replace_remote_roles(prepared.nodes, self._engine.home))

    def _collect(
        self, agreed: Agreed, parts: Mapping[str, Part], own: Facts
    ) -> dict[str, collect.Found] | None:
        """What the others tell for the result; None at sites without the coordinator."""
        coordinator, neutral = self._job.coordinator, self._job.neutral
        facts = facts_by_party(own)
        here: dict[str, Role] = {}
        for party in self._homes:
            if party == coordinator:
                here[party] = collect.Coordinator(agreed.features, self._asked)
            elif party == neutral:
                here[party] = collect.Neutral(facts.get(party, {}))
            else:
                part = parts[party]
                here[party] = collect.Participant(
                    party, part.feature_names, facts.get(party, {}), remarks_of(part)
                )
        nodes = collect.build_nodes(coordinator, neutral, self._job.parties, here)
        outcome = self._run_phase(collect.PROTOCOL, self._after(agreed.features)[1], nodes)
        found: dict[str, collect.Found] | None = outcome.value
        return found

    def _keep_facts(self, agreed: Agreed, parts: Mapping[str, Part], own: Facts) -> None:
        """Give every party at home what it may keep of the run for itself."""
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
            policies={party: home.policy for party, home in self._homes.items()},
            timeout_seconds=self._job.timeout_seconds,
            observer=self._observer,
        )
        self._outcomes.append(outcome)
        return outcome

    # What everybody agrees to

    def _seats(self, reviewing: bool) -> dict[str, Seat]:
        review = self._review if reviewing else None
        phases = (*self._before(), self._after(self._job.parties))
        sends = [pair for phase in phases for pair in self._foreseen(*phase)[0]]
        foresee = self._foresee if reviewing else None
        return {
            p: Seat(home.policy, home.load, review, sends, foresee)
            for p, home in self._homes.items()
        }

    def _foresee(self, known: Agreed) -> None:
        """See whether the lists of kinds of the parties at home will do."""
        others = [party for party in self._job.parties if party not in self._homes]
        homes = {p: LocalParty(one.load, only_kinds(one.policy)) for p, one in self._homes.items()}
        guess = with_room(known, self._settings)
        refuse_missing_kinds(guess, others, self._terms.wanted, self._again(homes)._review)

    def _again(self, homes: Mapping[str, LocalParty]) -> JointRun:
        """The same run, only to be looked at."""
        return JointRun(self._job, homes, self._engine)

    def _review(self, agreed: Agreed) -> None:
        """See whether all of it fits, at a site, before anything is sent that depends on values."""
        if self._terms.aligned:
            psi.library()
        loaded = {p: home.load() for p, home in self._homes.items() if home.load is not None}
        federation = joint_federation(self._terms, agreed, self._in_use(loaded))
        self._note_plan(self._checked(agreed, federation))

    def _note_plan(self, plan: Plan) -> None:
        """Write down what will be revealed, and over which rows unless they are matched later."""
        for record in self._records.values():
            record.note_plan(plan.disclosures)
            if not self._terms.aligned:
                record.admit()

    @property
    def _records(self) -> dict[str, JobRecord]:
        """The records of the parties at home that keep one."""
        return {p: home.record for p, home in self._homes.items() if home.record is not None}

    def _in_use(self, parts: dict[str, Part]) -> dict[str, Part]:
        """Rows of the parties here that the method will see, as far as that is known."""
        return parts

    def _checked(self, agreed: Agreed, federation: JointFederation) -> Plan:
        """The plan of all phases, if settings, data and policies allow it."""
        # Elsewhere rows are matched later, and the method is prepared again with those in common.
        selector = self._selector if self._engine.home is None else self._job.selector()
        self.prepared = self._prepare(selector, agreed, federation)
        plan = make_plan(self.prepared)
        before = [self._foreseen(*phase) for phase in self._before()]
        after = self._foreseen(*self._after(agreed.features))
        own = {party: home.policy for party, home in self._homes.items()}
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
            self._asked,
            participants=any(party != job.coordinator for party in owners),
            neutral=job.neutral not in (None, job.coordinator),
        )
        nodes = collect.build_nodes(job.coordinator, job.neutral, job.parties, {})
        return collect.PROTOCOL, used, nodes

    def _policies(self, agreed: Agreed) -> dict[str, Policy]:
        """Own policies, and stand-ins for those that are enforced at other sites."""
        choices = frozenset(cls.declaration.kind for cls in self._terms.wanted.choices)
        return {
            party: (
                self._homes[party].policy
                if party in self._homes
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
        found: Mapping[str, collect.Found],
    ) -> SelectionResult:
        """The method's result with what the other phases cost, disclosed and remarked."""
        rows = [row for outcome in self._outcomes for row in outcome.ledger.rows()]
        return msgspec.structs.replace(
            result,
            traffic=merge_traffic([outcome.transcript.traffic() for outcome in self._outcomes]),
            disclosures=with_prices(rows, result.parameters),
            timings=sum_timings([outcome.timings for outcome in self._outcomes]),
            warnings=(
                *self._remarks_on(federation, parts, found),
                *self._remarks,
                *result.warnings,
            ),
        )

    def _remarks_on(
        self,
        federation: JointFederation,
        parts: Mapping[str, Part],
        found: Mapping[str, collect.Found],
    ) -> list[str]:
        """On everybody's tables and the labels; none where rows have a budget of privacy."""
        if not self._asked.remarks:
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
