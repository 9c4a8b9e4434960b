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
                  With ``n_features_to_select="auto"`` also relevances and weights for shuffled
                  labels; with the paper's measures also that every column is binary. A pair start
                  opens the weights of all pairs of the most relevant columns at once, and of each
                  with itself. Offers tell how many parts every column of categories has.

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
  - The default measure ``miw`` needs no binarisation and no logarithm at all, and adds gains
    where the paper multiplies weights (:mod:`fedsift.methods.interaction.search`).

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
from fedsift.methods.interaction import measures as interaction
from fedsift.methods.interaction import messages
from fedsift.methods.interaction.fixed_point import LabelPlan, n_scalars
from fedsift.methods.interaction.measures import Codes, Floats
from fedsift.methods.interaction.messages import Params
from fedsift.methods.interaction.pairs import (
    Pairs,
    Wanted,
    covariance_terms,
    in_batches,
    in_matrix,
    joint_cells,
    not_binary,
    pair_up,
    start_pairs,
    with_total,
)
from fedsift.methods.interaction.parties import CloudServer, FeatureOwner
from fedsift.methods.interaction.ranking import (
    Ranking,
    classes_of,
    no_trace,
    parts_of,
    rank,
    refuse_columns,
)
from fedsift.methods.interaction.search import (
    Chance,
    Sum,
    Trace,
    best_of,
    candidates_of,
)
from fedsift.methods.interaction.significance import of_shares, with_shuffles
from fedsift.methods.interaction.vectors import LabelVectors
from fedsift.protocol import Network, Protocol, Role, make_role
from fedsift.protocol.resume import ResumableDriver
from fedsift.protocol.role import errors_belong_to

Opened = tuple[Floats, Floats]
"""Weights for the true labels, and for shuffled ones where they are measured."""

