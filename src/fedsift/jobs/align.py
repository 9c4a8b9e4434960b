# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Aligning rows by id without showing ids that are not common to all.

Setting   Parties know different things about overlapping sets of rows, each with an id.
Roles     *id leader* (drives; the label holder if there is one), *id holder* (any number).
Adversary Honest but curious. A party can ask about ids it does not really have (a list of guesses):
          the size of its set is disclosed to the others, and a policy with ``min_rows`` refuses a
          shorter one before any id is compared. A longer one is answered
          (:mod:`fedsift.lab.attacks.align`); that too few rows are common is noticed
          afterwards.

Who learns what
  id leader   how many rows each other party has, and which of its own rows each of them has too.
  id holder   how many rows the leader has, and which of its own rows *all* parties have.

Two parties run one intersection (:mod:`fedsift.crypto.psi`); with more, the leader runs one with
each of the others and keeps what is common to all. Ids outside the intersection of two parties are
shown to neither of them. Salted digests of the common ids, in the leader's order, then tell every
party which rows to take; the salt is new for every alignment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from fedsift.crypto import psi
from fedsift.crypto.wire import Ciphertexts
from fedsift.data.alignment import Aligned
from fedsift.data.ids import Ids, refuse_duplicates
from fedsift.engine import Outcome, run_local
from fedsift.errors import AlignmentError, BadFrame
from fedsift.jobs import align
from fedsift.jobs.history import JobRecord
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
from fedsift.protocol.policy import OPEN, Policy, check_ids_asked, check_rows
from fedsift.protocol.role import errors_belong_to

LEADER, HOLDER = "id leader", "id holder"
Rows = npt.NDArray[np.int64]


@message(
    flow=f"{LEADER} -> {HOLDER}",
    reveals="row-count: number of rows before alignment",
)
class AlignmentStart(Message, frozen=True):
    """A fresh salt, and how many ids will be asked about."""

    salt: str
    n_rows: int


@message(
    flow=f"{HOLDER} -> {LEADER}",
    reveals="row-count: number of rows before alignment; the ids are under the sender's key",
    key=HOLDER,
)
class BlindedSet(Message, frozen=True):
    """All ids of the sender under its own key, sorted."""

    n_rows: int
    ids: Ciphertexts


@message(flow=f"{LEADER} -> {HOLDER}", reveals="nothing: under the sender's key", key=LEADER)
class BlindedIds(Message, frozen=True):
    """The leader's ids under its own key."""

    ids: Ciphertexts


@message(
    flow=f"{HOLDER} -> {LEADER}",
    reveals="common-ids: which of the receiver's rows the sender has too",
    key=LEADER,
)
class TwiceBlinded(Message, frozen=True):
    """The leader's ids under both keys, in the leader's order."""

    ids: Ciphertexts


@message(
    flow=f"{LEADER} -> {HOLDER}",
    reveals="common-ids: which of the receiver's rows all parties have, and their order",
)
class CommonRows(Message, frozen=True):
    """Salted digests of the common ids, two words each."""

    digests: PublicArray


class _HasIds(Role):
    """A party with ids; learns which of its rows are common to all."""

    def __init__(
        self, party: str, ids: Ids, policy: Policy = OPEN, record: JobRecord | None = None
    ) -> None:
        refuse_duplicates(ids, party)
        self._party = party
        self._policy = policy
        self._record = record
        self._ids = ids
        self._rows: Rows = np.empty(0, dtype=np.int64)

    def facts(self) -> dict[str, Rows]:
        """Rows to take, in the common order."""
        return {"rows": self._rows}


class IdHolder(_HasIds, name=HOLDER):
    """Answers the leader."""

    @handles(AlignmentStart)
    async def blind(self, ask: AlignmentStart, net: Network) -> BlindedSet:
        """Send the own ids under the own key."""
        if len(ask.salt) != 2 * psi.SALT_BYTES or not 1 <= ask.n_rows < 1 << 32:
            raise BadFrame(
                f"An alignment of {ask.n_rows} rows with a salt of {len(ask.salt)} letters.",
                "A positive number of rows and a fresh salt are needed.",
                "Check that all parties run the same version of fedsift.",
            )
        # The leader knows the common ids before this party does: a list that is too short must be
        # refused before any id is compared.
        check_rows(self._party, self._policy, min(ask.n_rows, len(self._ids)))
        check_ids_asked(self._party, self._policy, ask.n_rows)
        if self._record is not None:
            self._record.check_ids(ask.n_rows, len(self._ids))
        with self.clock("encrypt"):
            self._digests = psi.salted(self._ids, ask.salt)
            self._holder = psi.SetHolder()
            return BlindedSet(len(self._ids), self._holder.setup(self._digests, ask.n_rows))

    @handles(BlindedIds)
    async def blind_again(self, ask: BlindedIds, net: Network) -> TwiceBlinded:
        """Put the own key on top of the leader's."""
        with self.clock("evaluate"):
            return TwiceBlinded(self._holder.answer(ask.ids))

    @handles(CommonRows)
    async def take_rows(self, message: CommonRows, net: Network) -> None:
        """Find the own rows of the common ids."""
        position = {digest: row for row, digest in enumerate(self._digests)}
        wanted = _texts(message.digests)
        if not all(digest in position for digest in wanted):
            raise BadFrame(
                "The leader names a common row that this party does not have.",
                "Common ids are ids of every party.",
                "Check that all parties run the same alignment.",
            )
        check_rows(self._party, self._policy, len(wanted))
        rows = np.array([position[digest] for digest in wanted], dtype=np.int64)
        if self._record is not None:
            self._record.admit(rows)
        self._rows = rows


