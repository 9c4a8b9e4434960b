"""What goes wrong in a federation of real processes: kills, hangs, full disks, changed data.

One federation serves the whole file: a hub and three organisations, with certificates, on this
machine. A job is submitted, something happens to a member in one phase of it, the job ends and says
whose fault it was, and the next submission resumes it into the next phase. At the end the result
must be that of an undisturbed run in one process. Phases are recognised by the checkpoints that a
member writes, and jobs are long enough that a phase is not over before the member is hit.

VF-PS runs with encryption. FedSDG-FS runs without (``security="plain"``): which message is on its
way in which phase, and what is saved when, does not depend on it, while the encrypted layer would
send a hundred megabytes of keys through the hub for every resumption. FPSO encrypts nothing.
"""

import contextlib
import os
import resource
import signal
import socket
import ssl
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from fedsift.deploy import processes
from fedsift.deploy.flare.hub_session import HubSession
from fedsift.deploy.kits import make_kits, set_party
from fedsift.deploy.local import SUBMITTER, LocalFederation
from fedsift.deploy.project import Project, Submitter
from fedsift.engine.timeouts import Timeouts
from fedsift.errors import AlignmentError, FileProblem, MemberDown, PartyFailed, ProtocolError
from helpers.faults import LIMIT_SECONDS, Attempt, Run, set_limits, wait_until_connected
from helpers.flare import PARTIES
from helpers.processes import changed_processes

pytest.importorskip("nvflare", reason="the extra fedsift[flare] is not installed")

pytestmark = [
    pytest.mark.faults,
    pytest.mark.timeout(900),
    pytest.mark.skipif(sys.platform != "linux", reason="looks into and limits other processes"),
]

BRISK = {"idle_seconds": 60.0, "heartbeat_seconds": 1.0}
"""How soon members notice that another one is gone; long enough for a busy machine."""

PATIENT = {"idle_seconds": 600.0}
"""As members are unless they choose otherwise."""

N_EPOCHS = 8
FEDSDG = {
    "protocol": "paper",
    "security": "plain",
    "n_features_to_select": 3,
    "embedding": 2,
    "outputs": 2,
    "max_epochs": N_EPOCHS,
    "min_epochs": 1,
    "batch_size": 16,
    "refit": True,
}
PLAIN = {"min_security_bits": 0}
OPEN = PLAIN | {"may_reveal": ["basic", "training", "paper-training", "common-ids"]}
N_TESTS = 9
VFPS = {
    "n_participants": 1,
    "n_queries": 20,
    "strategy": "shapley",
    "design": "shared",
    "keep_own": False,
    "batching": False,
}
FPSO = {"n_particles": 6, "n_iterations": 3, "n_rounds": 30}

LATE_SECONDS = 60.0
HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
HTTP2_SETTINGS = b"\x04\x00"


@pytest.fixture(scope="module")
def federation(tables):
    parties = {party: tables.data(party, horizontal=False) for party in PARTIES}
    with changed_processes("seeds"), LocalFederation(parties, limits=BRISK) as federation:
        yield federation


def lost(attempt, member) -> PartyFailed:
    """The job must end and say which member was lost."""
    error = attempt.error(PartyFailed)
    assert error.party == member
    assert error.exit_code == 3
    return error


def test_a_party_killed_in_each_phase_of_fedsdg(federation, tables):
    job = Run(federation, tables, "fedsdg", FEDSDG, ("bank", "shop"), OPEN)

    matching = job.attempt()
    (pid,) = matching.pids("shop")
    matching.until(lambda: "_openmined_psi" in loaded_by(pid), "shop loaded what matches rows")
    os.kill(pid, signal.SIGKILL)
    lost(matching, "shop")

    starting = job.attempt()
    starting.strike("shop", 0, whole=True)
    lost(starting, "shop")
    assert job.last_unit("shop") <= 1
    federation.restart("shop")

    training = job.attempt()
    training.strike("bank", 3)
    lost(training, "bank")
    assert 3 <= job.last_unit("bank") <= 1 + N_EPOCHS

    refitting = job.attempt()
    refitting.strike("shop", 2 + N_EPOCHS)
    lost(refitting, "shop")
    assert 2 + N_EPOCHS <= job.last_unit("shop") < 2 + 2 * N_EPOCHS

    job.check(job.attempt().result())


def loaded_by(pid) -> str:
    """Files that a process has mapped."""
    try:
        return Path(f"/proc/{pid}/maps").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def test_a_party_and_the_hub_killed_in_each_phase_of_vfps(federation, tables):
    job = Run(federation, tables, "vfps", VFPS)

    starting = job.attempt()
    starting.strike("clinic", 0)
    lost(starting, "clinic")

    testing = job.attempt()
    testing.strike("bank", 2)
    lost(testing, "bank")
    assert 2 <= job.last_unit("bank") < N_TESTS

    # The hub is the aggregator of this method, and everybody's way to everybody else.
    aggregating = job.attempt()
    aggregating.strike("hub", 2, whole=True)
    federation.restart("hub")
    error = aggregating.error(ProtocolError)
    assert "no longer runs the job" in str(error)
    assert "--resume" in error.action
    wait_until_connected(federation, PARTIES)

    job.check(job.attempt().result())


