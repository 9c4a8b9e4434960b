# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Vertical stepwise selection: which columns of others add to what the label holder has.

Setting   One party holds the label (and maybe features); the others hold features.
Roles     *label holder* (drives), *feature holder* (any number).
Adversary Honest but curious. The label holder may work with feature holders: together they cannot
          open a column, or its products with their own columns beyond what the label holder is
          told anyway, of a feature holder that is not one of them.

Forward selection needs inner products and nothing else (:mod:`.forward`). Columns have mean 0 and
length 1. In round 0 the label holder encrypts orthonormal contrasts of its classes (or its numbers,
or martingale residuals), with ``n_features_to_select="auto"`` shuffled copies of them, and its own
columns; feature holders return products with unnamed columns. Then, for every selected column, its
owner encrypts it under *its own* key. Every other party adds a mask to each product before it is
sealed, so that the owner opens uniform numbers; it hands them to the label holder, to whom the
others hand their masks.

With ``criterion="mrmr"`` columns are bins of features. Their sizes are told, so that products are
counts (:mod:`.binned`), and a feature enters bin by bin, but for the last one.

Who learns what
  feature holder  number of rows and classes, which of its columns were selected and when, and
                  whose columns were selected.
  label holder    per unnamed column its means per class (or its product with a label of numbers),
                  correlations with the label holder's own columns and with every selected column,
                  and with ``auto`` products with shuffled labels, to few digits. With ``mrmr``
                  sizes of unnamed bins, and with them counts of two bins, where policies name
                  ``bin-counts``.
                  Products with numbers that the label holder makes up, whose digits could name
                  rows, only where policies name ``numeric-scores``.

Limits, which every party checks for itself
  - No row has more than 1 / ``min_class_size`` of the squared length of a column that others
    multiply with: classes have that many rows, and columns that lean on fewer take no part; if
    the job names one in ``adjust``, it is refused.
  - Products with own columns and shuffled labels are equations for the rows of a column. There is
    at most one for ten rows; where there are too few rows for shuffled labels, ``auto`` stops by
    the distribution of the statistics instead.
  - No column is multiplied twice, and no mask is told twice.

A malicious feature holder can return wrong products; those that columns of length 1 cannot have are
refused, others are not noticed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.crypto.columns.api import own_columns
from fedsift.crypto.masking import from_limbs
from fedsift.data.state_files import State
from fedsift.data.table import PartyTable
from fedsift.data.target import Target
from fedsift.errors import BadFrame, PartyFailed
from fedsift.maths.unit import to_integers
from fedsift.methods.stepwise import messages
from fedsift.methods.stepwise.binned import BinnedSearch, BinnedSelection
from fedsift.methods.stepwise.columns import (
    Design,
    label_bins,
    label_columns,
    make_bins,
    make_design,
    remarks,
    shuffle_rows,
)
from fedsift.methods.stepwise.feature_holder import FeatureHolder, secret_source
from fedsift.methods.stepwise.forward import ForwardSearch
from fedsift.methods.stepwise.messages import MASK_LIMBS, VALUE_BITS, Params
from fedsift.methods.stepwise.selection import (
    Features,
    Found,
    KnockoffSelection,
    Selection,
    gain_of,
)
from fedsift.protocol import MaskedArray, Message, Network, Protocol, Role, make_role
from fedsift.protocol.resume import ResumableDriver
from fedsift.protocol.role import errors_belong_to

Floats = npt.NDArray[np.float64]

_SLACK = 1e-4
"""How far rounding may take a product beyond what columns of length 1 can have."""


