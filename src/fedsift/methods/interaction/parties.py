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
from fedsift.methods.checks import check_row_count, check_setting, has_few_rows
from fedsift.methods.interaction import fixed_point as fixed
from fedsift.methods.interaction import measures, messages
from fedsift.methods.interaction.messages import Params
from fedsift.methods.interaction.pairs import (
    Integers,
    Pairs,
    Wanted,
    not_binary,
    pair_up,
    shared_cells,
    start_pairs,
    with_total,
)
from fedsift.protocol import Network, handles
from fedsift.protocol.resume import Resumable


def check_columns(table: PartyTable, measure: str) -> None:
    """Categories have no mean to be cut at."""
    for column in table.columns:
        if column.kind != "numeric" and measures.is_binary(measure):
            raise ColumnError(
                f"Column {column.name!r} of party {table.name!r} holds categories.",
                f"The measure {measure!r} needs numbers.",
                "Use the measure 'miw', or turn the column into 0/1 columns first.",
            )


class FeatureOwner(Resumable, name="feature owner", signals=messages.OWNER_SIGNALS):
    """Owns columns; encrypts them for the cloud and learns which of its features were selected."""

    def __init__(
        self,
        table: PartyTable,
        params: Params,
        checkpoints: Path | None = None,
        smallest: int = 1,
    ) -> None:
        self.keep_checkpoints(checkpoints, table.name, params, table)
        self._table = table
        self._params = params
        check_columns(table, params.measure)
        self._parts = measures.prepare(table.columns, params.measure)
        # Of the label owner: what marks single rows would read others' values in them.
        leaning = _leaning(self._parts, smallest)
        constant = self._parts.constant | leaning
        self._n_leaning, self._smallest = int(leaning.sum()), smallest
        rng = secret_order(params.seed, table.name)
        # Constant columns tell nothing and stay at home; they are listed last.
        self._order = np.concatenate(
            [rng.permutation(np.flatnonzero(~constant)), rng.permutation(np.flatnonzero(constant))]
        )
        self._n_constant = int(constant.sum())
        self._take_usable()
        self._holder: ColumnHolder | None = None
        self._selected: tuple[int, ...] = ()

    def _take_usable(self) -> None:
        usable = self._parts.take(self._order[: self.n_usable].tolist())
        self._feature = usable.feature
        self._own = fixed.own_columns(usable, self._params.measure)

    @property
    def n_usable(self) -> int:
        """Features that are not constant."""
        return self._table.n_columns - self._n_constant

    @handles(messages.Introduction)
    async def offer(self, ask: messages.Introduction, net: Network) -> messages.Offer:
        """Check that the job fits its own table, and say how many features there are."""
        check_row_count("label owner", ask.n_rows, self._table.n_rows)
        check_setting("label owner", "measure", ask.measure, self._params.measure)
        parts = tuple(np.bincount(self._feature, minlength=self.n_usable).tolist())
        return messages.Offer(self._table.n_columns, self._n_constant, parts)

    @handles(messages.ColumnKey)
    async def send_columns(self, told: messages.ColumnKey, net: Network) -> None:
        """Setup: encrypt every usable column and send it to the cloud, never to the label owner."""
        bits = fixed.scales_of(self._params.measure, self._table.n_rows).result_bits
        plan = plan_products(self._table.n_rows, 1, (len(self._feature),), bits)
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
        return messages.MateColumn(self._mates((ask.feature,)))

    @handles(messages.MatesWanted)
    async def send_mates(self, ask: messages.MatesWanted, net: Network) -> messages.MateColumns:
        """Pair start: the same for several of its own features."""
        return messages.MateColumns(self._mates(ask.features))

    def _mates(self, features: tuple[int, ...]) -> Ciphertexts:
        """All parts of some features."""
        known = all(0 <= feature < self.n_usable for feature in features)
        if self._holder is None or not known or list(features) != sorted(set(features)):
            raise _unknown_feature(self.n_usable)
        with self.clock("encrypt"):
            wanted = np.isin(self._feature, features)
            return self._holder.encrypt_mates(self._own.values[:, wanted])

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
        self._take_usable()

    def facts(self) -> dict[str, Any]:
        """Names behind the numbers; read only where the data of this party is."""
        names = [self._table.feature_names[i] for i in self._order]
        missing = sum(bool(column.missing.any()) for column in self._table.columns)
        remarks = []
        n_constant = self._n_constant - self._n_leaning
        if n_constant:
            remarks.append(f"{self._table.name}: {n_constant} constant features come last.")
        if self._n_leaning:
            remarks.append(
                f"{self._table.name}: {self._n_leaning} features take no part and come last: one "
                f"row carries more than a share of 1/{self._smallest} of their variance "
                "(min_class_size). Cap extreme values to use them."
            )
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
        self._selected: list[int] = []
        self._candidates: list[int] = []
        self._masks: dict[str, Residues] = {}
        self._pairs: Pairs | None = None

    @handles(messages.Setup)
    async def set_up(self, told: messages.Setup, net: Network) -> None:
        """Keys and sizes; the plan is the same that the label owner made."""
        known = set(net.members("feature owner"))
        if not set(told.owners) <= known or len(told.owners) != len(told.parts):
            raise BadFrame(
                "The setup names parties that own no features.",
                "Owners and their numbers of features must match the placement of roles.",
                "Check that all parties run the same job.",
            )
        self._scales = fixed.scales_of(self._params.measure, told.n_rows)
        n_vectors, n_parts = self._params.n_vectors, [sum(own) for own in told.parts]
        bits = self._scales.result_bits
        plan = plan_products(told.n_rows, told.n_classes * n_vectors, n_parts, bits)
        self._owners = [(p, len(own)) for p, own in zip(told.owners, told.parts, strict=True)]
        self._parts = np.array([n for own in told.parts for n in own], dtype=np.int64)
        self._feature = np.repeat(np.arange(len(self._parts)), self._parts)
        self._n_slots = told.n_classes + 1
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
        self._pairs = None
        with self.clock("evaluate"):
            kernel.take_labels(told.labels)
            masked, corrections, masks = kernel.masked_sums(every)
            self._masks["sums"] = with_total(self._ring, masks, self._params.n_vectors)
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
        self._ready()
        n_features = len(self._parts)
        if not 0 <= told.feature < n_features or told.feature in self._selected:
            raise _unknown_feature(n_features)
        owner, number = self._owner_of(told.feature)
        (mate,) = await net.ask(
            "feature owner", {owner: messages.MateWanted(number)}, messages.MateColumn
        )
        self._selected.append(told.feature)
        known = self._candidates if told.feature in self._candidates else []
        gone = {*self._selected, *known}
        others = [feature for feature in range(n_features) if feature not in gone]
        return self._products([(told.feature, others)], [mate.column])

    @handles(messages.PairsWanted)
    async def start(self, told: messages.PairsWanted, net: Network) -> messages.MaskedProducts:
        """Before phase 2: products of all pairs of some features."""
        self._ready()
        features, mates = list(told.features), list(told.mates)
        n_features = len(self._parts)
        sound = features == sorted(set(features)) and mates == sorted(set(mates))
        if not (sound and mates and set(mates) <= set(features) <= set(range(n_features))):
            raise _unknown_feature(n_features)
        self._candidates = features
        asked: dict[str, list[int]] = {}
        for mate in mates:
            owner, number = self._owner_of(mate)
            asked.setdefault(owner, []).append(number)
        wanted = {p: messages.MatesWanted(tuple(numbers)) for p, numbers in asked.items()}
        replies = await net.ask("feature owner", wanted, messages.MateColumns)
        columns = [reply.columns for reply in replies]
        return self._products(start_pairs(self._parts, features, mates), columns)

    def _products(self, wanted: Wanted, mates: list[Ciphertexts]) -> messages.MaskedProducts:
        if not wanted or not all(others for _, others in wanted):
            raise _unknown_feature(len(self._parts))
        self._pairs = pair_up(self._feature, wanted)
        with self.clock("evaluate"):
            masked, corrections, masks = self._ready().masked_pairs(self._pairs.jobs, mates)
            self._masks["products"] = with_total(self._ring, masks, self._params.n_vectors)
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
                alone, pairs = self._masks["information"], self._paired()
                both = self._ring.add(alone[:, pairs.left], alone[:, pairs.right])
                self._masks["gain"] = self._ring.add(masks, self._ring.negate(both))
            else:
                raise _unknown_step(told.step)
        return messages.MaskedTerms(sealed)

    @handles(messages.RelevanceTerms)
    async def relevance(
        self, told: messages.RelevanceTerms, net: Network
    ) -> messages.SealedRelevance:
        """End of phase 1: the sums open to one relevance per feature."""
        return messages.SealedRelevance(self._open_relevance(told.terms, 0))

    @handles(messages.ShuffledTerms)
    async def shuffled(
        self, told: messages.ShuffledTerms, net: Network
    ) -> messages.ShuffledRelevance:
        """The same for shuffled labels."""
        if not 0 <= told.vector < self._params.n_vectors:
            raise _unknown_step("a vector of labels that is not there")
        return messages.ShuffledRelevance(self._open_relevance(told.terms, told.vector))

    def _section(self, factors: Residues, vector: int) -> Residues:
        """Slots of one vector of labels."""
        return factors[..., vector * self._n_slots : (vector + 1) * self._n_slots]

    def _open_relevance(self, terms: Ciphertexts, vector: int) -> Ciphertexts:
        with self.clock("evaluate"):
            if measures.is_binary(self._params.measure):
                parts = [self._masks["information"][:, :, None], self._masks["scalars"]]
                factors = product_factors(self._ring, parts)
            else:
                factors = self._section(self._alone_factors(), vector)
            return self._open(terms, factors, self._feature, self._scales.relevance_bits)

    @handles(messages.WeightTerms)
    async def weights(self, told: messages.WeightTerms, net: Network) -> messages.SealedWeights:
        """End of a round: the sums open to one weight per remaining feature."""
        return messages.SealedWeights(self._open_weights(told.terms, 0))

    @handles(messages.PairTerms)
    async def pair_weights(self, told: messages.PairTerms, net: Network) -> messages.SealedPairs:
        """End of a pair start: one weight per pair."""
        return messages.SealedPairs(self._open_weights(told.terms, 0))

    @handles(messages.ShuffledWeightTerms)
    async def shuffled_weights(
        self, told: messages.ShuffledWeightTerms, net: Network
    ) -> messages.ShuffledWeights:
        """Either for shuffled labels."""
        if self._params.n_vectors == 1:
            raise _unknown_step("shuffled weights")
        return messages.ShuffledWeights(self._open_weights(told.terms, 1))

    def _open_weights(self, terms: Ciphertexts, vector: int) -> Ciphertexts:
        pairs = self._paired()
        with self.clock("evaluate"):
            if measures.is_binary(self._params.measure):
                scalars = self._masks["scalars"]
                mine, mate = scalars[:, pairs.left], scalars[:, pairs.right]
                parts = [self._masks["gain"][:, :, None], mine, mate]
                factors = product_factors(self._ring, parts)
            else:
                shared = self._section(self._masks["covariance"], vector)
                factors = taylor_factors(self._ring, shared, 2)
            return self._open(terms, factors, pairs.group, self._scales.weight_bits)

    def _paired(self) -> Pairs:
        if self._pairs is None:
            raise _unknown_step("weights before products")
        return self._pairs

    def _alone_factors(self) -> Residues:
        degree = len(measures.TAYLOR) - 1
        if not measures.is_binary(self._params.measure):
            degree = 2
        return taylor_factors(self._ring, self._masks["sums"], degree)

    def _covariance_factors(self) -> Residues:
        """Of ``n_j S - s_f s_s``."""
        sums, products, pairs = self._masks["sums"], self._masks["products"], self._paired()
        mine, mate = sums[:, pairs.left], sums[:, pairs.right]
        pair = product_factors(self._ring, [mine, mate])
        return np.concatenate([pair, products[:, None]], axis=1)

    def _joint_factors(self) -> Residues:
        """Of the polynomials of the four cell counts."""
        ring, sums, both = self._ring, self._masks["sums"], self._masks["products"]
        mine, mate = sums[:, self._paired().left], sums[:, self._paired().right]
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
        self, terms: Ciphertexts, factors: Residues, group: Integers, scale_bits: int
    ) -> Ciphertexts:
        """Terms times factors under masks that add up to the low-bit noise of every group."""
        ring = self._ring
        shares = ring.uniform(factors.shape[1:])
        surplus = ring.grouped(ring.total(shares, (1, 3)), group)
        wanted = ring.of(self._low_bits(surplus.shape[1], scale_bits))
        places = np.unique(group, return_index=True)[1]
        first = shares[:, 0, places, 0]
        shares[:, 0, places, 0] = ring.add(first, ring.add(wanted, ring.negate(surplus)))
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
        return {"selected": self._selected, "candidates": self._candidates}

    def restore(self, saved: State) -> None:
        """Go on after the last selected feature."""
        self._selected, self._candidates = saved["selected"], saved["candidates"]

    def facts(self) -> dict[str, Any]:
        """How much was computed."""
        counts = {} if self._kernel is None else self._kernel.counts
        return {"names": [], "remarks": [], "operations": counts}


def secret_order(seed: int | None, name: str) -> np.random.Generator:
    """Source of a party's secret orders: the operating system's entropy, or a simulation's seed."""
    if seed is None:
        return np.random.default_rng(secrets.randbits(128))
    return np.random.default_rng([seed, *name.encode()])


def _leaning(parts: measures.Parts, smallest: int) -> npt.NDArray[np.bool_]:
    """Features of which fewer than ``smallest`` rows share the variance of some part."""
    few = [has_few_rows(part, smallest) for part in parts.values.T]
    return np.asarray(np.bincount(parts.feature, few, parts.n_features) > 0)


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
