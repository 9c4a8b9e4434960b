# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Cost of the interactive layer (K2, :mod:`fedsift.crypto.layer.api`), by scheme."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

from fedsift.costs.counts import Counts, PaillierWork, Ring
from fedsift.crypto.layer.paillier import _Shape
from fedsift.crypto.layer.paillier_matrix import MASK_EXTRA_BITS
from fedsift.crypto.layer.plan import LayerPlan, baby_steps, plan_layer
from fedsift.crypto.schemes.multiexp import straus_window
from fedsift.crypto.wire import PublicKeys
from fedsift.methods.fedsdg.layer_numbers import RING_BITS, LayerNumbers

if TYPE_CHECKING:
    from fedsift.methods.fedsdg.messages import Params

Sealed = list[tuple[int, int]]
"""Numbers of ciphertexts, and bytes of each."""


class Layer(Protocol):
    """One layer between a feature holder and the label holder: sizes on the wire, and work."""

    keys: PublicKeys
    """Public numbers, without the keys themselves."""

    key_bytes: list[int]
    words: int
    """64-bit words of a number that travels masked; 0 for one that needs no axis for them."""

    @property
    def inputs(self) -> Sealed:
        """An encrypted batch."""
        ...

    @property
    def share(self) -> Sealed:
        """The feature holder's encrypted share of the weights."""
        ...

    @property
    def outputs(self) -> Sealed:
        """Masked outputs on their way back."""
        ...

    @property
    def gradients(self) -> Sealed:
        """Gradients of weights and of inputs."""
        ...

    def set_up(self, n_layers: int) -> None:
        """Feature holders make keys, the label holder reads them."""
        ...

    def encrypt(self, times: float, *, share: bool) -> None:
        """Batches, and shares with them."""
        ...

    def forward(self, times: float) -> None:
        """Outputs: products, and their decryption."""
        ...

    def backward(self, times: float, n_rows: int) -> None:
        """Both gradients: products, and their decryption."""
        ...


class SealLayer:
    """Under BGV."""

    words = 0

    def __init__(self, tally: Counts, params: Params) -> None:
        self._plan: LayerPlan = plan_layer(
            params.batch_size, params.embedding, params.outputs, RING_BITS
        )
        self._ring = Ring(tally, self._plan.parameters)
        self.keys = PublicKeys("bgv", self._plan.numbers, ())
        steps = len(self._plan.steps)
        self.key_bytes = [self._ring.public_key_bytes, self._ring.rotation_keys_bytes(steps)]

    @property
    def inputs(self) -> Sealed:
        """See :class:`Layer`."""
        return [(self._plan.n_chunks, self._ring.fresh_bytes)]

    @property
    def share(self) -> Sealed:
        """See :class:`Layer`."""
        return [(self._plan.n_blocks, self._ring.fresh_bytes)]

    @property
    def outputs(self) -> Sealed:
        """See :class:`Layer`."""
        return [(self._plan.n_chunks, self._ring.result_bytes)]

    @property
    def gradients(self) -> Sealed:
        """See :class:`Layer`."""
        return [(self._plan.n_chunks + self._plan.n_blocks, self._ring.result_bytes)]

    def set_up(self, n_layers: int) -> None:
        """See :class:`Layer`."""
        steps = len(self._plan.steps)
        for _ in range(n_layers):
            self._ring.make_keys("keys", steps)
            self._ring.read_keys("keys", steps)

    def encrypt(self, times: float, *, share: bool) -> None:
        """See :class:`Layer`."""
        count = self._plan.n_chunks + (self._plan.n_blocks if share else 0)
        self._ring.do("encrypt", "encrypt", times * count)

    def forward(self, times: float) -> None:
        """See :class:`Layer`."""
        plan, chunks = self._plan, self._plan.n_chunks
        self._products(times, chunks, chunks, plan.forward_terms, shared=True)
        self._ring.do("evaluate", "hide", times * chunks)
        self._ring.do("decrypt", "decrypt", times * chunks)

    def backward(self, times: float, n_rows: int) -> None:
        """See :class:`Layer`."""
        plan = self._plan
        # Every chunk of the batch meets every block of columns.
        terms, pairs = plan.column_period, plan.n_chunks * plan.n_blocks
        self._products(times, plan.n_blocks, pairs, terms)
        self._products(times, plan.n_chunks, pairs, terms)
        self._ring.do("evaluate", "hide", times * (plan.n_chunks + plan.n_blocks))
        self._ring.do("decrypt", "decrypt", times * (plan.n_chunks + plan.n_blocks))

    def _products(
        self, times: float, n_ciphertexts: int, n_pairs: int, n_terms: int, *, shared: bool = False
    ) -> None:
        """Rotations, factors and products of ciphertexts with plaintext diagonals."""
        ring, babies = self._ring, min(n_terms, baby_steps(n_terms))
        giants = math.ceil(n_terms / babies)
        ring.do("evaluate", "load", times * n_ciphertexts)
        ring.do("evaluate", "rotate", times * n_ciphertexts * (babies - 1))
        ring.do("evaluate", "rotate", times * n_pairs * (giants - 1))
        ring.do("evaluate", "factor", times * n_terms * (1 if shared else n_pairs))
        ring.do("evaluate", "multiply", times * n_terms * n_pairs)


