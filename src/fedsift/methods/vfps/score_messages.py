# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Messages of VF-PS with ``design="scores"``: the leader gets means over all queries, no distance.

The aggregator reads shuffled lists of summed distances, the leader reads rounded means.
"""

from __future__ import annotations

from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.protocol import MaskedArray, Message, PublicArray, message, messages_in

Names = tuple[str, ...]


@message(
    flow="leader -> participant",
    reveals="nothing: the secret of shuffles and masks, sealed for the receiver",
)
class ShuffleSecret(Message, frozen=True):
    """What all participants and the leader know and the aggregator does not."""

    dealer: PublicKeys
    secret: Ciphertexts


@message(
    flow="leader -> aggregator",
    reveals="row-count: number of rows, and of queries",
)
class ScoreOpening(Message, frozen=True):
    """Asks for a draw; ``given`` says whether the leader's own columns belong to every group."""

    n_rows: int
    n_queries: int
    given: bool


@message(
    flow="aggregator -> participant",
    reveals="query-rows: which rows are queries; they are drawn at random",
    about="leader",
)
class QueryDraw(Message, frozen=True):
    """A random number from which everybody who knows the secret has the query rows."""

    number: int
    n_queries: int


@message(
    flow="aggregator -> leader",
    reveals="query-rows: the random number of the query rows, which say nothing of the data",
)
class Drawn(Message, frozen=True):
    """The leader's copy; it cannot choose the queries."""

    number: int


@message(
    flow="leader -> aggregator",
    reveals="leader-scores: for every query, how well the leader's own columns find its label; no "
    "row is named",
)
class LeaderScores(Message, frozen=True):
    """What gains are counted from; not a number where a query does not count."""

    values: PublicArray


@message(
    flow="leader -> aggregator",
    reveals="shuffled-labels: which group is tested, and for unnamed queries which of the shuffled "
    "rows share the query's label",
)
class ListsWanted(Message, frozen=True):
    """Read the lists of one group for the queries from ``first`` on, one after the other."""

    group: Names
    first_run: int
    first: int
    alike: PublicArray
    counted: PublicArray


@message(
    flow="aggregator -> participant",
    reveals="test-groups: over which groups the receiver's distances are summed",
    about="leader",
)
class ListPartsWanted(Message, frozen=True):
    """Send shuffled parts of the distances of some queries, masked for a sum over the members."""

    members: Names
    first_run: int
    first: int
    count: int


@message(
    flow="participant -> aggregator",
    reveals="shuffled-sums: distances from unnamed query rows to other rows, summed over two or "
    "more parties (single parts are masked); rows are shuffled anew for every query and group, and "
    "the distance between two queries is in one list only",
)
class ListParts(Message, frozen=True):
    """One list after the other."""

    parts: MaskedArray


@message(
    flow="participant -> aggregator",
    reveals="single-party-distances: one participant's own distances from unnamed query rows to "
    "other rows, shuffled anew for every query",
    optional=True,
)
class SingleListParts(Message, frozen=True):
    """Lists of a group of one; sent only if every participant's policy names it."""

    parts: PublicArray


@message(flow="aggregator -> leader", reveals="nothing: the lists were read")
class ListsRead(Message, frozen=True):
    """The scores of these queries are known."""


@message(
    flow="leader -> aggregator",
    reveals="test-groups: which groups the leader tests, and by that the path of its search",
)
class GainsWanted(Message, frozen=True):
    """Say what each group tells more than the smaller one beside it."""

    pairs: tuple[tuple[Names, Names], ...]


@message(
    flow="aggregator -> leader",
    reveals="group-scores: what a group's columns tell about the label more than a smaller "
    "group's: one mean over all queries and its standard error, rounded to what one query can "
    "change",
    about="participant",
)
class Gains(Message, frozen=True):
    """One number and one standard error per pair."""

    values: PublicArray
    errors: PublicArray


SCORE_MESSAGES = messages_in(__name__)
