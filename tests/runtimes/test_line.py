"""A hub between two sites can neither read, forge, repeat, turn around nor reorder what they say."""

import threading

import pytest

from fedsift.crypto.envelope import OrganisationKey
from fedsift.engine.remote import secure_transport as sealed
from fedsift.engine.remote.secure_transport import SecureTransport
from fedsift.errors import BadEnvelope, Disagreement, RunEnded, SiteUnreachable
from fedsift.testing.memory import Lost, MemoryHub, Parcel
from relay_helpers import Sites

MARKER = b"a marker that must not be readable"
LIMIT = 20.0


class Recording(MemoryHub):
    """Delivers honestly and keeps a copy of everything."""

    def __init__(self):
        super().__init__(self.note)
        self.parcels, self.replies = [], []

    def note(self, parcel, deliver):
        self.parcels.append(parcel)
        self.replies.append(deliver(parcel))
        return self.replies[-1]


class Echo:
    """A handler that counts what reaches it."""

    def __init__(self):
        self.got = []

    def __call__(self, sender, content):
        self.got.append((sender, content))
        return b"re: " + content


def connected(hub=None, **options):
    """Two sites that have greeted each other, and what reaches the second."""
    sites = Sites({"a": "bank", "b": "shop", "c": "post"}, hub=hub or Recording(), **options)
    bank, shop, echo = sites.line("bank"), sites.line("shop"), Echo()
    shop.serve(echo)
    bank.greet("shop", LIMIT)
    return sites, bank, shop, echo


def test_what_was_said_arrives_once_and_in_order():
    _, bank, _, echo = connected()
    for number in range(5):
        assert bank.request("shop", b"%d" % number, LIMIT) == b"re: %d" % number
    assert echo.got == [("bank", b"%d" % number) for number in range(5)]


def test_many_requests_at_once_do_not_get_in_each_others_way():
    _, bank, shop, _ = connected()
    gate = threading.Barrier(20, timeout=LIMIT)

    def slow(sender, content):
        gate.wait()  # nobody gets an answer before all twenty are under way
        return content

    shop.serve(slow)
    answers = {}
    threads = [
        threading.Thread(
            target=lambda n=n: answers.update({n: bank.request("shop", b"%d" % n, LIMIT)})
        )
        for n in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * LIMIT)
    assert answers == {n: b"%d" % n for n in range(20)}


def test_the_hub_cannot_read():
    sites, bank, _, echo = connected()
    bank.request("shop", MARKER, LIMIT)
    assert echo.got == [("bank", MARKER)]
    carried = [p.content for p in sites.hub.parcels] + sites.hub.replies
    assert len(carried) == 4
    assert not any(MARKER[:8] in content for content in carried)


def test_the_hub_cannot_speak_for_a_site():
    sites, bank, _, echo = connected()
    bank.request("shop", b"true", LIMIT)
    *_, true = sites.hub.parcels
    forger = SecureTransport(
        sites.hub.line("bank"),
        OrganisationKey.generate(),
        {"shop": sites.keys["shop"].public},
        session=sites.session,
        fingerprint="the job",
    )
    with pytest.raises(BadEnvelope, match="pinned"):
        forger.greet("shop", LIMIT)
    for content in (b"", MARKER, true.content[:-1], true.content + b"\0"):
        with pytest.raises(BadEnvelope):
            sites.hub.deliver(Parcel("bank", "shop", content))
    with pytest.raises(BadEnvelope):
        sites.hub.deliver(Parcel("stranger", "shop", true.content))
    assert echo.got == [("bank", b"true")]


def test_a_change_anywhere_is_refused():
    sites, bank, _, echo = connected()
    held = []

    def hold(parcel, deliver):
        held.append(parcel)
        raise Lost

    sites.hub.carry = hold
    with pytest.raises(SiteUnreachable):
        bank.request("shop", MARKER, LIMIT)
    content = held[0].content
    for position in range(len(content)):
        changed = bytearray(content)
        changed[position] ^= 1
        with pytest.raises(BadEnvelope):
            sites.hub.deliver(Parcel("bank", "shop", bytes(changed)))
    assert echo.got == []
    sites.hub.deliver(held[0])
    assert echo.got == [("bank", MARKER)]


