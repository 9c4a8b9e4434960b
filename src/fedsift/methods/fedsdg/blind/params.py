# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Settings of the blind protocol, and how much it may open in all."""

from __future__ import annotations

from dataclasses import dataclass

from fedsift.errors import ParameterError
from fedsift.methods.fedsdg.blind.numbers import Scales
from fedsift.methods.fedsdg.messages import gini_settings
from fedsift.methods.filter import ranking as filter_scores

SMALLEST_BLOCK = 10
"""Rows of a block whose mean loss is opened, at least."""

FEWEST_ROWS = 4
"""Rows to train with, at least."""

CELLS_PER_NUMBER = 10
"""Cells of other parties that the tables must have for every number that is opened."""


@dataclass(frozen=True)
class BlindParams:
    """Settings of one run, the same at every party.

    Parameters
    ----------
    n_features_to_select : int or None
        None lets the gates decide.
    lam, sigma, gate_learning_rate : float
        Price of open gates relative to the loss of predicting the mean, noise of the gates, size
        of their steps.
    init : {"gini", "constant"}
        Where gates start.
    gates : {"input", "none"}
        Without gates, all features stay and no sums of columns are opened.
    choose : {"best", "one-se", "fewest"}
        Which state of the gates selects.
    hidden, n_outputs : int
        Units of the network, and its outputs.
    n_openings, passes, n_settling : int
        How often gates move, passes over the rows before each time, and passes with all
        features before, and with the selection after.
    trials : int
        Losses that are opened in each of the rounds in which selected features are left out one
        by one; 0 for no such rounds.
    n_blocks : int
        Mean losses that are opened each time.
    rate_bits : int
        A step subtracts a row's gradient over ``2**rate_bits``.
    """

    n_features_to_select: int | None = None
    lam: float = 1.0
    sigma: float = 0.5
    init: str = "gini"
    gates: str = "input"
    choose: str = "one-se"
    hidden: int = 32
    n_outputs: int = 1
    class_weight: str | dict[str, float] | None = None
    n_openings: int = 80
    passes: int = 1
    n_settling: int = 10
    trials: int = 0
    n_blocks: int = 20
    batch_size: int = 256
    validation: float = 0.2
    rate_bits: int = 9
    gate_learning_rate: float = 0.05
    bins: int = 10
    min_bin_size: int = 5
    min_class_size: int = 1
    scheme: str = "bgv"
    security_bits: int = 128
    seed: int | None = None

    @property
    def scales(self) -> Scales:
        """Fixed point."""
        return Scales(self.rate_bits)

    @property
    def filter_params(self) -> filter_scores.Params:
        """Settings of the Gini filter, from whose scores gates start."""
        return gini_settings(self)

    def blocks_of(self, n_rows: int) -> int:
        """Blocks of so many validation rows."""
        return max(1, min(self.n_blocks, n_rows // SMALLEST_BLOCK))

    @property
    def n_judgements(self) -> int:
        """Openings of losses: all features, every state of the gates, trials, the selection."""
        n_tried = self.trials * len(self.trial_passes)
        return self.n_openings + n_tried + (2 if self.has_gates else 1)

    @property
    def n_passes(self) -> int:
        """Passes over the training rows in all."""
        return self.n_openings * self.passes + self.n_whole + self.n_after

    @property
    def n_after(self) -> int:
        """Passes with the selection: more of them where its features are tried.

        By default 128 passes in all, for which masks of 32 units fill half of a ciphertext: results
        of two more would need twice as many.
        """
        return 4 * self.n_settling - self.n_settling // 5 if self.trials else self.n_settling

    @property
    def trial_passes(self) -> tuple[int, ...]:
        """After how many passes with the selection its features are left out one by one.

        Examples
        --------
        >>> BlindParams(n_settling=10, trials=8).trial_passes
        (20, 25, 30)
        """
        if not self.trials:
            return ()
        n = self.n_settling
        return tuple(sorted({2 * n, 2 * n + n // 2, 3 * n}))

    @property
    def n_whole(self) -> int:
        """Passes with all features, to compare a selection with."""
        return self.n_settling if self.has_gates else 0

    @property
    def has_gates(self) -> bool:
        """Whether there is anything to select."""
        return self.gates != "none"


def most_openings(n_training: int, n_hidden: int, n_features: int) -> int:
    """How often sums may be opened: one at least.

    The sums about all columns, the label holder's own ones included, are equations for the cells
    that it must not know: those of the training rows in the columns of others.

    Examples
    --------
    >>> most_openings(1200, 250, 250), most_openings(1200, 250, 500), most_openings(30, 1, 2)
    (120, 60, 1)
    """
    return max(1, n_training * n_hidden // (CELLS_PER_NUMBER * n_features))


def most_blocks(n_validation: int, n_hidden: int, n_judgements: int) -> int:
    """How many block means may be opened each time: one at least."""
    by_cells = n_validation * n_hidden // (CELLS_PER_NUMBER * n_judgements)
    return max(1, min(by_cells, n_validation // SMALLEST_BLOCK))


def most_trials(params: BlindParams, n_validation: int, n_hidden: int) -> int:
    """How many losses may be opened in a round of trials: what others have left to give."""
    rounds = len(params.trial_passes)
    others = params.n_judgements - params.trials * rounds
    by_cells = n_validation * n_hidden // (CELLS_PER_NUMBER * params.blocks_of(n_validation))
    return max(0, by_cells - others) // max(1, rounds)


def fewest_to_validate(n_rows: int, *, hidden: bool) -> int:
    """So many rows validate at least, more if others have columns; some are left to train with."""
    return max(1, min(SMALLEST_BLOCK if hidden else FEWEST_ROWS, n_rows - FEWEST_ROWS))


def check_opened(
    params: BlindParams, n_training: int, n_validation: int, n_hidden: int, n_features: int
) -> None:
    """Refuse a run that opens too many numbers for the cells that they are computed from.

    So many sums could be solved for the cells. Every party checks this for itself.

    Parameters
    ----------
    n_hidden : int
        Features that the label holder does not have; with none there is nothing to hide.
    """
    fewest = SMALLEST_BLOCK if n_hidden else 1
    if n_training < FEWEST_ROWS or n_validation < fewest:
        raise ParameterError(
            f"There are {n_training} rows to train with and {n_validation} to validate with.",
            f"At least {FEWEST_ROWS} and {fewest} are needed: sums over fewer are not opened.",
            "Use more rows, or another share for validation.",
        )
    if not n_hidden:
        return
    openings = most_openings(n_training, n_hidden, n_features)
    blocks = most_blocks(n_validation, n_hidden, params.n_judgements)
    n_sums = params.n_openings if params.has_gates else 0
    trials = most_trials(params, n_validation, n_hidden)
    too_many = params.blocks_of(n_validation) > blocks or params.trials > trials
    if n_sums > openings or too_many:
        raise ParameterError(
            f"The run would open sums {params.n_openings} times, and {params.n_blocks} block means "
            f"each time, about {n_training} rows to train with, {n_validation} to validate with, "
            f"and {n_hidden} features of others.",
            f"Numbers for a {CELLS_PER_NUMBER}th of the cells may be opened: sums {openings} "
            f"times, with {blocks} block means, and {trials} trials in a round.",
            "Use more rows, or a smaller max_epochs.",
        )