def test_a_full_disk_changed_data_an_interrupt_and_late_parties(federation, tables, tmp_path):
    """The hub leads the runs of this method. Meanwhile, in another job, a party hangs a minute."""
    set_limits(federation, **PATIENT)
    other = Run(federation, tables, "fpso", FPSO, ("bank", "clinic"))
    hanging = other.attempt()
    frozen = hanging.strike("clinic", 3, signal.SIGSTOP)
    was_over = []

    def wake():
        was_over.append(hanging.is_over)
        processes.send(frozen, signal.SIGCONT)

    minute = threading.Timer(LATE_SECONDS, wake)
    minute.start()
    set_limits(federation, **BRISK)
    try:
        faults_of_fpso(federation, tables, tmp_path / "out")
    finally:
        minute.join()
    assert was_over == [False]
    other.check(hanging.result())


def faults_of_fpso(federation, tables, out):
    job = Run(federation, tables, "fpso", FPSO, ("bank", "shop"))

    full = job.attempt()
    for pid in full.strike("shop", 3, signal.SIGCONT):  # it runs already
        _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, hard))
    error = lost(full, "shop")
    assert error.cause_code == FileProblem.code
    assert "A file cannot be read or written." in str(error)  # names of files stay there
    reached = job.last_unit("shop")
    assert reached >= 3

    with changed(tables.rows("shop")):
        error = lost(job.attempt(), "shop")
    assert error.cause_code == AlignmentError.code
    assert "is not what it was at the checkpoint" in str(error)
    assert job.last_unit("shop") == reached

    command = [sys.executable, "-m", "fedsift.cli", "deploy", "submit", job.job(), "--resume"]
    places = ["--kit", federation.submitter.folder, "--out", out]
    with subprocess.Popen([*command, *places], stderr=subprocess.PIPE, text=True) as process:
        interrupted = Attempt(federation, job, process.communicate)
        interrupted.until_unit("bank", reached + 2)
        process.send_signal(signal.SIGINT)
        _, told = interrupted.result()
    assert process.returncode == 130, told
    assert not out.exists()
    reached = job.last_unit("bank")

    late = job.attempt(timeout_seconds=15)
    frozen = late.strike("shop", reached + 2, signal.SIGSTOP, whole=True)
    try:
        error = lost(late, "shop")
    finally:
        processes.send(frozen, signal.SIGCONT)
    assert "no answer within 15 seconds" in str(error)

    job.check(job.attempt().result())


@contextlib.contextmanager
def changed(path):
    """Another value in one cell of a table, for a while."""
    text = path.read_text()
    before, found, after = text.rpartition("\n1.")
    assert found
    path.write_text(f"{before}\n2.{after}")
    try:
        yield
    finally:
        path.write_text(text)


def test_a_certificate_of_another_project_opens_nothing(federation, tables, tmp_path):
    """Neither side of a connection takes it: not the hub, not those who dial the hub."""
    hub = federation.kits["hub"]
    submitters = (Submitter(SUBMITTER, "bank"),)
    project = Project("local", "localhost", PARTIES, submitters, port=processes.port_of(hub))
    strangers = {kit.name: kit for kit in make_kits(project, tmp_path, with_keys=True)}
    before = federation.log("hub").count("joined")

    assert greeting(hub, federation.kits["shop"])[3:5] == HTTP2_SETTINGS
    assert not greeting(hub, strangers["shop"])
    assert not greeting(hub, None)

    stranger = strangers["shop"]
    set_party(stranger, tables.data("shop", horizontal=False))
    processes.start(stranger)
    try:
        federation.wait_for(
            lambda: "CERTIFICATE_VERIFY_FAILED" in console(stranger), LIMIT_SECONDS, "a refusal"
        )
        with (
            pytest.raises(MemberDown, match="cannot be reached"),
            HubSession(strangers[SUBMITTER], Timeouts(connect_seconds=3.0)),
        ):
            pass
    finally:
        processes.stop(stranger)
    assert "Successfully registered" not in console(stranger)
    assert federation.log("hub").count("joined") == before
    wait_until_connected(federation, PARTIES)


def greeting(hub, kit) -> bytes:
    """What the hub says first to somebody who takes any hub but shows a kit's certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    if kit is not None:
        startup = kit.folder / "startup"
        context.load_cert_chain(startup / "client.crt", startup / "client.key")
    address = "localhost", processes.port_of(hub)
    try:
        with (
            socket.create_connection(address, timeout=LIMIT_SECONDS) as plain,
            context.wrap_socket(plain) as secured,
        ):
            secured.sendall(HTTP2_PREFACE)
            return secured.recv(64)
    except (ssl.SSLError, ConnectionError):
        return b""


def console(kit) -> str:
    """What a member's process has printed."""
    return "".join(path.read_text(errors="replace") for path in processes.log_files(kit))
