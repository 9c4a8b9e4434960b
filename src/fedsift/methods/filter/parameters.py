# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Parameters of ``FilterSelector``."""

from fedsift.config.parameters import (
    COMMON,
    DELTA,
    EPSILON,
    FDR,
    HE,
    N_FEATURES_OR_FDR,
    Parameter,
    accept_any,
    accept_whole,
    accept_words,
)

PARAMETERS = {
    "score": Parameter(
        "``gini`` is the impurity that remains after cutting by the feature (lower is better), all "
        "others are better when higher. ``chi2`` reads non-negative complete columns as "
        "frequencies (scikit-learn's definition) if all columns of all parties are such, "
        "otherwise it is Pearson's statistic of the binned columns.",
        accept_words("gini", "f", "mi", "chi2", "iv", "variance"),
    ),
    "n_features_to_select": N_FEATURES_OR_FDR,
    "fdr": FDR,
    "n_permutations": Parameter(
        "P-values by so many copies of every feature with shuffled rows, at parties with different "
        "columns; 0 takes the distribution that the score has for many rows. Time and bytes grow "
        "in proportion. The label holder learns the scores of copies too, and the number of bins "
        "of each unnamed feature.",
        accept_whole(0, 1000),
        action="0, or 20 to 200 where there are few rows.",
    ),
    "bins": Parameter(
        "Quantile bins, inner edges, or either one by column name.",
        accept_any("int, list of float, or dict", int, list, dict),
    ),
    "min_bin_size": Parameter(
        "Bins with fewer rows are merged.",
        accept_whole(),
        action="5 is the default; 1 switches the protection off.",
    ),
    "disclose": Parameter(
        "What the label holder may learn of others' features. ``scores`` exists for gini, f and "
        "chi2 and is what ``auto`` takes there. Counts have to be named in the policies of their "
        "owners.",
        accept_words("auto", "scores", "counts"),
    ),
    "epsilon": EPSILON.but(
        "Differential privacy: every party adds noise to the counts of its own rows before anyone "
        "sees them, so that all it reveals about the values of one row stays within this budget. "
        "Needs a score of counts (gini, mi, chi2, iv) and bins given as edges: quantiles depend "
        "on the rows.",
    ),
    "delta": DELTA,
    "release_epsilon": EPSILON.but(
        "Differential privacy of the selection: the party that knows the scores draws the features "
        "by them, so that what others learn of one row over all parties, its values and its "
        "label, stays within this budget. Scores are withheld from the result. Needs gini or mi, "
        "and bins given as edges.",
    ),
    "release_delta": DELTA.but("As ``delta``, for the release."),
    "parties": COMMON["parties"].but(
        "How to split arrays; ignored when ``fit`` gets a federation.",
        accepts=accept_any("int, list of column lists, or array of row owners"),
    ),
    "he": HE,
    "random_state": COMMON["random_state"].but(
        "Seeds the simulated split and, in one process, the secret orders of features and bins. "
        "Noise never follows a seed, and between organisations neither do the orders.",
    ),
}
