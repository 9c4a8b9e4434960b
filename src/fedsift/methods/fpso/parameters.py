# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Parameters of ``FPSOSelector``."""

from fedsift.config.parameters import (
    COMMON,
    DELTA,
    EPSILON,
    N_FEATURES_OR_AUTO,
    PYTHON_ONLY,
    Parameter,
    accept_any,
    accept_whole,
    accept_words,
)

PARAMETERS = {
    "n_features_to_select": N_FEATURES_OR_AUTO.but(
        "``auto`` lets the search decide; a number or share is the largest size allowed."
    ),
    "n_particles": Parameter("Size of a swarm.", accept_whole()),
    "n_iterations": Parameter("Steps of a swarm in one round.", accept_whole()),
    "n_rounds": Parameter("Rounds of exchange.", accept_whole()),
    "integration": Parameter(
        "Take the subset with the best mean accuracy, or with the best worst one.",
        accept_words("mean", "max-min"),
    ),
    "aggregation": Parameter(
        "``third-party`` shows the third party whose a subset is and every accuracy, as the paper "
        "does. Needs ``local-subset`` and ``accuracies`` in every party's ``may_reveal``.",
        accept_words("masked", "third-party"),
    ),
    "mode": Parameter(
        "``rounds`` exchanges the best subsets after every round (the paper); "
        "``federated-fitness`` runs one swarm at the third party, judged by masked means.",
        accept_words("rounds", "federated-fitness"),
    ),
    "k": Parameter("Neighbours of the classifier that judges a subset.", accept_whole()),
    "classifier": Parameter(
        "Judges subsets instead of nearest neighbours, much more slowly.",
        accept_any("scikit-learn classifier"),
        optional=True,
        elsewhere=PYTHON_ONLY,
    ),
    "decoding": Parameter(
        "A position above one half chooses a feature, or one above a random number (the paper).",
        accept_words("threshold", "random"),
    ),
    "epsilon": EPSILON.but(
        "Differential privacy: every party's rows vote in disjoint blocks, noise is added before "
        "the votes leave, and no accuracy and no subset does. ``mode``, ``integration`` and "
        "``aggregation`` mean nothing then. All that a party reveals about one row, its label "
        "included, stays within this budget.",
    ),
    "delta": DELTA.but(
        "0 for pure differential privacy; a tiny one allows for less noise where blocks cast many "
        "votes.",
    ),
    "n_blocks": Parameter(
        "Blocks of every party. By default they have 20 rows, or 10 for every class if that is "
        "more.",
        accept_whole(least=2),
        optional=True,
    ),
    "n_votes": Parameter(
        "Features that a block votes for at most; by default about the square root of "
        "``n_features_to_select``, or of a quarter of all features if that is ``auto``. With "
        "``auto``, features with more than an equal share of all votes are selected.",
        accept_whole(),
        optional=True,
    ),
    "parties": COMMON["parties"].but(
        COMMON["parties"].text, accepts=accept_any("int or array of row owners")
    ),
    "security": COMMON["security"].but("``plain`` sends sums without masks."),
    "random_state": COMMON["random_state"].but(
        "Seeds the simulated split and, in one process, the searches. Noise never follows a seed, "
        "and between organisations neither do searches.",
    ),
}
