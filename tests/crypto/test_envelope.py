# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A hub that carries envelopes can neither read, forge, change, repeat, reflect nor reorder them."""

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsift.crypto.envelope import Envelopes, OrganisationKey
from fedsift.errors import BadEnvelope, ParameterError

MARKER = b"a marker that must not be readable"


@pytest.fixture
def pair():
    return make_pair()


def make_pair(session="job 1"):
    keys = {name: OrganisationKey.generate() for name in ("bank", "shop", "hub")}
    public = {name: key.public for name, key in keys.items()}
    return (
        Envelopes("bank", keys["bank"], public, session),
        Envelopes("shop", keys["shop"], public, session),
        Envelopes("hub", keys["hub"], public, session),
        keys,
    )


def test_many_messages_in_both_directions(pair):
    bank, shop, *_ = pair
    for number in range(5):
        content = bytes([number]) * number
        assert shop.open("bank", "request", bank.seal("shop", "request", content)) == content
        assert bank.open("shop", "reply", shop.seal("bank", "reply", content)) == content


@settings(max_examples=25, deadline=None)
@given(content=st.binary(max_size=300), position=st.integers(min_value=0), bit=st.integers(0, 7))
def test_any_flipped_bit_is_noticed(content, position, bit):
    bank, shop, *_ = make_pair()
    envelope = bytearray(bank.seal("shop", "request", content))
    envelope[position % len(envelope)] ^= 1 << bit
    with pytest.raises(BadEnvelope):
        shop.open("bank", "request", bytes(envelope))


def test_the_marker_is_not_readable(pair):
    bank, _, hub, _ = pair
    envelope = bank.seal("shop", "request", MARKER)
    assert MARKER not in envelope
    with pytest.raises(BadEnvelope):
        hub.open("bank", "request", envelope)


def test_the_hub_cannot_speak_for_the_bank(pair):
    _, shop, hub, keys = pair
    with pytest.raises(BadEnvelope, match="not sealed by"):
        shop.open("bank", "request", hub.seal("shop", "request", MARKER))
    pretender = Envelopes("bank", keys["hub"], {"shop": keys["shop"].public}, "job 1")
    with pytest.raises(BadEnvelope, match="not sealed by"):
        shop.open("bank", "request", pretender.seal("shop", "request", MARKER))


def test_repeated(pair):
    bank, shop, *_ = pair
    envelope = bank.seal("shop", "request", MARKER)
    shop.open("bank", "request", envelope)
    with pytest.raises(BadEnvelope, match="received before"):
        shop.open("bank", "request", envelope)


def test_reordered_and_then_right(pair):
    bank, shop, *_ = pair
    first, second = (bank.seal("shop", "request", text) for text in (b"1", b"2"))
    with pytest.raises(BadEnvelope, match="missing"):
        shop.open("bank", "request", second)
    assert shop.open("bank", "request", first) == b"1"
    assert shop.open("bank", "request", second) == b"2"


def test_reflected(pair):
    bank, _, *_ = pair
    with pytest.raises(BadEnvelope):
        bank.open("shop", "request", bank.seal("shop", "request", MARKER))


def test_a_request_is_no_reply(pair):
    bank, shop, *_ = pair
    with pytest.raises(BadEnvelope):
        shop.open("bank", "reply", bank.seal("shop", "request", MARKER))


def test_another_session():
    keys = {name: OrganisationKey.generate() for name in ("bank", "shop")}
    public = {name: key.public for name, key in keys.items()}
    yesterday = Envelopes("bank", keys["bank"], public, "job 1")
    today = Envelopes("shop", keys["shop"], public, "job 2")
    with pytest.raises(BadEnvelope):
        today.open("bank", "request", yesterday.seal("shop", "request", MARKER))


def test_a_forgery_does_not_block_the_line(pair):
    bank, shop, hub, _ = pair
    with pytest.raises(BadEnvelope):
        shop.open("bank", "request", hub.seal("shop", "request", MARKER))
    assert shop.open("bank", "request", bank.seal("shop", "request", b"ok")) == b"ok"


def test_strangers_and_bad_keys(pair):
    bank, *_ = pair
    with pytest.raises(ParameterError, match="'post'"):
        bank.seal("post", "request", b"")
    with pytest.raises(ParameterError, match="not usable"):
        OrganisationKey.generate().agree(bytes(32))
    with pytest.raises(BadEnvelope, match="too short"):
        bank.open("shop", "request", b"x")


def test_keys_stay_out_of_sight(pair):
    *_, keys = pair
    key = keys["bank"]
    assert key.to_bytes().hex() not in repr(key)
    assert OrganisationKey.from_bytes(key.to_bytes()).public == key.public
    with pytest.raises(TypeError):
        pickle.dumps(key)
