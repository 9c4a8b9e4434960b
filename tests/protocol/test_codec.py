"""Frames: everything that is sent comes back, everything else is refused with one error."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.errors import BadFrame
from fedsift.methods.filter import label_holder as filters
from fedsift.methods.filter import messages as wire
from fedsift.protocol import Codec, Done, Fault, Message, PublicArray, message
from fedsift.protocol.message import MAGIC

CODEC = Codec(filters.PROTOCOL.messages)
EVERYTHING = [*filters.PROTOCOL.messages, Fault, Done]


def sealed():
    return st.builds(
        Ciphertexts,
        st.sampled_from(["bgv", "paillier", "plain"]),
        st.lists(st.binary(max_size=40), max_size=4).map(tuple),
    )


def open_arrays():
    shapes = arrays.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4)
    numbers = arrays.arrays(np.int64, shapes) | arrays.arrays(
        np.float64, shapes, elements=st.floats(allow_nan=False, allow_infinity=False)
    )
    return numbers.map(PublicArray.of)


MESSAGES = st.one_of(
    st.builds(wire.Introduction, st.integers(0, 2**40), st.text(max_size=20)),
    st.builds(wire.Offer, st.integers(0, 10**6), st.integers(1, 99), st.booleans()),
    st.builds(
        wire.EncryptedLabels,
        st.text(max_size=9),
        st.integers(0, 99),
        st.integers(0, 10**6),
        st.integers(0, 99),
        st.builds(
            PublicKeys,
            st.text(max_size=9),
            st.dictionaries(st.text(max_size=5), st.integers(0, 2**62), max_size=3),
            st.lists(st.binary(max_size=30), max_size=3).map(tuple),
        ),
        sealed(),
    ),
    st.builds(wire.SealedCounts, sealed(), open_arrays()),
    st.builds(wire.Selected, st.lists(st.integers(0, 10**6), max_size=9).map(tuple)),
    st.builds(Fault, st.text(max_size=5), st.text(max_size=50)),
)


@given(MESSAGES)
def test_what_goes_in_comes_out(sent):
    frame = CODEC.encode(sent)
    received = CODEC.decode(frame, EVERYTHING)
    assert received == sent
    assert type(received) is type(sent)


@given(st.binary(max_size=300))
def test_random_bytes_only_ever_raise_bad_frame(noise):
    for frame in (noise, MAGIC + noise):
        try:
            CODEC.decode(frame, EVERYTHING)
        except BadFrame as error:
            assert error.needed
            assert error.action


@given(MESSAGES, st.data())
def test_damaged_frames_only_ever_raise_bad_frame(sent, data):
    frame = bytearray(CODEC.encode(sent))
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(frame) - 1))
        frame[position] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(frame)))
    for damaged in (bytes(frame), bytes(frame[:cut])):
        try:
            CODEC.decode(damaged, EVERYTHING)
        except BadFrame:
            continue


def test_deep_nesting_is_refused_not_followed():
    bomb = MAGIC + b"\x91" * 200_000 + b"\x00"
    with pytest.raises(BadFrame):
        CODEC.decode(bomb, EVERYTHING)


def test_only_the_allowed_message_gets_in():
    frame = CODEC.encode(wire.Selected((1, 2)))
    with pytest.raises(BadFrame, match="Allowed here: Introduction"):
        CODEC.decode(frame, [wire.Introduction])


def test_unknown_fields_are_refused():
    frame = MAGIC + msgspec.msgpack.encode(
        {"is": "Introduction", "n_rows": 3, "score": "f", "extra": 1}
    )
    with pytest.raises(BadFrame):
        CODEC.decode(frame, EVERYTHING)


def test_the_size_limit_holds_both_ways():
    small = Codec(filters.PROTOCOL.messages, max_frame_bytes=100)
    big = wire.SealedScores(Ciphertexts("bgv", (bytes(200),)))
    with pytest.raises(BadFrame, match="At most 100 bytes"):
        small.encode(big)
    with pytest.raises(BadFrame, match="At most 100 bytes"):
        small.decode(CODEC.encode(big), EVERYTHING)


def test_errors_do_not_quote_the_payload():
    frame = MAGIC + msgspec.msgpack.encode({"is": "Introduction", "n_rows": "s3cr3t", "score": "f"})
    with pytest.raises(BadFrame) as caught:
        CODEC.decode(frame, EVERYTHING)
    assert "s3cr3t" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("dtype", ["<i8", "<f8", "O", "<U4", ""])
def test_arrays_check_type_and_shape(dtype):
    with pytest.raises((ValueError, BadFrame)):
        PublicArray(dtype, (3,), bytes(16))


@pytest.mark.parametrize("shape", [(0, 2**62), (2**62, 0), (0, 1 << 32), (-1, 0)])
def test_arrays_without_numbers_have_a_shape_that_memory_could_hold(shape):
    frame = MAGIC + msgspec.msgpack.encode(
        {
            "is": "SealedCounts",
            "counts": {"scheme": "bgv", "blobs": []},
            "sizes": {"dtype": "<i8", "shape": shape, "data": b""},
        }
    )
    with pytest.raises(BadFrame, match="no allowed message"):
        CODEC.decode(frame, EVERYTHING)


def test_arrays_refuse_nan_and_other_shapes():
    with pytest.raises(BadFrame, match="NaN"):
        PublicArray.of(np.array([np.nan])).array()
    with pytest.raises(BadFrame, match="Shape"):
        PublicArray.of(np.zeros(3)).array(shape=(4,))


@pytest.mark.parametrize("kind", [bytes, np.ndarray, object, list[bytes]])
def test_raw_data_cannot_be_declared_as_a_field(kind):
    with pytest.raises(TypeError, match="a field is a ciphertext"):

        @message(flow="a -> b", reveals="nothing: test")
        class Raw(Message, frozen=True):
            data: kind


@pytest.mark.parametrize(
    ("flow", "reveals"), [("a to b", "nothing: x"), ("a -> b", "everything"), ("", "nothing: x")]
)
def test_a_declaration_needs_flow_and_kind(flow, reveals):
    with pytest.raises(TypeError, match="declare"):
        message(flow=flow, reveals=reveals)


def test_strangers_are_not_encoded():
    @message(flow="a -> b", reveals="nothing: test")
    class Stranger(Message, frozen=True):
        number: int

    with pytest.raises(BadFrame, match="not a message of this protocol"):
        CODEC.encode(Stranger(1))
