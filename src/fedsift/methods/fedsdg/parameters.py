# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Parameters of ``FedSDGSelector``."""

from fedsift.config.parameters import (
    COMMON,
    HE,
    N_FEATURES_OR_AUTO,
    PYTHON_ONLY,
    Parameter,
    accept_any,
    accept_number,
    accept_share,
    accept_switch,
    accept_whole,
    accept_words,
)

_WIDEST = 256
_EPOCHS = 100_000
_MOST_SAMPLES = 4096
_RATE = accept_number(0.0, 1000, strict=True)
_PRICE = accept_number(0.0, 1e6)

PARAMETERS = {
    "n_features_to_select": N_FEATURES_OR_AUTO.but(
        '``"auto"`` keeps the features whose gates stay open. A number or a share takes those with '
        "the widest open gates over all parties.",
    ),
    "protocol": Parameter(
        "``blind`` opens nothing of a single row: sums over all training rows, one per unnamed "
        "column, move the gates, and every party learns which of its own columns were selected. "
        "Its network is of degree two and needs no PyTorch. ``paper`` may predict better: "
        "embedding networks of the parties and a shared layer. It opens gradients and outputs of "
        "single rows, from which labels and columns can be computed, so that every policy has to "
        "name ``embedding-gradients``, ``layer-outputs`` (``single-layer-outputs`` with one "
        "feature holder) and ``gate-start``; only parties cut out of one array need not.",
        accept_words("blind", "paper"),
    ),
    "choose": Parameter(
        "Of a blind training: the features with the smallest validation loss, the fewest within "
        "one standard error of it, or the fewest within two.",
        accept_words("best", "one-se", "fewest"),
    ),
    "class_weight": Parameter(
        'Only ``blind``: how much each class counts. ``"balanced"`` is in inverse proportion to '
        "its number of training rows. Weights scale the outputs that stand for classes, of which "
        "two weighted classes have one each, and the predicted probabilities; they stay with the "
        "label holder, and no row weighs more than another on the way. So they move the "
        "threshold between two classes more than what the network learns.",
        (accept_words("balanced"), accept_any("dict of class to float", dict)),
        optional=True,
    ),
    "lam": Parameter(
        "Weight of the mean probability that a gate is open; more selects fewer features. "
        '``"auto"`` grows with the number of features, so that few are not overpriced.',
        (accept_words("auto"), _PRICE),
    ),
    "sigma": Parameter("Noise of the gates.", _RATE),
    "init": Parameter(
        "Gates start from each feature's Gini impurity, computed on encrypted labels, or all "
        "alike.",
        accept_words("gini", "constant"),
    ),
    "gates": Parameter(
        "Gates on features and (``paper``) embedding columns, on features only, or none: all "
        "features, or with ``paper`` an exact number by elimination, in which every party leaves "
        "out first what its other features can stand in for.",
        accept_words("dual", "input", "none"),
    ),
    "embedding": Parameter(
        'Only ``paper``: embedding columns of a party; at least 32 where ``outputs="auto"`` is.',
        accept_whole(most=_WIDEST),
    ),
    "max_epochs": Parameter("Epochs of the training at most.", accept_whole(most=_EPOCHS)),
    "batch_size": Parameter("Rows of a batch at most.", accept_whole(16, 4096)),
    "refit": Parameter(
        "Only ``paper``: train new networks on the selected features alone at the end.",
        accept_switch(),
    ),
    "model": Parameter(
        "Only ``paper``: ``linear`` is vertical logistic or linear regression.",
        accept_words("network", "linear"),
    ),
    "outputs": Parameter(
        'Units of the shared layer; ``"auto"`` is 32, or 64 with more than 16 classes, and half '
        "of that with ``paper``.",
        (accept_words("auto"), accept_whole(most=_WIDEST)),
    ),
    "embedding_network": Parameter(
        "Only ``paper``: from (number of inputs, width) to a ``torch.nn.Module``.",
        accept_any("callable, or mapping of party to callable"),
        optional=True,
        elsewhere=PYTHON_ONLY,
    ),
    "top_network": Parameter(
        "Only ``paper``: from (outputs of the layer, classes or 1) to a ``torch.nn.Module`` for "
        "the label holder.",
        accept_any("callable"),
        optional=True,
        elsewhere=PYTHON_ONLY,
    ),
    "min_batches": Parameter(
        "Batches of an epoch at least: where data is scarce they get smaller.",
        accept_whole(most=_EPOCHS),
    ),
    "lam_embedding": Parameter("Only ``paper``: price of an open embedding gate.", _PRICE),
    "gate_samples": Parameter(
        "Only ``paper``: draws of the gates in every batch. Its rows take turns with them, so that "
        "the gradient of the gates is an average over the draws and costs no more traffic.",
        accept_whole(most=_MOST_SAMPLES),
    ),
    "validation": Parameter(
        "Share of the rows given to ``fit`` that judges epochs and does not train.",
        accept_share(below=True),
        action="Give 0.2, for example.",
    ),
    "min_epochs": Parameter(
        "Only ``paper``: epochs before a training may stop. Any epoch may be chosen; an exact "
        "number waits for the first of them.",
        accept_whole(0, _EPOCHS),
    ),
    "patience": Parameter(
        "Only ``paper``: epochs without a better one before the training stops.",
        accept_whole(most=_EPOCHS),
    ),
    "learning_rate": Parameter("Only ``paper``: of embedding and top networks.", _RATE),
    "gate_learning_rate": Parameter("Of gates.", _RATE),
    "layer_learning_rate": Parameter("Of the shared layer.", _RATE),
    "label_noise": Parameter(
        "Only ``paper``: noise on the gradients that feature holders get, relative to their size.",
        accept_number(0.0, 1000),
        action="Forbid embedding-gradients by policy where labels must not leak at all.",
    ),
    "checkpoint": COMMON["checkpoint"].but(
        "Directory in which every party keeps its own state after each epoch. If it holds an "
        "interrupted training of the same job, ``fit`` continues there.",
    ),
    "verbose": Parameter("Show a progress bar.", accept_switch()),
    "he": HE.but("Encryption; both give the same result to the last bit, BGV is far faster."),
    "random_state": COMMON["random_state"].but(
        "Seeds the simulated split and draws of a run in one process, but no masks and no "
        "``label_noise``. Between organisations all draws come from the operating system.",
    ),
}
