# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Messages of VF-PS in the order they are first sent, and which of them a run sends.

Many queries travel together: ``runs`` numbers them, arrays of different length stand one after the
other with their ``lengths`` beside them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.errors import BadFrame
from fedsift.methods.vfps_local import Params
from fedsift.protocol import Message, PublicArray, message

Integers = npt.NDArray[np.int64]


@message(
    flow="leader -> participant",
    reveals="row-count: number of rows and of participants, and how many neighbours are counted",
)
class Introduction(Message, frozen=True):
    """The job in short."""

    n_rows: int
    n_participants: int
    k: int
    strategy: str


@message(
    flow="participant -> leader",
    reveals="feature-count: order of magnitude of the number of columns, and a public key",
)
class Joined(Message, frozen=True):
    """A participant's key for agreeing on the shuffle, and how large its distances may get."""

    key: PublicKeys
    cap_bits: int


@message(
    flow="leader -> participant",
    reveals="nothing: the secret of the shuffles, sealed for the receiver, and the leader's "
    "public key",
)
class SharedSecret(Message, frozen=True):
    """What all participants and the leader know and the aggregator does not."""

    dealer: PublicKeys
    secret: Ciphertexts
    keys: PublicKeys
    cap_bits: int


@message(flow="leader -> aggregator", reveals="row-count: number of rows, and a public key")
class Opening(Message, frozen=True):
    """What the aggregator needs to add up under the leader's key."""

    n_rows: int
    keys: PublicKeys


@message(flow="leader -> participant", reveals="query-rows: which rows are queries")
class Queries(Message, frozen=True):
    """Rows of the next runs, in order from ``first_run``."""

    first_run: int
    rows: PublicArray


@message(
    flow="leader -> aggregator",
    reveals="stop-depths: for how many ranks the leader has not yet seen enough rows of a label",
)
class RankingWanted(Message, frozen=True):
    """Read all sub-rankings of some runs down to a depth."""

    chunk: int
    members: tuple[str, ...]
    runs: PublicArray
    depth: int


@message(flow="aggregator -> participant", reveals="nothing: asks for more of a sub-ranking")
class BlockWanted(Message, frozen=True):
    """Continue the sub-rankings of some runs down to a depth."""

    runs: PublicArray
    depth: int


@message(
    flow="participant -> aggregator",
    reveals="sub-rankings: order of the nearest rows by the sender's columns, rows under "
    "pseudo-ids that change with every query",
)
class SubRankings(Message, frozen=True):
    """The next block of every sub-ranking."""

    ids: PublicArray
    lengths: PublicArray


@message(
    flow="aggregator -> leader",
    reveals="common-neighbours: rows that all participants of a group rank near, and how near",
    about="participant",
)
class CommonRows(Message, frozen=True):
    """Rows newly seen in all sub-rankings of a run, with the depth where that happened."""

    ids: PublicArray
    depths: PublicArray
    lengths: PublicArray


@message(
    flow="leader -> aggregator",
    reveals="stop-depths: rank at which enough rows of the query's label were seen",
)
class Stop(Message, frozen=True):
    """Enough seen: collect the candidates' distances of a chunk of runs."""

    chunk: int
    runs: PublicArray
    depths: PublicArray


@message(flow="aggregator -> participant", reveals="nothing: asks where a tie ends")
class DepthWanted(Message, frozen=True):
    """Depths that must not divide a tie."""

    runs: PublicArray
    depths: PublicArray


@message(
    flow="participant -> aggregator",
    reveals="tie-depths: how many rows share the distance at the rank where the list is cut",
)
class TieDepths(Message, frozen=True):
    """The same depths moved to the end of their ties."""

    depths: PublicArray


@message(
    flow="aggregator -> participant",
    reveals="candidates: which rows are near for any participant of the group",
    about="participant",
)
class CandidatesWanted(Message, frozen=True):
    """Pseudo-ids whose distances are needed; without any, those of all rows."""

    runs: PublicArray
    ids: PublicArray
    lengths: PublicArray
    all_rows: bool


@message(
    flow="participant -> aggregator",
    reveals="nothing: parts of distances under the leader's key, which the receiver cannot open",
    key="leader",
)
class PartialDistances(Message, frozen=True):
    """One party's part of the squared distance to each candidate, many queries per ciphertext."""

    distances: Ciphertexts


@message(
    flow="aggregator -> leader",
    reveals="candidates: which rows are near for any participant of the group",
    about="participant",
)
class Candidates(Message, frozen=True):
    """Pseudo-ids in the order of the distances to come; none if all rows are candidates."""

    ids: PublicArray
    lengths: PublicArray


