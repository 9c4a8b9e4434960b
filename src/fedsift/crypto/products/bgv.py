# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""K3: class sums of products of two encrypted columns, computed by a cloud without the key.

Three sides. The *owner* holds the class labels and the only secret key. *Column holders* encrypt
their columns under its public key. The *cloud* holds all ciphertexts and no key.

``sum_i y_ij u_i v_i`` is cubic in encrypted numbers, yet one product of ciphertexts is enough and
no rotate-and-sum is needed:

1. The cloud multiplies ``[u] * [v]`` and adds a uniform mask ``R`` to every slot. The owner
   decrypts numbers that are uniform in Z_t and adds them up by class, in the clear.
2. What is too much, ``sum_i y_ij R_i``, is linear in the labels. The cloud knows ``R`` and has
   ``[y_j]``: a plaintext matrix times an encrypted vector (:mod:`fedsift.crypto.layout`), for all
   features of the round at once, plus a uniform ``z`` in every slot. The owner subtracts it.

Owner and cloud then hold *shares* ``X`` and ``z`` of every sum, ``X + z = sum``, each uniform on
its own. On shares, :meth:`ProductCloud.inner` multiplies: the owner sends encrypted terms that it
computed from its shares, the cloud scales each slot by a number it computed from its own, adds
fresh shares, and returns it. One ciphertext each way carries thousands of terms, at depth one,
however high the degree of what is computed.

Numbers are exact modulo a product of primes of 40 bits, as many as the result needs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.crypto.columns.bgv import product_noise_bits
from fedsift.crypto.kernels import counting_kernel
from fedsift.crypto.layout import Layout
from fedsift.crypto.modular import Residues, uniform_below
from fedsift.crypto.products.plan import (
    PRIME_BITS,
    Integers,
    ProductPlan,
    correction_noise_bits,
    in_slots,
    join_blobs,
    pair_noise_bits,
    split_blobs,
    to_residues,
)
from fedsift.crypto.products.ring import EvaluatorRing, evaluator_ring, own_ring
from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.errors import BadCiphertext