class PaillierLayer:
    """Under Paillier: rows of a matrix are packed, and powers of them multiplied."""

    words = 4

    def __init__(self, tally: Counts, params: Params) -> None:
        self._work = PaillierWork(tally, params.security_bits)
        self._tally = tally
        self._shape = _Shape(
            params.batch_size, params.embedding, params.outputs, RING_BITS, RING_BITS // 2
        )
        self._delta_bits = LayerNumbers().gradient_bits
        digit_bits = self._shape.product_bits + MASK_EXTRA_BITS + 2
        self._n_digits = (self._work.key_bits - 2) // digit_bits
        numbers = {
            "key_bits": self._work.key_bits,
            "security_bits": params.security_bits,
            "value_bits": self._shape.product_bits,
            **self._shape.numbers,
        }
        self.keys = PublicKeys("paillier", numbers, ())
        self.key_bytes = [self._work.public_key_bytes]

    def _packed(self, n_rows: int, length: int) -> int:
        """Ciphertexts of a matrix, row by row."""
        return n_rows * math.ceil(length / self._n_digits)

    def _sealed(self, *shapes: tuple[int, int]) -> Sealed:
        return [(sum(self._packed(*shape) for shape in shapes), self._work.ciphertext_bytes)]

    @property
    def inputs(self) -> Sealed:
        """See :class:`Layer`; a batch travels packed along its rows and along its inputs."""
        shape = self._shape
        return self._sealed((shape.n_inputs, shape.n_rows), (shape.n_rows, shape.n_inputs))

    @property
    def share(self) -> Sealed:
        """See :class:`Layer`."""
        return self._sealed((self._shape.n_outputs, self._shape.n_inputs))

    @property
    def outputs(self) -> Sealed:
        """See :class:`Layer`."""
        return self._sealed((self._shape.n_outputs, self._shape.n_rows))

    @property
    def gradients(self) -> Sealed:
        """See :class:`Layer`."""
        shape = self._shape
        return self._sealed((shape.n_outputs, shape.n_inputs), (shape.n_rows, shape.n_inputs))

    def set_up(self, n_layers: int) -> None:
        """See :class:`Layer`; the label holder reads every key twice."""
        self._work.do("keys", "key", n_layers)
        self._work.do("keys", "join", 2 * n_layers)
        self._work.do("keys", "tables", n_layers)

    def encrypt(self, times: float, *, share: bool) -> None:
        """See :class:`Layer`."""
        shape = self._shape
        count = self.inputs[0][0] + (self.share[0][0] if share else 0)
        numbers = 2 * shape.n_rows * shape.n_inputs + share * shape.n_inputs * shape.n_outputs
        self._work.do("encrypt", "encrypt", times * count)
        self._tally.do("encrypt", "pack number", times * numbers)

    def forward(self, times: float) -> None:
        """See :class:`Layer`: the label holder's share, transposed, times the batch."""
        shape = self._shape
        bits = shape.result_bits + MASK_EXTRA_BITS
        self._multiply(times, shape.n_outputs, shape.n_inputs, shape.n_rows, bits)

    def backward(self, times: float, n_rows: int) -> None:
        """See :class:`Layer`; rows that fill a batch up have nothing to multiply."""
        shape, bits = self._shape, self._delta_bits
        self._multiply(times, shape.n_outputs, n_rows, shape.n_inputs, bits)
        self._multiply(times, n_rows, shape.n_outputs, shape.n_inputs, bits)
        empty = self._packed(shape.n_rows - n_rows, shape.n_inputs)
        self._work.do("evaluate", "rerandomise", times * empty)
        self._work.do("decrypt", "decrypt", times * empty)
        known = shape.n_rows * shape.n_inputs * shape.n_outputs
        self._tally.do("evaluate", "plain product", times * known)

    def _multiply(self, times: float, n_rows: int, n_inner: int, length: int, bits: int) -> None:
        """Weights of so many bits (rows x inner) times an encrypted matrix (inner x length)."""
        pieces = math.ceil(length / self._n_digits)
        window = straus_window(bits, n_rows)
        tables = n_inner * (1 << (window - 1))
        # Positive and negative powers have a chain of squarings each.
        per_row = 2 * bits + n_inner * bits / (window + 1)
        work, count = self._work, n_rows * pieces
        work.do("evaluate", "unseal", times * n_inner * pieces)
        work.do("evaluate", "power step", times * pieces * (tables + n_rows * per_row))
        work.do("evaluate", "invert", times * count)
        work.do("evaluate", "merge", times * 2 * count)
        work.do("evaluate", "rerandomise", times * count)
        work.do("decrypt", "decrypt", times * count)
        self._tally.do("evaluate", "pack number", times * n_rows * length)
        self._tally.do("decrypt", "pack number", times * n_rows * length)