def test_what_is_repeated_is_not_carried_out_again():
    sites, bank, _, echo = connected()
    bank.request("shop", b"1", LIMIT)
    *_, first = sites.hub.parcels
    assert sites.hub.deliver(first) == sites.hub.replies[-1]
    bank.request("shop", b"2", LIMIT)
    with pytest.raises(BadEnvelope, match="received before"):
        sites.hub.deliver(first)
    assert echo.got == [("bank", b"1"), ("bank", b"2")]


def test_what_is_turned_around_or_misdelivered_is_refused():
    sites, bank, _, echo = connected()
    bank.serve(echo)
    post = sites.line("post")
    post.serve(echo)
    bank.request("shop", MARKER, LIMIT)
    hello, true = sites.hub.parcels
    for parcel in (hello, true):
        for sender, receiver in (("shop", "bank"), ("bank", "post"), ("post", "shop")):
            with pytest.raises(BadEnvelope):
                sites.hub.deliver(Parcel(sender, receiver, parcel.content))
    assert echo.got == [("bank", MARKER)]


def test_a_reply_to_something_else_is_refused():
    sites, bank, _, echo = connected()
    bank.request("shop", b"1", LIMIT)
    old = sites.hub.replies[-1]
    sites.hub.carry = lambda parcel, deliver: (deliver(parcel), old)[1]
    with pytest.raises(BadEnvelope, match="received before"):
        bank.request("shop", b"2", LIMIT)
    sites.hub.carry = lambda parcel, deliver: parcel.content
    with pytest.raises(BadEnvelope):
        bank.request("shop", b"3", LIMIT)
    assert echo.got == [("bank", b"1"), ("bank", b"2")]


def test_requests_under_way_cannot_be_swapped():
    sites, bank, _, echo = connected()
    held, both = [], threading.Barrier(2, timeout=LIMIT)

    def swap(parcel, deliver):
        held.append(parcel)
        both.wait()
        head = sealed._HEAD.size
        lane = parcel.content[:head]
        other = next(p.content[:head] for p in held if p.content[:head] != lane)
        return deliver(Parcel("bank", "shop", other + parcel.content[head:]))

    sites.hub.carry = swap
    errors = []

    def ask(number):
        with pytest.raises(SiteUnreachable) as caught:
            bank.request("shop", b"%d" % number, LIMIT)
        errors.append(caught.value.refused)

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * LIMIT)
    assert errors == ["E305", "E305"]
    assert echo.got == []


def test_an_earlier_session_of_the_same_name_cannot_be_played_again():
    sites, bank, *_ = connected()
    bank.request("shop", MARKER, LIMIT)
    recorded = list(sites.hub.parcels)
    again, second = sites.line("shop"), Echo()
    again.serve(second)
    hello, request = recorded
    sites.hub.deliver(hello)
    with pytest.raises(BadEnvelope):
        sites.hub.deliver(request)
    assert second.got == []
    bank.greet("shop", LIMIT)
    assert bank.request("shop", b"new", LIMIT) == b"re: new"


@pytest.mark.parametrize("loses", ["the request", "the reply"])
def test_what_is_lost_is_sent_again_and_carried_out_once(loses):
    sites, bank, _, echo = connected()
    lost = []

    def lose_first(parcel, deliver):
        if not lost:
            lost.append(parcel)
            if loses == "the reply":
                deliver(parcel)
            raise Lost
        return deliver(parcel)

    sites.hub.carry = lose_first
    assert bank.request("shop", b"1", LIMIT) == b"re: 1"
    assert bank.request("shop", b"2", LIMIT) == b"re: 2"
    assert echo.got == [("bank", b"1"), ("bank", b"2")]


