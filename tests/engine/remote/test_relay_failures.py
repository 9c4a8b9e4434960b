"""Sites that fail, stall, vanish or refuse: every other site ends soon, and says who it was."""

import threading
import time

import pytest

from fedsift.deploy.sealed_reports import Report
from fedsift.engine.timeouts import Timeouts
from fedsift.errors import (
    ColumnError,
    Disagreement,
    FedsiftError,
    FileProblem,
    PartyError,
    PartyFailed,
    PolicyViolation,
    RunEnded,
    SiteUnreachable,
    ValueProblem,
)
from fedsift.protocol import Policy, handles
from fedsift.testing.memory import MemoryHub, PacketLost
from helpers.relay import QUICK, Sites, at_home
from helpers.toy_protocol import TOY, Answer, Answerer, Asker, Helper, Question, SubQuestion

SECRET = "s3cr3t-cell"
MEMBERS = {"a": "site-a", "b": "site-b", "h": "site-h"}
OTHERS = ("site-b", "site-h")


def script_with(**roles):
    """A script that plays the toy protocol, with some roles replaced."""

    def script(engine):
        nodes = {"a": (Asker(),), "b": (Answerer(),), "h": (Helper(),)}
        nodes |= {party: (role,) for party, role in roles.items()}
        return engine.run(TOY, at_home(engine, nodes)).value

    return script


def errors(ended):
    return {name: end.error for name, end in ended.items()}


class Crashing(Helper):
    @handles(SubQuestion)
    async def hint(self, ask, net):
        raise RuntimeError(f"row 7 holds {SECRET}")


class Waiting(Answerer):
    """Computes, without awaiting anything, until it is let go."""

    def __init__(self):
        self.asked, self.release = threading.Event(), threading.Event()

    @handles(Question)
    async def answer(self, ask, net):
        self.asked.set()
        self.release.wait(30)
        return Answer(ask.number)


class Deaf(MemoryHub):
    """A hub that can lose a site: nothing reaches it, nothing comes from it."""

    def __init__(self):
        super().__init__(self.pass_on)
        self.lost = set()

    def pass_on(self, packet, deliver):
        if self.lost & {packet.sender, packet.receiver}:
            raise PacketLost
        reply = deliver(packet)
        if self.lost & {packet.sender, packet.receiver}:
            raise PacketLost
        return reply


def test_an_exception_far_away_becomes_one_clear_failure_without_data():
    ended = errors(Sites(MEMBERS).run(script_with(h=Crashing())))
    assert isinstance(ended["site-a"], PartyFailed)
    assert (ended["site-a"].party, ended["site-a"].message) == ("b", "Question")
    assert "Party 'h' failed while answering SubQuestion in round 1" in str(ended["site-a"])
    assert "RuntimeError" in str(ended["site-a"])
    for name in OTHERS:
        assert isinstance(ended[name], RunEnded)
        assert "Site 'site-a' ended the run" in str(ended[name])
    assert not any(SECRET in str(error) for error in ended.values())


@pytest.mark.parametrize("kind", [ColumnError, ValueProblem, FileProblem])
def test_names_of_columns_and_files_stay_with_their_owner(kind, caplog):
    class Choosy(Helper):
        @handles(SubQuestion)
        async def hint(self, ask, net):
            raise kind(f"Column {SECRET!r} of party 'h' is bad.", "Others.", f"Mend {SECRET!r}.")

    ended = Sites(MEMBERS).run(script_with(h=Choosy()))
    failed = errors(ended)["site-a"]
    assert isinstance(failed, PartyFailed)
    assert f"Party 'h' failed while answering SubQuestion in round 1: {kind.code}" in str(failed)
    assert kind.abroad in str(failed)
    for error in errors(ended).values():
        assert SECRET not in str(error)
        assert SECRET not in str(Report.from_error("site-h", error, drove=False))
    # The owner's own log has the whole text.
    assert SECRET in caplog.text


def test_a_report_of_a_column_at_home_names_its_kind_only():
    error = ColumnError(f"Column {SECRET!r} of party 'h' is empty.", "Values.", "Leave it out.")
    told = Report.from_error("site-h", error, drove=False).to_error()
    assert isinstance(told, ColumnError)
    assert str(told) == (
        "A column is missing, empty, or of the wrong kind. Names stay with their owner. The log of "
        "that party says more."
    )


