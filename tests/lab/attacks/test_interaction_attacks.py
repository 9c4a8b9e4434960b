"""Attacks on the interaction protocol: columns at the cloud, counts from scores, blinding."""

import math
from itertools import pairwise

import numpy as np
import pytest

from fedsift.crypto.products.bgv import ColumnHolder, ProductCloud, ProductOwner
from fedsift.crypto.products.plan import plan_products
from fedsift.crypto.wire import Ciphertexts
from fedsift.data import split_vertical
from fedsift.engine import run_local
from fedsift.lab.attacks.interaction import (
    best_likeness,
    reconstruct,
    relevance_of,
    tables_that_explain,
    unblind,
)
from fedsift.methods.interaction import label_owner as interaction
from fedsift.methods.interaction import measures
from fedsift.methods.interaction.fixed_point import FixedSearch
from fedsift.methods.interaction.messages import MESSAGES, Params
from fedsift.protocol import Codec

N_ROWS = 300


def three_parties(seed=0):
    """Labels at 'hospital', columns at 'hospital', 'bank' and 'shop'."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(N_ROWS) % 3)
    X = rng.normal(size=(N_ROWS, 5))
    X[:, :3] += np.eye(3)[y]
    owned = [[0], [1, 2], [3, 4]]
    federation = split_vertical(X, y, owned, names=["hospital", "bank", "shop"], random_state=0)
    return federation, X, y


def recorded(scheme, n_select=3):
    """A run with all frames kept: what every party received, and the true columns."""
    federation, X, y = three_parties()
    params = Params(n_features_to_select=n_select, scheme=scheme, seed=0)
    nodes = interaction.build_nodes(
        federation.tables, federation.label_holder, federation.target, federation.n_rows, params
    )
    outcome = run_local(interaction.PROTOCOL, nodes, keep_frames=True, protected=scheme != "plain")
    return outcome, nodes, X, y


def ciphertexts_at(outcome, *parties):
    """Everything encrypted that some parties received."""
    codec, found = Codec(MESSAGES), []
    for party in parties:
        for message in outcome.transcript.messages(party, codec, list(MESSAGES)):
            fields = [getattr(message, name) for name in message.__struct_fields__]
            found += [value for value in fields if isinstance(value, Ciphertexts)]
    return found


@pytest.fixture(scope="module")
def secure():
    return recorded("bgv")


@pytest.fixture(scope="module")
def plain():
    return recorded("plain")


@pytest.mark.parametrize("group", [("cloud",), ("cloud", "bank")])
def test_without_encryption_the_cloud_reads_every_column(plain, group):
    outcome, _, X, _ = plain
    seen = ciphertexts_at(outcome, *group)
    for column in measures.standardise(X).T:
        assert best_likeness(seen, column) > 0.7


@pytest.mark.parametrize("group", [("cloud",), ("cloud", "bank")])
def test_the_cloud_alone_or_with_one_owner_finds_no_column(secure, group):
    outcome, _, X, y = secure
    seen = ciphertexts_at(outcome, *group)
    assert seen
    assert all(part.scheme == "bgv" for part in seen)
    rng = np.random.default_rng(1)
    by_chance = best_likeness(seen, rng.normal(size=N_ROWS))
    for column in (*measures.standardise(X).T, (y == 1).astype(float)):
        assert best_likeness(seen, column) < max(0.5, 1.3 * by_chance)


def test_nobody_but_the_label_owner_can_decrypt(secure):
    _, nodes, _, _ = secure
    keys = [
        name
        for party, roles in nodes.items()
        for role in roles
        if role.role_name != "label owner"
        for name, value in vars(role).items()
        if "SealOwner" in repr(type(value)) or isinstance(value, ProductOwner)
    ]
    assert keys == []


def test_the_same_column_never_gives_the_same_ciphertext():
    plan = plan_products(40, 2, (1,), 60)
    owner = ProductOwner(plan)
    holder = ColumnHolder(owner.column_keys, plan)
    column = np.arange(40)[:, None]
    assert holder.encrypt_columns(column).blobs[0] != holder.encrypt_columns(column).blobs[0]


def test_what_the_label_owner_opens_on_the_way_is_uniform():
    """Masked products: the likeness to the true product is that of any other numbers."""
    plan = plan_products(N_ROWS, 2, (1,), 60)
    owner = ProductOwner(plan)
    cloud = ProductCloud(owner.evaluation_keys, plan)
    holder = ColumnHolder(owner.column_keys, plan)
    rng = np.random.default_rng(0)
    column = rng.integers(-4096, 4097, N_ROWS)
    cloud.take_columns(holder.encrypt_columns(column[:, None]), 0)
    cloud.take_labels(owner.encrypt_labels(np.arange(N_ROWS) % 2))
    masked, _, _ = cloud.masked_sums([0], holder.encrypt_mates(column[:, None]))
    opened = owner.open_vector(masked, N_ROWS)[0].astype(float)
    assert abs(np.corrcoef(opened, column.astype(float) ** 2)[0, 1]) < 5 / math.sqrt(N_ROWS)


CLASS_SIZES = (41, 43, 47, 53)
ONES = (12, 30, 22, 41)


def test_exact_relevances_would_give_the_counts_away():
    exact = float(relevance_of(np.array(ONES), CLASS_SIZES))
    tables = tables_that_explain(exact, 1e-12, CLASS_SIZES)
    assert list(ONES) in tables.tolist()
    assert len(tables) <= 4


def test_released_relevances_leave_many_tables():
    """With the default noise hundreds of tables explain what the label owner learns."""
    noise_bits = Params().noise_bits
    assert noise_bits is not None
    exact = float(relevance_of(np.array(ONES), CLASS_SIZES))
    assert len(tables_that_explain(exact, 2.0**-noise_bits, CLASS_SIZES)) > 200


def test_the_protocol_really_adds_that_noise():
    federation, X, y = three_parties()
    search = FixedSearch(X, y, "miw")
    noise_bits = Params().noise_bits
    differences = []
    for _ in range(2):
        params = Params(n_features_to_select=1, scheme="bgv", seed=None)
        nodes = interaction.build_nodes(
            federation.tables, federation.label_holder, federation.target, N_ROWS, params
        )
        outcome = run_local(interaction.PROTOCOL, nodes, keep_frames=True)
        released = np.sort(outcome.value.relevance)
        differences.append(released - np.sort(search.relevance()))
    assert np.abs(differences).max() <= 1.01 * 2.0**-noise_bits
    assert np.abs(differences).max() > 2.0 ** -(noise_bits + 4)
    assert not np.allclose(differences[0], differences[1], atol=2.0**-40)


def test_a_common_divisor_undoes_multiplicative_blinding():
    """Kept to show why numerators and denominators are never sent under one random factor."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        a, b = (int(v) for v in rng.integers(1, 10**6, 2))
        r = int(rng.integers(2**40, 2**50))
        factor, top, bottom = unblind(r * a, r * b)
        assert (top * factor, bottom * factor) == (r * a, r * b)
        assert factor % r == 0
        assert top * b == bottom * a


def test_modulo_a_prime_continued_fractions_do_the_same():
    t = (1 << 61) - 1
    r = 123_456_789_012_345
    blinded = (35_021 * r % t, 120_007 * r % t)
    assert reconstruct(blinded[0] * pow(blinded[1], -1, t) % t, t, 10**6) == (35_021, 120_007)


def test_released_numbers_are_no_blinded_fractions(secure):
    """What is opened is finished and noisy: no two numbers share a factor worth the name."""
    outcome, _, _, _ = secure
    released = outcome.value.relevance
    integers = [round(float(v) * 2**50) for v in released if v > 1e-6]
    factors = [unblind(a, b)[0] for a, b in pairwise(integers)]
    assert all(factor < 2**20 for factor in factors)
    messages = {entry.message for entry in outcome.transcript.view("hospital")}
    assert {"SealedRelevance", "SealedWeights"} <= messages
    assert not any("Fraction" in name or "Denominator" in name for name in messages)
