# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Secure interaction-based feature selection: which features tell more together than alone.

Paper 001 (secure interaction-based feature selection under BGV), rebuilt so that it can run.

Setting   Parties hold different columns of the same rows; one of them holds the class label.
Roles     *label owner* (drives, owns the only secret key), *feature owner* (any number, the label
          owner's organisation may be one), *cloud server* (computes, holds neither key nor data).
Adversary Honest but curious. The cloud must not collude with the label owner: together they hold
          both shares of everything. The cloud with any feature owners learns no other column and
          no label: it has ciphertexts, they have a public key.

Who learns what
  cloud server    sizes of the job, and which unnamed features were selected, in order.
  feature owner   number of rows, and which of its own features were selected and when.
  label owner     per unnamed feature its relevance, and per round the interaction weights with the
                  feature just selected, blurred by uniform noise of 2**-16: the same information
                  as the R values that the paper lets it decrypt (R = w (1 + relevance)).
                  With ``n_features_to_select="auto"`` also relevances for shuffled labels; with
                  the paper's measures also that every column is binary.

The paper, line by line
  Alg. 1, 2  owners binarise and encrypt         FeatureOwner.send_columns
  Alg. 3     symmetric uncertainty of each       LabelOwner._relevance, CloudServer.relevance
  Alg. 4     interaction weights of each pair    LabelOwner._weights, CloudServer.weights
  Eq. 1, 6   R = w (1 + SU), w = w IW            LabelOwner._search
  last       LO decrypts, picks the largest      LabelOwner._search

Deviations, each with its reason
  - Entropy gets its minus sign back: as printed, interactions are punished and copies rewarded.
  - No ciphertext is divided. Class sizes are the label owner's own, so it folds them into
    polynomials that only it knows; entropies are their owner's own, so it sends 1/S and
    exponentials of S, and 1/(S_f + S_s) becomes a sum of their products.
  - Only the label owner has the secret key; the paper gives it to everybody.
  - The label owner keeps w in the clear. It could compute it from two successive R anyway, and
    with encrypted w the depth would grow with every round.
  - One product of two ciphertexts per pair is all the depth there is: masked products are opened
    as shares, and everything after that is a polynomial of shares (:mod:`.products_shares`).
  - The n x n matrix A is never used in the paper and not sent here.
  - The default measure ``miw`` needs no binarisation and no logarithm at all.

A malicious feature owner can send wrong columns; relevances and weights outside their possible
range are refused, and so are columns that are not binary where they must be (``sum x^2 - x`` opens
to zero or to a random number). Wrong columns within their range are not noticed.
A malicious label owner could ask for other polynomials than the agreed ones and learn other sums;
a malicious cloud could spoil results.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.crypto.modular import Residues
from fedsift.crypto.products.bgv import ProductOwner, own_products
from fedsift.crypto.products.plan import plan_products
from fedsift.crypto.products.shares import Residue, product_terms, taylor_terms
from fedsift.crypto.wire import Ciphertexts
from fedsift.data.state_files import State
from fedsift.data.table import PartyTable
from fedsift.data.target import Target
from fedsift.errors import PartyFailed
from fedsift.methods.interaction import measures as interaction
from fedsift.methods.interaction import messages
from fedsift.methods.interaction.fixed_point import LabelPlan, n_scalars
from fedsift.methods.interaction.messages import Params
from fedsift.methods.interaction.parties import (
    CloudServer,
    FeatureOwner,
    not_binary,
    shared_cells,
    with_total,
)
from fedsift.methods.interaction.ranking import Ranking, classes_of, no_trace, rank
from fedsift.protocol import Network, Protocol, Role, make_role
from fedsift.protocol.resume import ResumableDriver
from fedsift.protocol.role import errors_belong_to

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]

CLOUD = "cloud"
"""Party with the role of the cloud server in a simulation."""


