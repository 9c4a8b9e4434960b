"""What a plan says of a job between organisations, against a run on a real federation."""

import json
import subprocess
import sys

import pandas as pd
import pytest
from msgspec import convert

from fedsift.cli.predicting import comparison, predicted
from fedsift.cli.prepare import read_job
from fedsift.cli.shapes import prepare_shapes
from fedsift.result import SelectionResult
from flare_helpers import HORIZONTAL, PARTIES

pytest.importorskip("nvflare", reason="the extra fedsift[flare] is not installed")

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("name", ["interaction", "fedsdg", "dcfs"])
def test_the_counts_are_known_from_the_sizes_of_the_tables(federation, tables, name):
    horizontal, shapes = name in HORIZONTAL, []
    for party in PARTIES:
        federation.set_party(party, tables.data(party, horizontal=horizontal), None)
        table = tables.rows(party) if horizontal else tables.columns(party)
        frame = pd.read_csv(table).drop(columns=["customer", "default", "region"], errors="ignore")
        shapes.append(f"{party}={len(frame)}x{frame.shape[1]}")
    job = tables.job(name)

    ran = federation.submit(job)
    common = None if horizontal else ran.shape["n_rows"]
    told = predicted(prepare_shapes(read_job(job, engine="flare"), shapes, 2, common))

    assert (told.rounds, told.messages) == (ran.traffic.rounds, ran.traffic.messages)
    assert told.ciphertexts == ran.traffic.ciphertexts
    assert told.n_bytes == pytest.approx(ran.traffic.n_bytes, rel=0.1)
    assert told.seconds == pytest.approx(told.cpu_seconds + sum(told.waiting.values()))


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
