# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Messages of the horizontal filters, and which of them a run with given settings sends."""

from __future__ import annotations

from collections.abc import Mapping

from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.methods.filter import features as local
from fedsift.methods.filter.ranking import Params
from fedsift.protocol import MaskedArray, Message, PublicArray, message, messages_in
from fedsift.protocol.resume import signals_between

SIGNALS = signals_between("coordinator", "member")


@message(flow="coordinator -> member", reveals="nothing: asks for masking key and column kinds")
class Hello(Message, frozen=True):
    """Opens the run."""

    score: str


@message(
    flow="member -> coordinator",
    reveals="schema: number and kinds of columns and of classes, as all members share them",
)
class Greeting(Message, frozen=True):
    """A member's masking key and the common schema."""

    key: PublicKeys
    category_counts: tuple[int, ...]
    n_classes: int
    numeric_target: bool
    frequencies: bool


@message(
    flow="coordinator -> member",
    reveals="schema: whether all columns of all members can be read as frequencies; and public "
    "masking keys",
    about="member",
)
class Roster(Message, frozen=True):
    """Everybody's masking key, so that each pair of members shares a secret."""

    keys: dict[str, PublicKeys]
    frequencies: bool


@message(flow="member -> coordinator", reveals="nothing: sealed for the other members")
class CheckSecretDealt(Message, frozen=True):
    """The first member's secret for checks of totals, sealed for each other one."""

    sealed: dict[str, Ciphertexts]


@message(flow="coordinator -> member", reveals="nothing: passes on what another member sealed")
class CheckSecret(Message, frozen=True):
    """The secret that all members share and the coordinator does not know."""

    sealed: Ciphertexts


class Due(Message, frozen=True):
    """What all requests have: the answer to the one before, and how members can check it.

    ``totals`` are sums, with a tag behind them; ``small`` and ``proof`` say which counts are small
    (:mod:`fedsift.crypto.checked_sums`). ``after`` names the course up to here.
    """

    step: int
    after: str
    totals: PublicArray
    small: PublicArray
    proof: PublicArray


@message(flow="coordinator -> member", reveals="nothing: asks for comparisons of sizes")
class SizesWanted(Due, frozen=True):
    """Asks to compare sizes of classes and numbers of values with the minimum; is first."""


@message(
    flow="coordinator -> member",
    reveals="pooled-quantiles: how many pooled values lie below rounded thresholds, among them the "
    "edges of bins",
    about="member",
)
class CountsBelow(Due, frozen=True):
    """Asks how many values lie at or below the thresholds that are due."""


@message(
    flow="coordinator -> member",
    reveals="pooled-sizes: which pooled bins have small cells and are merged, or that values are "
    "missing; the last counts below thresholds, if there were any",
    about="member",
)
class CellsWanted(Due, frozen=True):
    """Asks to compare cells (bins by classes), or numbers of values, with the minimum."""


@message(
    flow="coordinator -> member",
    reveals="pooled-sizes: which pooled bins have small cells and were merged",
    about="member",
)
class TablesWanted(Due, frozen=True):
    """Asks for bin-by-class counts after merging."""


@message(
    flow="coordinator -> member",
    reveals="pooled-sizes: whether any value is missing, and which columns have few values in a "
    "class and are left out",
    about="member",
)
class MomentsWanted(Due, frozen=True):
    """Asks for sums of values, squares and products."""


@message(
    flow="member -> coordinator",
    reveals="pooled-sizes: whether counts over all members lie between 1 and the minimum less 1, "
    "and whether any value is missing",
)
class HiddenCounts(Message, frozen=True):
    """One member's part of comparisons, under pairwise masks; no count is opened."""

    residues: MaskedArray


@message(
    flow="member -> coordinator",
    reveals="pooled-quantiles: counts over all members below thresholds; one member's part is "
    "masked",
)
class MaskedCounts(Message, frozen=True):
    """One member's counts below thresholds under pairwise masks, and its part of their tag."""

    residues: MaskedArray


@message(
    flow="member -> coordinator",
    reveals="pooled-sums: totals over all members; one member's part is masked",
)
class MaskedSums(Message, frozen=True):
    """One member's table or sums of values under pairwise masks; is last."""

    sums: MaskedArray


@message(
    flow="member -> coordinator",
    reveals="bin-counts: bin-by-class counts over all members, of which single ones can be small; "
    "one member's part is masked",
    optional=True,
)
class OpenTables(Message, frozen=True):
    """One member's table under pairwise masks, where all policies allow cells of any size."""

    sums: MaskedArray


@message(
    flow="coordinator -> member",
    reveals="selection: which features were selected",
    about="member",
)
class Chosen(Message, frozen=True):
    """The outcome: numbers of the selected columns."""

    features: tuple[int, ...]


MESSAGES = (*messages_in(__name__), *SIGNALS.messages)


def messages_used(params: Params, labels: str) -> tuple[type[Message], ...]:
    """The messages a run with these settings sends, for plan and policy.

    ``labels`` are ``"classes"`` or ``"numbers"``; edges between these have to be looked for.
    """
    start = (Hello, Greeting, Roster, CheckSecretDealt, CheckSecret)
    compares = not params.noisy and params.min_class_size > 1
    middle: list[type[Message]] = [SizesWanted, HiddenCounts] if compares else []
    if params.score in local.BINNED_SCORES:
        if not params.fixed_edges:
            if labels == "numbers" or isinstance(params.bins, int | Mapping):
                middle += [CountsBelow, MaskedCounts]
            small_bins = not params.noisy and params.min_bin_size > 1
            middle += [CellsWanted, HiddenCounts] if compares or small_bins else []
        middle.append(TablesWanted)
    elif compares:
        middle.append(CellsWanted)
    if params.score in local.NUMERIC_SCORES or (params.score == "chi2" and not params.fixed_edges):
        middle.append(MomentsWanted)
    if not (opens_small_cells(params) and MomentsWanted not in middle):
        middle.append(MaskedSums)
    if opens_small_cells(params) and TablesWanted in middle:
        middle.append(OpenTables)
    return tuple(dict.fromkeys((*start, *middle, Chosen)))


def opens_small_cells(params: Params) -> bool:
    """Whether tables may have cells of any size; noise hides single rows in them anyway."""
    return params.small_cells and not params.noisy
