"""What a resumed run does not accept: other data, other settings, broken or missing files."""

import fcntl
import logging
import os
from dataclasses import replace

import numpy as np
import pytest

from fedsift.data.state_files import write_state
from fedsift.data.table import Column
from fedsift.errors import AlignmentError, FedsiftError, FileProblem, ParameterError, PartyFailed
from fedsift.protocol import resume
from fedsift.protocol.resume import Resumable
from helpers.resume import CASES, assert_same, cut_run, n_messages, undisturbed

pytestmark = pytest.mark.xdist_group("resume")  # undisturbed runs are kept for all tests


def interrupted(name, tmp_path, share=0.6):
    """A directory with the checkpoints of a run that was cut off, and its content."""
    case = CASES[name]
    total = n_messages(name)
    place = tmp_path / "run"
    cut_run(case.make(place), case.federation(), int(share * total))
    return case, place, content(place)


def content(place):
    return {path.name: path.read_bytes() for path in place.iterdir()}


def with_one_other_value(federation, party):
    """The same federation, but for one number at one party."""
    table = federation.tables[party]
    values = np.array(table.columns[0].values)
    values[0] += 1e-9
    first = Column(table.columns[0].name, "numeric", values)
    changed = replace(table, columns=(first, *table.columns[1:]))
    return replace(federation, tables={**federation.tables, party: changed})


@pytest.mark.parametrize("name", CASES)
def test_changed_data_of_one_party_is_refused_by_that_party(name, tmp_path):
    case, place, before = interrupted(name, tmp_path)
    party = list(case.federation().tables)[1]
    with pytest.raises(PartyFailed, match=f"data of party '{party}' is not what it was") as failed:
        case.make(place).fit(with_one_other_value(case.federation(), party))
    assert (failed.value.party, failed.value.cause_code) == (party, AlignmentError.code)
    assert content(place) == before
    assert_same(
        case.make(place).fit(case.federation()), undisturbed(name).selector, exact=case.exact
    )


@pytest.mark.parametrize("name", ["filter", "interaction", "vfps", "fedsdg"])
def test_changed_labels_are_refused_by_their_owner(name, tmp_path):
    case, place, before = interrupted(name, tmp_path)
    federation = case.federation()
    codes = federation.target.codes.copy()
    codes[:2] = codes[1::-1]
    target = replace(federation.target, codes=codes)
    with pytest.raises(AlignmentError, match="data of party 'label-holder' is not what it was"):
        case.make(place).fit(
            replace(
                federation, target=target, targets={**federation.targets, "label-holder": target}
            )
        )
    assert content(place) == before


@pytest.mark.parametrize("name", CASES)
def test_changed_settings_are_refused_by_name(name, tmp_path):
    case, place, before = interrupted(name, tmp_path)
    (setting,) = case.changed
    with pytest.raises(ParameterError, match=f"a job with another {setting}"):
        case.make(place, **case.changed).fit(case.federation())
    with pytest.raises(ParameterError, match=r"a job with another .*seed"):
        case.make(place, random_state=7).fit(case.federation())
    assert content(place) == before


def test_another_version_does_not_go_on(tmp_path, monkeypatch):
    case, place, before = interrupted("dcfs", tmp_path)
    monkeypatch.setattr(resume.metadata, "version", lambda _: "99.0")
    with pytest.raises(ParameterError, match="another version of fedsift"):
        case.make(place).fit(case.federation())
    assert content(place) == before