_MOST_BLOCKS = 96
"""Ciphertexts of one prime that a pair start asks for in one message."""

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
        self._noise = 0.0 if params.noise_bits is None else 2.0**-params.noise_bits
        codes = classes_of(target, params.target_bins)
        self._plan = LabelPlan(params.measure, np.bincount(codes), params.n_vectors)
        self._vectors = LabelVectors(codes, params.n_vectors, np.random.default_rng(params.seed))
        self._own: dict[str, Residues] = {}
        self._kernel: ProductOwner | None = None
        # What was opened so far: nothing of it is computed or blurred a second time.
        self._of_shuffled: list[Floats] = []
        self._of_features: Floats | None = None
        self._of_start: list[Opened] = []
        self._of_rounds: list[Opened] = []

    async def drive(self, net: Network) -> Ranking:
        """Setup, phase 1, then one round of phase 2 per selected feature."""
        await self.begin(net)
        parties = net.members("feature owner")
        hello = messages.Introduction(self._n_rows, self._params.measure)
        replies = await net.ask("feature owner", hello, messages.Offer)
        offers = dict(zip(parties, replies, strict=True))
        self._owners = parts_of(offers)
        self._features = tuple((p, i) for p, own in self._owners.items() for i in range(len(own)))
        self._parts = np.array([n for own in self._owners.values() for n in own], dtype=np.int64)
        self._feature = np.repeat(np.arange(len(self._parts)), self._parts)
        trace, threshold, tested = no_trace(), None, np.empty(0)
        if self._features:
            if self._params.n_features_to_select is None:
                threshold = await self._threshold(net)
            trace = await self._search(net, threshold)
            tested = self._p_values(trace.relevance)
        n_select = self._params.n_features_to_select
        ranking = rank(trace, self._features, offers, n_select, threshold, tested)
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
            "of_start": self._of_start,
            "of_rounds": self._of_rounds,
        }

    def restore(self, saved: State) -> None:
        """Go on after the last selected feature; keys and shares are made anew."""
        self._of_shuffled = saved["of_shuffled"]
        self._of_features = saved["of_features"]
        self._of_start, self._of_rounds = saved["of_start"], saved["of_rounds"]

    async def _set_up(self, net: Network) -> None:
        """Keys for the cloud, a public key for the owners, columns from owners to the cloud."""
        if self._kernel is not None:
            return
        n_classes, parts = self._plan.n_classes, tuple(self._owners.values())
        counts, bits = [sum(own) for own in parts], self._plan.scales.result_bits
        plan = plan_products(self._n_rows, n_classes * self._plan.n_vectors, counts, bits)
        with self.clock("encrypt"):
            self._kernel = own_products(plan, self._params.scheme)
        self._ring = Residue(plan.moduli)
        keys = self._kernel.evaluation_keys
        setup = messages.Setup(self._n_rows, n_classes, tuple(self._owners), parts, keys)
        await net.tell("cloud server", setup)
        key = messages.ColumnKey(self._kernel.column_keys)
        await net.tell("feature owner", dict.fromkeys(self._owners, key))

    async def _threshold(self, net: Network) -> float:
        """R of what chance reaches: the largest relevance of any feature for shuffled labels.

        Or what the largest of so many features without relevance rarely exceeds, if that is more:
        the true labels are the best of seven once in seven tables.
        """
        n_vectors = self._plan.n_vectors
        for number in range(0, self._params.n_shuffles, n_vectors):
            shuffled = self._vectors.shuffled()
            if number < len(self._of_shuffled):
                continue
            value, terms = await self._relevance_terms(shuffled, net)
            for vector in range(n_vectors):
                asked = messages.ShuffledTerms(vector, self._sealed_section(terms, vector))
                (reply,) = await net.ask("cloud server", asked, messages.ShuffledRelevance)
                own = self._vectors.section(value, vector)
                self._of_shuffled.append(self._opened_relevance(reply.relevance, own))
            await self.done(net)
        reached = [0.0, *(float(opened.max()) for opened in self._of_shuffled)]
        if not interaction.is_binary(self._params.measure):
            reached.append(self._chance.relevance())
        return 1.0 + max(reached)

    def _p_values(self, relevance: Floats) -> Floats:
        """Of all features, from what was opened anyway."""
        shape = self._n_rows, self._plan.n_classes, self._parts

        def law(opened: Floats) -> Floats:
            return of_shares(self._plan.shares(opened), *shape, blur=self._noise)

        return with_shuffles(law(relevance), [law(opened) for opened in self._of_shuffled])

    def _sealed_section(self, terms: Residues, vector: int) -> Ciphertexts:
        part = self._vectors.section(terms, vector)
        self._shape = part.shape
        with self.clock("encrypt"):
            return self._ready().encrypt_vector(part.reshape(len(part), -1))

    async def _search(self, net: Network, threshold: float | None) -> Trace:
        """Phase 1 once, then select and weigh until there are enough."""
        if self._of_features is None:
            self._of_features = await self._relevance(net)
            await self.done(net)
        relevance = self._of_features
        n_features = len(relevance)
        wanted = self._params.n_features_to_select or n_features
        rule = self._plan.rule(relevance, self._parts)
        if self._params.n_paired and isinstance(rule, Sum):
            await self._start(rule, net)
        final, remaining = np.zeros(n_features), list(range(n_features))
        order: list[int] = []
        n_asked = 0
        while remaining and len(order) < wanted:
            chosen = self._best(rule.scores, remaining, len(order))
            final[chosen] = rule.scores[chosen]
            if threshold is not None and order and final[chosen] <= threshold:
                break
            order.append(chosen)
            remaining.remove(chosen)
            party, _ = self._features[chosen]
            # Counted as they are chosen: where it stands in its owner's secret order stays here.
            name = f"unnamed feature {len(order)}"
            self.note(step="select", party=party, feature=name, score=float(final[chosen]))
            if remaining and len(order) < wanted:
                others = rule.unknown(chosen, remaining)
                weights, shuffled = np.empty(0), np.empty(0)
                if others:
                    n_asked += 1
                    if n_asked > len(self._of_rounds):
                        self._of_rounds.append(await self._weights(chosen, others, net))
                        await self.done(net)
                    weights, shuffled = self._of_rounds[n_asked - 1]
                rule.weigh(chosen, others, weights, self._chance.scale(shuffled - 1.0))
        final[remaining] = rule.scores[remaining]
        return Trace(tuple(order), relevance, final, rule.weights)

    @property
    def _chance(self) -> Chance:
        return Chance(self._n_rows, self._plan.n_classes, len(self._features))

    async def _start(self, rule: Sum, net: Network) -> None:
        """Weights of all pairs of the most relevant features, before anything is selected."""
        every = range(len(self._features))
        candidates = candidates_of(rule.relevance, every, self._params.n_paired)
        wanted = start_pairs(self._parts, candidates, candidates)
        await self._set_up(net)
        batches = list(in_batches(wanted, self._blocks_of, _MOST_BLOCKS))
        for mates in batches[len(self._of_start) :]:
            asked = messages.PairsWanted(tuple(candidates), tuple(mates))
            own = [pair for pair in wanted if pair[0] in mates]
            self._of_start.append(await self._opened_pairs(asked, own, net))
            await self.done(net)
        nothing = (np.empty(0), np.empty(0))
        opened, shuffled = map(np.concatenate, zip(nothing, *self._of_start, strict=True))
        matrix = in_matrix(candidates, wanted, opened)
        rule.start(candidates, matrix, self._chance.scale(shuffled - 1.0))

    def _blocks_of(self, pair: tuple[int, Sequence[int]]) -> int:
        """Ciphertexts of one prime that come back for a feature of a pair start."""
        jobs = pair_up(self._feature, [pair]).jobs
        return sum(len(self._ready().plan.blocks_of(job)) for job in jobs)

    def _best(self, scores: Floats, remaining: list[int], n_rounds: int) -> int:
        """The largest R; equal features must not be told apart by the noise, so the first wins."""
        blur = self._noise * self._plan.blur(n_rounds)
        return best_of(scores, remaining, 4.0 * math.sqrt(2.0) * blur)

    async def _relevance(self, net: Network) -> Floats:
        """Alg. 3: relevance of every feature to the label."""
        value, terms = await self._relevance_terms(self._vectors.true(), net)
        if interaction.is_binary(self._params.measure):
            await self._check_binary(net)
        asked = messages.RelevanceTerms(self._sealed_section(terms, 0))
        (reply,) = await net.ask("cloud server", asked, messages.SealedRelevance)
        return self._opened_relevance(reply.relevance, self._vectors.section(value, 0))

    async def _relevance_terms(self, codes: Codes, net: Network) -> tuple[Residues, Residues]:
        """Class sums of all columns as shares, and the last terms of the relevance."""
        await self._set_up(net)
        kernel, ring = self._ready(), self._ring
        with self.clock("encrypt"):
            labels = messages.EncryptedLabels(kernel.encrypt_labels(codes))
        (reply,) = await net.ask("cloud server", labels, messages.MaskedColumns)
        with self.clock("decrypt"), errors_belong_to(CLOUD, "EncryptedLabels", 2):
            every = range(len(self._feature))
            sums = kernel.open_sums(reply.masked, reply.corrections, every, codes)
            self._own["sums"] = with_total(ring, sums, self._plan.n_vectors)
            self._open_scalars(reply.scalars)
        value, terms = taylor_terms(ring, self._plan.relevance_polynomial, self._own["sums"])
        if interaction.is_binary(self._params.measure):
            alone = await self._kept("information", value, terms, (2,), net)
            self._own["information"] = alone
            factors = ring.of(self._plan.relevance_factors)[:, None, :]
            value, terms = product_terms(ring, [alone[:, :, None], self._own["scalars"]], factors)
        return value, terms

    async def _check_binary(self, net: Network) -> None:
        """Refuse columns that are not made of zeros and ones; learns nothing else about them."""
        kernel, every = self._ready(), range(len(self._features))
        (squares,) = await net.ask(
            "cloud server", messages.SquaresWanted(), messages.MaskedProducts
        )
        with self.clock("decrypt"), errors_belong_to(CLOUD, "SquaresWanted", 2):
            own = kernel.open_sums(squares.masked, squares.corrections, every, self._vectors.codes)
        excess = not_binary(self._ring, with_total(self._ring, own), self._own["sums"])
        check = messages.CheckTerms(kernel.encrypt_vector(excess))
        (reply,) = await net.ask("cloud server", check, messages.SealedCheck)
        with self.clock("decrypt"), errors_belong_to(CLOUD, "CheckTerms", 2):
            opened = kernel.open_vector(reply.check, len(self._features))
        reason = "one of its columns is not made of zeros and ones"
        refuse_columns(opened.max(axis=0) == 0, self._features, reason)

    def _opened_relevance(self, sealed: Ciphertexts, value: Residues) -> Floats:
        opened = self._plan.relevance(self._opened(sealed, value, self._feature))
        low, high = self._plan.relevance_limits(self._parts)
        refuse_columns((low <= opened) & (opened <= high), self._features)
        return opened

    async def _weights(self, chosen: int, others: list[int], net: Network) -> Opened:
        """Alg. 4: interaction weights of all remaining features with the one just selected."""
        return await self._opened_pairs(messages.Mate(chosen), [(chosen, others)], net)

    async def _opened_pairs(
        self, asked: messages.Mate | messages.PairsWanted, wanted: Wanted, net: Network
    ) -> Opened:
        """Weights of pairs of features, and where they are measured those for shuffled labels."""
        if not self._own:
            await self._relevance_terms(self._vectors.true(), net)  # the shares of a resumed run
        kernel, ring, pairs = self._ready(), self._ring, pair_up(self._feature, wanted)
        (reply,) = await net.ask("cloud server", asked, messages.MaskedProducts)
        with self.clock("decrypt"), errors_belong_to(CLOUD, type(asked).__name__, 3):
            masked, corrections = reply.masked, reply.corrections
            products = kernel.open_pairs(masked, corrections, pairs.jobs, self._vectors.true())
        products = with_total(ring, products, self._plan.n_vectors)
        if interaction.is_binary(self._params.measure):
            value, terms = await self._joint_terms(products, pairs, net)
        else:
            value, terms = covariance_terms(
                ring, products, self._own["sums"], self._plan.sizes, pairs
            )
            shared = await self._kept("covariance", value, terms, (), net)
            value, terms = taylor_terms(ring, self._plan.pair_polynomial, shared)
        sealed = self._sealed_section(terms, 0)
        answer: messages.SealedPairs | messages.SealedWeights | messages.ShuffledWeights
        if isinstance(asked, messages.PairsWanted):
            last = messages.PairTerms(sealed)
            (answer,) = await net.ask("cloud server", last, messages.SealedPairs)
        else:
            final = messages.WeightTerms(sealed)
            (answer,) = await net.ask("cloud server", final, messages.SealedWeights)
        weights = self._opened_weights(
            answer.weights, self._vectors.section(value, 0), pairs, wanted
        )
        if self._plan.n_vectors == 1:
            return weights, np.empty(0)
        extra = messages.ShuffledWeightTerms(self._sealed_section(terms, 1))
        (answer,) = await net.ask("cloud server", extra, messages.ShuffledWeights)
        value = self._vectors.section(value, 1)
        return weights, self._opened_weights(answer.weights, value, pairs, wanted)

    def _opened_weights(
        self, sealed: Ciphertexts, value: Residues, pairs: Pairs, wanted: Wanted
    ) -> Floats:
        opened = self._opened(sealed, value, pairs.group)
        others = np.array([other for _, own in wanted for other in own])
        mates = np.repeat([mate for mate, _ in wanted], [len(own) for _, own in wanted])
        least = np.minimum(self._parts[others], self._parts[mates])
        low, high = self._plan.weight_limits(least)
        gains = self._plan.gains(opened)
        refuse_columns((low <= gains) & (gains <= high), [self._features[o] for o in others])
        return self._plan.weights(opened, self._parts[others], self._parts[mates])

    async def _joint_terms(
        self, products: Residues, pairs: Pairs, net: Network
    ) -> tuple[Residues, Residues]:
        """Information of both features as shares, and the terms of gain / (S_f + S_s)."""
        ring, scalars = self._ring, self._own["scalars"]
        cells = joint_cells(ring, products, self._own["sums"], self._plan.sizes, pairs)
        value, terms = taylor_terms(ring, self._plan.pair_polynomial, cells)
        joint = await self._kept("joint", value, terms, (2, 3), net)
        alone = self._own["information"]
        both = ring.add(alone[:, pairs.left], alone[:, pairs.right])
        gain = ring.add(joint, ring.negate(both))
        factors = ring.of(self._plan.pair_factors)[:, None, :]
        parts = [gain[:, :, None], scalars[:, pairs.left], scalars[:, pairs.right]]
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

    def _opened(
        self, sealed: Ciphertexts, value: Residues, group: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.object_]:
        """One signed integer per feature, or pair of features."""
        with self.clock("decrypt"), errors_belong_to(CLOUD, "WeightTerms", 3):
            parts = self._summed(sealed, value, self._shape, (2,))
            return self._ring.signed(self._ring.grouped(parts, group))

    def _open_scalars(self, sealed: Ciphertexts) -> None:
        width = n_scalars(self._params.measure)
        if width:
            counts = [len(own) * width for own in self._owners.values()]
            opened = self._ready().open_scalars(sealed, counts)
            self._own["scalars"] = opened.reshape(len(opened), -1, width)

    def _ready(self) -> ProductOwner:
        assert self._kernel is not None  # noqa: S101 - made in _set_up
        return self._kernel

    def facts(self) -> dict[str, Any]:
        """How much was encrypted and decrypted."""
        counts = {} if self._kernel is None else self._kernel.counts
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
    smallest: int = 1,
) -> dict[str, Sequence[Role]]:
    """One node per party and one for the cloud; the label owner may own features as well.

    Features of the label owner take no part if fewer than ``smallest`` rows share their variance.
    """
    leader = make_role(LabelOwner, target, n_rows, params, label_owner, checkpoints)
    nodes: dict[str, Sequence[Role]] = {label_owner: (leader,)}
    for party, table in tables.items():
        least = smallest if party == label_owner else 1
        owner = make_role(FeatureOwner, table, params, checkpoints, least)
        nodes[party] = (*nodes.get(party, ()), owner)
    nodes[CLOUD] = (CloudServer(params, CLOUD, checkpoints),)
    return nodes


__all__ = ["CLOUD", "PROTOCOL", "LabelOwner", "Ranking", "build_nodes"]
