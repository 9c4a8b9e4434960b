# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Cost of interaction-based selection: ciphertexts and rounds follow from the sizes alone."""

from __future__ import annotations

import math

from fedsift.costs.counts import Counts, Frame, frame, ring_of
from fedsift.crypto.products.plan import ProductPlan, plan_products
from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.data import Federation
from fedsift.methods.interaction import measures, messages
from fedsift.methods.interaction.fixed_point import n_scalars, scales_of
from fedsift.methods.interaction.messages import Params


def tally_interaction(federation: Federation, params: Params, n_selected: int) -> Counts:
    """Walk through a run that selects ``n_selected`` features."""
    return _Walk(federation, params).run(n_selected)


class _Walk:
    def __init__(self, federation: Federation, params: Params) -> None:
        self._params = params
        self._owners = {p: t.n_columns for p, t in federation.tables.items() if t.n_columns}
        self._label_owner = federation.label_holder
        self._n_rows = federation.n_rows
        target = federation.target
        assert target is not None  # noqa: S101 - the selector has refused anything else
        classes = target.kind == "classes"
        self._n_classes = len(target.classes) if classes else params.target_bins
        bits = scales_of(params.measure, self._n_rows).result_bits
        counts = tuple(self._owners.values())
        self._plan: ProductPlan = plan_products(self._n_rows, self._n_classes, counts, bits)
        self._layout = self._plan.layout
        self._n_primes = len(self._plan.parameters)
        self._steps = len({1, self._layout.baby_steps})
        self.tally = Counts()
        self._ring = ring_of(self.tally, params.scheme, self._plan.parameters[0])
        self._empty = Ciphertexts(params.scheme, ())
        self._n_others = sum(party != self._label_owner for party in self._owners)
        self._n_here = len(self._owners) - self._n_others
        self._binary = measures.is_binary(params.measure)

    def run(self, n_selected: int) -> Counts:
        """Setup, stage 1, and a round of stage 2 for every selected feature but the last."""
        tally, everybody = self.tally, (self._n_others, self._n_here)
        hello = messages.Introduction(self._n_rows, self._params.measure)
        tally.ask(hello, messages.Offer(10, 0), others=everybody)
        self._set_up(everybody)
        n_features = self._plan.n_features
        if self._params.n_features_to_select is None:
            for _ in range(self._params.n_shuffles):
                self._relevance(shuffled=True)
        self._relevance(shuffled=False)
        for chosen in range(1, min(n_selected, n_features)):
            self._weights(n_features - chosen)
        selected = messages.Selected(tuple(range(round(n_selected / max(1, len(self._owners))))))
        tally.ask(selected, others=everybody)
        return tally

    def _set_up(self, everybody: tuple[int, int]) -> None:
        ring, primes = self._ring, self._n_primes
        keys = PublicKeys(self._params.scheme, {"n_primes": primes}, ())
        sizes = [
            ring.public_key_bytes,
            ring.rotation_keys_bytes(self._steps),
            ring.product_key_bytes,
        ]
        setup = messages.Setup(
            self._n_rows, self._n_classes, tuple(self._owners), tuple(self._owners.values()), keys
        )
        self.tally.ask(frame(setup, keys=sizes * primes), others=1)
        column_key = frame(messages.ColumnKey(keys), keys=[ring.public_key_bytes] * primes)
        self.tally.ask(column_key, others=everybody)
        for _ in range(primes):
            ring.make_keys("encrypt", self._steps + 1)
            ring.read_keys("evaluate", self._steps + 1)
            ring.do("encrypt", "switch key read", len(self._owners) / 3)
        for owner, count in self._owners.items():
            blocks = primes * self._plan.n_blocks(count)
            scalars = primes * self._vectors(count * n_scalars(self._params.measure))
            scalars *= self._binary
            columns = messages.EncryptedColumns(owner, self._empty, self._empty)
            self.tally.ask(
                frame(columns, (blocks, ring.fresh_bytes), (scalars, ring.fresh_bytes)), others=1
            )
            ring.do("encrypt", "encrypt public", blocks + scalars)
            ring.do("evaluate", "load", blocks + scalars)

    def _vectors(self, length: int) -> int:
        return max(1, math.ceil(length / self._plan.slots))

    def _relevance(self, *, shuffled: bool) -> None:
        """Labels, masked columns, and terms that open to relevances."""
        plan, ring, primes, layout = self._plan, self._ring, self._n_primes, self._layout
        every, n_slots = plan.n_features, self._n_classes + 1
        labels = primes * self._n_classes * layout.n_chunks(self._n_rows)
        masked, corrections = self._sums(every, product=False)
        n_factors = n_scalars(self._params.measure)
        scalars = sum(primes * self._vectors(n * n_factors) for n in self._owners.values())
        scalars *= self._binary
        ring.do("encrypt", "encrypt", labels)
        ring.do("evaluate", "load", labels)
        ring.do("evaluate", "rotate", labels * (layout.baby_steps - 1))
        ring.do("evaluate", "hide", scalars)
        ring.do("decrypt", "decrypt", scalars)
        self.tally.ask(
            frame(messages.EncryptedLabels(self._empty), (labels, ring.fresh_bytes)),
            frame(
                messages.MaskedColumns(self._empty, self._empty, self._empty),
                (masked + corrections + scalars, ring.result_bytes),
            ),
            others=1,
        )
        terms = 2 * every * n_slots
        if self._binary:
            degree = len(measures.TAYLOR) - 1
            self._exchange("information", degree * every * n_slots)
            terms = 3 * every * n_factors
            if not shuffled:
                self._check_binary(every)
        kind, answer = (
            (messages.ShuffledTerms, messages.ShuffledRelevance)
            if shuffled
            else (messages.RelevanceTerms, messages.SealedRelevance)
        )
        self._inner(Frame(kind(self._empty)), Frame(answer(self._empty)), terms)

    def _check_binary(self, every: int) -> None:
        masked, corrections = self._sums(every, product=True)
        reply = frame(
            messages.MaskedProducts(self._empty, self._empty),
            (masked + corrections, self._ring.result_bytes),
        )
        self.tally.ask(messages.SquaresWanted(), reply, others=1)
        self._inner(
            Frame(messages.CheckTerms(self._empty)), Frame(messages.SealedCheck(self._empty)), every
        )

    def _weights(self, remaining: int) -> None:
        """One selected feature against all that remain."""
        plan, ring, n_slots = self._plan, self._ring, self._n_classes + 1
        mates = self._n_primes * plan.n_chunks
        masked, corrections = self._sums(remaining, product=True)
        reply = frame(
            messages.MaskedProducts(self._empty, self._empty),
            (masked + corrections, ring.result_bytes),
        )
        self.tally.ask(messages.Mate(plan.n_features // 2), reply, others=1)
        column = frame(messages.MateColumn(self._empty), (mates, ring.fresh_bytes))
        self.tally.ask(messages.MateWanted(3), column, others=1)
        ring.do("encrypt", "encrypt public", mates)
        ring.do("evaluate", "load", mates)
        if self._binary:
            degree = len(measures.TAYLOR) - 1
            self._exchange("joint", degree * remaining * n_slots * 4)
            terms = 7 * remaining * n_scalars(self._params.measure)
        else:
            self._exchange("covariance", 4 * remaining * n_slots)
            terms = 2 * remaining * n_slots
        self._inner(
            Frame(messages.WeightTerms(self._empty)),
            Frame(messages.SealedWeights(self._empty)),
            terms,
        )

    def _sums(self, n_features: int, *, product: bool) -> tuple[int, int]:
        """Masked columns and corrections of some features: their numbers."""
        plan, ring, layout, primes = self._plan, self._ring, self._layout, self._n_primes
        every = plan.n_features
        blocks = sum(plan.n_blocks(count) for count in self._owners.values())
        if n_features < every and plan.n_chunks > 1:
            blocks = n_features * plan.n_chunks  # shorter features share blocks, which stay
        masked = primes * blocks
        row_blocks = layout.n_blocks(n_features)
        corrections = primes * self._n_classes * row_blocks
        chunks = layout.n_chunks(self._n_rows)
        ring.do("evaluate", "product", masked if product else 0)
        ring.do("evaluate", "hide", masked + corrections)
        ring.do("evaluate", "factor", primes * row_blocks * layout.period * chunks)
        ring.do("evaluate", "multiply", corrections * layout.period * chunks)
        ring.do("evaluate", "rotate", corrections * (layout.giant_steps - 1))
        ring.do("decrypt", "decrypt", masked + corrections)
        return masked, corrections

    def _exchange(self, step: str, n_terms: int) -> None:
        self._inner(
            Frame(messages.Terms(step, self._empty)),
            Frame(messages.MaskedTerms(self._empty)),
            n_terms,
        )

    def _inner(self, ask: Frame, answer: Frame, n_terms: int) -> None:
        """Encrypted terms there, scaled and masked terms back."""
        ring, count = self._ring, self._n_primes * self._vectors(n_terms)
        ring.do("encrypt", "encrypt", count)
        for operation in ("load", "factor", "multiply", "hide"):
            ring.do("evaluate", operation, count)
        ring.do("decrypt", "decrypt", count)
        self.tally.ask(
            frame(ask.message, (count, ring.fresh_bytes)),
            frame(answer.message, (count, ring.result_bytes)),
            others=1,
        )
