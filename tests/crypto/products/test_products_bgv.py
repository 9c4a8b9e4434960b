"""K3: class sums of products of encrypted columns, and polynomials of shares."""

import numpy as np
import pytest

from fedsift.crypto.columns.bgv import product_noise_bits
from fedsift.crypto.modular import recombine
from fedsift.crypto.products.bgv import ColumnHolder, ProductCloud, ProductOwner
from fedsift.crypto.products.plan import (
    PRIME_BITS,
    correction_noise_bits,
    pair_noise_bits,
    plan_products,
    to_residues,
)
from fedsift.crypto.products.ring import multiply_slots
from fedsift.crypto.products.shares import (
    Residue,
    product_factors,
    product_terms,
    taylor_factors,
    taylor_terms,
)
from fedsift.crypto.schemes.seal import workspace
from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.errors import BadCiphertext, ParameterError


class Setting:
    """Owner, two column holders and the cloud on random integer columns."""

    def __init__(self, scheme, n_rows, counts, n_classes, bits=110, seed=0):
        rng = np.random.default_rng(seed)
        n_features = sum(counts)
        self.columns = rng.integers(-(2**14), 2**14, (n_rows, n_features))
        self.codes = rng.integers(0, n_classes, n_rows)
        self.plan = plan_products(n_rows, n_classes, counts, bits)
        self.owner = ProductOwner(self.plan, scheme)
        self.cloud = ProductCloud(self.owner.evaluation_keys, self.plan)
        self.holder = ColumnHolder(self.owner.column_keys, self.plan)
        start = 0
        for place, count in enumerate(counts):
            part = self.columns[:, start : start + count]
            self.cloud.take_columns(self.holder.encrypt_columns(part), place)
            start += count
        self.cloud.take_labels(self.owner.encrypt_labels(self.codes))

    def sums(self, features, mate=None):
        sealed = None if mate is None else self.holder.encrypt_mates(self.columns[:, [mate]])
        masked, corrections, theirs = self.cloud.masked_sums(features, sealed)
        ours = self.owner.open_sums(masked, corrections, features, self.codes)
        return ours, theirs

    def expected(self, features, mate=None):
        values = self.columns[:, features]
        values = values if mate is None else values * self.columns[:, [mate]]
        classes = range(self.plan.n_classes)
        return np.stack([values[self.codes == j].sum(axis=0) for j in classes], axis=1)

    def joined(self, ours, theirs):
        ring = Residue(self.plan.moduli)
        return ring.signed(ring.add(ours, theirs))


@pytest.mark.parametrize(
    ("scheme", "n_rows", "counts", "n_classes"),
    [
        ("bgv", 60, (2, 3), 2),
        ("bgv", 5000, (2,), 3),
        ("plain", 60, (2, 3), 2),
        ("plain", 9000, (2, 1), 2),
        ("plain", 37, (40, 260), 4),
        ("plain", 8192, (1, 1), 2),
    ],
)
def test_class_sums_are_exact(scheme, n_rows, counts, n_classes):
    setting = Setting(scheme, n_rows, counts, n_classes)
    features = list(range(sum(counts)))
    assert (setting.joined(*setting.sums(features)) == setting.expected(features)).all()
    rest = [f for f in features if f != 1]
    assert (setting.joined(*setting.sums(rest, 1)) == setting.expected(rest, 1)).all()


def test_a_column_longer_than_a_ciphertext_under_encryption():
    setting = Setting("bgv", 9000, (2,), 2, bits=70)
    assert setting.plan.n_chunks == 2
    assert (setting.joined(*setting.sums([0], 1)) == setting.expected([0], 1)).all()


def test_each_share_alone_is_uniform():
    """The owner decrypts everything it gets; means of uniform numbers do not depend on the data."""
    setting = Setting("plain", 50, (3,), 2)
    t = setting.plan.moduli[0]
    seen = [setting.sums([0, 1, 2], 0 if i % 2 else None)[0][0] / t for i in range(200)]
    # 1200 uniform numbers: standard error of the mean 0.0083.
    assert abs(np.mean(seen) - 0.5) < 5 * 0.0083
    masked, _, _ = setting.cloud.masked_sums([0])
    slots = np.frombuffer(masked.blobs[0], "<u8") / t
    # Slots without a result are uniform as well.
    assert abs(slots[150:].mean() - 0.5) < 0.02


@pytest.mark.parametrize("scheme", ["bgv", "plain"])
def test_polynomials_and_products_of_shares(scheme):
    setting = Setting(scheme, 40, (2,), 2, bits=150)
    ring = Residue(setting.plan.moduli)
    rng = np.random.default_rng(1)
    x = rng.integers(-500, 500, (3, 4)).astype(object)
    theirs = ring.uniform((3, 4))
    ours = ring.add(ring.of(x), ring.negate(theirs))
    coefficients = rng.integers(-(10**6), 10**6, (9, 4)).astype(object)
    value, terms = taylor_terms(ring, coefficients, ours)
    factors = taylor_factors(ring, theirs, 8)
    total = ring.add(value, ring.total(exchanged(setting, ring, terms, factors), (1,)))
    expected = sum(coefficients[k] * x**k for k in range(9))
    assert (ring.signed(total) == expected).all()

    weights = ring.of(np.array([[2, -3, 5, 7]]))
    parts = [ours, ours[:, [0]], ours[:, [2]]]
    value, terms = product_terms(ring, parts, weights)
    factors = product_factors(ring, [theirs, theirs[:, [0]], theirs[:, [2]]])
    total = ring.add(value, ring.total(exchanged(setting, ring, terms, factors), (1,)))
    assert (ring.signed(total) == np.array([2, -3, 5, 7]) * x * x[[0]] * x[[2]]).all()


