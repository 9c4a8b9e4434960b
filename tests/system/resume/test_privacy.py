"""A stolen checkpoint tells what its owner knew, and nothing that the owner was never told."""

import stat

import numpy as np
import pytest

from fedsift.crypto.masking import MaskingKey
from fedsift.data import Federation
from fedsift.data.state_files import Checkpoints
from fedsift.errors import ParameterError
from fedsift.methods.vfps import messages as wire
from fedsift.methods.vfps.distances import Params
from fedsift.methods.vfps.participant import Participant
from fedsift.protocol import PublicArray
from helpers.fedsdg import PAPER
from helpers.resume import CASES, cut_run, n_messages

pytestmark = pytest.mark.xdist_group("resume")  # undisturbed runs are kept for all tests

N_ROWS = 48
NEUTRAL = ("coordinator", "third-party", "cloud", "aggregator")


def federation(setting):
    """Columns whose names and cells can be recognised wherever they turn up."""
    rng = np.random.default_rng(3)
    y = np.arange(N_ROWS) % 2
    label = np.where(y == 1, "label-granted", "label-refused")
    parties = []
    for number in range(3):
        shared = "" if setting == "horizontal" else f"-{number}"
        columns = {
            f"secret-name{shared}-{i}": rng.normal(y * (1 + i), 1.0, N_ROWS) for i in range(3)
        }
        if setting == "horizontal" or number == 0:
            columns["outcome"] = label
        parties.append((f"party-{number}", columns))
    if setting == "horizontal":
        return Federation.horizontal(parties, "outcome")
    return Federation.vertical(parties, ("party-0", "outcome"))


def traces(text, table, target):
    """What of a party's own can be read from a file: cells, labels, names."""
    found = set()
    for column in table.columns:
        values = column.values.tolist()
        if any(np.float64(v).tobytes() in text or repr(v).encode() in text for v in values):
            found.add("cell")
        if column.name.encode() in text:
            found.add("name")
    if target is not None:
        codes = target.codes
        texts = (codes.tobytes(), codes.astype("u1").tobytes(), b"label-granted")
        if any(part in text for part in texts):
            found.add("label")
    return found


def test_traces_would_be_found(tmp_path):
    """The search below can fail: it finds what somebody would write down by mistake."""
    parties = federation("vertical")
    table, target = parties.tables["party-0"], parties.target
    files = Checkpoints(tmp_path, "party-1", "feature holder")
    for unit, state in enumerate(
        (
            {"a": {"b": [1, table.columns[1].values]}},
            {"a": [float(table.columns[0].values[7])]},
            {"codes": target.codes},
            {"names": list(table.feature_names)},
            {"a": np.arange(4.0)},
        )
    ):
        files.save(unit, state)
        text = files.path(unit).read_bytes()
        expected = ({"cell"}, {"cell"}, {"label"}, {"name"}, set())[unit]
        assert traces(text, table, target) == expected


@pytest.mark.parametrize(
    ("name", "security"),
    [
        *((name, "plain") for name in sorted(set(CASES) - {"vfps-greedy"})),
        *((name, "secure") for name in ("dcfs", "filter", "filter-horizontal", "fpso", "vfps")),
    ],
)
def test_files_hold_no_cell_label_or_name_of_another_party(name, security, tmp_path, monkeypatch):
    case, parties = CASES[name], federation(CASES[name].setting)
    keys, generate = [], MaskingKey.generate.__func__

    def recorded(cls):
        key = generate(cls)
        keys.append(key._secret.private_bytes_raw())
        return key

    monkeypatch.setattr(MaskingKey, "generate", classmethod(recorded))
    settings = {"policy": None, "security": security}
    if name == "fedsdg":
        settings["policy"] = PAPER["policy"]
    if name == "vfps":
        settings |= {"policy": {"may_reveal": [m.declaration.kind for m in wire.MESSAGES]}}
        settings["policy"] |= {"min_security_bits": 0, "min_bin_size": 1}
    total = len(watched_names(case.make(tmp_path / "whole", **settings), parties))
    cut_run(case.make(tmp_path / "run", **settings), parties, int(0.8 * total))
    files = sorted((tmp_path / "run").iterdir())
    owners = {path: path.name.split(".")[0] for path in files}
    assert set(owners.values()) >= {"party-0", "party-1", "party-2"}
    for path in files:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        text = path.read_bytes()
        assert not any(key in text or key.hex().encode() in text for key in keys)
        for party, table in parties.tables.items():
            target = parties.targets.get(party)
            target = parties.target if party == parties.label_holder else target
            found = traces(text, table, target)
            if owners[path] != party:
                # Columns that all members share have names that all members know.
                shared = parties.setting == "horizontal" and owners[path] not in NEUTRAL
                assert found - ({"name"} if shared else set()) == set()


