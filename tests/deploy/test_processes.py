"""What is checked before a member starts, and that only its own processes are ever ended."""

import json
import os
import socket
import subprocess
import sys
import time

import pytest

from fedsift.deploy import processes
from fedsift.deploy.kits import PartyData, load_kit, set_party, share_keys
from fedsift.errors import ConfigError, FileProblem, JobError, MemberDown
from helpers.deploy import ANN

pytest.importorskip("psutil", reason="the extra fedsift[flare] is not installed")


@pytest.fixture
def ready(kits, bank_csv):
    """Kits with keys and data."""
    share_keys(kits.values())
    for name in ("bank", "shop-2"):
        set_party(kits[name], PartyData(bank_csv, ("customer_id",)))
    return kits


def test_how_members_are_started(ready):
    bank = processes.command_of(ready["bank"])
    hub = processes.command_of(ready["hub"])

    assert bank[0] == hub[0] == sys.executable
    assert "uid=bank" in bank
    assert "secure_train=true" in bank
    assert "secure_train=true" in hub
    assert str(ready["hub"].folder) in hub


def test_a_member_without_data_does_not_start(kits):
    share_keys(kits.values())

    with pytest.raises(JobError, match="deploy party"):
        processes.command_of(kits["bank"])


def test_a_member_without_a_key_does_not_start(kits, bank_csv):
    set_party(kits["bank"], PartyData(bank_csv))

    with pytest.raises(FileProblem, match="deploy key"):
        processes.command_of(kits["bank"])


def test_a_member_that_lacks_a_pin_does_not_start(kits, bank_csv):
    share_keys([kits["bank"], kits["hub"], kits[ANN]])
    set_party(kits["bank"], PartyData(bank_csv))

    with pytest.raises(ConfigError, match="not pinned the keys of: shop-2"):
        processes.command_of(kits["bank"])


def test_a_member_without_a_submitter_does_not_start(kits, bank_csv):
    share_keys([kits["bank"], kits["hub"], kits["shop-2"]])
    set_party(kits["bank"], PartyData(bank_csv))

    with pytest.raises(ConfigError, match="accepts no submitter"):
        processes.command_of(kits["bank"])


def test_a_submitter_has_nothing_to_start(ready):
    with pytest.raises(ConfigError, match="nothing to start"):
        processes.command_of(ready[ANN])


def test_a_folder_with_a_blank_is_refused(ready, tmp_path):
    ready["bank"].folder.rename(tmp_path / "my kit")

    with pytest.raises(FileProblem, match="blank"):
        processes.command_of(load_kit(tmp_path / "my kit"))


def test_a_taken_port_is_refused(ready):
    path = ready["hub"].folder / "startup" / "fed_server.json"
    content = json.loads(path.read_text())
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        content["servers"][0]["service"]["target"] = f"localhost:{taken.getsockname()[1]}"
        path.write_text(json.dumps(content))

        with pytest.raises(ConfigError, match="is taken"):
            processes.command_of(ready["hub"])


def record(kit, pid, born):
    (kit.folder / "run").mkdir(exist_ok=True)
    entry = {"pid": pid, "born": born, "folder": str(kit.folder)}
    (kit.folder / "run" / "process.json").write_text(json.dumps(entry))


def test_a_process_that_got_an_old_number_is_left_alone(ready):
    record(ready["bank"], os.getpid(), time.time() - 10**6)

    assert processes.status(ready["bank"]) is None
    assert processes.stop(ready["bank"]) == ()


def test_a_broken_record_counts_as_not_running(ready):
    (ready["bank"].folder / "run").mkdir()
    (ready["bank"].folder / "run" / "process.json").write_text("{")

    assert processes.status(ready["bank"]) is None


@pytest.fixture
def sleeper():
    """Start processes with a given command line; none is left at the end."""
    started = []

    def start(*arguments):
        process = subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(600)", *arguments]
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_stop_ends_the_member_and_its_jobs_and_nothing_else(ready, sleeper):
    import psutil

    bank, shop = ready["bank"], ready["shop-2"]
    member = sleeper("member")
    module = "nvflare.private.fed.app.client.worker_process"
    job = sleeper("-m", module, "-m", str(bank.folder))
    other_job = sleeper("-m", module, "-m", str(shop.folder))
    bystander = sleeper("-m", str(bank.folder))
    record(bank, member.pid, psutil.Process(member.pid).create_time())
    deadline = time.monotonic() + 60
    while processes.job_pids(bank) != (job.pid,) and time.monotonic() < deadline:
        time.sleep(0.05)

    running = processes.status(bank)
    assert (running.pid, running.job_pids) == (member.pid, (job.pid,))
    with pytest.raises(ConfigError, match="running already"):
        processes.command_of(bank)

    assert set(processes.stop(bank)) == {member.pid, job.pid}
    assert processes.status(bank) is None
    assert other_job.poll() is None
    assert bystander.poll() is None


def test_a_suspended_member_can_be_stopped(ready, sleeper):
    import psutil

    member = sleeper("member")
    process = psutil.Process(member.pid)
    record(ready["bank"], member.pid, process.create_time())
    process.suspend()

    assert processes.stop(ready["bank"]) == (member.pid,)


def test_a_member_that_ends_at_once_is_told(ready):
    record(ready["bank"], 2**22 - 1, 0.0)

    with pytest.raises(MemberDown, match="ended while it started"):
        processes.wait_until_up(ready["bank"], 30)