def exchanged(setting, ring, terms, factors):
    """Through the cloud, with shares that the owner takes off again."""
    flat = terms.reshape(len(terms), -1)
    shares = ring.uniform((flat.shape[1],))
    sealed = setting.cloud.inner(
        setting.owner.encrypt_vector(flat), factors.reshape(flat.shape), shares
    )
    opened = setting.owner.open_vector(sealed, flat.shape[1])
    return ring.add(opened, ring.negate(shares)).reshape(terms.shape)


def test_the_noise_bounds_hold_with_room_and_flooding_fits():
    setting = Setting("bgv", 5000, (2,), 2, bits=30)
    parameters = setting.plan.parameters[0]
    ring = setting.cloud._rings[0]
    owner = setting.owner._rings[0]._owner
    pair = ring.multiply(setting.cloud._columns[0][0][0], setting.cloud._columns[0][0][1])
    spent = parameters.modulus_bits - owner.noise_budget(pair)
    assert spent < pair_noise_bits(PRIME_BITS, parameters.degree)
    worst = max(pair_noise_bits(PRIME_BITS, 8192), correction_noise_bits(setting.plan))
    assert worst + 40 + 3 <= parameters.modulus_bits
    fresh = ring.load(setting.owner.encrypt_vector(to_residues(np.arange(9), [97])).blobs[0])
    full = np.full(8192, parameters.plain_modulus - 1, dtype=np.uint64)
    full[::2] = 12345
    scaled = ring.scale(fresh, ring.factor(full))
    assert parameters.modulus_bits - owner.noise_budget(scaled) < product_noise_bits(PRIME_BITS, 1)


def test_returned_ciphertexts_have_the_same_noise_whatever_was_computed():
    """Circuit privacy: a product and a fresh column cannot be told apart by their budgets."""
    setting = Setting("bgv", 100, (2,), 2, bits=30)
    owner = setting.owner._rings[0]._owner
    space = workspace(setting.plan.parameters[0])
    budgets = set()
    for mate in (None, 1):
        sealed = None if mate is None else setting.holder.encrypt_mates(setting.columns[:, [mate]])
        masked, _, _ = setting.cloud.masked_sums([0], sealed)
        budgets.add(owner.noise_budget(space.ciphertext(masked.blobs[0], space.resting_level)))
    assert max(budgets) - min(budgets) <= 1


def test_multiply_slots_and_residues_against_python():
    t = setting_prime = plan_products(10, 2, (1,), 30).moduli[0]
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, t, (2, 100), dtype=np.uint64)
    expected = [int(x) * int(y) % setting_prime for x, y in zip(a, b, strict=True)]
    assert multiply_slots(a, b, t).tolist() == expected
    assert Residue([t]).multiply(a[None], b[None])[0].tolist() == expected
    assert recombine([a], [t]).tolist() == [int(x) - t if int(x) > t // 2 else int(x) for x in a]


def test_primes_follow_the_size_of_the_numbers():
    assert len(plan_products(100, 2, (3,), 30).moduli) == 1
    assert len(plan_products(100, 2, (3,), 116).moduli) == 3
    with pytest.raises(ParameterError, match="400 bits"):
        plan_products(100, 2, (3,), 400)


def test_wrong_numbers_of_ciphertexts_and_keys_are_refused():
    setting = Setting("bgv", 30, (2,), 2, bits=30)
    with pytest.raises(BadCiphertext, match="0 ciphertexts"):
        setting.cloud.take_columns(Ciphertexts("bgv", ()), 0)
    with pytest.raises(BadCiphertext, match="bytes"):
        setting.cloud.take_columns(Ciphertexts("bgv", (b"no",)), 0)
    with pytest.raises(BadCiphertext, match="keys"):
        ColumnHolder(setting.owner.evaluation_keys, setting.plan)
    with pytest.raises(BadCiphertext, match="scheme"):
        ColumnHolder(PublicKeys("rot13", {}, (b"",)), setting.plan)
    fresh = ProductCloud(setting.owner.evaluation_keys, setting.plan)
    with pytest.raises(BadCiphertext, match="0 parties"):
        fresh.masked_sums([0])


def test_representations_show_no_content():
    setting = Setting("plain", 30, (2,), 2, bits=30)
    assert repr(setting.owner) == "<K3 owner, plain, 1 primes>"
    assert repr(setting.cloud) == "<K3 cloud, plain, 1 primes>"