class LabelHolder(ResumableDriver, name="label holder", signals=messages.SIGNALS):
    """Owns the label; learns products of unnamed columns, searches, and tells what was selected."""

    def __init__(
        self,
        party: str,
        table: PartyTable | None,
        target: Target,
        n_rows: int,
        params: Params,
        checkpoints: Path | None = None,
    ) -> None:
        self.keep_checkpoints(checkpoints, party, params, table, target)
        self._party, self._table, self._params = party, table, params
        self._n_rows, self._target = n_rows, target
        self._turn = int(secret_source(params.seed, party).integers(2**63))
        if params.binned:
            self._target = label_bins(target, params.smallest_bin)
        self._own = self._columns_made()
        self._labels: Floats | None = None
        # What was opened so far: nothing of it is asked for a second time.
        self._opened: dict[str, dict[str, Floats]] = {"labels": {}, "shuffles": {}, "own": {}}
        self._grams: list[Floats] = []

    def _columns_made(self) -> Design:
        params, n_rows = self._params, self._target.n_rows
        if params.binned:
            rng = np.random.default_rng(self._turn)
            return make_bins(self._table, n_rows, params.smallest_bin, rng)
        return make_design(self._table, n_rows, params.min_class_size, needed=params.adjust)

    async def drive(self, net: Network) -> Found:
        """Products with the labels and own columns, then one round for each selected column."""
        await self.begin(net)
        self._labels = label_columns(self._target)
        offers = await self._offers(net)
        await self._round_zero(offers, net)
        n_copies = self._n_copies()
        selection = self._selection(offers, n_copies)
        await self._search(selection, offers, net)
        found = selection.finish(self._gains(offers))
        if offers:
            told = {p: messages.Selected(found.selected[p]) for p in offers}
            await net.tell("feature holder", told)
        await self.finish(net)
        return found

    async def _offers(self, net: Network) -> dict[str, messages.Offer]:
        parties = net.members("feature holder")
        if not parties:
            return {}
        hello = messages.Introduction(self._n_rows, self._params.criterion)
        kind = messages.OfferOfBins if self._params.binned else messages.Offer
        replies = await net.ask("feature holder", hello, kind)
        for party, offer in zip(parties, replies, strict=True):
            if not self._fits(offer):
                raise PartyFailed(party, "Introduction", 1, "its numbers of columns do not fit")
        return dict(zip(parties, replies, strict=True))

    def _fits(self, offer: messages.Offer) -> bool:
        widths = offer.widths.array()
        if widths.ndim != 1 or (widths < 0).any() or offer.n_directions < 0:
            return False
        if not isinstance(offer, messages.OfferOfBins):
            return True
        sizes = offer.sizes.array()
        fits = sizes.shape == (int(widths.sum()),) and offer.n_directions == 0
        return bool(fits and (sizes > 0).all() and (sizes < self._n_rows).all())

    async def _round_zero(self, offers: Mapping[str, messages.Offer], net: Network) -> None:
        """What does not depend on the selection."""
        reply, _ = messages.products_of(self._params)
        await self._ask("labels", self._ready(), messages.EncryptedLabels, reply, offers, net)
        await self._ask_shuffles(offers, net)
        if self._own.n_columns:
            await self._ask(
                "own", self._columns, messages.EncryptedOwn, messages.OwnProducts, offers, net
            )
        await self.done(net)

    async def products_with_shuffles(self, net: Network) -> None:
        """What ``auto`` asks for beyond everything else, on its own."""
        self._labels = label_columns(self._target)
        await self._ask_shuffles(await self._offers(net), net)

    async def _ask_shuffles(self, offers: Mapping[str, messages.Offer], net: Network) -> None:
        n_copies = self._n_copies()
        if not n_copies:
            return
        rng = secret_source(self._params.seed, self._party)
        copies = shuffle_rows(self._ready(), n_copies, rng)
        _, reply = messages.products_of(self._params)
        await self._ask("shuffles", copies, messages.EncryptedShuffles, reply, offers, net)
        if self._own.n_columns and self._party not in self._opened["shuffles"]:
            self._opened["shuffles"][self._party] = self._columns.T @ copies

    @cached_property
    def _columns(self) -> Floats:
        """Own columns; with knockoffs behind them if they are candidates and need some."""
        if self._params.knockoffs and not self._params.keep_own:
            return self._own.with_knockoffs(np.random.default_rng(self._turn))
        return self._own.values

    def _n_copies(self) -> int:
        n_contrasts = self._ready().shape[1]
        return self._params.copies(self._n_rows, self._own.n_columns, n_contrasts)

    async def _ask(
        self,
        what: str,
        columns: Floats,
        ask: type[Any],
        reply: type[Any],
        offers: Mapping[str, messages.Offer],
        net: Network,
    ) -> None:
        """Encrypt columns, and open the products of all who have not answered yet."""
        opened, bits = self._opened[what], VALUE_BITS
        directions = what != "shuffles"
        if not directions:
            bits = messages.SHUFFLED_BITS
        counts = {p: self._n_columns(o) + directions * o.n_directions for p, o in offers.items()}
        missing = [p for p, count in counts.items() if p not in opened and count]
        if not missing:
            return
        most = max(counts.values())
        spec = messages.column_spec(self._n_rows, columns.shape[1], most, bits)
        with self.clock("encrypt"):
            owner = own_columns(
                self._params.scheme,
                to_integers(columns, bits),
                spec,
                security_bits=self._params.security_bits,
            )
        wanted = ask(columns.shape[1], most, owner.keys, owner.columns)

        def take(party: str, answer: Any) -> None:
            with self.clock("decrypt"), errors_belong_to(party, ask.__name__, 2):
                found = owner.open_products(answer.products, counts[party])
            opened[party] = self._checked(party, found.astype(np.float64) * 2.0 ** (-2 * bits))

        asks: dict[str, Message] = dict.fromkeys(missing, wanted)
        await self.collect(net, "feature holder", asks, reply, take, self.checkpoint)

    def _n_columns(self, offer: messages.Offer) -> int:
        """Columns of a party, with their knockoffs."""
        return int(offer.widths.array().sum()) * (2 if self._params.knockoffs else 1)

    def _checked(self, party: str, products: Floats) -> Floats:
        """Refuse what columns of length 1 cannot have."""
        if (np.abs(products) > 1 + _SLACK).any():
            raise PartyFailed(party, "EncryptedLabels", 2, "its products are out of range")
        return products

    def _selection(self, offers: Mapping[str, messages.Offer], n_copies: int) -> Selection:
        """A search over all columns, the label holder's first."""
        params, labels = self._params, self._ready()
        widths = {self._party: self._own.widths} if self._table is not None else {}
        widths |= {p: o.widths.array().astype(np.int64) for p, o in offers.items()}
        kept = {self._party: self._kept()} if self._table is not None else {}
        features = Features(widths, kept)
        of_labels = dict(self._opened["labels"])
        if self._own.n_columns:
            of_labels[self._party] = self._columns.T @ labels
        if params.binned:
            return self._binned_selection(offers, features, of_labels)
        shuffled = None
        if n_copies:
            copies = self._stacked(self._opened["shuffles"], widths, n_copies * labels.shape[1])
            shuffled = copies.reshape(len(copies), n_copies, -1).transpose(1, 0, 2)
        search = ForwardSearch(
            self._stacked(of_labels, widths, labels.shape[1]),
            self._norms(features),
            self._n_rows,
            shuffled=shuffled,
            ridge=0.0 if params.knockoffs else params.ridge,
        )
        for column in features.kept_columns():
            search.add(column, self._own_gram(column, widths), forced=True)
        if params.knockoffs:
            return KnockoffSelection(search, features, params.fdr)
        return Selection(search, features, params.n_features_to_select, params.level, n_copies)

    def _binned_selection(
        self,
        offers: Mapping[str, messages.Offer],
        features: Features,
        of_labels: Mapping[str, Floats],
    ) -> Selection:
        labels = self._ready()
        told = (o.sizes.array() for o in offers.values() if isinstance(o, messages.OfferOfBins))
        products = self._stacked(of_labels, features.widths, labels.shape[1])
        sizes = np.concatenate([self._own.sizes, *told])
        search = BinnedSearch(features, sizes, products, labels, self._target.codes)
        for column in features.kept_columns():
            search.add(column, self._own_gram(column, features.widths), forced=True)
        return BinnedSelection(search, features, int(self._params.n_features_to_select))

    def _norms(self, features: Features) -> Floats:
        """Squared lengths of columns, and of knockoffs; of columns that are kept there are none."""
        ones = np.ones(len(features.owners))
        if not self._params.knockoffs:
            return ones
        candidates = [not features.is_kept(column) for column in range(len(ones))]
        return np.concatenate([ones, np.array(candidates, dtype=np.float64)])

    def _kept(self) -> frozenset[int]:
        """Own features that are in from the start."""
        assert self._table is not None  # noqa: S101 - asked only if there is one
        names = self._table.feature_names
        if self._params.keep_own:
            return frozenset(range(len(names)))
        return frozenset(names.index(name) for name in self._params.adjust)

    def _stacked(
        self, products: Mapping[str, Floats], widths: Mapping[str, Any], n_columns: int
    ) -> Floats:
        """Products of all parties in the order of the search, without those of directions."""
        halves: tuple[list[Floats], list[Floats]] = ([], [])
        for party, own in widths.items():
            n_own = int(own.sum())
            nothing = np.zeros((n_own, n_columns))
            found = products[party] if n_own else nothing
            # Columns that are kept have no knockoffs.
            has_two = party != self._party or self._columns.shape[1] > n_own
            halves[0].append(found[:n_own])
            halves[1].append(found[n_own : 2 * n_own] if has_two else nothing)
        return np.concatenate(halves[0] + (halves[1] if self._params.knockoffs else []))

    def _own_gram(self, column: int, widths: Mapping[str, Any]) -> Floats:
        """Products of one of the own columns, or of its knockoff, with all columns."""
        own = self._columns
        products = {self._party: own.T @ own[:, [column]]}
        products |= {p: found[:, [column]] for p, found in self._opened["own"].items()}
        return self._stacked(products, widths, 1)[:, 0]

    async def _search(
        self, selection: Selection, offers: Mapping[str, messages.Offer], net: Network
    ) -> None:
        """One column after the other, until there are enough."""
        rounds = 0
        while (column := selection.next_column()) is not None:
            party, place = selection.features.place_of(column)
            if party == self._party:
                gram = self._own_gram(place, selection.features.widths)
            else:
                if rounds == len(self._grams):
                    products = await self._products_with(party, place, rounds, offers, net)
                    widths = selection.features.widths
                    self._grams.append(self._stacked(products, widths, 1)[:, 0])
                    await self.done(net)
                gram, rounds = self._grams[rounds], rounds + 1
            step = selection.search.add(column, gram)
            if step is not None:  # the last bin of a feature, or a column of its own
                name = f"unnamed column {len(selection.search.selected)}"
                score = step if isinstance(step, float) else step.statistic
                self.note(step="add", party=party, feature=name, score=score)

    async def _products_with(
        self,
        owner: str,
        place: int,
        number: int,
        offers: Mapping[str, messages.Offer],
        net: Network,
    ) -> dict[str, Floats]:
        """Products of a selected column with all others."""
        counts = {p: self._n_columns(o) for p, o in offers.items()}
        wanted = messages.ColumnWanted(number, place, max(counts.values()))
        (told,) = await net.ask("feature holder", {owner: wanted}, messages.OpenedProducts)
        others = [party for party in offers if party != owner]
        with errors_belong_to(owner, "ColumnWanted", 3):
            own = told.own.array(shape=(counts[owner],)).astype(np.float64)
            if set(told.masked) != set(others):
                raise PartyFailed(owner, "ColumnWanted", 3, "products of some party are missing")
        found = {owner: self._checked(owner, own[:, None])}
        if self._own.n_columns:
            found[self._party] = self._opened["own"][owner][place][:, None]
        if others:
            ask = dict.fromkeys(others, messages.MasksWanted(number))
            replies = await net.ask("feature holder", ask, messages.Masks)
            for party, reply in zip(others, replies, strict=True):
                with errors_belong_to(party, "MasksWanted", 3):
                    values = _unmask(told.masked[party], reply.masks, counts[party])
                found[party] = self._checked(party, values[:, None])
        return found

    def _gains(self, offers: Mapping[str, messages.Offer]) -> dict[str, tuple[float, float]]:
        """What all columns of a party add to the own columns that are kept."""
        labels, own, kept = self._ready(), self._own.values, self._kept_columns()
        gram, of_labels = own[:, kept].T @ own[:, kept], own[:, kept].T @ labels
        gains = {}
        for party, offer in offers.items():
            if not offer.n_directions:
                continue
            n_columns = self._n_columns(offer)
            mixed = np.empty((offer.n_directions, 0))
            if kept:
                mixed = self._opened["own"][party][n_columns:][:, kept]
            with_labels = self._opened["labels"][party][n_columns:]
            gains[party] = gain_of(with_labels, mixed, gram, of_labels, self._n_rows)
        return gains

    def _kept_columns(self) -> list[int]:
        if self._table is None:
            return []
        kept, owners = self._kept(), self._own.owners.tolist()
        return [column for column, feature in enumerate(owners) if feature in kept]

    def _ready(self) -> Floats:
        assert self._labels is not None  # noqa: S101 - made before anything else
        return self._labels

    def checkpoint(self) -> State:
        """Everything that was opened."""
        return {"opened": self._opened, "grams": self._grams, "turn": self._turn}

    def restore(self, saved: State) -> None:
        """Go on after the last selected column; keys are made anew."""
        self._opened, self._grams = saved["opened"], list(saved["grams"])
        self._turn = saved["turn"]
        self._own = self._columns_made()

    def facts(self) -> dict[str, Any]:
        """What this party knows of its own columns."""
        if self._table is None:
            return {"names": [], "remarks": []}
        names = list(self._table.feature_names)
        return {"names": names, "remarks": remarks(self._party, self._table, self._own)}