def damaged(path, damage):
    whole = path.read_bytes()
    path.write_bytes(
        {
            "empty": b"",
            "cut": whole[: len(whole) // 2],
            "flipped": whole[:-300] + bytes(byte ^ 255 for byte in whole[-300:]),
            "garbage": b"something else",
            "another archive": b"PK\x05\x06" + bytes(18),
            "part of a model": whole,
        }[damage]
    )
    if damage == "part of a model":
        write_state(path, {"role": "member", "columns": []})


@pytest.mark.parametrize(
    "damage", ["empty", "cut", "flipped", "garbage", "another archive", "part of a model"]
)
@pytest.mark.parametrize("owner", ["third-party", "party-2"])
def test_a_broken_file_falls_back_to_the_one_before(owner, damage, tmp_path, caplog):
    case, place, _ = interrupted("fpso", tmp_path)
    before, latest = sorted(path for path in place.iterdir() if path.name.startswith(owner))
    damaged(latest, damage)
    selector = case.make(place).fit(case.federation())
    assert f"{latest.name} is not readable" in caplog.text
    whole = case.make().fit(case.federation())
    assert selector.result_.selected == whole.result_.selected
    assert not before.exists()


@pytest.mark.parametrize("damage", ["empty", "flipped", "part of a model"])
@pytest.mark.parametrize("owner", ["third-party", "party-2"])
def test_broken_files_give_one_clear_error(owner, damage, tmp_path):
    case, place, _ = interrupted("fpso", tmp_path)
    files = sorted(path for path in place.iterdir() if path.name.startswith(owner))
    for path in files:
        damaged(path, damage)
    latest = files[-1]
    with pytest.raises(FedsiftError) as refused:
        case.make(place).fit(case.federation())
    assert f"The checkpoint {latest.name} is not readable." in str(refused.value)
    assert "start again" in str(refused.value)
    assert str(tmp_path) not in str(refused.value)  # other parties may read this
    assert isinstance(refused.value, FileProblem if owner == "third-party" else PartyFailed)


def test_a_party_without_its_files_is_named(tmp_path):
    case, place, _ = interrupted("dcfs", tmp_path, share=0.9)
    for path in place.glob("party-2.*"):
        path.unlink()
    with pytest.raises(PartyFailed, match="no checkpoint that the others have") as failed:
        case.make(place).fit(case.federation())
    assert failed.value.party == "party-2"


def test_files_of_two_runs_are_not_mixed(tmp_path):
    case, place, _ = interrupted("dcfs", tmp_path)
    _, other, _ = interrupted("dcfs", tmp_path / "again")
    for path in place.glob("party-2.*"):
        path.unlink()
    for path in other.glob("party-2.*"):
        (place / path.name).write_bytes(path.read_bytes())
    with pytest.raises(PartyFailed, match="of the same run") as failed:
        case.make(place).fit(case.federation())
    assert failed.value.party == "party-2"


def test_a_new_run_does_not_overwrite_what_a_party_has_kept(tmp_path):
    case, place, _ = interrupted("fpso", tmp_path)
    for path in place.glob("third-party.*"):  # the driver begins anew
        path.unlink()
    before = content(place)
    with pytest.raises(PartyFailed, match="has a checkpoint of another unfinished run"):
        case.make(place).fit(case.federation())
    assert before.items() <= content(place).items()


def test_the_last_unit_that_all_have_is_taken(tmp_path):
    """A party may have saved a unit that others have not."""
    case, place, _ = interrupted("fpso", tmp_path)
    newest = max(int(path.name.split(".")[-2]) for path in place.glob("party-1.*"))
    for path in (*place.glob(f"third-party.*.{newest:05d}.*"), *place.glob(f"*3.*{newest:05d}.*")):
        path.unlink()
    assert_same(case.make(place).fit(case.federation()), undisturbed("fpso").selector)


def test_a_run_goes_on_without_checkpoints_where_one_party_keeps_none(
    tmp_path, monkeypatch, caplog
):
    case, keep = CASES["fpso"], Resumable.keep_checkpoints

    def keeping(self, directory, party, *arguments, **options):
        keep(self, None if party == "party-2" else directory, party, *arguments, **options)

    monkeypatch.setattr(Resumable, "keep_checkpoints", keeping)
    with caplog.at_level(logging.WARNING):
        whole = case.make(tmp_path / "run").fit(case.federation())
    assert_same(whole, undisturbed("fpso").selector)
    assert "party-2 keeps none" in caplog.text
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", CASES)
def test_a_checkpoint_that_is_no_path_is_refused(name):
    with pytest.raises(ParameterError, match="checkpoint is a int"):
        CASES[name].make(7).fit(CASES[name].federation())


def test_a_place_that_cannot_be_written_to_is_refused_at_once(tmp_path):
    case, place = CASES["fpso"], tmp_path / "file"
    place.write_text("in the way")
    sent = []
    with pytest.raises(FileProblem, match="cannot be used"):
        case.make(place).run(case.federation(), observer=lambda step: sent.append(step.message))
    assert set(sent) <= {"Resume", "Progress"}


def test_two_runs_do_not_share_a_directory(tmp_path):
    case, place, before = interrupted("dcfs", tmp_path)
    party = min(path.name for path in place.iterdir() if path.name.startswith("party"))
    name = party.removesuffix(".fedsift-checkpoint").rpartition(".")[0]
    held = os.open(place / f"{name}.fedsift-lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(FedsiftError, match="Another run uses the checkpoints of party"):
            case.make(place).fit(case.federation())
    finally:
        os.close(held)
    (place / f"{name}.fedsift-lock").unlink()
    assert content(place) == before
    case.make(place).fit(case.federation())
    assert not list(place.iterdir())