def test_a_line_that_lost_something_for_good_still_works():
    sites, bank, _, echo = connected()
    honest = sites.hub.carry

    def lose(parcel, deliver):
        raise Lost

    sites.hub.carry = lose
    with pytest.raises(SiteUnreachable, match="'shop'"):
        bank.request("shop", b"1", LIMIT)
    sites.hub.carry = honest
    assert bank.request("shop", b"2", LIMIT) == b"re: 2"
    assert echo.got == [("bank", b"2")]


def test_a_repetition_that_overtakes_the_answer_waits_for_it():
    sites, bank, shop, _ = connected()
    release, calls = threading.Event(), []

    def slow(sender, content):
        calls.append(content)
        assert release.wait(LIMIT)
        return b"done"

    def twice(parcel, deliver):
        answers = []
        threads = [
            threading.Thread(target=lambda: answers.append(deliver(parcel))) for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        release.set()
        for thread in threads:
            thread.join(LIMIT)
        assert answers[0] == answers[1]
        return answers[0]

    shop.serve(slow)
    sites.hub.carry = twice
    assert bank.request("shop", b"1", LIMIT) == b"done"
    assert calls == [b"1"]


def test_sites_with_different_jobs_or_versions_refuse_each_other(monkeypatch):
    sites = Sites({"a": "bank", "b": "shop"}, fingerprints={"shop": "another job"})
    bank, shop, echo = sites.line("bank"), sites.line("shop"), Echo()
    for line in (bank, shop):
        line.serve(echo)
    with pytest.raises(Disagreement, match="Site 'shop' runs another job"):
        bank.greet("shop", LIMIT)
    with pytest.raises(Disagreement, match="Site 'bank' runs another job"):
        shop.greet("bank", LIMIT)
    with pytest.raises(SiteUnreachable, match="not greeted"):
        bank.request("shop", MARKER, LIMIT)

    sites = Sites({"a": "bank", "b": "shop"})
    bank, shop = sites.line("bank"), sites.line("shop")
    shop.serve(echo)
    greeting = bank._greeting

    def newer(mine):
        monkeypatch.setattr(sealed, "RELAY_VERSION", 2)
        try:
            return greeting(mine)
        finally:
            monkeypatch.setattr(sealed, "RELAY_VERSION", 1)

    monkeypatch.setattr(shop, "_greeting", newer)
    with pytest.raises(Disagreement, match="Site 'shop' speaks version 2"):
        bank.greet("shop", LIMIT)
    assert echo.got == []


def test_a_key_that_was_not_pinned_is_noticed_at_once():
    sites = Sites({"a": "bank", "b": "shop"})
    bank, shop = sites.line("bank"), sites.line("shop")
    sites.keys["bank"] = OrganisationKey.generate()  # what the shop has pinned is out of date
    other = sites.line("bank")
    shop.serve(Echo())
    with pytest.raises(BadEnvelope, match="Compare the pinned keys with 'shop'"):
        other.greet("shop", LIMIT)
    bank.greet("shop", LIMIT)


def test_nobody_answers_before_joining_and_an_engine_that_gave_up_is_not_asked_twice():
    sites = Sites({"a": "bank", "b": "shop"})
    bank, shop, echo = sites.line("bank"), sites.line("shop"), Echo()
    with pytest.raises(SiteUnreachable, match="has not joined"):
        bank.greet("shop", LIMIT)
    shop.serve(echo)
    bank.greet("shop", LIMIT)
    shop.serve(None)
    sites.hub.aborted.set()
    with pytest.raises(RunEnded):
        bank.request("shop", MARKER, LIMIT)
    assert echo.got == []


def test_nothing_shows_keys_or_content():
    _, bank, _, _ = connected()
    assert repr(bank) == "<sealed transport of 'bank'>"
    assert MARKER.decode() not in repr(Parcel("bank", "shop", MARKER))
