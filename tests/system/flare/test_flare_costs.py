"""What a plan says of a job between organisations, against a run that tells both."""

import json
import subprocess
import sys

import pytest
from msgspec import convert

from fedsift.cli.predicting import comparison
from fedsift.result import SelectionResult

pytest.importorskip("nvflare", reason="the extra fedsift[flare] is not installed")

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.xdist_group("federation"),
    pytest.mark.slow(25),
]


def test_a_federation_on_one_machine_tells_prediction_against_reality(tmp_path):
    """The whole command, as a user types it: federation, job, files, and what was predicted."""
    command = [sys.executable, "-m", "fedsift", "deploy", "local", "--try", "filter"]
    ran = subprocess.run(
        [*command, "--out", tmp_path / "out", "--json"],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
        cwd=tmp_path,
    )
    result = json.loads(ran.stdout)["result"]
    told, traffic = result["predicted"], result["traffic"]
    assert told["ciphertexts"] == traffic["ciphertexts"]
    # Members keep checkpoints: two rounds to begin, one to save, one to end.
    assert told["rounds"] == traffic["rounds"] - 4
    assert told["bytes"] == pytest.approx(traffic["n_bytes"], rel=0.1)
    assert told["waiting"].keys() == {"rounds", "bytes", "start and end of the job"}
    # The clock of a busy machine proves nothing; that it was read, and by this process, does.
    assert told["took"]["seconds"] > 1
    assert "cpu_seconds" not in told["took"]
    line = comparison(convert(result, SelectionResult))
    assert "took" in line
    assert "processor time" not in line
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "ledger.jsonl",
        "report.html",
        "result.json",
    ]
