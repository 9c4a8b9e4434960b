"""Kits are made once; tests that change one work on a copy."""

import shutil

import numpy as np
import pandas as pd
import pytest

from fedsift.deploy.kits import load_kit, make_kits
from fedsift.deploy.project import load_project
from helpers.deploy import write_project


@pytest.fixture(scope="session")
def issued(tmp_path_factory):
    """The folder that ``deploy init`` leaves, without sealing keys."""
    pytest.importorskip("nvflare", reason="the extra fedsift[flare] is not installed")
    folder = tmp_path_factory.mktemp("issued")
    make_kits(load_project(write_project(folder)), folder / "out")
    return folder / "out"


@pytest.fixture
def kits(issued, tmp_path):
    """Kits by name, in a copy that may be changed."""
    shutil.copytree(issued, tmp_path / "out")
    return {folder.name: load_kit(folder) for folder in (tmp_path / "out" / "kits").iterdir()}


@pytest.fixture
def bank_csv(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "bank.csv"
    pd.DataFrame(
        {
            "customer_id": [f"C{number}" for number in range(40)],
            "income": rng.normal(size=40),
            "region": rng.choice(["north", "south"], 40),
            "branch": rng.integers(0, 3, 40),
            "default": np.arange(40) % 2,
        }
    ).to_csv(path, index=False)
    return path
