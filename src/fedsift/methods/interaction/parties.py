# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The two roles of the interaction protocol that answer: feature owners and the cloud server."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.crypto.modular import Residues, random_integers
from fedsift.crypto.products.bgv import ColumnHolder, ProductCloud, hold_columns, join_products
from fedsift.crypto.products.plan import plan_products
from fedsift.crypto.products.shares import Residue, product_factors, taylor_factors
from fedsift.crypto.wire import Ciphertexts
from fedsift.data.state_files import State
from fedsift.data.table import PartyTable
from fedsift.errors import BadFrame, ColumnError, ParameterError
from fedsift.methods.checks import check_row_count, check_setting
from fedsift.methods.interaction import fixed_point as fixed
from fedsift.methods.interaction import measures, messages
from fedsift.methods.interaction.messages import Params
from fedsift.protocol import Network, handles
from fedsift.protocol.resume import Resumable

Floats = npt.NDArray[np.float64]


def check_columns(table: PartyTable, measure: str) -> Floats:
    """All columns as numbers, missing ones as NaN; categories have no mean and no product."""
    for column in table.columns:
        if column.kind != "numeric":
            raise ColumnError(
                f"Column {column.name!r} of party {table.name!r} holds categories.",
                f"The measure {measure!r} needs numbers.",
                "Drop the column, or turn it into 0/1 columns first.",
            )
    return table.numeric_matrix()


class FeatureOwner(Resumable, name="feature owner", signals=messages.OWNER_SIGNALS):
    """Owns columns; encrypts them for the cloud and learns which of its features were selected."""

    def __init__(self, table: PartyTable, params: Params, checkpoints: Path | None = None) -> None:
        self.keep_checkpoints(checkpoints, table.name, params, table)
        self._table = table
        self._params = params
        self._values = check_columns(table, params.measure)
        constant = measures.constant_columns(self._values, params.measure)
        rng = secret_order(params.seed, table.name)
        # Constant columns tell nothing and stay at home; they are listed last.
        self._order = np.concatenate(
            [rng.permutation(np.flatnonzero(~constant)), rng.permutation(np.flatnonzero(constant))]
        )
        self._n_constant = int(constant.sum())
        self._own = self._usable_columns()
        self._holder: ColumnHolder | None = None
        self._selected: tuple[int, ...] = ()

    def _usable_columns(self) -> fixed.OwnColumns:
        usable = self._order[: self.n_usable]
        return fixed.own_columns(self._values[:, usable], self._params.measure)

    @property
    def n_usable(self) -> int:
        """Features that are not constant."""
        return self._table.n_columns - self._n_constant

    @handles(messages.Introduction)
    async def offer(self, ask: messages.Introduction, net: Network) -> messages.Offer:
        """Check that the job fits its own table, and say how many features there are."""
        check_row_count("label owner", ask.n_rows, self._table.n_rows)
        check_setting("label owner", "measure", ask.measure, self._params.measure)
        return messages.Offer(self._table.n_columns, self._n_constant)

    @handles(messages.ColumnKey)
    async def send_columns(self, told: messages.ColumnKey, net: Network) -> None:
        """Setup: encrypt every usable column and send it to the cloud, never to the label owner."""
        bits = fixed.scales_of(self._params.measure, self._table.n_rows).result_bits
        plan = plan_products(self._table.n_rows, 1, (self.n_usable,), bits)
        with self.clock("encrypt"):
            self._holder = hold_columns(told.keys, plan)
            columns = self._holder.encrypt_columns(self._own.values)
            scalars = Ciphertexts(told.keys.scheme, ())
            if measures.is_binary(self._params.measure):
                scalars = self._holder.encrypt_scalars(self._own.scalars)
        await net.tell("cloud server", messages.EncryptedColumns(net.party, columns, scalars))

    @handles(messages.MateWanted)
    async def send_mate(self, ask: messages.MateWanted, net: Network) -> messages.MateColumn:
        """Phase 2: one of its own features was selected; repeat it over the slots."""
        if self._holder is None or not 0 <= ask.feature < self.n_usable:
            raise _unknown_feature(self.n_usable)
        with self.clock("encrypt"):
            return messages.MateColumn(self._holder.encrypt_mate(self._own.values[:, ask.feature]))

    @handles(messages.Selected)
    async def take_selection(self, told: messages.Selected, net: Network) -> None:
        """Remember which of its own features were chosen."""
        n_features = self._table.n_columns
        if len(set(told.features)) != len(told.features) or not all(
            0 <= f < n_features for f in told.features
        ):
            raise _unknown_feature(n_features)
        self._selected = told.features

    def checkpoint(self) -> State:
        """The secret order, in which the label owner knows this party's features."""
        return {"order": self._order}

    def restore(self, saved: State) -> None:
        """Go on with the same order."""
        self._order = saved["order"]
        self._own = self._usable_columns()

    def facts(self) -> dict[str, Any]:
        """Names behind the numbers; read only where the data of this party is."""
        names = [self._table.feature_names[i] for i in self._order]
        missing = sum(bool(column.missing.any()) for column in self._table.columns)
        remarks = []
        if self._n_constant:
            remarks.append(f"{self._table.name}: {self._n_constant} constant features come last.")
        if missing:
            as_what = "below" if measures.is_binary(self._params.measure) else "as"
            remarks.append(
                f"{self._table.name}: missing values of {missing} features count {as_what} "
                "their mean."
            )
        made = 0 if self._holder is None else self._holder.n_encryptions
        return {
            "names": names,
            "selected": [names[i] for i in self._selected],
            "remarks": remarks,
            "operations": {"encryptions": made},
        }


