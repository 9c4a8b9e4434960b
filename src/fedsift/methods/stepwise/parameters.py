# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Parameters of ``StepwiseSelector``."""

from fedsift.config.parameters import (
    COMMON,
    HE,
    N_FEATURES,
    Parameter,
    accept_any,
    accept_number,
    accept_share,
    accept_switch,
    accept_whole,
    accept_words,
)
from fedsift.config.toml import TEXTS

PARAMETERS = {
    "n_features_to_select": N_FEATURES.but(
        "How many features to add: a number, or a share of those that can be added. ``auto`` stops "
        "when shuffled labels explain as much in one of twenty tries. ``fdr`` keeps features that "
        "enter before made-up columns like them, so that at most a share of ``fdr`` is false.",
        accepts=(accept_words("auto", "fdr"), accept_whole(), accept_share()),
    ),
    "fdr": Parameter(
        "Share of false discoveries among the selected features, on the mean, with "
        '``n_features_to_select="fdr"``.',
        accept_share(below=True),
    ),
    "criterion": Parameter(
        "``partial`` takes the feature with the largest partial F statistic (of classes: Wilks' "
        "lambda), given all that were taken before. ``mrmr`` takes the one with the largest mutual "
        "information with the label, less the mean of those with features taken before, of numbers "
        "in five bins; it needs a number of features, and parties with different columns.",
        accept_words("partial", "mrmr"),
    ),
    "min_bin_size": Parameter(
        'Rows of a bin at least, with ``criterion="mrmr"``; smaller ones are merged.',
        accept_whole(),
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
        "these, which stay selected. If false, they are candidates like all others. Means nothing "
        "where parties have different rows of the same columns.",
        accept_switch(),
    ),
    "adjust": Parameter(
        "Features to start with where it is not all of the label holder's: some of these or, where "
        "parties have different rows, of those that all have.",
        accept_any("sequence of str", TEXTS, tuple),
    ),
    "parties": COMMON["parties"].but(
        "How to split arrays; ignored when ``fit`` gets a federation.",
        accepts=accept_any("int, list of column lists, or array of row owners"),
    ),
    "he": HE,
    "random_state": COMMON["random_state"].but(
        "Seeds the simulated split and, in one process, the secret orders and shuffled labels; "
        "between organisations these never follow a seed. Masks and keys always come from the "
        "operating system.",
    ),
}
