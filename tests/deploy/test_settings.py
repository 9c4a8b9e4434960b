"""Settings of a member: what may stand in the file, and how keys get into it."""

import base64
import stat
import tomllib
from dataclasses import replace

import msgspec
import pytest

from fedsift.config.toml import toml_text
from fedsift.deploy.kits import share_keys
from fedsift.deploy.own_table import columns_for
from fedsift.deploy.site_files import (
    load_site,
    make_key,
    pin_keys,
    read_key,
    read_public,
    read_signing_keys,
    settings_file,
    write_public,
    write_sections,
)
from fedsift.errors import ConfigError, FileProblem, JobError, PolicyViolation
from fedsift.jobs.spec import JointJob

KEY = base64.b64encode(bytes(32)).decode()


@pytest.fixture
def site(tmp_path, bank_csv):
    """Write a settings file and load it; sections may be changed."""

    def load(**changes):
        sections = {
            "party": {"name": "bank"},
            "data": {"path": str(bank_csv), "id": ["customer_id"], "label": "default"},
            "policy": {"methods": ["filter"], "min_rows": 20},
            "keys": {"own": "organisation.key", "pinned": {"hub": KEY, "shop-2": KEY}},
            "accepts": {"drivers": ["bank"], "submitters": {"ann@bank.example": KEY}},
            "limits": {"idle_seconds": 60, "heartbeat_seconds": 2.5},
            "runtime": {"checkpoint": "kept", "output": "results"},
        }
        sections |= changes
        write_sections(tmp_path / "site.toml", sections)
        return load_site(tmp_path)

    return load


def test_a_settings_file_is_read(site, tmp_path, bank_csv):
    settings = site()

    assert (settings.name, settings.data, settings.label) == ("bank", bank_csv, "default")
    assert settings.id_columns == ("customer_id",)
    assert settings.policy == {"methods": ["filter"], "min_rows": 20}
    assert settings.pinned == {"hub": bytes(32), "shop-2": bytes(32)}
    assert settings.submitters == {"ann@bank.example": bytes(32)}
    assert settings.drivers == ("bank",)
    assert (settings.idle_seconds, settings.heartbeat_seconds) == (60, 2.5)
    assert settings.checkpoint == tmp_path / "kept"
    assert settings.key_file == tmp_path / "organisation.key"
    assert stat.S_IMODE((tmp_path / "site.toml").stat().st_mode) == 0o600


def test_a_label_of_survival_times_is_released_for_such_jobs_alone(site, bank_csv):
    label = {"time": "age", "event": "income"}
    settings = site(data={"path": str(bank_csv), "label": label})
    job = JointJob(
        method="filter", setting="vertical", parties=("bank", "shop"), label_party="bank",
        labelled=True, label_column="age", task="survival", parameters={},
    )  # fmt: skip

    assert settings.label == label
    assert columns_for(settings, job) is None
    for refused in (
        msgspec.structs.replace(job, task="auto"),
        msgspec.structs.replace(job, label_column="income"),
        msgspec.structs.replace(job, columns={"bank": ("income",)}),
    ):
        with pytest.raises(PolicyViolation, match="not released"):
            columns_for(settings, refused)
    with pytest.raises(PolicyViolation, match="not released"):
        columns_for(site(data={"path": str(bank_csv), "label": "age"}), job)
    with pytest.raises(JobError, match="not complete"):
        site(data={"path": str(bank_csv), "label": {"time": "age"}})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"party": {}}, "no name"),
        ({"data": {}}, "names no data"),
        ({"data": {"path": "gone.csv"}}, "not there"),
        ({"data": {"path": "site.toml", "lable": "x"}}, "Did you mean 'label'?"),
        ({"policy": {"min_rows": -1}}, "negative"),
        ({"policy": {"methodes": []}}, "Did you mean 'methods'?"),
        ({"keys": {"pinned": {"hub": "c2hvcnQ="}}}, "is no key"),
        ({"keys": {"pinned": {"hub": 7}}}, "is no key"),
        ({"accepts": {"submitters": {"ann": "%"}}}, "is no key"),
        ({"limits": {"idle_seconds": 0}}, "no time"),
        ({"limits": {"idle_secons": 1}}, "Did you mean 'idle_seconds'?"),
    ],
)
def test_a_wrong_settings_file(site, changes, words):
    with pytest.raises(JobError) as caught:
        site(**changes)

    assert words in " ".join(caught.value.problems)


def test_only_organisations_have_data(tmp_path, bank_csv):
    sections = {"party": {"name": "hub"}, "data": {"path": str(bank_csv)}}
    write_sections(tmp_path / "hub.toml", sections)

    with pytest.raises(JobError, match="Only an organisation"):
        load_site(tmp_path)


