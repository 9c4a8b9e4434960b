# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Parameters of ``VFPSSelector``."""

from fedsift.config.parameters import (
    COMMON,
    HE,
    Parameter,
    accept_any,
    accept_share,
    accept_switch,
    accept_whole,
    accept_words,
)

PARAMETERS = {
    "n_participants": Parameter(
        "How many participants to select besides the label holder whose columns are kept, or which "
        "share of them. ``auto`` (with ``greedy``) stops when the next one adds less than two "
        "standard errors.",
        (accept_words("auto"), accept_whole(), accept_share(below=True)),
        action="Ask for fewer participants.",
    ),
    "strategy": Parameter(
        "``greedy`` adds whoever adds most to what is there, and sees through copies. "
        "``submodular`` adds whoever most raises the likelihood of labels among nearest "
        "neighbours; it tests every participant once, and is within 1 - 1/e of the best choice by "
        "that measure. ``group-testing`` (the paper) averages the scores of random groups. "
        "``shapley`` averages gains over random orders. ``individual`` scores participants one by "
        "one. ``brute-force`` tries every group of the wanted size. With ``design='separate'``, "
        "``greedy``, ``shapley`` and ``brute-force`` let the leader work out single participants' "
        "distances: they need ``paired-groups`` in every participant's ``may_reveal``.",
        accept_words(
            "greedy", "submodular", "group-testing", "shapley", "individual", "brute-force"
        ),
    ),
    "keep_own": Parameter(
        "Judge participants by what they add to the label holder's own columns, which are kept. "
        "Without, or where it has none, the label holder's columns are judged like all others.",
        accept_switch(),
    ),
    "prices": Parameter(
        "What each participant costs, by name. Who gains most for its price is selected first.",
        accept_any("dict of participant to positive number", dict),
        optional=True,
    ),
    "n_groups": Parameter(
        "Test groups, or coalitions of ``shapley``; all possible ones if there are fewer.",
        accept_whole(),
    ),
    "k": Parameter("Nearest neighbours of the query's own label.", accept_whole()),
    "n_queries": Parameter(
        "Rows that the score is averaged over; all rows if there are fewer. Separate designs use "
        "fewer where the leader would see too many distances, and say so in the result.",
        accept_whole(),
    ),
    "fagin": Parameter(
        "Compare only rows that may be near. Fagin's algorithm finds them for overlapping groups "
        "and is given up, with a warning in the result, where it does not pay; separate groups "
        "find them by rounded sums. Without, all rows are compared, and separate groups need "
        "``all-row-distances`` in every participant's ``may_reveal``.",
        accept_switch(),
    ),
    "batching": Parameter(
        "One search serves all groups that are tested on the same query.", accept_switch()
    ),
    "design": Parameter(
        "``scores``: the leader learns rounded means of scores only, the aggregator sums of "
        "distances between unnamed rows. The other two are the paper's way, in which the leader "
        "decrypts distances: ``separate`` never puts a participant into two sums of one query and "
        "limits how many distances the leader sees; ``shared`` (group testing only) tests all "
        "groups on all queries, lets the leader work out single participants' distances, and needs "
        "``paired-groups`` in every participant's ``may_reveal``.",
        accept_words("scores", "separate", "shared"),
    ),
    "distance": Parameter(
        "How far two rows are apart; every participant's part is added. ``cosine`` is by the angle "
        "within each participant's columns. ``gower`` is for columns of numbers and categories.",
        accept_words("euclidean", "manhattan", "cosine", "gower"),
    ),
    "scaling": Parameter(
        "``parties``: every participant weighs the same, however many columns it has. ``columns``: "
        "every column does.",
        accept_words("parties", "columns"),
    ),
    "he": HE,
    "policy": COMMON["policy"].but(
        "Groups with one participant's data need ``single-party-distances`` in every participant's "
        "``may_reveal``; federations with fewer than three participants besides the label holder "
        "need such groups. Overlapping groups need ``paired-groups`` in the same way. Parties cut "
        "out of one array grant both where they cannot be avoided, since their data is the "
        "caller's own; nothing else is granted by itself.",
    ),
    "random_state": COMMON["random_state"].but(
        "Seeds the simulated split and the groups, and in one process the queries, which between "
        "organisations never follow a seed.",
    ),
}
