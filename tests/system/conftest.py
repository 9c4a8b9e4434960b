"""Organisations and their federation on this machine, as most files here need them."""

import pytest

from helpers.flare import PARTIES, Tables
from helpers.processes import changed_processes


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    return Tables(tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="module")
def federation(tables):
    """Hub and sites of real processes that serve a whole file.

    Their private draws follow the seed, so that runs can be compared with those in one process.
    """
    from fedsift.deploy.local import LocalFederation

    parties = {party: tables.data(party, horizontal=False) for party in PARTIES}
    with changed_processes("seeds"), LocalFederation(parties, checkpoints=False) as federation:
        yield federation


@pytest.fixture(autouse=True)
def _members_without_a_past(request):
    """Every test begins with members that remember no job, as if it had a federation of its own."""
    yield
    if "federation" in request.fixturenames:
        for kit in request.getfixturevalue("federation").kits.values():
            for name in ("history.sqlite", "history.sqlite-journal"):
                (kit.settings / name).unlink(missing_ok=True)