class LabelOwner(
    ResumableDriver, name="label owner", signals=(messages.OWNER_SIGNALS, messages.CLOUD_SIGNALS)
):
    """Owns the label and the only secret key; learns relevances and weights, keeps w, picks."""

    def __init__(
        self,
        target: Target,
        n_rows: int,
        params: Params,
        party: str = "label owner",
        checkpoints: Path | None = None,
    ) -> None:
        self.keep_checkpoints(checkpoints, party, params, target)
        self._params = params
        self._n_rows = n_rows
        self._codes = classes_of(target, params.target_bins)
        self._plan = LabelPlan(params.measure, np.bincount(self._codes))
        self._rng = np.random.default_rng(params.seed)
        self._own: dict[str, Residues] = {}
        self._kernel: ProductOwner | None = None
        # What was opened so far: nothing of it is computed or blurred a second time.
        self._of_shuffled: list[float] = []
        self._of_features: Floats | None = None
        self._of_pairs: list[Floats] = []

    async def drive(self, net: Network) -> Ranking:
        """Setup, phase 1, then one round of phase 2 per selected feature."""
        await self.begin(net)
        parties = net.members("feature owner")
        hello = messages.Introduction(self._n_rows, self._params.measure)
        replies = await net.ask("feature owner", hello, messages.Offer)
        offers = dict(zip(parties, replies, strict=True))
        for party, offer in offers.items():
            if not 0 <= offer.n_constant <= offer.n_features:
                raise PartyFailed(party, "Introduction", 1, "its numbers of features do not fit")
        usable = {p: o.n_features - o.n_constant for p, o in offers.items()}
        self._owners = {p: n for p, n in usable.items() if n}
        self._features = tuple((p, i) for p, n in self._owners.items() for i in range(n))
        trace, threshold = no_trace(), None
        if self._features:
            if self._params.n_features_to_select is None:
                threshold = await self._threshold(net)
            trace = await self._search(net, threshold)
        n_select = self._params.n_features_to_select
        ranking = rank(trace, self._features, offers, n_select, threshold)
        await net.tell(
            "feature owner", {p: messages.Selected(ranking.selected[p]) for p in parties}
        )
        await self.finish(net)
        return ranking

    def checkpoint(self) -> State:
        """Relevances and weights that were opened."""
        return {
            "of_shuffled": self._of_shuffled,
            "of_features": self._of_features,
            "of_pairs": self._of_pairs,
        }

    def restore(self, saved: State) -> None:
        """Go on after the last selected feature; keys and shares are made anew."""
        self._of_shuffled = saved["of_shuffled"]
        self._of_features, self._of_pairs = saved["of_features"], saved["of_pairs"]

    async def _set_up(self, net: Network) -> None:
        """Keys for the cloud, a public key for the owners, columns from owners to the cloud."""
        if self._kernel is not None:
            return
        n_classes = self._plan.n_slots - 1
        counts = tuple(self._owners.values())
        plan = plan_products(self._n_rows, n_classes, counts, self._plan.scales.result_bits)
        with self.clock("encrypt"):
            self._kernel = own_products(plan, self._params.scheme)
        self._ring = Residue(plan.moduli)
        keys = self._kernel.evaluation_keys
        setup = messages.Setup(self._n_rows, n_classes, tuple(self._owners), counts, keys)
        await net.tell("cloud server", setup)
        key = messages.ColumnKey(self._kernel.column_keys)
        await net.tell("feature owner", dict.fromkeys(self._owners, key))

    async def _threshold(self, net: Network) -> float:
        """The largest R of any feature for shuffled labels: what chance reaches."""
        for number in range(self._params.n_shuffles):
            shuffled = self._rng.permutation(self._codes)
            if number < len(self._of_shuffled):
                continue
            terms, value = await self._relevance_terms(shuffled, net)
            (reply,) = await net.ask(
                "cloud server", messages.ShuffledTerms(terms), messages.ShuffledRelevance
            )
            opened = self._opened_relevance(reply.relevance, value)
            self._of_shuffled.append(float(opened.max()))
            await self.done(net)
        return 1.0 + max([0.0, *self._of_shuffled])

    async def _search(self, net: Network, threshold: float | None) -> interaction.Trace:
        """Phase 1 once, then select and weigh until there are enough."""
        if self._of_features is None:
            self._of_features = await self._relevance(net)
            await self.done(net)
        relevance = self._of_features
        n_features = len(relevance)
        wanted = self._params.n_features_to_select or n_features
        matrix = np.full((n_features, n_features), np.nan)
        scores, remaining = 1.0 + relevance, list(range(n_features))
        order: list[int] = []
        while remaining and len(order) < wanted:
            chosen = self._best(scores, remaining, len(order))
            if threshold is not None and order and scores[chosen] <= threshold:
                break
            order.append(chosen)
            remaining.remove(chosen)
            party, _ = self._features[chosen]
            # Counted as they are chosen: where it stands in its owner's secret order stays here.
            name = f"unnamed feature {len(order)}"
            self.note(step="select", party=party, feature=name, score=float(scores[chosen]))
            if remaining and len(order) < wanted:
                if len(order) > len(self._of_pairs):
                    self._of_pairs.append(await self._weights(chosen, remaining, net))
                    await self.done(net)
                matrix[remaining, chosen] = self._of_pairs[len(order) - 1]
                scores[remaining] *= matrix[remaining, chosen]
        return interaction.Trace(tuple(order), relevance, scores, matrix)

    def _best(self, scores: Floats, remaining: list[int], n_rounds: int) -> int:
        """The largest R; equal features must not be told apart by the noise, so the first wins."""
        largest = float(max(scores[f] for f in remaining))
        if self._params.noise_bits is None:
            return interaction.best_of(scores, remaining)
        noise = 2.0**-self._params.noise_bits * self._plan.blur(n_rounds)
        tie = 4.0 * math.sqrt(2.0) * noise * largest
        return next(f for f in remaining if scores[f] >= largest - tie)

    async def _relevance(self, net: Network) -> Floats:
        """Alg. 3: relevance of every feature to the label."""
        terms, value = await self._relevance_terms(self._codes, net)
        if interaction.is_binary(self._params.measure):
            await self._check_binary(net)
        (reply,) = await net.ask(
            "cloud server", messages.RelevanceTerms(terms), messages.SealedRelevance
        )
        return self._opened_relevance(reply.relevance, value)

    async def _relevance_terms(self, codes: Codes, net: Network) -> tuple[Ciphertexts, Residues]:
        """Class sums of all columns as shares, and the last terms of the relevance."""
        await self._set_up(net)
        kernel, ring = self._ready(), self._ring
        with self.clock("encrypt"):
            labels = messages.EncryptedLabels(kernel.encrypt_labels(codes))
        (reply,) = await net.ask("cloud server", labels, messages.MaskedColumns)
        with self.clock("decrypt"), errors_belong_to(CLOUD, "EncryptedLabels", 2):
            every = range(len(self._features))
            sums = kernel.open_sums(reply.masked, reply.corrections, every, codes)
            self._own["sums"] = with_total(ring, sums)
            self._open_scalars(reply.scalars)
        value, terms = taylor_terms(ring, self._plan.relevance_polynomial, self._own["sums"])
        if interaction.is_binary(self._params.measure):
            alone = await self._kept("information", value, terms, (2,), net)
            self._own["information"] = alone
            factors = ring.of(self._plan.relevance_factors)[:, None, :]
            value, terms = product_terms(ring, [alone[:, :, None], self._own["scalars"]], factors)
        self._shape = terms.shape
        with self.clock("encrypt"):
            return kernel.encrypt_vector(terms.reshape(len(terms), -1)), value

    async def _check_binary(self, net: Network) -> None:
        """Refuse columns that are not made of zeros and ones; learns nothing else about them."""
        kernel, every = self._ready(), range(len(self._features))
        (squares,) = await net.ask(
            "cloud server", messages.SquaresWanted(), messages.MaskedProducts
        )
        with self.clock("decrypt"), errors_belong_to(CLOUD, "SquaresWanted", 2):
            own = kernel.open_sums(squares.masked, squares.corrections, every, self._codes)
        excess = not_binary(self._ring, with_total(self._ring, own), self._own["sums"])
        check = messages.CheckTerms(kernel.encrypt_vector(excess))
        (reply,) = await net.ask("cloud server", check, messages.SealedCheck)
        with self.clock("decrypt"), errors_belong_to(CLOUD, "CheckTerms", 2):
            opened = kernel.open_vector(reply.check, len(self._features))
        for (party, _), off in zip(self._features, opened.max(axis=0).tolist(), strict=True):
            if off:
                reason = "one of its columns is not made of zeros and ones"
                raise PartyFailed(party, "EncryptedColumns", 2, reason)

    def _opened_relevance(self, sealed: Ciphertexts, value: Residues) -> Floats:
        opened = self._plan.relevance(self._opened(sealed, value))
        low, high = self._plan.relevance_limits()
        self._check_range(opened, low, high, range(len(opened)))
        return opened

    async def _weights(self, chosen: int, remaining: list[int], net: Network) -> Floats:
        """Alg. 4: interaction weights of all remaining features with the one just selected."""
        if not self._own:
            await self._relevance_terms(self._codes, net)  # the shares of a resumed run
        kernel, ring = self._ready(), self._ring
        (reply,) = await net.ask("cloud server", messages.Mate(chosen), messages.MaskedProducts)
        with self.clock("decrypt"), errors_belong_to(CLOUD, "Mate", 3):
            pair = kernel.open_sums(reply.masked, reply.corrections, remaining, self._codes)
        pair = with_total(ring, pair)
        if interaction.is_binary(self._params.measure):
            value, terms = await self._joint_terms(pair, chosen, remaining, net)
        else:
            shared = await self._covariances(pair, chosen, remaining, net)
            value, terms = taylor_terms(ring, self._plan.pair_polynomial, shared)
        self._shape = terms.shape
        with self.clock("encrypt"):
            sealed = kernel.encrypt_vector(terms.reshape(len(terms), -1))
        (answer,) = await net.ask(
            "cloud server", messages.WeightTerms(sealed), messages.SealedWeights
        )
        opened = self._opened(answer.weights, value)
        weights = self._plan.weights(opened)
        low, high = self._plan.weight_limits()
        self._check_range(self._plan.gains(opened), low, high, remaining)
        return weights

    async def _covariances(
        self, pair: Residues, chosen: int, remaining: list[int], net: Network
    ) -> Residues:
        """``n_j S - s_f s_s`` of every class as shares."""
        ring, sums = self._ring, self._own["sums"]
        sizes = ring.of(self._plan.sizes)[:, None, :]
        minus = ring.of(np.array([[-1]]))
        value, terms = product_terms(ring, [sums[:, remaining], sums[:, [chosen]]], minus)
        value = ring.add(value, ring.multiply(pair, sizes))
        spread = np.broadcast_to(sizes, value.shape)[:, None]
        terms = np.concatenate([terms, spread], axis=1)
        return await self._kept("covariance", value, terms, (), net)

    async def _joint_terms(
        self, pair: Residues, chosen: int, remaining: list[int], net: Network
    ) -> tuple[Residues, Residues]:
        """Information of both features as shares, and the terms of gain / (S_f + S_s)."""
        ring, sums, scalars = self._ring, self._own["sums"], self._own["scalars"]
        mine = sums[:, remaining]
        mate = np.broadcast_to(sums[:, [chosen]], mine.shape)
        cells = shared_cells(ring, pair, mine, mate)
        sizes = ring.of(self._plan.sizes)[:, None, :]
        cells[..., 3] = ring.add(cells[..., 3], sizes)
        value, terms = taylor_terms(ring, self._plan.pair_polynomial, cells)
        joint = await self._kept("joint", value, terms, (2, 3), net)
        alone = self._own["information"]
        gain = ring.add(joint, ring.negate(ring.add(alone[:, remaining], alone[:, [chosen]])))
        factors = ring.of(self._plan.pair_factors)[:, None, :]
        parts = [gain[:, :, None], scalars[:, remaining], scalars[:, [chosen]]]
        return product_terms(ring, parts, factors)

    async def _kept(
        self, step: str, value: Residues, terms: Residues, axes: tuple[int, ...], net: Network
    ) -> Residues:
        """Send terms whose sums over ``axes`` stay shared; its own share of them."""
        kernel = self._ready()
        with self.clock("encrypt"):
            sealed = kernel.encrypt_vector(terms.reshape(len(terms), -1))
        (reply,) = await net.ask("cloud server", messages.Terms(step, sealed), messages.MaskedTerms)
        with self.clock("decrypt"), errors_belong_to(CLOUD, "Terms", 2):
            return self._summed(reply.terms, value, terms.shape, axes)

    def _summed(
        self, sealed: Ciphertexts, value: Residues, shape: tuple[int, ...], axes: tuple[int, ...]
    ) -> Residues:
        flat = self._ready().open_vector(sealed, int(np.prod(shape[1:])))
        parts = self._ring.total(flat.reshape(shape), (1,))
        total = self._ring.add(value, parts)
        return self._ring.total(total, axes) if axes else total

    def _opened(self, sealed: Ciphertexts, value: Residues) -> npt.NDArray[np.object_]:
        """One signed integer per feature."""
        with self.clock("decrypt"), errors_belong_to(CLOUD, "WeightTerms", 3):
            return self._ring.signed(self._summed(sealed, value, self._shape, (2,)))

    def _open_scalars(self, sealed: Ciphertexts) -> None:
        width = n_scalars(self._params.measure)
        if width:
            counts = [n * width for n in self._owners.values()]
            opened = self._ready().open_scalars(sealed, counts)
            self._own["scalars"] = opened.reshape(len(opened), -1, width)

    def _check_range(
        self, values: Floats, low: float, high: float, features: Sequence[int]
    ) -> None:
        """Refuse what honest columns cannot give; names the owner, not the value."""
        for value, feature in zip(values, features, strict=True):
            if not low <= value <= high:
                party = self._features[feature][0]
                reason = "its columns give numbers outside their possible range"
                raise PartyFailed(party, "EncryptedColumns", 2, reason)

    def _ready(self) -> ProductOwner:
        assert self._kernel is not None  # noqa: S101 - made in _set_up
        return self._kernel

    def facts(self) -> dict[str, Any]:
        """How much was encrypted and decrypted."""
        counts = {}
        if self._kernel is not None:
            counts = {
                "encryptions": self._kernel.n_encryptions,
                "decryptions": self._kernel.n_decryptions,
            }
        return {"names": [], "remarks": [], "operations": counts}


PROTOCOL = Protocol(
    name="interaction", messages=messages.MESSAGES, roles=(LabelOwner, FeatureOwner, CloudServer)
)


def build_nodes(
    tables: Mapping[str, PartyTable],
    label_owner: str,
    target: Target,
    n_rows: int,
    params: Params,
    checkpoints: Path | None = None,
) -> dict[str, Sequence[Role]]:
    """One node per party and one for the cloud; the label owner may own features as well."""
    leader = make_role(LabelOwner, target, n_rows, params, label_owner, checkpoints)
    nodes: dict[str, Sequence[Role]] = {label_owner: (leader,)}
    for party, table in tables.items():
        owner = make_role(FeatureOwner, table, params, checkpoints)
        nodes[party] = (*nodes.get(party, ()), owner)
    nodes[CLOUD] = (CloudServer(params, CLOUD, checkpoints),)
    return nodes


__all__ = ["CLOUD", "PROTOCOL", "LabelOwner", "Ranking", "build_nodes"]
