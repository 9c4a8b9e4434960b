# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Parameters of ``VFPSSelector``."""

from fedsift.config.parameters import (
    COMMON,
    HE,
    Parameter,
    accept_share,
    accept_switch,
    accept_whole,
    accept_words,
)

PARAMETERS = {
    "n_participants": Parameter(
        "How many participants to select, or which share of them; fewer than there are.",
        (accept_whole(), accept_share(below=True)),
        action="Ask for fewer participants.",
    ),
    "strategy": Parameter(
        "``group-testing`` (the paper) averages the scores of random groups. ``greedy`` builds the "
        "group with the highest joint score and sees through copies. ``shapley`` averages marginal "
        "scores over random orders. ``individual`` scores participants one by one. "
        "``brute-force`` tries every group of the wanted size. ``greedy``, ``shapley`` and "
        "``brute-force`` compare overlapping groups, from which the leader can work out single "
        "participants' distances: they need ``paired-groups`` in every participant's "
        "``may_reveal``.",
        accept_words("group-testing", "greedy", "shapley", "individual", "brute-force"),
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
        "Group testing only. ``separate`` never puts a participant into two sums of one query and "
        "limits how many distances the leader sees; ``shared`` (the paper) tests all groups on all "
        "queries, which is more precise for the same number of queries but lets the leader work "
        "out single participants' distances, and needs ``paired-groups`` in every participant's "
        "``may_reveal``.",
        accept_words("separate", "shared"),
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
