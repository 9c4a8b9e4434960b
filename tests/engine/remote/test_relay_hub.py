"""A whole run through a hub that listens, lies and loses: nothing leaks, nothing runs twice."""

import threading

import numpy as np
import pytest

from fedsift.engine.timeouts import Timeouts
from fedsift.errors import FedsiftError, PartyFailed
from fedsift.protocol import DrivingRole, Message, Protocol, Role, handles, message
from fedsift.testing.memory import MemoryHub, Packet, PacketLost
from helpers.relay import Sites, at_home

MARKER = "a marker that must not be readable"
ROUNDS = 6
MEMBERS = {"a": "bank", "b": "shop", "c": "post"}
STUBBORN = Timeouts(
    round_trip_seconds=20.0, hold_seconds=0.2, join_seconds=20.0, idle_seconds=30.0, attempts=3
)


@message(flow="teller -> keeper", reveals="nothing: test")
class Keep(Message, frozen=True):
    number: int
    text: str


@message(flow="keeper -> teller", reveals="nothing: test")
class Kept(Message, frozen=True):
    numbers: tuple[int, ...]
    text: str


class Teller(DrivingRole, name="teller"):
    async def drive(self, net):
        for number in range(ROUNDS):
            replies = await net.ask("keeper", Keep(number, MARKER), Kept)
        return [reply.numbers for reply in replies]


class Keeper(Role, name="keeper"):
    """Notes every number that reaches it."""

    def __init__(self):
        self.numbers = []

    @handles(Keep)
    async def keep(self, ask, net):
        self.numbers.append(ask.number)
        return Kept(tuple(self.numbers), ask.text)


PROTOCOL = Protocol("keeping", (Keep, Kept), (Teller, Keeper))


def run(hub, **options):
    """The run through a hub: how the sites ended, and what the keepers noted."""
    keepers = {"b": Keeper(), "c": Keeper()}

    def script(engine):
        nodes = {"a": (Teller(),), **{party: (role,) for party, role in keepers.items()}}
        return engine.run(PROTOCOL, at_home(engine, nodes)).value

    ended = Sites(MEMBERS, hub=hub, **options).run(script)
    return ended, [keeper.numbers for keeper in keepers.values()]


def assert_undisturbed(ended, kept):
    assert {name: end.error for name, end in ended.items()} == dict.fromkeys(MEMBERS.values())
    assert ended["bank"].value == [tuple(range(ROUNDS))] * 2
    assert kept == [list(range(ROUNDS))] * 2


def test_nothing_of_the_content_shows():
    carried = []

    def listen(packet, deliver):
        reply = deliver(packet)
        carried.extend((packet.content, reply))
        return reply

    assert_undisturbed(*run(MemoryHub(listen)))
    assert len(carried) > 2 * 2 * ROUNDS
    for words in (MARKER, "keeping", "teller", "Keep"):
        assert not any(words.encode() in content for content in carried)


def test_everything_delivered_twice_is_done_once():
    def twice(packet, deliver):
        first = deliver(packet)
        assert deliver(packet) == first
        return first

    assert_undisturbed(*run(MemoryHub(twice)))


def test_old_parcels_in_between_change_nothing():
    seen, refused = [], []

    def with_old_ones(packet, deliver):
        for old in seen[-6:]:
            try:
                deliver(old)
            except FedsiftError as error:
                refused.append(error.code)
        seen.append(packet)
        return deliver(packet)

    assert_undisturbed(*run(MemoryHub(with_old_ones)))
    assert set(refused) <= {"E305", "E405"}
    assert "E305" in refused


def test_parcels_to_the_wrong_place_change_nothing():
    refused = []

    def scatter(packet, deliver):
        for sender in MEMBERS.values():
            for receiver in MEMBERS.values():
                if (sender, receiver) != (packet.sender, packet.receiver):
                    with pytest.raises(FedsiftError) as caught:
                        deliver(Packet(sender, receiver, packet.content))
                    refused.append(caught.value.code)
        return deliver(packet)

    assert_undisturbed(*run(MemoryHub(scatter)))
    assert set(refused) <= {"E305", "E405"}


def test_invented_parcels_reach_nobody():
    rng = np.random.default_rng(0)

    def invent(packet, deliver):
        head = packet.content[:38]
        for content in (rng.bytes(60), head + rng.bytes(80), packet.content[:-1]):
            with pytest.raises(FedsiftError):
                deliver(Packet(packet.sender, packet.receiver, content))
        return deliver(packet)

    assert_undisturbed(*run(MemoryHub(invent)))


@pytest.mark.parametrize("loses", ["requests", "replies"])
def test_what_is_lost_now_and_then_is_made_up_for(loses):
    lock, passed = threading.Lock(), [0]

    def lossy(packet, deliver):
        with lock:
            passed[0] += 1
            lost = packet.content[:4] == b"fsd\x01" and passed[0] % 5 == 0
        if lost and loses == "requests":
            raise PacketLost
        reply = deliver(packet)
        if lost:
            raise PacketLost
        return reply

    assert_undisturbed(*run(MemoryHub(lossy), timeouts=STUBBORN))


@pytest.mark.parametrize("target", ["requests", "replies"])
def test_a_hub_that_damages_everything_only_ends_the_run(target):
    def damage(packet, deliver):
        if packet.content[:4] == b"fsh\x01":
            return deliver(packet)
        content = bytearray(packet.content)
        content[-1] ^= 1
        if target == "requests":
            return deliver(Packet(packet.sender, packet.receiver, bytes(content)))
        reply = bytearray(deliver(packet))
        reply[-1] ^= 1
        return bytes(reply)

    impatient = Timeouts(round_trip_seconds=5.0, hold_seconds=0.2, idle_seconds=3.0)
    ended, kept = run(MemoryHub(damage), timeouts=impatient)
    with pytest.raises(PartyFailed, match=r"E305|E405"):
        raise ended["bank"].error
    assert all(isinstance(end.error, FedsiftError) for end in ended.values())
    assert all(len(numbers) <= (target == "replies") for numbers in kept)


def test_a_hub_that_answers_by_itself_is_not_believed():
    def answer(packet, deliver):
        if packet.content[:4] == b"fsh\x01":
            return deliver(packet)
        return packet.content[38:]

    impatient = Timeouts(round_trip_seconds=5.0, hold_seconds=0.2, idle_seconds=3.0)
    ended, kept = run(MemoryHub(answer), timeouts=impatient)
    assert kept == [[], []]
    with pytest.raises(PartyFailed, match="E305"):
        raise ended["bank"].error