def test_texts_survive_toml(tmp_path):
    words = ['a"b', "tab\there", "back\\slash", "\x7f", "ünï", "𝄞", "line\nbreak"]
    (tmp_path / "file.toml").write_text(toml_text({"t": {"list": words, "a@b": "x", "n": 1.5}}))

    read = tomllib.loads((tmp_path / "file.toml").read_text())["t"]

    assert read == {"list": words, "a@b": "x", "n": 1.5}


def test_a_key_is_made_once_and_stays_secret(kits):
    kit = kits["bank"]
    first, again = (make_key(kit.settings, kit.name, kit.kind) for _ in range(2))
    path = kit.settings / "organisation.key"

    assert first == again
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text().strip() not in repr(first)
    assert base64.b64encode(first.public).decode() not in path.read_text()


def test_a_key_goes_round_and_is_pinned(kits, tmp_path):
    key = make_key(kits["shop-2"].settings, "shop-2", "organisation")
    write_public(tmp_path / "shop.toml", key)

    pin_keys(kits["bank"].settings, [read_public(tmp_path / "shop.toml")])

    document = settings_file(kits["bank"].settings).read_text()
    assert base64.b64encode(key.public).decode() in document
    assert len(key.fingerprint.split()) == 6


def test_the_signing_key_is_pinned_with_it_and_part_of_the_fingerprint(kits, tmp_path):
    bank = kits["bank"].settings
    key = make_key(kits["shop-2"].settings, "shop-2", "organisation")
    write_public(tmp_path / "shop.toml", key)
    old = replace(key, signing=b"")
    write_public(tmp_path / "old.toml", old)

    pin_keys(bank, [read_public(tmp_path / "old.toml")])  # as version 0.1.0 wrote it
    assert read_public(tmp_path / "old.toml") == old
    pin_keys(bank, [read_public(tmp_path / "shop.toml")])

    pinned = {"shop-2": key.signing}
    assert read_signing_keys([settings_file(bank)]) == pinned
    assert read_signing_keys([tmp_path / "shop.toml"]) == pinned
    assert key.signing == read_key(kits["shop-2"].settings / "organisation.key").signing.public
    other = replace(key, signing=bytes(32))
    assert other.fingerprint != key.fingerprint
    for swapped in (other, old):
        with pytest.raises(ConfigError, match="Another key"):
            pin_keys(bank, [swapped])
    with pytest.raises(ConfigError, match="no public signing key"):
        read_signing_keys([tmp_path / "old.toml"])


def test_a_pinned_key_changes_only_on_purpose(kits):
    bank = kits["bank"].settings
    old = make_key(kits["shop-2"].settings, "shop-2", "organisation")
    pin_keys(bank, [old])
    (kits["shop-2"].settings / "organisation.key").unlink()
    new = make_key(kits["shop-2"].settings, "shop-2", "organisation")

    with pytest.raises(ConfigError, match="Another key"):
        pin_keys(bank, [new])
    assert base64.b64encode(old.public).decode() in settings_file(bank).read_text()

    pin_keys(bank, [new], replace=True)
    assert base64.b64encode(old.public).decode() not in settings_file(bank).read_text()


def test_sharing_keys_pins_all_others_and_not_oneself(kits, bank_csv):
    share_keys(kits.values())

    path = settings_file(kits["bank"].settings)
    write_sections(path, {**tomllib.loads(path.read_text()), "data": {"path": str(bank_csv)}})
    settings = load_site(kits["bank"].settings)
    assert set(settings.pinned) == {"hub", "shop-2"}
    assert set(settings.submitters) == {"ann@bank.example"}
    assert (
        settings.pinned["shop-2"] == read_key(kits["shop-2"].settings / "organisation.key").public
    )


@pytest.mark.parametrize("text", ["", "nonsense", "c2hvcnQ=", "ÄÖ"])
def test_what_is_no_key_file(tmp_path, text):
    path = tmp_path / "organisation.key"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(FileProblem) as caught:
        read_key(path)
    assert not text or text not in str(caught.value)


def test_a_key_file_that_is_not_there(tmp_path):
    with pytest.raises(FileProblem, match="deploy key"):
        read_key(tmp_path / "none")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[key]\nname = 'shop'\nkind = 'organisation'\n", "public is missing"),
        (f"[key]\nname = 'shop'\npublic = '{KEY}'\n", "kind is missing"),
        ("[key]\nname = 'shop'\nkind = 'organisation'\npublic = 'x'\n", "no public key"),
        ("[kee]\n", "Did you mean 'key'?"),
    ],
)
def test_what_is_no_public_key_file(tmp_path, text, words):
    (tmp_path / "key.toml").write_text(text)

    with pytest.raises(JobError) as caught:
        read_public(tmp_path / "key.toml")
    assert words in " ".join(caught.value.problems)
