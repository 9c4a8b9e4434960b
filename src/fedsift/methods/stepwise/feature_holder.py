# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The feature holder of vertical stepwise selection: what a party with columns does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.crypto.columns.api import BigArray, IntegerRows, join_columns, own_columns
from fedsift.crypto.columns.plain import big_array
from fedsift.crypto.masking import to_limbs
from fedsift.crypto.modular import random_integers
from fedsift.data.state_files import State
from fedsift.data.table import PartyTable
from fedsift.errors import ParameterError, PolicyViolation
from fedsift.maths.unit import to_integers
from fedsift.methods.checks import check_class_number, check_row_count, check_setting
from fedsift.methods.stepwise import messages
from fedsift.methods.stepwise.columns import Design, make_bins, make_design, remarks
from fedsift.methods.stepwise.messages import Params
from fedsift.protocol import MaskedArray, Network, PublicArray, handles
from fedsift.protocol.policy import check_asked
from fedsift.protocol.resume import Resumable
from fedsift.protocol.role import errors_belong_to

Floats = npt.NDArray[np.float64]


class FeatureHolder(Resumable, name="feature holder", signals=messages.SIGNALS):
    """Owns columns; multiplies them with encrypted ones and learns which of them were selected."""

    def __init__(self, table: PartyTable, params: Params, checkpoints: Path | None = None) -> None:
        self.keep_checkpoints(checkpoints, table.name, params, table)
        self._table = table
        self._params = params
        self._n_rows = table.n_rows
        self._rng = secret_source(params.seed, table.name)
        self._order = self._rng.permutation(table.n_columns)
        self._turn = int(self._rng.integers(2**63))
        self._made: Design | None = None
        self._columns: Floats | None = None
        self._directions: Floats | None = None
        self._asked: dict[str, int] = {}
        self._wanted: set[int] = set()
        self._masks: dict[int, list[int]] = {}
        self._selected: tuple[int, ...] = ()

    @property
    def order(self) -> npt.NDArray[np.int64]:
        """This party's own secret order: position to feature; never sent."""
        return self._order

    def _design(self) -> Design:
        """Columns of its features in secret order."""
        if self._made is None:
            rng = np.random.default_rng(self._turn)
            self._made = self._columns_made(rng)
            self._directions = self._made.values[:, :0]
            if not self._params.binned:
                self._directions = self._made.directions(rng)
            knockoffs = self._params.knockoffs
            self._columns = self._made.with_knockoffs(rng) if knockoffs else self._made.values
        return self._made

    def _columns_made(self, rng: np.random.Generator) -> Design:
        table, params = self._table, self._params
        if params.binned:
            return make_bins(table, self._n_rows, params.smallest_bin, rng, self._order)
        return make_design(table, self._n_rows, params.min_class_size, self._order)

    def _values(self) -> Floats:
        """All columns that can be selected, knockoffs behind the others."""
        self._design()
        assert self._columns is not None  # noqa: S101 - made with the design
        return self._columns

    @handles(messages.Introduction)
    async def offer(self, ask: messages.Introduction, net: Network) -> messages.Offer:
        """Check that the job fits its own table, and say how many columns there are."""
        check_row_count("label holder", ask.n_rows, self._n_rows)
        check_setting("label holder", "criterion", ask.criterion, self._params.criterion)
        with self.clock("prepare"):
            design = self._design()
        assert self._directions is not None  # noqa: S101 - made with the design
        widths = PublicArray.of(design.widths)
        if self._params.binned:
            return messages.OfferOfBins(widths, 0, PublicArray.of(design.sizes))
        return messages.Offer(widths, self._directions.shape[1])

    @handles(messages.EncryptedLabels)
    async def multiply_labels(
        self, ask: messages.EncryptedLabels, net: Network
    ) -> messages.LabelProducts | messages.NumericProducts:
        """Products of its columns, and of their directions, with the labels."""
        if self._params.numeric_label:
            _check_number("label columns", ask.n_columns, 1, 1)
        else:
            check_class_number(ask.n_columns + 1, self._n_rows, self._params.min_class_size)
            check_asked(net.party, net.policy, classes=ask.n_columns + 1)
        self._once("labels", 0)
        return messages.products_of(self._params)[0](self._products(ask, net, directions=True))

    @handles(messages.EncryptedShuffles)
    async def multiply_shuffles(
        self, ask: messages.EncryptedShuffles, net: Network
    ) -> messages.ShuffledProducts | messages.ShuffledNumericProducts:
        """Products of its columns with shuffled labels, to few digits."""
        self._once("shuffles", ask.n_columns)
        return messages.products_of(self._params)[1](
            self._products(ask, net, bits=messages.SHUFFLED_BITS)
        )

    @handles(messages.EncryptedOwn)
    async def multiply_own(self, ask: messages.EncryptedOwn, net: Network) -> messages.OwnProducts:
        """Products of its columns, and of their directions, with those of the label holder."""
        self._once("own", ask.n_columns)
        return messages.OwnProducts(self._products(ask, net, directions=True))

    def _once(self, what: str, n_products: int) -> None:
        """Count products with what the label holder makes up, and refuse too many of them."""
        most = self._params.most_products(self._n_rows)
        total = sum(self._asked.values()) + n_products
        if what in self._asked or n_products < 0 or total > most:
            raise PolicyViolation(
                f"The label holder asks for {total} products of every column, {what} among them.",
                f"At most {most} are allowed for {self._n_rows} rows, each kind once: one for "
                f"{messages.ROWS_PER_PRODUCT} rows. More could be solved for the rows.",
                "Use more rows, or fewer columns of the label holder.",
            )
        self._asked[what] = n_products

    def _products(
        self,
        ask: messages.EncryptedLabels | messages.EncryptedShuffles | messages.EncryptedOwn,
        net: Network,
        *,
        bits: int = messages.VALUE_BITS,
        directions: bool = False,
    ) -> Any:
        rows = self._values()
        if directions and self._directions is not None:
            rows = np.concatenate([rows, self._directions], axis=1)
        _check_number("columns", ask.n_columns, 1, self._n_rows * self._n_rows)
        check_asked(net.party, net.policy, columns=ask.most_columns)
        spec = messages.column_spec(self._n_rows, ask.n_columns, ask.most_columns, bits)
        with self.clock("evaluate"):
            evaluator = join_columns(ask.keys, ask.columns, spec)
            return evaluator.products(IntegerRows(to_integers(rows, bits)))

    @handles(messages.ColumnWanted)
    async def open_products(
        self, ask: messages.ColumnWanted, net: Network
    ) -> messages.OpenedProducts:
        """One of its columns was selected: have all others multiply with it under masks."""
        values = self._values()
        _check_number("column", ask.column, 0, values.shape[1] - 1)
        if ask.column in self._wanted:
            raise _twice()
        check_asked(net.party, net.policy, columns=ask.most_columns)
        self._wanted.add(ask.column)
        column = values[:, ask.column]
        others = [party for party in net.members("feature holder") if party != net.party]
        opened = await self._have_multiplied(ask, column, others, net) if others else {}
        return messages.OpenedProducts(opened, PublicArray.of(values.T @ column))

    async def _have_multiplied(
        self, ask: messages.ColumnWanted, column: Floats, others: list[str], net: Network
    ) -> dict[str, MaskedArray]:
        spec = messages.masked_spec(self._n_rows, ask.most_columns)
        with self.clock("encrypt"):
            owner = own_columns(
                self._params.scheme,
                to_integers(column[:, None], messages.VALUE_BITS),
                spec,
                security_bits=self._params.security_bits,
            )
        sealed = messages.EncryptedColumn(ask.round, ask.most_columns, owner.keys, owner.columns)
        replies = await net.ask(
            "feature holder", dict.fromkeys(others, sealed), messages.HiddenProducts
        )
        opened = {}
        for party, reply in zip(others, replies, strict=True):
            with self.clock("decrypt"), errors_belong_to(party, "EncryptedColumn", 2):
                _check_number("columns", reply.n_columns, 0, ask.most_columns)
                values = owner.open_products(reply.products, reply.n_columns)
                limbs = to_limbs(values.ravel().tolist(), messages.MASK_LIMBS)
                opened[party] = MaskedArray.of(limbs)
        return opened

    @handles(messages.EncryptedColumn)
    async def multiply_column(
        self, ask: messages.EncryptedColumn, net: Network
    ) -> messages.HiddenProducts:
        """Products of its columns with a selected one; what is added to them stays here."""
        values = self._values()
        if ask.round in self._masks:
            raise _twice()
        check_asked(net.party, net.policy, columns=ask.most_columns)
        spec = messages.masked_spec(self._n_rows, ask.most_columns)
        bits = messages.mask_bits() if self._params.masked else 0
        masks = random_integers(bits, values.shape[1])
        self._masks[ask.round] = masks
        with self.clock("evaluate"):
            evaluator = join_columns(ask.keys, ask.column, spec)
            rows = IntegerRows(to_integers(values, messages.VALUE_BITS))
            added: BigArray = big_array(masks)[:, None]
            return messages.HiddenProducts(values.shape[1], evaluator.products(rows, added))

    @handles(messages.MasksWanted)
    async def give_masks(self, ask: messages.MasksWanted, net: Network) -> messages.Masks:
        """What it added in one round; told once, and to the label holder alone."""
        masks = self._masks.get(ask.round)
        if not masks and self._design().n_columns:
            raise _twice()
        self._masks[ask.round] = []
        return messages.Masks(MaskedArray.of(to_limbs(masks or [], messages.MASK_LIMBS)))

    @handles(messages.Selected)
    async def take_selection(self, told: messages.Selected, net: Network) -> None:
        """Remember which of its own features were chosen."""
        n_features = self._table.n_columns
        if len(set(told.features)) != len(told.features) or not all(
            0 <= f < n_features for f in told.features
        ):
            raise ParameterError(
                "The selection names features this party does not have.",
                f"Feature numbers run from 0 to {n_features - 1}.",
                "Check that all parties run the same job.",
            )
        self._selected = told.features

    def facts(self) -> dict[str, Any]:
        """Names behind the numbers; read only where the data of this party is."""
        names = [self._table.feature_names[i] for i in self._order]
        return {
            "names": names,
            "selected": [names[i] for i in self._selected],
            "remarks": remarks(self._table.name, self._table, self._design()),
        }

    def checkpoint(self) -> State:
        """The secret order, in which the label holder knows this party's columns."""
        return {
            "order": self._order,
            "turn": self._turn,
            "asked": self._asked,
            "wanted": sorted(self._wanted),
        }

    def restore(self, saved: State) -> None:
        """Go on with the same order."""
        self._order, self._turn = saved["order"], saved["turn"]
        self._asked, self._wanted = dict(saved["asked"]), set(saved["wanted"])
        self._made, self._masks = None, {}


def secret_source(seed: int | None, party: str) -> np.random.Generator:
    """Source of a party's secret draws: the operating system's entropy, or a simulation's seed."""
    if seed is None:
        return np.random.default_rng()
    return np.random.default_rng([seed, *party.encode()])


def _check_number(what: str, found: int, least: int, most: int) -> None:
    if not least <= found <= most:
        raise ParameterError(
            f"Another party speaks of {what} {found}.",
            f"A number from {least} to {most} is needed.",
            "Run the same job at every party.",
        )


def _twice() -> ParameterError:
    return ParameterError(
        "Products or masks of a column were asked for a second time, or before there were any.",
        "Every selected column is multiplied once, and masks are told once.",
        "Check that all parties run the same version of fedsift and the same job.",
    )