class ProductOwner:
    """The label owner's side: labels, the secret keys, and one share of everything."""

    def __init__(self, plan: ProductPlan, scheme: str = "bgv") -> None:
        self.plan = plan
        self.n_encryptions = 0
        self.n_decryptions = 0
        self._scheme = scheme
        steps = sorted({1, plan.layout.baby_steps})
        self._rings = [own_ring(scheme, p, steps) for p in plan.parameters]
        self.evaluation_keys = self._keys(slice(None))
        self.column_keys = self._keys(slice(0, 1))

    @property
    def counts(self) -> dict[str, int]:
        """Ciphertexts made and opened so far."""
        return {"encryptions": self.n_encryptions, "decryptions": self.n_decryptions}

    def __repr__(self) -> str:
        return f"<K3 owner, {self._scheme}, {len(self._rings)} primes>"

    def _keys(self, part: slice) -> PublicKeys:
        blobs = tuple(blob for ring in self._rings for blob in ring.public_blobs[part])
        return PublicKeys(self._scheme, {"n_primes": len(self._rings)}, blobs)

    def encrypt_labels(self, codes: Integers) -> Ciphertexts:
        """Class indicators in the layout of the corrections."""
        layout, plan = self.plan.layout, self.plan
        samples = layout.sample_of_slot().ravel()
        blobs = []
        for ring in self._rings:
            for j in range(plan.n_classes):
                indicator = np.zeros(layout.n_chunks(plan.n_rows) * layout.chunk_samples, np.uint64)
                indicator[: plan.n_rows] = rows_in(codes, j)
                chunks = indicator.reshape(-1, layout.chunk_samples)
                blobs += [ring.encrypt(chunk[samples]) for chunk in chunks]
        self.n_encryptions += len(blobs)
        return Ciphertexts(self._scheme, tuple(blobs))

    def encrypt_vector(self, vector: Residues) -> Ciphertexts:
        """A flat vector per prime, shape (n_primes, length)."""
        blobs = [
            ring.encrypt(row)
            for ring, part in zip(self._rings, vector, strict=True)
            for row in in_slots(part, self.plan.slots)
        ]
        self.n_encryptions += len(blobs)
        return Ciphertexts(self._scheme, tuple(blobs))

    def open_vector(self, sealed: Ciphertexts, length: int) -> Residues:
        """Decrypt a vector; shape (n_primes, length)."""
        rows = max(1, math.ceil(length / self.plan.slots))
        groups = split_blobs(sealed, len(self._rings), rows)
        self.n_decryptions += len(sealed.blobs)
        opened = [
            np.concatenate([ring.decrypt(blob) for blob in blobs])[:length]
            for ring, blobs in zip(self._rings, groups, strict=True)
        ]
        return np.stack(opened)

    def open_scalars(self, sealed: Ciphertexts, lengths: Sequence[int]) -> Residues:
        """Masked numbers of several holders, one vector after the other."""
        rows = [max(1, math.ceil(length / self.plan.slots)) for length in lengths]
        groups = split_blobs(sealed, len(self._rings), sum(rows))
        self.n_decryptions += len(sealed.blobs)
        opened = []
        for ring, blobs in zip(self._rings, groups, strict=True):
            slots = [ring.decrypt(blob) for blob in blobs]
            parts = []
            for count, length in zip(rows, lengths, strict=True):
                parts.append(np.concatenate(slots[:count])[:length])
                slots = slots[count:]
            opened.append(np.concatenate(parts))
        return np.stack(opened)

    def open_sums(
        self,
        masked: Ciphertexts,
        corrections: Ciphertexts,
        features: Sequence[int],
        codes: Integers,
    ) -> Residues:
        """The owner's share of every class sum, shape (n_primes, n_features, n_classes)."""
        return self.open_pairs(masked, corrections, [features], codes)

    def open_pairs(
        self,
        masked: Ciphertexts,
        corrections: Ciphertexts,
        jobs: Sequence[Sequence[int]],
        codes: Integers,
    ) -> Residues:
        """The same for the features of several jobs, one job after the other.

        ``codes`` is one vector of class numbers, or several in rows that share no number.
        """
        plan, n_pairs = self.plan, sum(map(len, jobs))
        blocks = [plan.blocks_of(features) for features in jobs]
        n_rows_blocks = plan.layout.n_blocks(n_pairs)
        columns = split_blobs(masked, len(self._rings), sum(map(len, blocks)))
        totals = split_blobs(corrections, len(self._rings), plan.n_classes * n_rows_blocks)
        self.n_decryptions += len(masked.blobs) + len(corrections.blobs)
        shares = []
        for ring, t, own, more in zip(self._rings, plan.moduli, columns, totals, strict=True):
            rows, start = [], 0
            for features, held in zip(jobs, blocks, strict=True):
                slots = np.stack([ring.decrypt(blob) for blob in own[start : start + len(held)]])
                rows.append(plan.rows_of(features, held, slots))
                start += len(held)
            every = np.concatenate(rows)
            # Fewer than 2**23 rows of 40-bit numbers fit 64 bits.
            sums = [
                every[:, rows_in(codes, j)].sum(axis=1) % np.uint64(t)
                for j in range(plan.n_classes)
            ]
            parts = np.stack([plan.layout.add_parts(ring.decrypt(blob), t) for blob in more])
            extra = parts.reshape(plan.n_classes, -1)[:, :n_pairs]
            shares.append((np.stack(sums) + np.uint64(t) - extra).T % np.uint64(t))
        return np.stack(shares)


class ColumnHolder:
    """A feature owner's side: public keys only."""

    def __init__(self, keys: PublicKeys, plan: ProductPlan) -> None:
        self._plan = plan
        self._scheme = keys.scheme
        self._rings = _evaluators(keys, plan, evaluates=False)

    @property
    def n_encryptions(self) -> int:
        """Ciphertexts made so far."""
        return sum(ring.counts["encryptions"] for ring in self._rings)

    def encrypt_blocks(self, blocks: npt.NDArray[np.int64]) -> Ciphertexts:
        """Packed or tiled integers, one ciphertext per block and prime."""
        blobs = [
            ring.encrypt(row)
            for ring, part in zip(self._rings, to_residues(blocks, self._plan.moduli), strict=True)
            for row in part
        ]
        return Ciphertexts(self._scheme, tuple(blobs))

    def encrypt_columns(self, columns: Integers) -> Ciphertexts:
        """All columns of this holder."""
        return self.encrypt_blocks(self._plan.pack(columns))

    def encrypt_mates(self, columns: Integers) -> Ciphertexts:
        """Some columns, each laid out to be multiplied with every other."""
        return self.encrypt_blocks(np.concatenate([self._plan.tile(c) for c in columns.T]))

    def encrypt_scalars(self, scalars: Integers) -> Ciphertexts:
        """A few numbers per feature."""
        flat = scalars.reshape(-1)
        padded = np.zeros(math.ceil(max(1, flat.size) / self._plan.slots) * self._plan.slots, int)
        padded[: flat.size] = flat
        return self.encrypt_blocks(padded.reshape(-1, self._plan.slots))