class PlainLayer:
    """Without encryption: the same ring in the clear, eight bytes per number."""

    words = 0

    def __init__(self, tally: Counts, params: Params) -> None:
        plan = plan_layer(params.batch_size, params.embedding, params.outputs, RING_BITS)
        self._tally = tally
        self._sizes = (params.batch_size, params.embedding, params.outputs)
        self.keys = PublicKeys("plain", plan.numbers | {"security_bits": 0}, ())
        self.key_bytes: list[int] = []

    @property
    def inputs(self) -> Sealed:
        """See :class:`Layer`."""
        return [(1, 8 * self._sizes[0] * self._sizes[1])]

    @property
    def share(self) -> Sealed:
        """See :class:`Layer`."""
        return [(1, 8 * self._sizes[1] * self._sizes[2])]

    @property
    def outputs(self) -> Sealed:
        """See :class:`Layer`."""
        return [(1, 8 * self._sizes[0] * self._sizes[2])]

    @property
    def gradients(self) -> Sealed:
        """See :class:`Layer`."""
        return [*self.share, *self.inputs]

    def set_up(self, n_layers: int) -> None:
        """See :class:`Layer`: there are no keys."""

    def encrypt(self, times: float, *, share: bool) -> None:
        """See :class:`Layer`: numbers are copied."""

    def forward(self, times: float) -> None:
        """See :class:`Layer`: both sides multiply."""
        self._products(times, 2)

    def backward(self, times: float, n_rows: int) -> None:
        """See :class:`Layer`."""
        self._products(times, 2)

    def _products(self, times: float, count: int) -> None:
        """Some of the four products of a step."""
        self._tally.do("evaluate", "ring step", times * count / 4)
        self._tally.do("evaluate", "ring product", times * count * math.prod(self._sizes))


def layer_of(tally: Counts, params: Params) -> Layer:
    """The kernel of a scheme."""
    if params.scheme == "plain":
        return PlainLayer(tally, params)
    if params.scheme == "paillier":
        return PaillierLayer(tally, params)
    return SealLayer(tally, params)
