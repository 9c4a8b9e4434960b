# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""After a joint run: what the coordinator needs of the others to write the result down.

Setting   Any; the same parties as in the setup.
Roles     *coordinator* (drives), *participant* (every other party with data), *neutral* (no data).
Adversary Honest but curious.

Who learns what
  coordinator  remarks on every party's columns, in a few fixed sentences with counts; and, by
               method, which feature is behind which number (filters, interaction), or every
               feature's gate (FedSDG-FS). What a party finds out about its own rows alone (its own
               accuracies, its own ranking) is not asked for. Runs with a budget of privacy ask for
               no remarks: a single row can make one.
  participant, neutral  nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.errors import BadFrame
from fedsift.jobs.setup_terms import COORDINATOR, NEUTRAL, PARTICIPANT, kinds_by_party
from fedsift.methods.checks import ResultNeeds
from fedsift.methods.execution import facts_by_party
from fedsift.protocol import (
    DrivingRole,
    Message,
    Network,
    Protocol,
    PublicArray,
    RemoteRole,
    Role,
    handles,
    message,
)
from fedsift.protocol.role import errors_belong_to

Facts = dict[str, Any]
"""What a role knows at the end, as :meth:`Role.facts` gives it."""

_DOWN, _UP = f"{COORDINATOR} -> {PARTICIPANT}", f"{PARTICIPANT} -> {COORDINATOR}"
_COUNT, _COLUMN = r"\d{1,12}", "(?P<column>.+)"
# The only sentences that travel: counts, and in one method names that the coordinator knows anyway.
_SENTENCES = (
    rf"{_COUNT} of {_COUNT} columns of QUOTED have the same value in every row\.",
    rf"{_COUNT} of {_COUNT} columns of QUOTED are missing in more than half of the rows\.",
    rf"{_COUNT} of {_COUNT} columns of QUOTED have a different category in every row, like an id\.",
    rf"PARTY: {_COUNT} bins of {_COUNT} features had fewer than {_COUNT} rows and were merged\.",
    rf"PARTY: missing values of {_COUNT} features count (as|below) their mean\.",
    rf"PARTY: {_COUNT} constant features come last\.",
    rf"PARTY: {_COUNT} columns that too few rows make up take no part\.",
    rf"PARTY: column {_COLUMN} has missing values; distances use the mean for them\.",
    rf"PARTY: column {_COLUMN} has missing values; distances use a category of its own for them\.",
    rf"PARTY: column {_COLUMN} is constant; it tells nothing\.",
)


@message(flow=_DOWN, reveals="nothing: asks for remarks")
class RemarksWanted(Message, frozen=True):
    """Asks what a reader of the result should know about the receiver's columns."""


@message(
    flow=_UP,
    reveals="remarks: how many columns are constant, mostly missing or like an id, have missing "
    "values or too small bins, and which ones do in VF-PS",
)
class Remarks(Message, frozen=True):
    """Fixed sentences with counts: on the table, and on what the method did with it."""

    table: tuple[str, ...]
    method: tuple[str, ...]


@message(flow=_DOWN, reveals="nothing: asks which feature is which")
class OrderWanted(Message, frozen=True):
    """Asks for the receiver's secret order."""


@message(
    flow=_UP,
    reveals="named-scores: which of the sender's features each score belongs to",
)
class SecretOrder(Message, frozen=True):
    """Position in the method's messages to position in the outline."""

    features: tuple[int, ...]


@message(flow=_DOWN, reveals="nothing: asks for the gates")
class GatesWanted(Message, frozen=True):
    """Asks for the gates of the receiver's features."""


@message(
    flow=_UP,
    reveals="named-gates: mean of the gate of every feature by name, or what leaving it out costs, "
    "and which were selected",
)
class NamedGates(Message, frozen=True):
    """Gates and selected features, in the order of the outline."""

    means: PublicArray
    selected: tuple[int, ...]


@message(flow=_DOWN, reveals="nothing: asks for numbers of operations")
class CountsWanted(Message, frozen=True):
    """Asks how much the receiver encrypted."""


@message(flow=_UP, reveals="nothing: numbers of operations, which follow from the job")
class OperationCounts(Message, frozen=True):
    """Operations by name."""

    counts: dict[str, int]


@message(flow=f"{COORDINATOR} -> {NEUTRAL}", reveals="nothing: asks for numbers of operations")
class NeutralCountsWanted(Message, frozen=True):
    """Asks how much the receiver computed."""