def test_a_slow_site_is_waited_for():
    """It computes for much longer than a site may hold a question, so it says that it is busy."""
    slow = Waiting()
    timeouts = Timeouts(round_trip_seconds=20.0, hold_seconds=0.05, idle_seconds=30.0)
    polls = []

    def count(packet, deliver):
        reply = deliver(packet)
        polls.append((packet.sender, packet.receiver))
        if polls.count(("site-a", "site-b")) > 8:
            slow.release.set()
        return reply

    ended = Sites(MEMBERS, hub=MemoryHub(count), timeouts=timeouts).run(script_with(b=slow))
    assert ended["site-a"].value == [3]
    assert set(errors(ended).values()) == {None}


def test_a_site_that_is_slower_than_the_limit_fails_alone():
    slow = Waiting()

    def script(engine):
        nodes = {"a": (Asker(),), "b": (slow,), "h": (Helper(),)}
        return engine.run(TOY, at_home(engine, nodes), timeout_seconds=0.5)

    start = time.monotonic()
    ended = errors(Sites(MEMBERS).run(script))
    assert time.monotonic() - start < 25
    assert not slow.release.is_set()
    slow.release.set()
    with pytest.raises(PartyFailed, match=r"'b' failed .* no answer within 0\.5 seconds"):
        raise ended["site-a"]
    assert all(isinstance(ended[name], RunEnded) for name in OTHERS)


def test_a_site_that_vanishes_is_noticed_long_before_the_limit():
    hub, gone = Deaf(), Waiting()
    timeouts = Timeouts(round_trip_seconds=1.5, hold_seconds=0.2, idle_seconds=4.0)
    sites = Sites(MEMBERS, hub=hub, timeouts=timeouts).start(script_with(b=gone))
    assert gone.asked.wait(20)
    hub.lost.add("site-b")
    ended = errors(sites.finish())
    gone.release.set()
    with pytest.raises(PartyFailed, match="Party 'b' failed while answering Question in round 1"):
        raise ended["site-a"]
    assert isinstance(ended["site-h"], RunEnded)
    with pytest.raises(SiteUnreachable, match="nothing was heard from it"):
        raise ended["site-b"]


def test_sites_end_by_themselves_when_the_driver_vanishes():
    hub, busy = Deaf(), Waiting()
    timeouts = Timeouts(round_trip_seconds=1.5, hold_seconds=0.2, idle_seconds=4.0)
    sites = Sites(MEMBERS, hub=hub, timeouts=timeouts).start(script_with(b=busy))
    assert busy.asked.wait(20)
    hub.lost.add("site-a")
    ended = errors(sites.finish())
    busy.release.set()
    heard = [name for name in OTHERS if isinstance(ended[name], SiteUnreachable)]
    assert heard  # the first to lose timeouts tells the other one
    for name in OTHERS:
        assert "Site 'site-a' cannot be reached: nothing was heard" in str(ended[name])
    assert isinstance(ended["site-a"], PartyFailed)


def test_a_driver_that_computes_for_long_keeps_the_others_waiting():
    """Its signs of life come from another thread than its computation."""

    class Slow(Asker):
        async def drive(self, net):
            time.sleep(5.0)
            return await super().drive(net)

    timeouts = Timeouts(round_trip_seconds=20.0, hold_seconds=0.2, idle_seconds=3.0)
    ended = Sites(MEMBERS, timeouts=timeouts).run(script_with(a=Slow()))
    assert ended["site-a"].value == [33]
    assert set(errors(ended).values()) == {None}


def test_a_script_that_fails_at_one_site_ends_all_of_them():
    def script(engine):
        play = script_with()
        play(engine)
        if engine.home == ("h",):
            raise PartyError("The table is gone.", "A table is needed.", "Look for it.")
        return play(engine)

    ended = errors(Sites(MEMBERS).run(script))
    assert isinstance(ended["site-h"], PartyError)
    with pytest.raises(PartyFailed, match=r"Party 'h' failed .*E104: The table is gone\."):
        raise ended["site-a"]
    assert "Site 'site-h' ended the run: The table is gone." in str(ended["site-b"])


def test_a_refusal_by_policy_keeps_its_kind_from_anywhere():
    def script(engine):
        if engine.home == ("b",):
            raise PolicyViolation("The policy of party 'b' forbids this.")
        return script_with()(engine)

    ended = errors(Sites(MEMBERS).run(script))
    with pytest.raises(PolicyViolation, match="'b' forbids"):
        raise ended["site-a"]
    assert ended["site-a"].exit_code == 4

    def nested(engine):
        nodes = {"a": (Asker(),), "b": (Answerer(),), "h": (Helper(),)}
        policies = dict.fromkeys(engine.home, Policy(may_not_reveal=("hints",)))
        return engine.run(TOY, at_home(engine, nodes), policies=policies)

    ended = errors(Sites(MEMBERS).run(nested))
    with pytest.raises(PolicyViolation, match="policy of party 'h' forbids"):
        raise ended["site-a"]