def _unmask(masked: MaskedArray, masks: MaskedArray, count: int) -> Floats:
    """Products from what their column's owner opened and what was added to them."""
    shape = (count, MASK_LIMBS)
    opened, added = (from_limbs(one.array(shape=shape)) for one in (masked, masks))
    products = [total - mask for total, mask in zip(opened, added, strict=True)]
    if any(abs(product) >> (2 * VALUE_BITS + 2) for product in products):
        raise BadFrame(
            "Masked products and masks do not belong together.",
            "What is left without the masks is a product of two columns of length 1.",
            "Check that all parties run the same job.",
        )
    return np.array([float(product) for product in products]) * 2.0 ** (-2 * VALUE_BITS)


PROTOCOL = Protocol(name="stepwise", messages=messages.MESSAGES, roles=(LabelHolder, FeatureHolder))


def build_nodes(
    tables: Mapping[str, PartyTable],
    label_holder: str,
    target: Target,
    n_rows: int,
    params: Params,
    checkpoints: Path | None = None,
) -> dict[str, Sequence[Role]]:
    """One node per party: the label holder drives, everybody else holds features."""
    own = tables.get(label_holder)
    holder = make_role(LabelHolder, label_holder, own, target, n_rows, params, checkpoints)
    nodes: dict[str, Sequence[Role]] = {label_holder: (holder,)}
    for party, table in tables.items():
        if party != label_holder:
            nodes[party] = (make_role(FeatureHolder, table, params, checkpoints),)
    return nodes


__all__ = ["PROTOCOL", "FeatureHolder", "LabelHolder", "build_nodes"]
