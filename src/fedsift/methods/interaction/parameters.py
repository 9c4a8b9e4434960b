# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Parameters of ``InteractionSelector``."""

from fedsift.config.parameters import (
    COMMON,
    N_FEATURES_OR_AUTO,
    Parameter,
    accept_whole,
    accept_words,
)

PARAMETERS = {
    "n_features_to_select": N_FEATURES_OR_AUTO.but(
        'A number, a share of all features, or ``"auto"``: stop when the best remaining feature no '
        "longer beats what shuffled labels reach. The default 10 keeps all if there are fewer.",
    ),
    "measure": Parameter(
        "``miw`` works on moments of standardised columns. ``paper`` is the published measure with "
        "its sign corrected; it cuts columns at their mean.",
        accept_words("miw", "paper"),
    ),
    "pair_start": Parameter(
        "Columns of which all pairs are weighed before anything is selected, the most relevant "
        "ones: finds pairs that say nothing alone, and columns whose spread differs between the "
        "classes. "
        '``"auto"`` takes all columns if they are 20 or fewer, else none. For ``miw`` only.',
        (accept_words("auto", "none"), accept_whole(2)),
    ),
    "random_state": COMMON["random_state"].but(
        "Seeds the simulated split and, in one process, the secret orders and shuffled labels; "
        "between organisations these never follow a seed. Masks, keys and the low-bit noise of "
        "scores always come from the operating system, so that scores of two runs agree to about "
        "14 bits.",
    ),
}
