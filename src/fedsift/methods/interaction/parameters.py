# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Parameters of ``InteractionSelector``."""

from fedsift.config.parameters import COMMON, N_FEATURES_OR_AUTO, Parameter, accept_words

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
    "random_state": COMMON["random_state"].but(
        "Seeds the simulated split and, in one process, the secret orders and shuffled labels; "
        "between organisations these never follow a seed. Masks, keys and the low-bit noise of "
        "scores always come from the operating system, so that scores of two runs agree to about "
        "14 bits.",
    ),
}