def _evaluators(keys: PublicKeys, plan: ProductPlan, *, evaluates: bool) -> list[EvaluatorRing]:
    per_prime = 3 if evaluates else 1
    if keys.scheme not in ("bgv", "plain") or len(keys.blobs) != per_prime * len(plan.parameters):
        raise BadCiphertext(
            f"{len(keys.blobs)} keys of the scheme {keys.scheme[:20]!r} arrived.",
            f"{per_prime * len(plan.parameters)} keys of the scheme 'bgv' were agreed.",
            "Check that all parties run the same job.",
        )
    return [
        evaluator_ring(
            keys.scheme, p, keys.blobs[i * per_prime : (i + 1) * per_prime], evaluates=evaluates
        )
        for i, p in enumerate(plan.parameters)
    ]


class ProductCloud:
    """The cloud's side: ciphertexts, computing keys, and the other share of everything."""

    def __init__(self, keys: PublicKeys, plan: ProductPlan) -> None:
        self.plan = plan
        self._scheme = keys.scheme
        self._rings = _evaluators(keys, plan, evaluates=True)
        self._columns: list[dict[int, list[Any]]] = [{} for _ in self._rings]
        self._labels: list[list[list[list[Any]]]] = []

    def __repr__(self) -> str:
        return f"<K3 cloud, {self._scheme}, {len(self._rings)} primes>"

    @property
    def counts(self) -> dict[str, int]:
        """Operations so far, by name."""
        names = sorted({name for ring in self._rings for name in ring.counts})
        return {name: sum(ring.counts[name] for ring in self._rings) for name in names}

    def take_columns(self, sealed: Ciphertexts, holder: int) -> None:
        """Ciphertexts of one column holder, by its position in the plan."""
        n_blocks = self.plan.n_blocks(self.plan.party_features[holder])
        groups = split_blobs(sealed, len(self._rings), n_blocks)
        for ring, store, blobs in zip(self._rings, self._columns, groups, strict=True):
            store[holder] = [ring.load(blob) for blob in blobs]

    def _blocks(self, i: int) -> list[Any]:
        """All column ciphertexts of one prime, holder by holder."""
        held = self._columns[i]
        if len(held) != len(self.plan.party_features):
            raise BadCiphertext(
                f"{len(held)} parties sent columns.",
                f"{len(self.plan.party_features)} parties own some.",
                "Check that all parties run the same job.",
            )
        return [block for holder in sorted(held) for block in held[holder]]

    def take_labels(self, sealed: Ciphertexts) -> None:
        """Class indicators, and their copies rotated by the baby steps."""
        plan, layout = self.plan, self.plan.layout
        chunks = layout.n_chunks(plan.n_rows)
        groups = split_blobs(sealed, len(self._rings), plan.n_classes * chunks)
        self._labels = []
        for ring, blobs in zip(self._rings, groups, strict=True):
            copies = []
            for blob in blobs:
                turned = [ring.load(blob)]
                for _ in range(layout.baby_steps - 1):
                    turned.append(ring.rotate(turned[-1], 1))
                copies.append(turned)
            self._labels.append(
                [copies[j * chunks : (j + 1) * chunks] for j in range(plan.n_classes)]
            )

    def masked_sums(
        self, features: Sequence[int], mate: Ciphertexts | None = None, *, squared: bool = False
    ) -> tuple[Ciphertexts, Ciphertexts, Residues]:
        """Steps 1 and 2 for columns as they are, for their squares, or for products with a mate."""
        return self.masked_pairs([features], None if mate is None else [mate], squared=squared)

    def masked_pairs(
        self,
        jobs: Sequence[Sequence[int]],
        mates: Sequence[Ciphertexts] | None = None,
        *,
        squared: bool = False,
    ) -> tuple[Ciphertexts, Ciphertexts, Residues]:
        """Steps 1 and 2: masked columns, corrections, and the cloud's share.

        The columns of every job are multiplied with the mate of the same number, or with
        themselves, or taken as they are. All jobs share their corrections.

        Returns
        -------
        masked, corrections : Ciphertexts
            For the owner's :meth:`ProductOwner.open_sums`.
        shares : ndarray of shape (n_primes, n_features, n_classes)
        """
        chunks = self.plan.n_chunks
        others = None
        if mates is not None:
            joined = self._sealed(join_blobs(mates, len(self._rings)))
            others = split_blobs(joined, len(self._rings), len(jobs) * chunks)
        masked, corrections, shares = [], [], []
        for i, ring in enumerate(self._rings):
            rows = []
            for number, features in enumerate(jobs):
                own = None
                if others is not None:
                    own = [ring.load(b) for b in others[i][number * chunks : (number + 1) * chunks]]
                blobs, masks = self._masked(i, features, own, squared=squared)
                masked += blobs
                rows.append(masks)
            blobs, share = self._corrections(i, np.concatenate(rows))
            corrections += blobs
            shares.append(share)
        return self._sealed(masked), self._sealed(corrections), np.stack(shares)

    def _masked(
        self, i: int, features: Sequence[int], mate: list[Any] | None, *, squared: bool
    ) -> tuple[list[bytes], Residues]:
        """Step 1 for one prime: masked columns, and the masks in rows."""
        ring, plan, columns = self._rings[i], self.plan, self._blocks(i)
        blocks = plan.blocks_of(features)
        masks = uniform_below(plan.moduli[i], (len(blocks), plan.slots))
        noise, blobs = pair_noise_bits(PRIME_BITS, plan.slots), []
        for block, mask in zip(blocks, masks, strict=True):
            product = columns[block]
            if squared:
                product = ring.multiply(product, product)
            elif mate is not None:
                product = ring.multiply(product, mate[block % plan.n_chunks])
            blobs.append(ring.finish(product, mask, noise))
        return blobs, plan.rows_of(features, blocks, masks)

    def _corrections(self, i: int, rows: Residues) -> tuple[list[bytes], Residues]:
        """``rows`` times the labels of every class, plus uniform shares in all slots."""
        ring, t, plan, layout = self._rings[i], self.plan.moduli[i], self.plan, self.plan.layout
        noise = correction_noise_bits(plan)
        totals = [
            self._block_products(i, rows[start : start + layout.block_rows])
            for start in range(0, len(rows), layout.block_rows)
        ]
        blobs, share = [], np.empty((plan.n_classes, len(rows)), dtype=np.uint64)
        for j in range(plan.n_classes):
            parts = []
            for block in totals:
                shares = uniform_below(t, plan.slots)
                blobs.append(ring.finish(block[j], shares, noise))
                parts.append(layout.add_parts(shares, t))
            share[j] = np.concatenate(parts)[: len(rows)]
        return blobs, share.T

    def _block_products(self, i: int, rows: Residues) -> list[Any]:
        """Baby steps, giant steps: one ciphertext per class for one block of rows."""
        ring, layout, labels = self._rings[i], self.plan.layout, self._labels[i]
        factors = _Diagonals(rows, layout)
        totals: list[Any] = [None] * self.plan.n_classes
        for giant in reversed(range(layout.giant_steps)):
            inner: list[Any] = [None] * self.plan.n_classes
            for chunk in range(factors.n_chunks):
                for baby in range(layout.baby_steps):
                    factor = ring.factor(factors.slots(chunk, giant, baby))
                    for j, copies in enumerate(labels):
                        term = ring.scale(copies[chunk][baby], factor)
                        inner[j] = term if inner[j] is None else ring.add(inner[j], term)
            for j, term in enumerate(inner):
                if totals[j] is not None:
                    term = ring.add(ring.rotate(totals[j], layout.baby_steps), term)
                totals[j] = term
        return totals

    def mask_scalars(self, sealed: Sequence[Ciphertexts], counts: Sequence[int]) -> tuple[
        Ciphertexts, Residues
    ]:  # fmt: skip
        """Turn encrypted numbers of column holders into shares; one vector after the other."""
        blobs, shares = [], []
        rows = [max(1, math.ceil(count / self.plan.slots)) for count in counts]
        groups = [split_blobs(c, len(self._rings), n) for c, n in zip(sealed, rows, strict=True)]
        for i, (ring, t) in enumerate(zip(self._rings, self.plan.moduli, strict=True)):
            parts = []
            for group, count in zip(groups, counts, strict=True):
                masks = uniform_below(t, (len(group[i]), self.plan.slots))
                for blob, mask in zip(group[i], masks, strict=True):
                    noise = product_noise_bits(PRIME_BITS, 1)
                    blobs.append(ring.finish(ring.load(blob), mask, noise))
                parts.append((np.uint64(t) - masks.reshape(-1)[:count]) % np.uint64(t))
            shares.append(np.concatenate(parts))
        return self._sealed(blobs), np.stack(shares)

    def inner(self, terms: Ciphertexts, factors: Residues, shares: Residues) -> Ciphertexts:
        """Slot by slot ``term * factor + share``; all other slots become uniform.

        ``factors`` and ``shares`` have shape (n_primes, length).
        """
        length = factors.shape[1]
        rows = max(1, math.ceil(length / self.plan.slots))
        groups = split_blobs(terms, len(self._rings), rows)
        noise, blobs = product_noise_bits(PRIME_BITS, 1), []
        for i, (ring, t) in enumerate(zip(self._rings, self.plan.moduli, strict=True)):
            masks = uniform_below(t, rows * self.plan.slots)
            masks[:length] = shares[i]
            scaled = in_slots(factors[i], self.plan.slots)
            for blob, row, mask in zip(
                groups[i], scaled, masks.reshape(rows, self.plan.slots), strict=True
            ):
                product = ring.scale(ring.load(blob), ring.factor(row))
                blobs.append(ring.finish(product, mask, noise))
        return self._sealed(blobs)

    def _sealed(self, blobs: Sequence[bytes]) -> Ciphertexts:
        return Ciphertexts(self._scheme, tuple(blobs))


