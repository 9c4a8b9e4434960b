"""Organisations and their federation on this machine, as most files here need them."""

import pytest

from helpers.flare import PARTIES, Tables


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    return Tables(tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="module")
def federation(tables):
    """Hub and sites of real processes that serve a whole file."""
    from fedsift.deploy.local import LocalFederation

    parties = {party: tables.data(party, horizontal=False) for party in PARTIES}
    with LocalFederation(parties, checkpoints=False) as federation:
        yield federation
