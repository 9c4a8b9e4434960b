# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Cost of a blind training: the number of steps is fixed, so it is known before the run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

import numpy as np

from fedsift.costs.counts import MASKING_KEY, Counts, Expected, Frame, PaillierWork, Ring, frame
from fedsift.crypto.products.between_two import DEGREE, N_PRIMES, PRIME_BITS, WIDEST
from fedsift.crypto.products.between_two_bgv import (
    number_parameters,
    results_of,
    table_parameters,
)
from fedsift.crypto.schemes.seal_seeded import seeded_bytes
from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.data import Federation
from fedsift.methods.fedsdg.blind import messages
from fedsift.methods.fedsdg.blind.params import BlindParams
from fedsift.methods.fedsdg.blind.tables import tiles, uses_at_once
from fedsift.methods.fedsdg.messages import Chosen
from fedsift.methods.fedsdg.row_splits import equal_batches
from fedsift.methods.filter.costs import count_scores
from fedsift.protocol import MaskedArray, Message, PublicArray

_NONE = Ciphertexts("", ())
Sealed = tuple[int, int]
"""Number of ciphertexts, and bytes of each."""

_STEPS_OF_SHARES = 26
"""Sums and products modulo two primes that a number goes through in one exchange, about."""

_SMALL_POWER = 17
"""Multiplications of a power with an exponent of 11 bits."""


def expect_blind(federation: Federation, params: BlindParams) -> Expected:
    """Walk through the training."""
    return Expected(_Walk(federation, params).run())


class _Products:
    """K5: sizes and work."""

    def __init__(self, tally: Counts, params: BlindParams) -> None:
        self._scheme, self._tally = params.scheme, tally
        self._numbers = Ring(tally, number_parameters()[0])
        self._tables = Ring(tally, table_parameters()[0])
        self._paillier = PaillierWork(tally, params.security_bits)

    def set_up(self) -> list[int]:
        """Make and read keys; their bytes."""
        if self._scheme == "plain":
            return []
        if self._scheme == "paillier":
            self._paillier.do("keys", "key")
            return [self._paillier.public_key_bytes]
        rings = [self._numbers] * N_PRIMES + [self._tables] * N_PRIMES
        for ring in rings:
            ring.make_keys("keys", 0)
            ring.read_keys("keys", 0)
        return [ring.public_key_bytes for ring in rings]

    def numbers(self, length: int, *, fresh: bool) -> Sealed:
        """Ciphertexts of some numbers, sealed by the owner or on their way back."""
        levels = number_parameters()[0].levels
        size = seeded_bytes(DEGREE, levels) if fresh else self._numbers.result_bytes
        return self._sealed(length, _n_slot_rows(length), size)

    def matrix(self, n_rows: int, n_samples: int, *, fresh: bool) -> Sealed:
        """Ciphertexts of a matrix that meets a table, or of what it becomes."""
        if not fresh:
            count = math.ceil(n_rows / results_of(n_samples))
            return self._sealed(n_rows * n_samples, count, self._tables.result_bytes)
        size = seeded_bytes(DEGREE, table_parameters()[0].levels)
        return self._sealed(n_rows * n_samples, n_rows, size)

    def _sealed(self, length: int, count: int, size: int) -> Sealed:
        if self._scheme == "plain":
            return 1, 8 * N_PRIMES * length
        if self._scheme == "paillier":
            return length, self._paillier.ciphertext_bytes
        return N_PRIMES * count, size

    def exchange(self, up: list[int], down: list[int], times: float, n_terms: int) -> None:
        """Encrypt, multiply number by number, hide and decrypt numbers of these lengths."""
        total = sum(up) + sum(down)
        self._tally.do("evaluate", "share number", times * _STEPS_OF_SHARES * total)
        if self._scheme == "paillier":
            bits = N_PRIMES * PRIME_BITS
            self._paillier.do("encrypt", "encrypt public", times * sum(up))
            self._paillier.do("evaluate", "power step", times * n_terms * 1.2 * bits * max(up))
            self._paillier.do("evaluate", "rerandomise", times * sum(down))
            self._paillier.do("decrypt", "decrypt", times * sum(down))
        if self._scheme != "bgv":
            return
        n_up, n_down = (N_PRIMES * times * sum(map(_n_slot_rows, part)) for part in (up, down))
        n_products = N_PRIMES * times * n_terms * _n_slot_rows(max(up))
        ring = self._numbers
        ring.do("encrypt", "seal", n_up)
        ring.do("evaluate", "read", n_up)
        ring.do("evaluate", "factor", n_products)
        ring.do("evaluate", "multiply", n_products)
        ring.do("evaluate", "hide", n_down)
        ring.do("decrypt", "decrypt", n_down)

    def prepare(self, n_inputs: int, n_outputs: int, n_samples: int, times: float) -> None:
        """Multiply a tile of a table with encrypted masks."""
        masks = times * (2 * n_inputs + 2 * n_outputs) * n_samples
        self._tally.do("prepare", "share mask", masks)
        n_terms = times * n_inputs * n_outputs
        if self._scheme == "plain":
            self._tally.do("prepare", "share product", n_terms * n_samples)
        if self._scheme == "paillier":
            self._paillier.do("prepare", "encrypt public", times * n_inputs * n_samples)
            self._paillier.do("prepare", "power step", _SMALL_POWER * n_terms * n_samples)
            self._paillier.do("prepare", "rerandomise", times * n_outputs * n_samples)
            self._paillier.do("prepare", "decrypt", times * n_outputs * n_samples)
        if self._scheme != "bgv":
            return
        ring, times = self._tables, N_PRIMES * times
        n_results = times * math.ceil(n_outputs / results_of(n_samples))
        ring.do("prepare", "seal", times * n_inputs)
        ring.do("prepare", "read", times * n_inputs)
        ring.do("prepare", "term", N_PRIMES * n_terms)
        ring.do("prepare", "load", times * n_outputs)
        ring.do("prepare", "multiply", times * n_outputs)
        ring.do("prepare", "hide", n_results)
        ring.do("prepare", "decrypt", n_results)

    def open_product(self, n_terms: float) -> None:
        """A table times open residues."""
        self._tally.do("evaluate", "share product", n_terms)