def test_an_interrupt_at_the_driver_reaches_everybody():
    def script(engine):
        script_with()(engine)
        if engine.home == ("a",):
            raise KeyboardInterrupt
        return script_with()(engine)

    ended = errors(Sites(MEMBERS).run(script))
    assert isinstance(ended["site-a"], KeyboardInterrupt)
    for name in OTHERS:
        assert isinstance(ended[name], RunEnded)
        assert "the run was interrupted" in str(ended[name])


def test_the_first_interrupt_may_ask_for_an_orderly_end():
    """The driver is told, finishes by itself, and the other sites see an ordinary close."""
    stop = threading.Event()

    class Patient(Asker):
        async def drive(self, net):
            found = await super().drive(net)
            assert stop.wait(30)
            return found

    def script(engine):
        nodes = {"a": (Patient(),), "b": (Answerer(),), "h": (Helper(),)}
        result = engine._wait

        def interrupted(work, on_interrupt):
            class Once:
                """A future that is interrupted while it is waited for."""

                done, calls = work.done, []

                def result(self, timeout):
                    if not self.calls:
                        self.calls.append(timeout)
                        raise KeyboardInterrupt
                    return work.result(timeout=timeout)

            return result(Once(), on_interrupt)

        engine._wait = interrupted
        return engine.run(TOY, at_home(engine, nodes), on_interrupt=stop.set).value

    ended = Sites(MEMBERS).run(script)
    assert set(errors(ended).values()) == {None}
    assert ended["site-a"].value == [33]


def test_an_engine_that_gives_up_ends_every_site():
    busy = Waiting()
    sites = Sites(MEMBERS).start(script_with(b=busy))
    assert busy.asked.wait(20)
    sites.hub.aborted.set()
    ended = errors(sites.finish())
    busy.release.set()
    assert {type(error) for error in ended.values()} == {RunEnded}
    assert "what carries the messages" in str(ended["site-a"])


def test_an_engine_that_gives_up_because_it_lost_a_site_does_not_hide_which():
    hub, busy = Deaf(), Waiting()
    sites = Sites(MEMBERS, hub=hub).start(script_with(b=busy))
    assert busy.asked.wait(20)
    hub.lost.add("site-b")
    hub.aborted.set()
    ended = errors(sites.finish())
    busy.release.set()
    with pytest.raises(PartyFailed, match=r"Party 'b' failed .* in round 1: E405: the site was"):
        raise ended["site-a"]


def test_a_site_that_runs_another_job_is_refused_before_anything_is_asked():
    played = []

    def script(engine):
        played.append(engine)

    ended = errors(Sites(MEMBERS, fingerprints={"site-b": "another"}).run(script))
    with pytest.raises(Disagreement, match="Site 'site-b' runs another job"):
        raise ended["site-a"]
    assert all(isinstance(error, FedsiftError) for error in ended.values())
    assert played == []


def test_a_site_that_never_comes_is_not_waited_for_for_ever():
    timeouts = Timeouts(round_trip_seconds=20.0, join_seconds=0.5)
    sites = Sites(MEMBERS, timeouts=timeouts).start(script_with(), ["site-a", "site-b"])
    ended = errors(sites.finish())
    for name in ("site-a", "site-b"):
        assert isinstance(ended[name], FedsiftError)
        assert "Site 'site-h' cannot be reached: it did not join within 0.5 seconds" in str(
            ended[name]
        )


def test_a_late_site_is_waited_for():
    def script(engine):
        if engine.home == ("b",):
            time.sleep(0.5)  # its data takes long to read
        return script_with()(engine)

    sites = Sites(MEMBERS, timeouts=QUICK)
    sites.start(script, ["site-a", "site-h"])
    time.sleep(0.2)
    ended = sites.start(script, ["site-b"]).finish()
    assert set(errors(ended).values()) == {None}
    assert ended["site-a"].value == [33]


def test_no_thread_of_a_party_outlives_a_run():
    before = set(threading.enumerate())
    Sites(MEMBERS).run(script_with())
    assert not [t for t in set(threading.enumerate()) - before if t.name.startswith("party")]