@message(flow=f"{NEUTRAL} -> {COORDINATOR}", reveals="nothing: numbers of operations")
class NeutralCounts(Message, frozen=True):
    """Operations by name."""

    counts: dict[str, int]


@dataclass(frozen=True, eq=False)
class PartyFacts:
    """What the coordinator knows of one party: facts as of its roles, and remarks on its table."""

    facts: Facts = field(default_factory=dict)
    table_remarks: tuple[str, ...] = ()


class ResultParticipant(Role, name=PARTICIPANT):
    """Answers about its own part of the run."""

    def __init__(
        self, party: str, names: Sequence[str], facts: Facts, remarks: Sequence[str] = ()
    ) -> None:
        self._party = party
        self._names = list(names)
        self._facts = facts
        self._remarks = remarks

    @handles(RemarksWanted)
    async def tell_remarks(self, ask: RemarksWanted, net: Network) -> Remarks:
        """Fixed sentences only; anything else stays here."""
        own = self._facts.get("remarks", ())
        texts = [
            tuple(text for text in some if is_fixed(text, self._party, self._names))
            for some in (self._remarks, own)
        ]
        return Remarks(*texts)

    @handles(OrderWanted)
    async def tell_order(self, ask: OrderWanted, net: Network) -> SecretOrder:
        """Which feature is which."""
        place = {name: position for position, name in enumerate(self._names)}
        return SecretOrder(tuple(place[name] for name in self._facts["names"]))

    @handles(GatesWanted)
    async def tell_gates(self, ask: GatesWanted, net: Network) -> NamedGates:
        """Gates of all features, and which of them were selected."""
        chosen = set(self._facts["selected"])
        numbers = tuple(i for i, name in enumerate(self._names) if name in chosen)
        return NamedGates(PublicArray.of(self._facts["gate_means"]), numbers)

    @handles(CountsWanted)
    async def tell_counts(self, ask: CountsWanted, net: Network) -> OperationCounts:
        """How much was encrypted."""
        return OperationCounts(dict(self._facts["operations"]))


