# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Parameters of ``DCFSSelector``."""

from fedsift.config.parameters import (
    COMMON,
    N_FEATURES,
    Parameter,
    accept_any,
    accept_number,
    accept_switch,
    accept_whole,
    accept_words,
)

_WEIGHT = accept_number(0.0, strict=True)

PARAMETERS = {
    "n_features_to_select": N_FEATURES,
    "alpha": Parameter("Weight of sparsity.", _WEIGHT),
    "beta": Parameter("Weight of each party's local structure.", _WEIGHT),
    "n_components": Parameter("Dimensions of the common target.", accept_whole()),
    "n_anchors": Parameter(
        "Anchors in total; ``auto`` is a quarter of the columns, at most 500. As many anchors as "
        "columns give a party's projection away and are refused.",
        (accept_whole(), accept_words("auto")),
    ),
    "alignment": Parameter(
        "``server`` returns to each party only its own alignment; ``open`` shows everybody every "
        "image, as the paper does; ``local`` has no anchors: every party selects alone (the "
        "paper's LFS) and only the mean of their ranks is joined (Borda).",
        accept_words("server", "open", "local"),
    ),
    "target": Parameter(
        "How images are joined. ``exact`` shares only the space an image spans and finds the "
        "directions that parties have in common; ``paper`` also weighs them by their lengths.",
        accept_words("exact", "paper"),
    ),
    "scale": Parameter(
        "``own``: every party scales its rows by its own means and spreads, and nothing is "
        "exchanged for it. ``pooled``: by those of all rows, which all parties then learn; where "
        "columns are many, a common mean tells whose rows are in it. Needs ``pooled-moments`` in "
        "every party's ``may_reveal``.",
        accept_words("own", "pooled"),
    ),
    "scaling": Parameter(
        "``columns`` gives every column the same spread; ``shared`` divides all columns by one "
        "number, for columns of one kind, such as pixels.",
        accept_words("columns", "shared"),
    ),
    "anchors": Parameter(
        "Public anchors in the units of the columns, instead of secret random ones; every party "
        "scales them as it scales its rows. Everybody is taken to know them, and the ledger says "
        "so.",
        accept_any("array-like of shape (n_anchors, n_features)", list),
        optional=True,
    ),
    "allow_many_anchors": Parameter(
        "Accept as many anchors as columns; the ledger then says what that discloses.",
        accept_switch(),
    ),
    "n_iterations": Parameter(
        "Alternating updates; every one sends one image more.", accept_whole()
    ),
    "n_dimensions": Parameter("Dimensions of each party's first projection.", accept_whole()),
    "n_neighbors": Parameter("Neighbours in the graph of each party.", accept_whole()),
    "parties": COMMON["parties"].but(
        COMMON["parties"].text, accepts=accept_any("int or array of row owners")
    ),
    "security": COMMON["security"].but("``plain`` sends sums without masks."),
    "random_state": COMMON["random_state"].but(
        "Makes a simulation in one process repeatable. Anchors drawn from a seed are no secret: "
        "whoever knows the seed knows them, and the ledger calls the images "
        "``known-anchor-images``. Between organisations anchors never follow a seed.",
    ),
}