class IdLeader(_HasIds, DrivingRole, name=LEADER):
    """Asks every other party and decides the common order: its own."""

    async def drive(self, net: Network) -> dict[str, int]:
        """Return how many rows are common with each party, and with all."""
        holders = net.members(HOLDER)
        salt = psi.new_salt()
        start = AlignmentStart(salt, len(self._ids))
        sets = await net.ask(HOLDER, start, BlindedSet)
        with self.clock("encrypt"):
            digests = psi.salted(self._ids, salt)
            asker = psi.SetAsker(digests)
        answers = await net.ask(HOLDER, BlindedIds(asker.request), TwiceBlinded)
        common = np.arange(len(self._ids))
        sizes = {}
        for party, known, answer in zip(holders, sets, answers, strict=True):
            with self.clock("decrypt"), errors_belong_to(party, "BlindedIds", 2):
                found = asker.common(known.ids, answer.ids)
            sizes[party] = len(found)
            common = np.intersect1d(common, found)
        if not len(common):
            raise AlignmentError(
                f"No id is common to all {len(holders) + 1} parties.",
                "At least one common row is needed.",
                "Check that the same id is meant, and that it is written the same way.",
            )
        check_rows(self._party, self._policy, len(common))
        if self._record is not None:
            self._record.admit(common)
        self._rows = common
        await net.tell(HOLDER, CommonRows(_words([digests[i] for i in common])))
        return {**sizes, "": len(common)}


PROTOCOL = Protocol(
    name="align",
    messages=(AlignmentStart, BlindedSet, BlindedIds, TwiceBlinded, CommonRows),
    roles=(IdLeader, IdHolder),
)


def build_nodes(
    ids: Mapping[str, Ids | None],
    leader: str,
    policies: Mapping[str, Policy] | None = None,
    records: Mapping[str, JobRecord] | None = None,
) -> dict[str, Sequence[Role]]:
    """One node per party; ids that are None belong to a party at another site."""
    nodes: dict[str, Sequence[Role]] = {}
    for party in dict.fromkeys((leader, *ids)):
        kind = IdLeader if party == leader else IdHolder
        own, policy = ids[party], (policies or {}).get(party, OPEN)
        record = (records or {}).get(party)
        nodes[party] = (RemoteRole(kind) if own is None else kind(party, own, policy, record),)
    return nodes


def _words(digests: Sequence[str]) -> PublicArray:
    raw = bytes.fromhex("".join(digests))
    return PublicArray.of(np.frombuffer(raw, dtype="<u8").reshape(len(digests), 2))


def _texts(words: PublicArray) -> list[str]:
    array = words.array()
    if array.dtype != np.uint64 or array.ndim != 2 or array.shape[1] != 2:
        raise BadFrame(
            "Common ids arrived in an unknown form.",
            "Two words per id are needed.",
            "Check that all parties run the same version of fedsift.",
        )
    raw = np.ascontiguousarray(array, dtype="<u8").tobytes().hex()
    return [raw[start : start + 32] for start in range(0, len(raw), 32)]


def intersect(ids: Mapping[str, Ids]) -> tuple[dict[str, np.ndarray], Outcome]:
    """Rows of every party that all have, in the first party's order, and the run behind it."""
    psi.library()
    leader = next(iter(ids))
    nodes = align.build_nodes(ids, leader)
    outcome = run_local(align.PROTOCOL, nodes)
    return {party: nodes[party][0].facts()["rows"] for party in ids}, outcome


def align_by_psi(ids: Mapping[str, Ids]) -> Aligned:
    """The aligner behind ``Federation.vertical(..., alignment="psi")``."""
    if len(ids) == 1:
        only = next(iter(ids))
        return Aligned({only: np.arange(len(ids[only]))})
    rows, outcome = intersect(ids)
    return Aligned(rows, outcome.ledger.rows(), tuple(outcome.transcript.lines))
