"""Who gets what: own keys and certificates, nobody else's, and the authority apart."""

import stat

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from fedsift.deploy.flare import wire as flare_files
from fedsift.deploy.kits import load_kit, make_kits
from fedsift.deploy.project import load_project
from fedsift.errors import ConfigError, FileProblem
from helpers.deploy import ANN, content, files_of, write_project

MEMBER = {
    "README.txt",
    "fedsift-kit.toml",
    "startup/rootCA.pem",
    "local/authorization.json",
    "local/comm_config.json",
    "local/log_config.json",
    "local/resources.json",
}
HUB = MEMBER | {
    "startup/fed_server.json",
    "startup/server.crt",
    "startup/server.key",
    "local/fedsift/hub.toml",
}
ORGANISATION = MEMBER | {
    "startup/fed_client.json",
    "startup/client.crt",
    "startup/client.key",
    "local/fedsift/site.toml",
}
SUBMITTER = (MEMBER - {"local/authorization.json", "local/log_config.json"}) | {
    "startup/fed_admin.json",
    "startup/client.crt",
    "startup/client.key",
    "local/fedsift/submitter.toml",
}


def test_kits_hold_what_they_should_and_nothing_else(issued):
    assert files_of(issued / "kits" / "hub") == HUB
    assert files_of(issued / "kits" / "bank") == ORGANISATION
    assert files_of(issued / "kits" / "shop-2") == ORGANISATION
    assert files_of(issued / "kits" / ANN) == SUBMITTER
    assert files_of(issued / "ca") == {"authority.json", "README.txt"}
    assert {path.name for path in issued.iterdir()} == {"ca", "kits"}


def test_no_private_key_is_in_two_places(issued):
    keys = {}
    for path in issued.rglob("*"):
        if path.is_file() and "PRIVATE KEY" in path.read_text():
            body = path.read_text().split("PRIVATE KEY-----")[1][:200].replace("\\n", "\n")
            assert body not in keys.values()
            keys[str(path.relative_to(issued))] = body
    assert set(keys) == {
        "ca/authority.json",
        "kits/hub/startup/server.key",
        "kits/bank/startup/client.key",
        "kits/shop-2/startup/client.key",
        f"kits/{ANN}/startup/client.key",
    }


def test_certificates_name_their_owners(issued):
    for name, file in [
        ("hub", "server"),
        ("bank", "client"),
        ("shop-2", "client"),
        (ANN, "client"),
    ]:
        raw = (issued / "kits" / name / "startup" / f"{file}.crt").read_bytes()
        certificate = x509.load_pem_x509_certificate(raw)
        (common,) = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        assert common.value == ("hub.example.org" if name == "hub" else name)


def test_secrets_are_their_owners_alone(issued):
    for path in [*issued.rglob("*.key"), issued / "ca" / "authority.json"]:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for folder in [issued / "ca", *(issued / "kits").iterdir()]:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_the_authority_keeps_no_members_key(issued):
    assert set(content(issued / "ca" / "authority.json")) == {
        "project",
        "root_cert",
        "root_pri_key",
        "issued",
    }


def test_connections_are_mutually_authenticated(issued):
    server = content(issued / "kits" / "hub" / "startup" / "fed_server.json")
    client = content(issued / "kits" / "bank" / "startup" / "fed_client.json")
    admin = content(issued / "kits" / ANN / "startup" / "fed_admin.json")

    assert server["servers"][0]["connection_security"] == "mtls"
    assert client["client"]["connection_security"] == "mtls"
    assert admin["admin"]["connection_security"] == "mtls"
    assert server["require_signed_jobs"] is True
    assert client["require_signed_jobs"] is True
    assert client["servers"][0]["service"]["target"] == "hub.example.org:8002"


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("hub", "fedsift.deploy.flare.controller.HubController"),
        ("bank", "fedsift.deploy.flare.executor.SiteExecutor"),
        ("shop-2", "fedsift.deploy.flare.executor.SiteExecutor"),
    ],
)
def test_a_job_may_name_one_class_and_ship_nothing(issued, name, allowed):
    local = issued / "kits" / name / "local"
    resources = content(local / "resources.json")
    rights = content(local / "authorization.json")["permissions"]

    assert resources["class_allow_list"] == [allowed]
    assert resources["class_list_enforcement_mode"] == "enforce"
    assert set(rights) == {"lead"}
    assert rights["lead"]["byoc"] == "none"
    assert rights["lead"]["shell_commands"] == "none"
    assert rights["lead"]["operate"] == "none"
    connections = content(local / "comm_config.json")
    assert connections["allow_adhoc_conns"] is False
    assert connections["streaming_retry_timeout"] < 10


