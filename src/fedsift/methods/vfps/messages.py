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
from fedsift.methods.vfps.distances import Params
from fedsift.methods.vfps.score_messages import SCORE_MESSAGES, LeaderScores, SingleListParts
from fedsift.protocol import MaskedArray, Message, PublicArray, message, messages_in
from fedsift.protocol.resume import signals_between

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
    """A participant's key for agreeing on the shuffle, and roughly how many columns it has."""

    key: PublicKeys
    size_bits: int


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


@message(
    flow="leader -> aggregator",
    reveals="row-count: number of rows, order of magnitude of the number of columns of all "
    "participants together, and a public key",
)
class Opening(Message, frozen=True):
    """What the aggregator needs to add up under the leader's key, and how much it may hand out."""

    n_rows: int
    most_distances: int
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


@message(
    flow="aggregator -> participant",
    reveals="stop-depths: for how many ranks the leader has not yet seen enough rows of a label",
    about="leader",
)
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
    reveals="stop-depths: for how many of the nearest rows the leader has not yet seen enough rows "
    "of a label",
)
class NearestWanted(Message, frozen=True):
    """Order all rows of some runs by the group's rounded distances; name them down to a depth."""

    chunk: int
    members: tuple[str, ...]
    runs: PublicArray
    depth: int


@message(
    flow="aggregator -> participant",
    reveals="nothing: asks for rounded distances, and says over which group they will be summed",
)
class RoundedWanted(Message, frozen=True):
    """Send rounded parts of the distances of some runs, masked for a sum over these members."""

    members: tuple[str, ...]
    runs: PublicArray


@message(
    flow="participant -> aggregator",
    reveals="rounded-sums: rounded distances to all rows, summed over the two or more participants "
    "of a group (single parts are masked), rows under pseudo-ids that change with every query",
)
class RoundedParts(Message, frozen=True):
    """Three short numbers per word, one line per run."""

    parts: MaskedArray


@message(
    flow="aggregator -> leader",
    reveals="nearest-rows: which rows are nearest by the rounded distances of a group, in order",
    about="participant",
)
class NearestRows(Message, frozen=True):
    """The next rows of every run, nearest first."""

    ids: PublicArray
    lengths: PublicArray


@message(
    flow="leader -> aggregator",
    reveals="stop-depths: rank at which enough rows of the query's label were seen",
)
class Stop(Message, frozen=True):
    """Enough seen: say which rows are the candidates of a chunk of runs."""

    chunk: int
    runs: PublicArray
    depths: PublicArray


@message(
    flow="aggregator -> participant",
    reveals="stop-depths: rank at which enough rows of the query's label were seen",
    about="leader",
)
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
    flow="aggregator -> leader",
    reveals="candidates: which rows may be among the nearest ones of the group",
    about="participant",
)
class Candidates(Message, frozen=True):
    """Pseudo-ids in the order of the distances to come."""

    ids: PublicArray
    lengths: PublicArray


@message(
    flow="leader -> aggregator",
    reveals="nothing: asks for the distances of candidates, or of all rows",
)
class PartsWanted(Message, frozen=True):
    """Collect the distances of the candidates of some runs; of all rows if nothing was searched."""

    chunk: int
    members: tuple[str, ...]
    runs: PublicArray
    all_rows: bool


@message(
    flow="aggregator -> participant",
    reveals="candidates: which rows may be among the nearest ones of the group",
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


@message(flow="aggregator -> leader", reveals="nothing: the distances are there")
class Collected(Message, frozen=True):
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
    reveals="group-distances: order and differences of the nearest rows' distances summed over two "
    "or more other participants; no participant is in two sums of one query, and all sums "
    "together are at most half as many as the participants' columns have values",
    key="leader",
    about="participant",
)
class GroupDistances(Message, frozen=True):
    """Blinded sums, one vector per group."""

    sums: tuple[Ciphertexts, ...]


@message(
    flow="aggregator -> leader",
    reveals="all-row-distances: as group-distances, but of as many rows as the run likes: many "
    "queries on all rows are coordinates up to a rotation, and those of overlapping groups give "
    "single participants' distances away",
    key="leader",
    about="participant",
    optional=True,
)
class AllRowDistances(Message, frozen=True):
    """Blinded sums without a limit; sent only if every participant's policy names it."""

    sums: tuple[Ciphertexts, ...]


@message(
    flow="aggregator -> leader",
    reveals="paired-groups: sums as in group-distances (of all rows where Fagin is off or gave up) "
    "over groups with common participants: their differences let the leader work out single "
    "participants' distances",
    key="leader",
    about="participant",
    optional=True,
)
class PairedGroupDistances(Message, frozen=True):
    """Blinded sums of overlapping groups; sent only if every participant's policy names it."""

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


Sums = GroupDistances | AllRowDistances | PairedGroupDistances | SinglePartyDistances

FORMS: dict[str, type[Sums]] = {
    "separate": GroupDistances,
    "all rows": AllRowDistances,
    "paired": PairedGroupDistances,
    "single": SinglePartyDistances,
}

PARTICIPANT_SIGNALS = signals_between("leader", "participant")
AGGREGATOR_SIGNALS = signals_between("leader", "aggregator", "Aggregator")

MESSAGES = (
    *messages_in(__name__),
    *SCORE_MESSAGES,
    *PARTICIPANT_SIGNALS.messages,
    *AGGREGATOR_SIGNALS.messages,
)

_FAGIN: set[type[Message]] = {
    RankingWanted,
    BlockWanted,
    SubRankings,
    CommonRows,
    DepthWanted,
    TieDepths,
}
_ROUNDED: set[type[Message]] = {NearestWanted, RoundedWanted, RoundedParts, NearestRows}
_EITHER: set[type[Message]] = {Stop, Candidates}


def messages_used(params: Params) -> tuple[type[Message], ...]:
    """The messages a run with these settings may send, for plan and policy."""
    if params.scores:
        kept = {SingleListParts: params.singles, LeaderScores: params.keep_own}
        unused = {cls for cls, wanted in kept.items() if not wanted}
        signals = (*PARTICIPANT_SIGNALS.messages, *AGGREGATOR_SIGNALS.messages)
        by_scores = {Introduction, Joined, Choice, *SCORE_MESSAGES, *signals} - unused
        return tuple(cls for cls in MESSAGES if cls in by_scores)
    used = {*MESSAGES} - {*SCORE_MESSAGES} - _FAGIN - _ROUNDED - _EITHER - {*FORMS.values()}
    if params.fagin:
        used |= _EITHER | (_ROUNDED if params.separate else _FAGIN)
    if params.separate:
        used.add(AllRowDistances if params.unlimited else GroupDistances)
    if params.paired:
        used.add(PairedGroupDistances)
    if params.singles:
        used.add(SinglePartyDistances)
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