class ResultNeutral(Role, name=NEUTRAL):
    """Answers how much it computed."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    @handles(NeutralCountsWanted)
    async def tell_counts(self, ask: NeutralCountsWanted, net: Network) -> NeutralCounts:
        """How much was computed."""
        return NeutralCounts(dict(self._facts["operations"]))


class ResultCoordinator(DrivingRole, name=COORDINATOR):
    """Collects what the result needs.

    Parameters
    ----------
    features : mapping of party to feature names
        As named during setup.
    needs : ResultNeeds
    """

    def __init__(self, features: Mapping[str, Sequence[str]], needs: ResultNeeds) -> None:
        self._features = features
        self._needs = needs

    async def drive(self, net: Network) -> dict[str, PartyFacts]:
        """Facts and remarks by party."""
        participants = net.members(PARTICIPANT)
        facts: dict[str, Facts] = {party: {} for party in participants}
        tables: dict[str, tuple[str, ...]] = {}
        if participants and self._needs.remarks:
            replies = await net.ask(PARTICIPANT, RemarksWanted(), Remarks)
            for party, remarks in zip(participants, replies, strict=True):
                with errors_belong_to(party, "RemarksWanted", 0):
                    names = self._features.get(party, ())
                    for text in (*remarks.table, *remarks.method):
                        if not is_fixed(text, party, names):
                            raise _not_fixed()
                tables[party] = remarks.table
                facts[party]["remarks"] = list(remarks.method)
        owners = tuple(party for party in participants if party in self._features)
        if self._needs.order and owners:
            await self._take_orders(owners, facts, net)
        if self._needs.gates and owners:
            await self._take_gates(owners, facts, net)
        if self._needs.operations:
            await self._take_counts(owners, facts, net)
        return {party: PartyFacts(known, tables.get(party, ())) for party, known in facts.items()}

    async def _take_orders(
        self, owners: Sequence[str], facts: dict[str, Facts], net: Network
    ) -> None:
        replies = await net.ask(PARTICIPANT, dict.fromkeys(owners, OrderWanted()), SecretOrder)
        for party, reply in zip(owners, replies, strict=True):
            names = self._features[party]
            with errors_belong_to(party, "OrderWanted", 0):
                if sorted(reply.features) != list(range(len(names))):
                    raise _no_features(len(names))
            facts[party]["names"] = [names[i] for i in reply.features]

    async def _take_gates(
        self, owners: Sequence[str], facts: dict[str, Facts], net: Network
    ) -> None:
        replies = await net.ask(PARTICIPANT, dict.fromkeys(owners, GatesWanted()), NamedGates)
        for party, reply in zip(owners, replies, strict=True):
            names = self._features[party]
            with errors_belong_to(party, "GatesWanted", 0):
                means: npt.NDArray[Any] = reply.means.array(shape=(len(names),))
                if not set(reply.selected) <= set(range(len(names))):
                    raise _no_features(len(names))
            facts[party] |= {
                "names": list(names),
                "gate_means": means.astype(np.float64),
                "selected": [names[i] for i in reply.selected],
            }

    async def _take_counts(
        self, owners: Sequence[str], facts: dict[str, Facts], net: Network
    ) -> None:
        if owners:
            replies = await net.ask(
                PARTICIPANT, dict.fromkeys(owners, CountsWanted()), OperationCounts
            )
            for party, reply in zip(owners, replies, strict=True):
                facts[party]["operations"] = dict(reply.counts)
        for party in net.members(NEUTRAL):
            (counted,) = await net.ask(NEUTRAL, NeutralCountsWanted(), NeutralCounts)
            facts[party] = {"names": [], "remarks": [], "operations": dict(counted.counts)}


MESSAGES = (
    RemarksWanted,
    Remarks,
    OrderWanted,
    SecretOrder,
    GatesWanted,
    NamedGates,
    CountsWanted,
    OperationCounts,
    NeutralCountsWanted,
    NeutralCounts,
)
PROTOCOL = Protocol(
    name="findings", messages=MESSAGES, roles=(ResultCoordinator, ResultParticipant, ResultNeutral)
)


def messages_used(
    needs: ResultNeeds, *, participants: bool, neutral: bool
) -> tuple[type[Message], ...]:
    """The messages that the collection for a method needs, for plan and policy."""
    used: list[type[Message]] = [RemarksWanted, Remarks] if participants and needs.remarks else []
    if participants and needs.order:
        used += [OrderWanted, SecretOrder]
    if participants and needs.gates:
        used += [GatesWanted, NamedGates]
    if participants and needs.operations:
        used += [CountsWanted, OperationCounts]
    if neutral and needs.operations:
        used += [NeutralCountsWanted, NeutralCounts]
    return tuple(used)


def build_nodes(
    coordinator: str,
    neutral: str | None,
    parties: Sequence[str],
    here: Mapping[str, Role],
) -> dict[str, Sequence[Role]]:
    """One node per party; those without a role here are at other sites."""
    neutrals = () if neutral is None else (neutral,)
    kinds = kinds_by_party(PROTOCOL, coordinator, neutrals, parties)
    return {party: (here.get(party) or RemoteRole(kind),) for party, kind in kinds.items()}


def find_own_selected(
    names: Mapping[str, Sequence[str]], facts: Iterable[tuple[str, Facts]]
) -> dict[str, list[str]]:
    """Selected columns of this site's parties, as far as they learned which they are.

    ``names`` are the features of this site's parties.
    """
    selected = {}
    for party, known in facts_by_party(facts).items():
        chosen, own = known.get("selected"), names.get(party, ())
        if isinstance(chosen, bool):  # a participant is selected as a whole
            selected[party] = list(own) if chosen else []
        elif isinstance(chosen, Sequence):
            selected[party] = [one if isinstance(one, str) else own[one] for one in chosen]
    return selected


def is_fixed(text: str, party: str, names: Sequence[str]) -> bool:
    """Whether a remark is one of the fixed sentences, about this party and its own columns."""
    for pattern in _patterns(party):
        match = pattern.fullmatch(text)
        if match is not None:
            column = match.groupdict().get("column")
            return column is None or column in {repr(name) for name in names}
    return False


@cache
def _patterns(party: str) -> tuple[re.Pattern[str], ...]:
    names = {"QUOTED": re.escape(repr(party)), "PARTY": re.escape(party)}
    texts = (re.sub("QUOTED|PARTY", lambda m: names[m[0]], text) for text in _SENTENCES)
    return tuple(re.compile(text, re.DOTALL) for text in texts)


def _not_fixed() -> BadFrame:
    return BadFrame(
        "A remark arrived that is none of the known sentences.",
        "Remarks are fixed sentences with counts.",
        "Check that all sites run the same version of fedsift.",
    )


def _no_features(n_features: int) -> BadFrame:
    return BadFrame(
        "Numbers of features arrived that are not there, or twice.",
        f"Feature numbers run from 0 to {n_features - 1}, each of them once.",
        "Check that all sites run the same version of fedsift.",
    )