@message(flow="leader -> aggregator", reveals="nothing: asks for the distances of all rows")
class ScanWanted(Message, frozen=True):
    """Collect the distances of all rows for a chunk of runs, without sub-rankings."""

    chunk: int
    members: tuple[str, ...]
    runs: PublicArray


@message(flow="aggregator -> leader", reveals="nothing: the distances are there")
class Scanned(Message, frozen=True):
    """All participants have sent their parts."""


@message(
    flow="leader -> aggregator",
    reveals="test-groups: which groups the leader tests, and by that the path of its search",
)
class GroupsWanted(Message, frozen=True):
    """Add up the parts of these groups; ``form`` says what the sums may have in common."""

    chunk: int
    groups: tuple[tuple[str, ...], ...]
    form: str
    last: bool


@message(
    flow="aggregator -> leader",
    reveals="group-distances: order and differences of the candidates' distances summed over two "
    "or more other participants; no participant is in two sums of one query",
    key="leader",
    about="participant",
)
class GroupDistances(Message, frozen=True):
    """Blinded sums, one vector per group."""

    sums: tuple[Ciphertexts, ...]


@message(
    flow="aggregator -> leader",
    reveals="paired-groups: sums as in group-distances, but over groups with common participants: "
    "their differences let the leader work out single participants' distances",
    key="leader",
    about="participant",
)
class PairedGroupDistances(Message, frozen=True):
    """Blinded sums of overlapping groups, one vector per group."""

    sums: tuple[Ciphertexts, ...]


@message(
    flow="aggregator -> leader",
    reveals="single-party-distances: order and differences of one participant's own distances; "
    "for a party with one column nearly the column itself",
    key="leader",
    about="participant",
    optional=True,
)
class SinglePartyDistances(Message, frozen=True):
    """Blinded parts of single participants; sent only if every participant's policy names it."""

    sums: tuple[Ciphertexts, ...]


@message(
    flow="leader -> participant",
    reveals="participant-choice: whether the receiver was selected",
)
class Choice(Message, frozen=True):
    """The outcome, for each participant its own."""

    selected: bool


FORMS: dict[str, type[GroupDistances | PairedGroupDistances | SinglePartyDistances]] = {
    "separate": GroupDistances,
    "paired": PairedGroupDistances,
    "single": SinglePartyDistances,
}

MESSAGES: tuple[type[Message], ...] = (
    Introduction,
    Joined,
    SharedSecret,
    Opening,
    Queries,
    RankingWanted,
    BlockWanted,
    SubRankings,
    CommonRows,
    Stop,
    DepthWanted,
    TieDepths,
    CandidatesWanted,
    ScanWanted,
    PartialDistances,
    Candidates,
    Scanned,
    GroupsWanted,
    GroupDistances,
    PairedGroupDistances,
    SinglePartyDistances,
    Choice,
)

_FAGIN = (RankingWanted, BlockWanted, SubRankings, CommonRows, Stop, DepthWanted, TieDepths)


def messages_used(params: Params) -> tuple[type[Message], ...]:
    """The messages a run with these settings may send, for plan and policy."""
    used = {*MESSAGES} - {GroupDistances, PairedGroupDistances, SinglePartyDistances}
    if not params.fagin:
        used -= {*_FAGIN, Candidates}
    if params.singles:
        used.add(SinglePartyDistances)
    if params.paired:
        used.add(PairedGroupDistances)
    elif not params.singles:
        used.add(GroupDistances)
    return tuple(cls for cls in MESSAGES if cls in used)


def joined(arrays: list[Integers]) -> tuple[PublicArray, PublicArray]:
    """Arrays one after the other, and their lengths."""
    flat = np.concatenate(arrays) if arrays else np.empty(0, dtype=np.int64)
    return PublicArray.of(flat), PublicArray.of(np.array([len(a) for a in arrays], dtype=np.int64))


def divided(flat: PublicArray, lengths: PublicArray, count: int) -> list[Integers]:
    """The arrays again; refuses lengths that do not fit."""
    sizes = lengths.array(shape=(count,))
    numbers = flat.array()
    if (
        numbers.ndim != 1
        or numbers.dtype != np.int64
        or sizes.dtype != np.int64
        or (count and (sizes.min() < 0 or int(sizes.sum()) != len(numbers)))
        or (not count and len(numbers))
    ):
        raise BadFrame(
            f"An array of shape {flat.shape} in {count} parts arrived.",
            "The parts' lengths must add up to the array's.",
            "Check that all parties run the same job.",
        )
    return np.split(numbers, np.cumsum(sizes)[:-1]) if count else []
