"""The suite ``runtime``: what it compares is really compared, and its smallest profile runs."""

import json

import msgspec
import numpy as np
import pytest

from benchmarks.runner import SUITES
from benchmarks.suites.runtime import echo as runtime_echo
from benchmarks.suites.runtime import jobs as runtime_jobs
from benchmarks.suites.runtime import psi as runtime_psi
from fedsift.cli.prepare import prepare, read_job
from fedsift.crypto.wire import Ciphertexts
from fedsift.deploy.flare.wire import RESOURCES, SITE_CLASS
from fedsift.deploy.local import LocalFederation
from fedsift.engine import run_local
from fedsift.errors import BadFrame, ProtocolError

JOB = {
    "method": "filter",
    "parties": ("bank", "shop"),
    "rows": 60,
    "features": 4,
    "ids": True,
    "parameters": {"n_features_to_select": 2, "security": "plain"},
    "seed": 0,
}


def test_numbers_common_to_some_are_not_common_to_all():
    first, second, third = runtime_psi.drawn(3, 300, 60, 0)

    assert [len(np.unique(own)) for own in (first, second, third)] == [300, 300, 300]
    for one, other in ((first, second), (second, third), (third, first)):
        assert len(np.intersect1d(one, other)) == 60 + 80
    assert len(np.intersect1d(np.intersect1d(first, second), third)) == 60


@pytest.mark.parametrize(
    "spellings",
    [
        ["integers", "text with blanks", "floats"],
        ["days in seconds", "days in nanoseconds"],
        ["text and integer", "category and text"],
    ],
)
def test_rows_are_found_however_ids_are_written(spellings):
    job = {"rows": 60, "common": 25, "spellings": spellings, "seed": 1}

    found = runtime_psi.measure(job)

    assert found["exact"]
    assert found["common"] == 25
    assert found["bytes"] > 0


def test_one_wrong_row_is_not_exact(monkeypatch):
    right = runtime_psi.intersect

    def wrong(ids):
        rows, outcome = right(ids)
        rows["party-2"][[0, 1]] = rows["party-2"][[1, 0]]
        return rows, outcome

    monkeypatch.setattr(runtime_psi, "intersect", wrong)
    job = {"rows": 60, "common": 25, "spellings": ["text", "text"], "seed": 1}

    assert not runtime_psi.measure(job)["exact"]


def test_an_echo_that_is_none_is_noticed(monkeypatch):
    nodes = runtime_echo.build_nodes("bank", "shop", [(100, 3), (2000, 1)])

    found = run_local(runtime_echo.PROTOCOL, nodes).value

    assert [(one["size"], len(one["seconds"])) for one in found] == [(100, 3), (2000, 1)]

    async def lie(self, shout, net):
        return runtime_echo.Echo(Ciphertexts("random", (b"something else",)))

    monkeypatch.setitem(runtime_echo.Wall.handlers, runtime_echo.Shout, lie)
    with pytest.raises(BadFrame, match="Another echo"):
        run_local(runtime_echo.PROTOCOL, runtime_echo.build_nodes("bank", "shop", [(100, 1)]))


def test_a_result_that_differs_ends_the_suite(tmp_path):
    path, parties = runtime_jobs.write_job(JOB, tmp_path / "job")
    result = prepare(read_job(path)).run()

    assert set(parties) == {"bank", "shop"}
    assert 50 < result.shape["n_rows"] < 60
    runtime_jobs.refuse_difference("this", result, result)
    first, *others = result.traffic.rows
    more = msgspec.structs.replace(first, messages=first.messages + 1)
    for what, changed in {
        "selection": {"selected": {"bank": (), "shop": ()}},
        "scores": {"scores": {}},
        "traffic": {"traffic": msgspec.structs.replace(result.traffic, rows=(more, *others))},
    }.items():
        other = msgspec.structs.replace(result, **changed)
        with pytest.raises(ProtocolError, match=f"'this' has another {what}"):
            runtime_jobs.refuse_difference("this", result, other)
    runtime_jobs.refuse_difference(
        "this", result, msgspec.structs.replace(result, scores={}), drawn=True
    )
    with pytest.raises(ProtocolError, match="'this' has another number of messages of each kind"):
        runtime_jobs.refuse_difference("this", result, other, drawn=True)


def test_no_kit_allows_the_echo(tmp_path):
    pytest.importorskip("nvflare", reason="the extra fedsift[flare] is not installed")
    from benchmarks.suites.runtime.flare import ECHO_CLASS, allow_echo

    _, parties = runtime_jobs.write_job(JOB, tmp_path / "job")
    federation = LocalFederation(parties, folder=tmp_path / "federation")

    def allowed(name):
        path = federation.kits[name].folder / "local" / RESOURCES
        return json.loads(path.read_text())["class_allow_list"]

    assert allowed("bank") == allowed("shop") == [SITE_CLASS]
    allow_echo(federation.kits["bank"])
    assert allowed("bank") == [SITE_CLASS, ECHO_CLASS]
    assert allowed("shop") == [SITE_CLASS]


@pytest.mark.timeout(600)
@pytest.mark.xdist_group("federation")
@pytest.mark.slow(30)
def test_the_smallest_profile():
    pytest.importorskip("nvflare", reason="the extra fedsift[flare] is not installed")
    lines = []

    outcome = SUITES["runtime"]("smoke", lines.append)

    rows = outcome["rows"]
    echoes = {row["case"] for row in rows if row["job"]["part"] == "echo"}
    assert echoes == {
        f"echo {size}, {engine}"
        for size in ("100 B", "20 kB")
        for engine in ("embedded", "gRPC", "FLARE")
    }
    assert all(row["seconds"] > 0 for row in rows)
    assert all(row["exact"] for row in rows if row["job"]["part"] == "psi")
    here, there = (row for row in rows if row["job"]["part"] == "job")
    assert (here["job"]["engine"], there["job"]["engine"]) == ("embedded", "FLARE")
    assert here["selected"] == there["selected"]
    assert there["limit"] == pytest.approx(1.5 * here["seconds"] + 25)
    assert outcome["bars"] == {}  # a machine that runs tests is no place to judge seconds
    assert len(lines) == len(rows) + 1
