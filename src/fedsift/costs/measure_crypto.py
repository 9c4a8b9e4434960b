# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The calibration of encryption, and of the same steps without it."""

from __future__ import annotations

import math
import secrets
import statistics
import time
from collections.abc import Callable
from itertools import cycle, pairwise
from typing import Any

import numpy as np

from fedsift.crypto.layer.plan import MaskKind

_AT_ONCE = 12
"""Ciphertexts that are taken in turn: a run has more of them than a processor's cache."""

_LAYER_RESULTS: tuple[MaskKind, ...] = ("output", "weights", "inputs")
_LAYER_PRODUCTS = 4
"""Products of a step: three at the evaluator, one at the owner."""

_PAIRS_KEPT = 0.66
"""Pairs of primes that are kept: those with nothing but 2 in common below them (twin primes'
constant)."""

_N_BASES, _EXPONENT_BITS, _WINDOW = 16, 80, 4
_N_STEPS = _EXPONENT_BITS * (1 + _N_BASES / (_WINDOW + 1))


def _long_exponents() -> list[int]:
    """Exponents that all have the full length, for products of powers."""
    top = 1 << (_EXPONENT_BITS - 1)
    return [secrets.randbits(_EXPONENT_BITS) | top for _ in range(_N_BASES)]


def bgv() -> Seconds:
    """SEAL in the ring that others are compared with."""
    from fedsift.crypto.modular import uniform_below
    from fedsift.crypto.schemes.seal import (
        SealOwner,
        SealParameters,
        SealPublic,
        Workspace,
        plain_primes,
    )

    prime = plain_primes(8192, 40)[0]
    parameters = SealParameters("bgv", 8192, 3, prime)
    context = per_call(lambda: Workspace(parameters))
    SealOwner(parameters)  # keeps the context that all others use
    bare = per_call(lambda: SealOwner(parameters))
    whole = per_call(lambda: SealOwner(parameters, steps=(1, 8)))
    owner = SealOwner(parameters, steps=(1,), relinearise=True)
    blobs = owner.public_blobs
    public = SealPublic(parameters, blobs, rotations=True, relinearise=True)
    reading = per_call(lambda: SealPublic(parameters, blobs, rotations=True, relinearise=True))
    space, slots = public.workspace, uniform_below(prime, 8192)
    fresh = owner.encrypt(slots)
    turn = cycle([space.ciphertext(owner.encrypt(slots), 3) for _ in range(_AT_ONCE)])
    dense, index = uniform_below(prime, (256, 256)), np.arange(8192) % 256
    places = np.stack([np.arange(4096) % 256] * 2)

    def factor() -> Any:
        picked = dense[np.roll(index[:4096], 3), np.roll(places, -1, axis=1)]
        return space.encode_factor(picked, 3)

    made, total = cycle([factor() for _ in range(_AT_ONCE)]), space.ciphertext(fresh, 3)

    def add_multiple() -> None:
        space.evaluator.add_inplace(total, space.evaluator.multiply_plain(next(turn), next(made)))

    def product() -> None:
        both = space.evaluator.multiply(next(turn), next(turn))
        space.evaluator.relinearize_inplace(both, public.relinearisation)

    def hide() -> bytes:
        masked = space.evaluator.add_plain(next(turn), space.encode(uniform_below(prime, 8192)))
        return public.hide_circuit(masked, 110.0)

    result = hide()
    return {
        "bgv context": context,
        "bgv key": bare,
        "bgv switch key": max(whole - bare, 0.0) / 2,
        "bgv switch key read": reading * 3 / 7,
        "bgv encrypt": per_call(lambda: owner.encrypt(slots)),
        "bgv encrypt public": per_call(lambda: public.encrypt(slots)),
        "bgv decrypt": per_call(lambda: owner.decrypt(result)),
        "bgv load": per_call(lambda: space.ciphertext(fresh, 3)),
        "bgv factor": per_call(factor),
        "bgv multiply": per_call(add_multiple),
        "bgv rotate": per_call(lambda: public.rotate(next(turn), 1)),
        "bgv product": per_call(product),
        "bgv hide": per_call(hide),
    }