class CloudServer(Resumable, name="cloud server", signals=messages.CLOUD_SIGNALS):
    """Computes on ciphertexts with one share of every number; holds no key and no data."""

    def __init__(
        self, params: Params, party: str = "cloud", checkpoints: Path | None = None
    ) -> None:
        self.keep_checkpoints(checkpoints, party, params)
        self._params = params
        self._kernel: ProductCloud | None = None
        self._columns: dict[str, messages.EncryptedColumns] = {}
        self._owners: list[tuple[str, int]] = []
        self._remaining: list[int] = []
        self._selected: list[int] = []
        self._masks: dict[str, Residues] = {}
        self._mate = -1

    @handles(messages.Setup)
    async def set_up(self, told: messages.Setup, net: Network) -> None:
        """Keys and sizes; the plan is the same that the label owner made."""
        known = set(net.members("feature owner"))
        if not set(told.owners) <= known or len(told.owners) != len(told.n_features):
            raise BadFrame(
                "The setup names parties that own no features.",
                "Owners and their numbers of features must match the placement of roles.",
                "Check that all parties run the same job.",
            )
        self._scales = fixed.scales_of(self._params.measure, told.n_rows)
        plan = plan_products(told.n_rows, told.n_classes, told.n_features, self._scales.result_bits)
        self._owners = list(zip(told.owners, told.n_features, strict=True))
        self._kernel = join_products(told.keys, plan)
        self._ring = Residue(plan.moduli)

    @handles(messages.EncryptedColumns)
    async def take_columns(self, told: messages.EncryptedColumns, net: Network) -> None:
        """Checked and kept until the labels come."""
        places = [i for i, (owner, _) in enumerate(self._owners) if owner == told.owner]
        if len(places) != 1 or told.owner in self._columns:
            raise BadFrame(
                "Columns arrived twice, or from a party that owns no usable feature.",
                "Every owner that the setup names sends its columns once.",
                "Check that all parties run the same job.",
            )
        with self.clock("evaluate"):
            self._ready().take_columns(told.columns, places[0])
        self._columns[told.owner] = told

    @handles(messages.EncryptedLabels)
    async def class_sums(
        self, told: messages.EncryptedLabels, net: Network
    ) -> messages.MaskedColumns:
        """Phase 1: masked columns and corrections of all features."""
        kernel = self._ready()
        every = range(kernel.plan.n_features)
        self._remaining = [feature for feature in every if feature not in self._selected]
        self._mate = -1
        with self.clock("evaluate"):
            kernel.take_labels(told.labels)
            masked, corrections, masks = kernel.masked_sums(every)
            self._masks["sums"] = with_total(self._ring, masks)
            scalars = self._mask_scalars()
        return messages.MaskedColumns(masked, corrections, scalars)

    def _mask_scalars(self) -> Ciphertexts:
        """Factors of entropies become shares as well."""
        kernel, width = self._ready(), fixed.n_scalars(self._params.measure)
        if not width:
            return Ciphertexts("plain" if self._params.scheme == "plain" else "bgv", ())
        counts = [n * width for _, n in self._owners]
        sealed, masks = kernel.mask_scalars(
            [self._columns[owner].scalars for owner, _ in self._owners], counts
        )
        self._masks["scalars"] = masks.reshape(len(masks), -1, width)
        return sealed

    @handles(messages.SquaresWanted)
    async def squares(self, ask: messages.SquaresWanted, net: Network) -> messages.MaskedProducts:
        """Class sums of all squared columns."""
        with self.clock("evaluate"):
            every = range(self._ready().plan.n_features)
            masked, corrections, masks = self._ready().masked_sums(every, squared=True)
            self._masks["squares"] = with_total(self._ring, masks)
        return messages.MaskedProducts(masked, corrections)

    @handles(messages.CheckTerms)
    async def check_binary(self, told: messages.CheckTerms, net: Network) -> messages.SealedCheck:
        """``sum x^2 - x`` is zero for binary columns only; a random factor hides how far off."""
        ring = self._ring
        excess = not_binary(ring, self._masks["squares"], self._masks["sums"])
        factors = ring.uniform(excess.shape[1:])
        with self.clock("evaluate"):
            sealed = self._ready().inner(told.terms, factors, ring.multiply(factors, excess))
        return messages.SealedCheck(sealed)

    @handles(messages.Mate)
    async def products(self, told: messages.Mate, net: Network) -> messages.MaskedProducts:
        """Phase 2: products of the selected column with every remaining one."""
        kernel = self._ready()
        if told.feature not in self._remaining:
            raise _unknown_feature(kernel.plan.n_features)
        owner, number = self._owner_of(told.feature)
        (mate,) = await net.ask(
            "feature owner", {owner: messages.MateWanted(number)}, messages.MateColumn
        )
        self._remaining.remove(told.feature)
        self._selected.append(told.feature)
        self._mate = told.feature
        with self.clock("evaluate"):
            masked, corrections, masks = kernel.masked_sums(self._remaining, mate.column)
            self._masks["products"] = with_total(self._ring, masks)
        return messages.MaskedProducts(masked, corrections)

    @handles(messages.Terms)
    async def keep_shared(self, told: messages.Terms, net: Network) -> messages.MaskedTerms:
        """A computation whose result nobody may see yet."""
        with self.clock("evaluate"):
            if told.step == "information":
                sealed, masks = self._answer(told.terms, self._alone_factors(), (1, 3))
                self._masks["information"] = masks
            elif told.step == "covariance":
                sealed, masks = self._answer(told.terms, self._covariance_factors(), (1,))
                self._masks["covariance"] = masks
            elif told.step == "joint":
                sealed, masks = self._answer(told.terms, self._joint_factors(), (1, 3, 4))
                alone = self._masks["information"]
                both = self._ring.add(alone[:, self._remaining], alone[:, [self._mate]])
                self._masks["gain"] = self._ring.add(masks, self._ring.negate(both))
            else:
                raise _unknown_step(told.step)
        return messages.MaskedTerms(sealed)

    @handles(messages.RelevanceTerms)
    async def relevance(
        self, told: messages.RelevanceTerms, net: Network
    ) -> messages.SealedRelevance:
        """End of phase 1: the sums open to one relevance per feature."""
        return messages.SealedRelevance(self._open_relevance(told.terms))

    @handles(messages.ShuffledTerms)
    async def shuffled(
        self, told: messages.ShuffledTerms, net: Network
    ) -> messages.ShuffledRelevance:
        """The same for shuffled labels."""
        return messages.ShuffledRelevance(self._open_relevance(told.terms))

    def _open_relevance(self, terms: Ciphertexts) -> Ciphertexts:
        with self.clock("evaluate"):
            if measures.is_binary(self._params.measure):
                parts = [self._masks["information"][:, :, None], self._masks["scalars"]]
                factors = product_factors(self._ring, parts)
            else:
                factors = self._alone_factors()
            return self._open(terms, factors, (1, 3), self._scales.relevance_bits)

    @handles(messages.WeightTerms)
    async def weights(self, told: messages.WeightTerms, net: Network) -> messages.SealedWeights:
        """End of a round: the sums open to one weight per remaining feature."""
        with self.clock("evaluate"):
            if measures.is_binary(self._params.measure):
                scalars = self._masks["scalars"]
                mine, mate = scalars[:, self._remaining], scalars[:, [self._mate]]
                parts = [self._masks["gain"][:, :, None], mine, mate]
                factors = product_factors(self._ring, parts)
            else:
                factors = taylor_factors(self._ring, self._masks["covariance"], 2)
            sealed = self._open(told.terms, factors, (1, 3), self._scales.weight_bits)
        return messages.SealedWeights(sealed)

    def _alone_factors(self) -> Residues:
        degree = len(measures.TAYLOR) - 1
        if not measures.is_binary(self._params.measure):
            degree = 2
        return taylor_factors(self._ring, self._masks["sums"], degree)

    def _covariance_factors(self) -> Residues:
        """Of ``n_j S - s_f s_s``."""
        sums, products = self._masks["sums"], self._masks["products"]
        mine, mate = sums[:, self._remaining], sums[:, [self._mate]]
        pair = product_factors(self._ring, [mine, mate])
        return np.concatenate([pair, products[:, None]], axis=1)

    def _joint_factors(self) -> Residues:
        """Of the polynomials of the four cell counts."""
        ring, sums, both = self._ring, self._masks["sums"], self._masks["products"]
        mine = sums[:, self._remaining]
        mate = np.broadcast_to(sums[:, [self._mate]], mine.shape)
        cells = shared_cells(ring, both, mine, mate)
        degree = len(measures.TAYLOR) - 1
        return taylor_factors(ring, cells, degree)

    def _answer(
        self, terms: Ciphertexts, factors: Residues, axes: tuple[int, ...]
    ) -> tuple[Ciphertexts, Residues]:
        """Terms times factors under fresh masks; the cloud's share of the sums over ``axes``."""
        flat = factors.reshape(len(factors), -1)
        shares = self._ring.uniform((flat.shape[1],))
        sealed = self._ready().inner(terms, flat, shares)
        kept = self._ring.total(shares.reshape(factors.shape), axes)
        return sealed, self._ring.negate(kept)

    def _open(
        self, terms: Ciphertexts, factors: Residues, axes: tuple[int, ...], scale_bits: int
    ) -> Ciphertexts:
        """Terms times factors under masks that add up to the low-bit noise."""
        ring = self._ring
        shares = ring.uniform(factors.shape[1:])
        surplus = ring.total(shares, axes)
        wanted = ring.of(self._low_bits(surplus.shape[1], scale_bits))
        first = shares[:, 0, :, 0]
        shares[:, 0, :, 0] = ring.add(first, ring.add(wanted, ring.negate(surplus)))
        flat = factors.reshape(len(factors), -1)
        return self._ready().inner(terms, flat, shares.reshape(flat.shape))

    def _low_bits(self, count: int, scale_bits: int) -> npt.NDArray[np.object_]:
        """Noise that blurs opened numbers, uniform in +-2**-noise_bits of their unit."""
        if self._params.noise_bits is None:
            return np.zeros(count, dtype=object)
        # Never from a seed: the label owner knows the job's seed and would take the noise off.
        width = scale_bits - self._params.noise_bits
        draws = random_integers(width + 1, count)
        return np.array([draw - (1 << width) for draw in draws], dtype=object)

    def _owner_of(self, feature: int) -> tuple[str, int]:
        for owner, count in self._owners:
            if feature < count:
                return owner, feature
            feature -= count
        raise _unknown_feature(sum(count for _, count in self._owners))

    def _ready(self) -> ProductCloud:
        if self._kernel is None:
            raise BadFrame(
                "Ciphertexts arrived before the keys.",
                "The setup comes first.",
                "Check that all parties run the same job.",
            )
        return self._kernel

    def checkpoint(self) -> State:
        """Which features were selected; shares and ciphertexts are made anew."""
        return {"selected": self._selected}

    def restore(self, saved: State) -> None:
        """Go on after the last selected feature."""
        self._selected = saved["selected"]

    def facts(self) -> dict[str, Any]:
        """How much was computed."""
        counts = {} if self._kernel is None else self._kernel.counts
        return {"names": [], "remarks": [], "operations": counts}


