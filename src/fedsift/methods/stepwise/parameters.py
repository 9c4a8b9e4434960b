# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Parameters of ``StepwiseSelector``."""

from fedsift.config.parameters import (
    COMMON,
    HE,
    N_FEATURES_OR_AUTO,
    Parameter,
    accept_any,
    accept_number,
    accept_switch,
    accept_words,
)

PARAMETERS = {
    "n_features_to_select": N_FEATURES_OR_AUTO.but(
        "How many features to add: a number, a share of those that can be added, or ``auto``: "
        "stop when shuffled labels explain as much in one of twenty tries.",
    ),
    "criterion": Parameter(
        "``partial`` takes the feature with the largest partial F statistic (of classes: Wilks' "
        "lambda), given all that were taken before.",
        accept_words("partial"),
    ),
    "ridge": Parameter(
        "0 compares partial statistics as they are, large numbers compare features one by one; in "
        "between, chance is fitted less where rows are few. By default columns over rows, at "
        "most 1. Reported statistics have no ridge.",
        accept_number(0.0),
        optional=True,
    ),
    "keep_own": Parameter(
        "Start with all features of the label holder: others are selected by what they add to "
        "these, which stay selected. If false, they are candidates like all others.",
        accept_switch(),
    ),
    "adjust": Parameter(
        "Features of the label holder to start with, if not with all of them.",
        accept_any("sequence of str", list),
    ),
    "he": HE,
    "random_state": COMMON["random_state"].but(
        "Seeds the simulated split and, in one process, the secret orders and shuffled labels; "
        "between organisations these never follow a seed. Masks and keys always come from the "
        "operating system.",
    ),
}