def _n_slot_rows(length: int) -> int:
    return max(1, math.ceil(length / DEGREE))


class _Walk:
    def __init__(self, federation: Federation, params: BlindParams) -> None:
        self._params, self._federation = params, federation
        self.tally = Counts()
        holder = federation.label_holder
        self._tables = {p: t for p, t in federation.tables.items() if p != holder}
        self._own = federation.tables.get(holder or "")
        n_validation = max(1, round(federation.n_rows * params.validation))
        self._n_validation = n_validation
        self._n_training = federation.n_rows - n_validation
        self._training, self._judging = (
            Counter(map(len, equal_batches(np.arange(n), params.batch_size)))
            for n in (self._n_training, n_validation)
        )
        self._n_passes = params.n_passes
        self._products = _Products(self.tally, params)

    @property
    def _openings(self) -> int:
        return self._params.n_openings if self._params.has_gates else 0

    @property
    def _steps(self) -> int:
        return self._n_passes * self._training.total()

    @property
    def _counted(self) -> int:
        return self._openings * self._params.passes * self._training.total()

    @property
    def _n_gated(self) -> int:
        return self._steps + self._params.n_judgements + 1

    def _forwards(self) -> Iterator[tuple[int, int]]:
        """Rows of a batch, and how many of this size are computed."""
        for batches, uses in self._uses():
            for n_rows, count in batches.items():
                yield n_rows, count * uses

    def _uses(self) -> tuple[tuple[Counter[int], int], tuple[Counter[int], int]]:
        return (self._training, self._n_passes), (self._judging, self._params.n_judgements)

    def run(self) -> Counts:
        """All messages and products."""
        params = self._params
        if not self._tables:
            return self.tally
        if params.init == "gini" and params.has_gates:
            settings = params.filter_params
            self.tally.add(count_scores(self._federation, self._n_training, settings))
        for number, table in enumerate(self._tables.values()):
            rounds = self.tally.rounds
            self._party(table.n_columns)
            if number:  # all parties are asked at once
                self.tally.rounds = rounds
        if len(self._tables) > 1:
            wrapped = MaskedArray.of(np.zeros(32, dtype=np.int64))
            self.tally.ask(messages.CommonSecret(wrapped), others=len(self._tables) - 1)
        self._helper()
        if self._own is not None:
            self._own_columns(self._own.n_columns)
        return self.tally

    def _send(
        self, request: Message, up: list[Sealed], reply: Message, down: list[Sealed], times: int
    ) -> None:
        self.tally.ask(frame(request, *up), frame(reply, *down), others=1, times=times)

    def _party(self, n_columns: int) -> None:
        params, products, n_rows = self._params, self._products, self._federation.n_rows
        rows = PublicArray.of(np.zeros(n_rows, dtype=np.int64))
        none = PublicArray.of(np.zeros(0, dtype=np.int64))
        widths = PublicArray.of(np.ones(n_columns, dtype=np.int64))
        ready = messages.BlindReady(widths, MASKING_KEY)
        self.tally.ask(messages.BlindStart(n_rows, rows, none, -1), ready, others=1)
        keys = dict.fromkeys(self._tables, MASKING_KEY)
        n_own = 0 if self._own is None else self._own.n_columns
        own = PublicArray.of(np.ones(n_own, dtype=np.int64))
        told = messages.BlindKeys(
            PublicKeys(params.scheme, {}, ()), "party", keys, self._federation.n_features, own
        )
        answer = Frame(messages.HelperKeys(None, None, {}))
        self.tally.ask(frame(told, keys=products.set_up()), answer, others=1)
        length = params.hidden * n_columns
        flat, back = (products.numbers(length, fresh=fresh) for fresh in (True, False))
        drawn, gated = messages.GatesDrawn(_NONE, None), messages.GatedWeights(_NONE)
        self._send(drawn, [flat], gated, [back], self._n_gated)
        products.exchange([length], [length], self._n_gated, 1)
        for n_inputs, n_outputs, n_samples, first, size, times in self._tiles(n_columns):
            up = products.matrix(n_inputs, n_samples, fresh=True)
            down = products.matrix(n_outputs, n_samples, fresh=False)
            some = PublicArray.of(np.zeros(size, dtype=np.int64))
            wanted = messages.ProductsWanted(1, some, True, True, first, 99, _NONE)
            self._send(wanted, [up], messages.ProductsMade(_NONE), [down], times)
            products.prepare(n_inputs, n_outputs, n_samples, times)
        weights = self._masked(n_columns)
        for size, times in self._forwards():
            share = messages.HiddenShare(self._masked(size), None)
            self.tally.ask(messages.RowsWanted(1, weights), share, others=1, times=times)
            self._open_products(size, n_columns, times)
        for size, count in self._training.items():
            for times, before in self._counting(count):
                step = messages.StepWanted(self._masked(size), (_NONE,) * before)
                seals = [flat] * before
                self.tally.ask(frame(step, *seals), others=1, times=times)
                products.exchange([length] * before or [0], [], times, before)
                self._open_products(size, n_columns, times)
        opening, sums = messages.Opening(_NONE, None, None), messages.GateSums(_NONE, None)
        self._send(opening, [flat], sums, [back], self._openings)
        products.exchange([length], [length], self._openings, 1)
        if params.n_whole:
            self.tally.ask(Frame(messages.Restart()), Frame(messages.Restarted(None)), others=1)
        self.tally.ask(Chosen((1, 2)), others=1)

    def _counting(self, count: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """Steps of so many batches that are counted, with their ciphertexts, and that are not."""
        n_counted = self._openings * self._params.passes
        return (count * n_counted, 3), (count * (self._n_passes - n_counted), 0)

    def _masked(self, n_numbers: int) -> MaskedArray:
        return MaskedArray.of(np.zeros((N_PRIMES, self._params.hidden, n_numbers), np.uint64))

    def _open_products(self, n_rows: int, n_columns: int, times: int) -> None:
        """A product with the table in the clear, with its masks on both sides."""
        hidden = self._params.hidden
        numbers = times * hidden * (n_rows + n_columns)
        self.tally.do("evaluate", "share mask", 2 * numbers)
        self._products.open_product(times * hidden * n_rows * n_columns)

    def _tiles(self, n_columns: int) -> Iterator[tuple[int, int, int, int, int, int]]:
        """Inputs, outputs, samples, first input, rows, and how many such products are prepared."""
        hidden = self._params.hidden
        for training, (batches, uses) in zip((True, False), self._uses(), strict=True):
            for size, count in batches.items():
                for back in (False, True) if training else (False,):
                    n_inputs, n_outputs = (size, n_columns) if back else (n_columns, size)
                    left = uses
                    while left > 0:
                        some = uses_at_once(left, hidden, n_outputs, batches.total())
                        left -= some
                        for first in tiles(n_inputs):
                            width = min(WIDEST, n_inputs - first)
                            yield width, n_outputs, some * hidden, first, size, count

    def _helper(self) -> None:
        """Products of shares with the helper."""
        params, products = self._params, self._products
        for size, times in self._forwards():
            length = params.hidden * size
            up, down = (products.numbers(length, fresh=fresh) for fresh in (True, False))
            squares = messages.SquareShare(_NONE)
            self._send(messages.SquaresWanted(_NONE), [up], squares, [down], times)
            products.exchange([length], [length], times, 1)
            self.tally.do("evaluate", "share mask", times * len(self._tables) * length * 2)
        for size, count in self._training.items():
            times, length = count * self._n_passes, params.hidden * size
            up, down = (products.numbers(length, fresh=fresh) for fresh in (True, False))
            share = messages.SlopeShare(_NONE, None, ())
            self._send(messages.SlopesWanted(_NONE), [up], share, [down], times)
            products.exchange([length], [length], times, 2)
        length = params.n_outputs * self._n_validation
        up, down = (products.numbers(length, fresh=fresh) for fresh in (True, False))
        losses, told = messages.LossesWanted(_NONE), messages.LossSums(_NONE)
        self._send(losses, [up], told, [down], params.n_judgements)
        products.exchange([length], [length], params.n_judgements, 1)

    def _own_columns(self, n_columns: int) -> None:
        """The label holder's own, with the helper's key; some travel with other messages."""
        params, products = self._params, self._products
        keys = products.set_up()
        length = params.hidden * n_columns
        flat, back = (products.numbers(length, fresh=fresh) for fresh in (True, False))
        self._also(flat, 2)
        self._also(back, self._n_gated)
        products.exchange([length], [length], self._n_gated, 1)
        for n_inputs, n_outputs, n_samples, first, size, times in self._tiles(n_columns):
            wanted = messages.OwnMasksWanted(1, size, True, first, 99)
            up = products.matrix(n_inputs, n_samples, fresh=True)
            self._send(wanted, [], messages.OwnMasks(_NONE), [up], times)
            down = products.matrix(n_outputs, n_samples, fresh=False)
            told = messages.OwnProducts(1, size, True, first, _NONE)
            self.tally.ask(frame(told, down), others=1, times=times)
            products.prepare(n_inputs, n_outputs, n_samples, times)
        for size, times in self._forwards():
            self.tally.n_bytes += times * 8 * N_PRIMES * length
            self._open_products(size, n_columns, times)
        for size, count in self._training.items():
            times = count * self._n_passes
            self.tally.n_bytes += times * 8 * N_PRIMES * params.hidden * size
            self._open_products(size, n_columns, times)
        self._also(flat, 4 * self._steps)
        products.exchange([length] * 4, [], self._steps, 3)
        self._also(back, self._openings)
        products.exchange([0], [length], self._openings, 0)
        for fresh in (True, False):
            self._also(products.numbers(n_columns, fresh=fresh), self._openings)
        products.exchange([n_columns], [n_columns], self._openings, 1)
        self.tally.n_bytes += sum(keys)

    def _also(self, sealed: Sealed, times: int) -> None:
        """Ciphertexts that travel with other messages."""
        self.tally.n_bytes += times * sealed[0] * sealed[1]
        self.tally.ciphertexts += times * sealed[0]