def watched_names(selector, parties):
    names = []
    selector.run(parties, observer=lambda step: names.append(step.message))
    return names


def test_the_secret_of_anchors_stays_with_the_members(tmp_path):
    case, parties = CASES["dcfs"], federation("horizontal")
    total = len(watched_names(case.make(tmp_path / "whole", random_state=None), parties))
    place = tmp_path / "run"
    cut_run(case.make(place, random_state=None), parties, int(0.8 * total))
    unit = Checkpoints(place, "party-1", "member").units()[-1]
    secret = Checkpoints(place, "party-1", "member").load(unit)["state"]["secret"]
    assert len(secret) == 32
    files = [path.read_bytes() for path in place.glob("coordinator.*")]
    assert files
    assert not any(secret.hex().encode() in text or secret in text for text in files)


class OneDoor:
    """The network as a participant sees it, with nobody behind."""

    party = "party-1"
    identity = None

    def members(self, role):
        return {"participant": ("party-1", "party-2", "party-3"), "leader": ("label-holder",)}[role]

    def account(self):
        return {}

    def go_on(self, account):
        assert account == {}


async def begun(participant, run, unit, rows):
    """Have a participant begin or resume, and take the secret and some queries."""
    door = OneDoor()
    signals = wire.PARTICIPANT_SIGNALS
    await participant.handle(signals.resume(run, unit), door)
    hello = wire.Introduction(N_ROWS, 3, 3, "group-testing")
    joined = await participant.handle(hello, door)
    leader = MaskingKey.generate()
    from fedsift.crypto import shuffle
    from fedsift.methods.vfps import blinding

    sealed = shuffle.deal(shuffle.new_secret(), leader, door, "party-1", joined.key)
    owner = blinding.own_sums("plain")
    await participant.handle(wire.SharedSecret(leader.public, sealed, owner.keys), door)
    await participant.handle(wire.Queries(0, PublicArray.of(np.array(rows))), door)
    return door


def wanted(*members):
    return wire.RoundedWanted(members, PublicArray.of(np.array([0])))


def drive(work):
    """Step through a coroutine that never really waits."""
    with pytest.raises(StopIteration) as done:
        work.send(None)
    return done.value.value


def test_a_query_that_was_begun_serves_no_other_group_after_a_restart(tmp_path):
    """Sums over two groups of one query differ by single participants' parts."""
    table = federation("vertical").tables["party-1"]
    params = Params(scheme="plain", seed=0)

    def participant():
        return Participant(table, params, tmp_path)

    first = participant()
    door = drive(begun(first, "run", 0, [5]))
    drive(first.handle(wanted("party-1", "party-2"), door))
    # The leader's process dies here and comes back with the same query.
    first._checkpoints.release()
    second = participant()
    door = drive(begun(second, "run", 0, [5]))
    with pytest.raises(ParameterError, match="with another group"):
        drive_error(second.handle(wanted("party-1", "party-3"), door))
    second._checkpoints.release()
    third = participant()
    door = drive(begun(third, "run", 0, [5]))
    drive(third.handle(wanted("party-1", "party-2"), door))
    # Once it is finished, it is not answered at all.
    drive(third.handle(wire.PARTICIPANT_SIGNALS.save(1), door))
    third._checkpoints.release()
    with pytest.raises(ParameterError, match="second time"):
        drive_error(begun(participant(), "run", 1, [5]))


def drive_error(work):
    work.send(None)


def test_the_leader_of_a_resumed_run_has_no_larger_budget(tmp_path):
    """Distances shown before an interruption count."""
    case = CASES["vfps"]
    total = n_messages("vfps")
    place = tmp_path / "run"
    cut_run(case.make(place), case.federation(), int(0.7 * total))
    saved = Checkpoints(place, "aggregator", "aggregator")
    left = saved.load(saved.units()[-1])["state"]["left"]
    granted = N_ROWS * 6 // 2
    assert 0 <= left < granted
    case.make(place).fit(case.federation())