def rows_in(codes: Integers, number: int) -> npt.NDArray[np.bool_]:
    """Rows that have a class number in one of several vectors of codes."""
    return np.asarray((np.atleast_2d(codes) == number).any(axis=0))


def own_products(plan: ProductPlan, scheme: str) -> ProductOwner:
    """Make keys of a scheme (``bgv``, ``plain``) at the label owner."""
    counting: ProductOwner | None = counting_kernel("own_products", plan, scheme)
    return counting or ProductOwner(plan, scheme)


def hold_columns(keys: PublicKeys, plan: ProductPlan) -> ColumnHolder:
    """Use the owner's public key at a feature owner."""
    counting: ColumnHolder | None = counting_kernel("hold_columns", keys, plan)
    return counting or ColumnHolder(keys, plan)


def join_products(keys: PublicKeys, plan: ProductPlan) -> ProductCloud:
    """Use the owner's computing keys at the cloud."""
    counting: ProductCloud | None = counting_kernel("join_products", keys, plan)
    return counting or ProductCloud(keys, plan)


class _Diagonals:
    """Plaintext factors that turn rotated labels into a matrix product, made one at a time."""

    def __init__(self, rows: Residues, layout: Layout) -> None:
        self.n_chunks = layout.n_chunks(rows.shape[1])
        self._layout = layout
        width = self.n_chunks * layout.chunk_samples
        self._rows = np.zeros((layout.block_rows, width), dtype=np.uint64)
        self._rows[: rows.shape[0], : rows.shape[1]] = rows
        self._samples, self._row_of_slot = layout.sample_of_slot(), layout.row_of_slot()

    def slots(self, chunk: int, giant: int, baby: int) -> Residues:
        """Factors of one step, moved back by the giant step: the sum they enter is rotated."""
        back = giant * self._layout.baby_steps
        samples = np.roll(self._samples, -baby, axis=1) + chunk * self._layout.chunk_samples
        return self._rows[np.roll(self._row_of_slot, back)[None, :], samples].ravel()
