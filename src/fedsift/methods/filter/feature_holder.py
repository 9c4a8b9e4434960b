# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The feature holder of the vertical filters: what a party with columns does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.crypto.columns.api import BinnedRows, IntegerRows, Rows, join_columns
from fedsift.data.state_files import State
from fedsift.data.table import PartyTable
from fedsift.errors import ParameterError
from fedsift.methods.checks import check_class_number, check_row_count, check_setting
from fedsift.methods.filter import features as local
from fedsift.methods.filter import messages, scores
from fedsift.methods.filter.messages import column_spec, way_of
from fedsift.methods.filter.ranking import Params, bins_of
from fedsift.privacy.mechanisms import Accountant
from fedsift.protocol import Message, Network, PublicArray, handles
from fedsift.protocol.policy import check_asked
from fedsift.protocol.resume import Resumable

Floats = npt.NDArray[np.float64]


class FeatureHolder(Resumable, name="feature holder", signals=messages.SIGNALS):
    """Owns columns; computes on encrypted labels and learns which of its features were selected."""

    def __init__(self, table: PartyTable, params: Params, checkpoints: Path | None = None) -> None:
        self.keep_checkpoints(checkpoints, table.name, params, table)
        self._table = table
        self._params = params
        self._rng = _secret_order(params.seed, table.name)
        self._order = self._rng.permutation(table.n_columns)
        self._binned: local.BinnedTable | None = None
        self._selected: tuple[int, ...] = ()
        self._own_scores: Floats | None = None
        self.budget = Accountant(params.epsilon or 0.0, params.delta)

    @property
    def order(self) -> npt.NDArray[np.int64]:
        """This party's own secret order: position to column; never sent."""
        return self._order

    @handles(messages.Introduction)
    async def offer(self, ask: messages.Introduction, net: Network) -> messages.Offer:
        """Check that the job fits its own table, and say how many features there are."""
        check_row_count("label holder", ask.n_rows, self._table.n_rows)
        check_setting("label holder", "score", ask.score, self._params.score)
        n_cells = 1
        if self._params.score in local.BINNED_SCORES:
            with self.clock("prepare"):
                n_cells = self._bins().n_bins
        else:
            local.numeric_columns(self._table, self._params.score)
        # One row decides whether columns are frequencies; with noise nobody is told.
        frequencies = not self._params.fixed_edges and local.are_frequencies(self._table)
        told = (self._table.n_columns, n_cells, frequencies)
        if not self._params.tells_bins:
            return messages.Offer(*told)
        filled = [len(np.unique(codes)) for codes in self._bins().codes.T[self._order]]
        return messages.OfferOfBins(*told, PublicArray.of(filled))

    @handles(messages.EncryptedLabels)
    async def answer(self, ask: messages.EncryptedLabels, net: Network) -> Message:
        """Lines 3-9: products of its own rows with the encrypted columns."""
        params = self._params
        allowed = {
            way_of(params.score, params.disclose, frequencies=f, noisy=params.noisy)
            for f in (True, False)
        }
        fewest, kind = (0, "numbers") if params.numeric_label else (1, "classes")
        if ask.way not in allowed or not fewest <= ask.n_classes <= self._table.n_rows:
            raise ParameterError(
                f"The label holder asks for the way {ask.way[:20]!r} with {ask.n_classes} classes.",
                f"This party agreed to {', '.join(sorted(allowed))} and a label of {kind}.",
                "Run the same job, with the same 'disclose' and kind of label, at every party.",
            )
        if not params.noisy:
            check_class_number(ask.n_classes, self._table.n_rows, params.min_class_size)
        check_asked(net.party, net.policy, classes=ask.n_classes, columns=ask.most_features)
        # No bin is empty but with fixed edges, so that others cannot have more than there are rows.
        most_cells = max(self._table.n_rows, net.policy.max_bins) + 2
        if not ask.most_features > 0 or not 0 < ask.most_cells <= most_cells:
            raise ParameterError(
                f"The label holder asks for {ask.most_features} features of {ask.most_cells} bins.",
                f"There is at least one, and there are at most {most_cells} bins.",
                "Run the same job at every party.",
            )
        noise_bits = params.noise(ask.most_features).bits if params.noisy else 0
        spec = column_spec(
            ask.way,
            self._table.n_rows,
            ask.n_classes,
            ask.most_features * (1 + params.n_permutations),
            ask.most_cells,
            noise_bits,
            fine=params.exact_gini,
        )
        reply = messages.reply_of(ask.way, params)
        with self.clock("evaluate"):
            evaluator = join_columns(ask.keys, ask.columns, spec)
            if ask.way == "noisy":
                rows, _ = self._shuffled_bins()
                return reply(evaluator.products(rows, self._noise(rows, spec.n_columns)))
            if ask.way == "count":
                self._large_bins(ask.n_classes)
                rows, sizes = self._shuffled_bins()
                return reply(evaluator.products(self._with_copies(rows)), PublicArray.of(sizes))
            if ask.way in ("impurity", "pearson"):
                rows, sizes = self._shuffled_bins()
                fine = ask.way == "impurity" and params.exact_gini
                weights = scores.gini_weights(sizes, self._table.n_rows, fine=fine)
                weights = np.tile(weights, (1 + params.n_permutations, 1))
                return reply(evaluator.quadratics(self._with_copies(rows), weights))
            if ask.way == "frequency":
                shares, exponent = local.frequency_shares(self._numbers())
                columns = self._with_copies(_integers(shares, messages.SHARE_BITS[0]))
                return reply(evaluator.quadratics(columns), PublicArray.of([exponent]))
            if ask.way == "share":
                units = local.unit_columns(self._numbers())
                columns = self._with_copies(_integers(units, messages.SHARE_BITS[0]))
                return reply(evaluator.quadratics(columns))
            integers, exponents = self._summable()
            columns = self._with_copies(IntegerRows(integers))
            return reply(evaluator.products(columns), PublicArray.of(exponents))

    def _with_copies(self, rows: Rows) -> Rows:
        """All features, and copies of them whose rows are in orders that nobody else knows."""
        whole = rows.codes if isinstance(rows, BinnedRows) else rows.values
        n_copies = self._params.n_permutations
        copies = [whole[self._rng.permutation(rows.n_samples)] for _ in range(n_copies)]
        together = np.hstack([whole, *copies])
        if isinstance(rows, BinnedRows):
            return BinnedRows(together, rows.n_bins)
        return IntegerRows(together)

    def _noise(self, rows: BinnedRows, n_columns: int) -> npt.NDArray[np.int64]:
        """Noise for every count; the budget is for one answer, so a second one is refused."""
        noise = self._params.noise(rows.n_features)
        noise.spend(self.budget, "counts of its features")
        seed = self._params.noise_source(self._table.name)
        return noise.draw((rows.n_rows, n_columns), seed)

    @handles(messages.ScoresWanted)
    async def open_scores(self, ask: messages.ScoresWanted, net: Network) -> messages.OpenScores:
        """Scores without labels are computed here alone."""
        if self._params.score != "variance":
            raise ParameterError(
                "The label holder asks for variances.",
                f"This party agreed to {self._params.score!r}, which needs none.",
                "Run the same job at every party.",
            )
        return messages.OpenScores(PublicArray.of(local.variances(self._numbers())))

    @handles(messages.Selected)
    async def take_selection(self, told: messages.Selected, net: Network) -> None:
        """Line 10: remember which of its own features were chosen."""
        if len(set(told.features)) != len(told.features) or not all(
            0 <= f < self._table.n_columns for f in told.features
        ):
            raise ParameterError(
                "The selection names features this party does not have.",
                f"Feature numbers run from 0 to {self._table.n_columns - 1}.",
                "Check that all parties run the same job.",
            )
        self._selected = told.features

    @handles(messages.OwnScores)
    async def take_scores(self, told: messages.OwnScores, net: Network) -> None:
        """Optional: its own features' scores."""
        self._own_scores = told.scores.array(shape=(self._table.n_columns,))

    def facts(self) -> dict[str, Any]:
        """Names behind the numbers; read only where the data of this party is."""
        names = [self._table.feature_names[i] for i in self._order]
        return {
            "names": names,
            "selected": [names[i] for i in self._selected],
            "own_scores": self._own_scores,
            "remarks": local.remarks(self._table, self._binned),
        }

    def checkpoint(self) -> State:
        """The secret order, in which the label holder knows this party's features."""
        return {"order": self._order}

    def restore(self, saved: State) -> None:
        """Go on with the same order."""
        self._order = saved["order"]

    def _bins(self) -> local.BinnedTable:
        if self._binned is None:
            self._binned = bins_of(self._table, self._params, 0)
        return self._binned

    def _large_bins(self, n_classes: int) -> None:
        """Merge bins whose counts are opened until every class could fill its cell."""
        n_offered = self._bins().n_bins
        self._binned = replace(bins_of(self._table, self._params, n_classes), n_bins=n_offered)

    def _shuffled_bins(self) -> tuple[BinnedRows, npt.NDArray[np.int64]]:
        """Bin memberships in secret order of features and bins, and the size of every bin."""
        binned = self._bins()
        codes = np.empty(binned.codes.shape, dtype=np.uint8 if binned.n_bins < 256 else np.int64)
        for position, feature in enumerate(self._order):
            codes[:, position] = self._rng.permutation(binned.n_bins)[binned.codes[:, feature]]
        sizes = np.stack([np.bincount(column, minlength=binned.n_bins) for column in codes.T])
        return BinnedRows(codes, binned.n_bins), sizes

    def _numbers(self) -> Floats:
        return local.numeric_columns(self._table, self._params.score)[:, self._order]

    def _summable(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Columns as integers, and the power of two each one was multiplied with."""
        values = self._numbers()
        if self._params.score == "f":
            fixed = np.full(values.shape[1], messages.VALUE_BITS)
            return local.to_integers(local.unit_columns(values), messages.VALUE_BITS), fixed
        exponents = local.frequency_scales(values, messages.VALUE_BITS)
        return np.rint(np.ldexp(values, exponents)).astype(np.int64), exponents


def _integers(values: Floats, bits: int) -> IntegerRows:
    return IntegerRows(local.to_integers(values, bits))


def _secret_order(seed: int | None, party: str) -> np.random.Generator:
    """Source of a party's secret orders: the operating system's entropy, or a simulation's seed."""
    if seed is None:
        return np.random.default_rng()
    return np.random.default_rng([seed, *party.encode()])