def shares() -> Seconds:
    """Products of shared numbers: seeded ciphertexts, tables, and residues in the clear."""
    from fedsift.crypto.masking import masks_modulo
    from fedsift.crypto.products.between_two import moduli
    from fedsift.crypto.products.between_two_bgv import _small_product, number_parameters
    from fedsift.crypto.products.between_two_plain import small_product
    from fedsift.crypto.products.shares import Residue
    from fedsift.crypto.schemes.seal import SealOwner, SealPublic
    from fedsift.crypto.schemes.seal_seeded import SeededEncryptor, SeededReader

    parameters, ring = number_parameters()[0], Residue(moduli())
    owner = SealOwner(parameters)
    reader = SeededReader(SealPublic(parameters, owner.public_blobs))
    key, numbers = SeededEncryptor(owner), ring.uniform((8192,))
    sealed = key.encrypt_slots(numbers[0])
    table = np.arange(64 * 128).reshape(64, 128) % 2000
    words = np.stack([reader.words(sealed)[0, 0]] * 128)
    prime, matrix = reader.primes[0], ring.uniform((128, 32))
    # A ciphertext of the reference ring is six such polynomials.
    term = per_call(lambda: _small_product(table.astype(np.float64), words, prime)) * 6
    mask = per_call(lambda: masks_modulo(bytes(32), "rate", (8192,), moduli()[0]))
    return {
        "bgv seal": per_call(lambda: key.encrypt_slots(numbers[0])),
        "bgv read": per_call(lambda: reader.load(sealed)),
        "bgv term": term / table.size,
        "share mask": mask / 8192 * len(moduli()),
        "share number": per_call(lambda: ring.multiply(numbers, numbers)) / 8192,
        "share product": per_call(lambda: small_product(table, matrix)) / table.size / 32,
    }


def paillier() -> Seconds:
    """Paillier with a key of 3072 bits."""
    import gmpy2
    from gmpy2 import mpz

    from fedsift.crypto.schemes.multiexp import (
        SharedBases,
        StrausTables,
        bucket_products,
        joined_powers,
    )
    from fedsift.crypto.schemes.paillier import PaillierPrivateKey, PaillierPublicKey
    from fedsift.crypto.schemes.paillier_proof import make_roots
    from fedsift.crypto.vectors.paillier import _VectorPacking as VectorPacking
    from fedsift.methods.vfps.blinding import VALUE_BITS

    # How long a search for primes takes is luck: its mean follows from the time of a candidate.
    fixed = (3 << 1534) | 3
    candidates = cycle([mpz(secrets.randbits(1536) | fixed) for _ in range(200)])
    per_candidate = per_call(lambda: gmpy2.is_prime(next(candidates), 40), 3.0)
    key = PaillierPrivateKey.generate(3072)
    confirming = per_call(lambda: gmpy2.is_prime(key._p, 40), BRIEFLY)
    per_prime = per_candidate * 1536 * math.log(2) / 2 + confirming
    start = time.process_time()
    PaillierPublicKey(key.public.n, make_roots(key.public.n, key._p, key._q))
    making = 2 * per_prime / _PAIRS_KEPT + time.process_time() - start
    start = time.process_time()
    key.encrypt_many([1])
    key.public.rerandomise_many([mpz(5)])
    tables = time.process_time() - start
    numbers, exponents = (
        key.encrypt_many(list(range(40))),
        cycle([_long_exponents() for _ in "abcd"]),
    )
    start = time.process_time()
    other = PaillierPublicKey.from_bytes(key.public.to_bytes())
    joining, start = time.process_time() - start, time.process_time()
    other.encrypt_many([1])
    public_tables = time.process_time() - start
    sealed = key.public.seal(numbers)
    powers = StrausTables(numbers[:_N_BASES], key.public.n, 4)
    pack = VectorPacking(key.public, VALUE_BITS)
    digits = np.arange(pack.digits.n_digits)
    bases = SharedBases(numbers, key.public.n)
    codes = np.zeros((40, 1), dtype=np.int64)
    n, square = key.public.n, key.public.n_squared
    return {
        "paillier key": making,
        "paillier tables": tables,
        "paillier join": joining,
        "paillier tables public": public_tables,
        "paillier encrypt public": per_call(lambda: other.encrypt_many([7])),
        "paillier unseal": per_call(lambda: key.public.unseal(sealed, 40)) / 40,
        "paillier invert": per_call(lambda: gmpy2.invert(numbers[0], square), BRIEFLY),
        "paillier power step": per_call(lambda: powers.product(next(exponents))) / _N_STEPS,
        "pack number": per_call(lambda: pack.pack(digits), BRIEFLY) / len(digits),
        "paillier encrypt": per_call(lambda: key.encrypt_many([7])),
        "paillier decrypt": per_call(lambda: key.decrypt_many([numbers[0]])),
        "paillier rerandomise": per_call(lambda: key.public.rerandomise_many([numbers[0]])),
        "paillier read": per_call(lambda: SharedBases(numbers[:1], n)),
        "paillier multiply": per_call(lambda: bucket_products(bases, codes, 2)) / 40,
        "paillier merge": per_call(lambda: numbers[0] * numbers[1] % square),
        "paillier shift": per_call(
            lambda: joined_powers(numbers[:2], [1, 1], n, digit_bits=512, n_digits=2)
        )
        / 512,
    }