def test_logs_stay_at_home(issued):
    for name in ("hub", "bank", "shop-2"):
        resources = content(issued / "kits" / name / "local" / "resources.json")
        assert not {c["id"] for c in resources["components"]} & {
            "log_receiver",
            "site_log_streamer",
        }
        if name != "hub":
            assert resources["allow_log_streaming"] is False


def test_the_hub_stores_jobs_in_its_own_kit(kits):
    flare_files.place_hub(kits["hub"].folder)

    resources = (kits["hub"].folder / "local" / "resources.json").read_text()

    assert str(kits["hub"].folder / "jobs") in resources
    assert str(kits["hub"].folder / "snapshots") in resources
    assert "jobs-storage" not in resources


def test_a_new_member_joins_under_the_same_authority(kits, tmp_path):
    more = {"[[submitter]]\n": '[[organisation]]\nname = "clinic"\n\n[[submitter]]\n'}
    before = content(tmp_path / "out" / "ca" / "authority.json")

    made = make_kits(load_project(write_project(tmp_path, more)), tmp_path / "out")

    after = content(tmp_path / "out" / "ca" / "authority.json")
    assert [kit.name for kit in made] == ["clinic"]
    assert made[0].organisations == ("bank", "shop-2", "clinic")
    assert after["root_cert"] == before["root_cert"]
    assert set(after["issued"]) == set(before["issued"]) | {"clinic"}
    root = x509.load_pem_x509_certificate(after["root_cert"].encode())
    own = (made[0].folder / "startup" / "client.crt").read_bytes()
    x509.load_pem_x509_certificate(own).verify_directly_issued_by(root)


def test_a_kit_is_renewed_by_name(kits, tmp_path):
    project = load_project(write_project(tmp_path))
    old = (kits["bank"].folder / "startup" / "client.crt").read_bytes()
    kits["bank"].folder.rename(tmp_path / "handed over")

    (made,) = make_kits(project, tmp_path / "out", only=["bank"])

    assert made.name == "bank"
    assert (made.folder / "startup" / "client.crt").read_bytes() != old


def test_no_kit_is_issued_twice_by_accident(kits, tmp_path):
    project = load_project(write_project(tmp_path))

    with pytest.raises(ConfigError, match="--only"):
        make_kits(project, tmp_path / "out")
    with pytest.raises(FileProblem, match="never overwritten"):
        make_kits(project, tmp_path / "out", only=["bank"])
    with pytest.raises(ConfigError, match="no 'bnak'"):
        make_kits(project, tmp_path / "out", only=["bnak"])


def test_an_authority_signs_for_one_project(kits, tmp_path):
    other = load_project(write_project(tmp_path, {'"credit"': '"other"'}))

    with pytest.raises(ConfigError, match="'credit', not 'other'"):
        make_kits(other, tmp_path / "out")

    (tmp_path / "out" / "ca" / "authority.json").write_text("{}")
    with pytest.raises(FileProblem, match="authority"):
        make_kits(other, tmp_path / "out")


def test_a_place_that_cannot_be_written(tmp_path):
    pytest.importorskip("nvflare")
    (tmp_path / "file").write_text("")

    with pytest.raises(FileProblem, match="Cannot write"):
        make_kits(load_project(write_project(tmp_path)), tmp_path / "file" / "out")


def test_what_is_no_kit(tmp_path, kits):
    with pytest.raises(FileProblem, match="not a startup kit"):
        load_kit(tmp_path)
    with pytest.raises(ConfigError, match="an organisation"):
        load_kit(kits["hub"].folder, "organisation")


def test_nothing_is_left_behind_when_flare_refuses(tmp_path, monkeypatch):
    cert = pytest.importorskip("nvflare.lighter.impl.cert")

    def refuse(*_):
        raise RuntimeError("no entropy")

    monkeypatch.setattr(cert.CertBuilder, "build", refuse)
    with pytest.raises(ConfigError, match="no entropy"):
        make_kits(load_project(write_project(tmp_path)), tmp_path / "out")
    assert files_of(tmp_path / "out") == set()