def with_total(ring: Residue, shares: Residues) -> Residues:
    """Class sums and, as one more slot, their sum: all rows together."""
    return np.concatenate([shares, ring.total(shares, (2,))[:, :, None]], axis=2)


def not_binary(ring: Residue, squares: Residues, sums: Residues) -> Residues:
    """Shares of ``sum x^2 - x`` over all rows: integers only cancel if all are 0 or 1."""
    return ring.add(squares[:, :, -1], ring.negate(sums[:, :, -1]))


def shared_cells(ring: Residue, both: Residues, mine: Residues, mate: Residues) -> Residues:
    """Shares of the four cell counts, without the class sizes that the label owner adds."""
    less = ring.negate(both)
    neither = ring.add(both, ring.negate(ring.add(mine, mate)))
    return np.stack([both, ring.add(mine, less), ring.add(mate, less), neither], axis=-1)


def secret_order(seed: int | None, name: str) -> np.random.Generator:
    """Source of a party's secret orders: the operating system's entropy, or a simulation's seed."""
    if seed is None:
        return np.random.default_rng(secrets.randbits(128))
    return np.random.default_rng([seed, *name.encode()])


def _unknown_feature(n_features: int) -> ParameterError:
    return ParameterError(
        "A message names a feature that is not there, or was selected before.",
        f"Feature numbers run from 0 to {n_features - 1}.",
        "Check that all parties run the same job.",
    )


def _unknown_step(step: str) -> BadFrame:
    return BadFrame(
        f"A message asks for the step {step[:20]!r}.",
        "Known steps are information, covariance and joint.",
        "Check that all parties run the same version of fedsift.",
    )