def openly() -> Seconds:
    """Runs without encryption: Python's integers, rings of small numbers, and open slots."""
    from fedsift.crypto.columns import plain as counts_plain
    from fedsift.crypto.modular import uniform_below
    from fedsift.crypto.products.bgv import _Diagonals as Diagonals
    from fedsift.crypto.products.plan import plan_products
    from fedsift.crypto.products.ring import PlainEvaluator
    from fedsift.crypto.schemes.seal import SealParameters, plain_primes
    from fedsift.crypto.wire import Ciphertexts
    from fedsift.methods.vfps import blinding

    prime = plain_primes(8192, 40)[0]
    ring = PlainEvaluator(SealParameters("bgv", 8192, 3, prime))
    slots = uniform_below(prime, 8192)
    blob, total = ring.encrypt(slots), slots.copy()
    # Columns of some length: most of the time goes into fetching their numbers from memory.
    plan = plan_products(4000, 2, (32,), 40)
    diagonals = Diagonals(uniform_below(prime, (32, 4000)), plan.layout)
    columns, size = uniform_below(prime, (plan.n_blocks(32), plan.slots)), plan.slots / 8192
    features, blocks = range(32), range(len(columns))
    integers = np.arange(1000).astype(object).reshape(500, 2)
    codes, bins = np.arange(500) % 10, np.zeros((10, 2), dtype=object)
    vector = np.arange(8192, dtype=np.int64)

    def number() -> Any:
        written = counts_plain._to_bytes(map(int, integers.ravel()), 64)
        return counts_plain._open(Ciphertexts("plain", (written,)), [(1000, 64)])

    def quick(action: Any, count: float) -> float:
        return per_call(action, BRIEFLY) / count

    def multiply() -> Any:
        return ring.add(total, ring.scale(slots, slots))

    def hide() -> bytes:
        return ring.finish(slots, uniform_below(prime, 8192), 0.0)

    # Masks and opened sums are cut into rows again.
    cutting = quick(lambda: plan.rows_of(features, blocks, columns), len(columns) * size)
    open_number = quick(lambda: blinding._read(blinding._written(vector), 8192), 8192) / 2
    return {
        "plain number": quick(number, 2000),
        "plain sum": quick(lambda: np.add.at(bins, codes, integers), 1000),
        "plain product": quick(lambda: integers.T @ integers, 2000),
        **_open_layer(),
        "open number": open_number,
        "open slots": quick(lambda: ring.load(blob), 1),
        "open factor": quick(lambda: diagonals.slots(0, 1, 1), size),
        "open multiply": quick(multiply, 1),
        "open rotate": quick(lambda: ring.rotate(slots, 3), 1),
        "open hide": quick(hide, 1) + cutting,
        "open decrypt": quick(lambda: ring.load(blob), 1) + cutting,
    }


def _open_layer() -> Seconds:
    """A step through an interactive layer without encryption, and one multiply-add in it."""
    from fedsift.crypto.layer.api import exact_product, join_layer, own_layer

    side, seconds = 16, {}
    for n_rows in (8, 256):
        owner = own_layer("plain", n_rows, side, side)
        evaluator = join_layer(owner.keys, n_rows, side, side)
        share, rows = owner.random_share(), np.ones((n_rows, side), dtype=np.int64)
        masks = {kind: evaluator.masks(kind) for kind in _LAYER_RESULTS}

        def step(
            owner: Any = owner,
            evaluator: Any = evaluator,
            share: Any = share,
            rows: Any = rows,
            m: Any = masks,
        ) -> None:
            batch = owner.encrypt_input(rows)
            owner.decrypt_output(evaluator.forward(batch, share, m["output"]))
            exact_product(rows, share, owner.modulus)
            owner.decrypt_weight_gradient(evaluator.weight_gradient(batch, rows, m["weights"])[0])
            sealed = evaluator.input_gradient(owner.encrypt_share(share), rows, share, m["inputs"])
            owner.decrypt_input_gradient(sealed)

        seconds[n_rows] = per_call(step)
    slope = max(seconds[256] - seconds[8], 0.0) / (248 * side**2 * _LAYER_PRODUCTS)
    fixed = seconds[8] - 8 * side**2 * _LAYER_PRODUCTS * slope
    return {"ring product": slope, "ring step": max(fixed, 0.0)}


Seconds = dict[str, float]

SHARE = 0.035
"""Seconds that one unit is measured for."""

BRIEFLY = 0.4


_GROUPS = 5


def per_call(action: Callable[[], Any], times: float = 1.0) -> float:
    """Processor seconds of one call, measured for so many times the usual share of a second.

    The median over groups of calls: a moment in which the machine was busy is left out.
    """
    action()
    share, ends = times * SHARE, [time.process_time()]
    while ends[-1] - ends[0] <= share:
        action()
        ends.append(time.process_time())
    seconds = [late - early for early, late in pairwise(ends)]
    size = -(-len(seconds) // _GROUPS)
    groups = [seconds[first : first + size] for first in range(0, len(seconds), size)]
    return statistics.median(map(statistics.fmean, groups))
