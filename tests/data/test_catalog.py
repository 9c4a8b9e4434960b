# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
import os
import shutil
import socket
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from urllib.error import URLError

import numpy as np
import pytest
import sklearn.datasets

from fedsift.data import catalog, split_vertical
from fedsift.data.archive import content_digest, read_arrays
from fedsift.data.catalog import FACTS
from fedsift.errors import FileProblem, UnknownDataset

SHIPPED = ("breast_cancer", "wine", "wine_white")
_BESIDE = Path(__file__).resolve().parents[3] / "shared" / "datasets"
BIG_SETS = Path(os.environ["FEDSIFT_DATA"]) if "FEDSIFT_DATA" in os.environ else _BESIDE
needs_big_sets = pytest.mark.skipif(
    "FEDSIFT_DATA" not in os.environ and not _BESIDE.is_dir(),
    reason="FEDSIFT_DATA is not set",
)


@pytest.fixture(autouse=True)
def no_outside(monkeypatch, tmp_path):
    """No directory, an empty cache and no network, unless a test says otherwise."""
    monkeypatch.delenv("FEDSIFT_DATA", raising=False)
    monkeypatch.setenv("FEDSIFT_CACHE", str(tmp_path / "cache"))

    def no_network(*args, **options):
        raise URLError("no network in tests")

    # Below scikit-learn's own function, so that its check of our arguments still runs.
    monkeypatch.setattr("sklearn.datasets._openml.urlopen", no_network)


@pytest.fixture
def directory(tmp_path, monkeypatch):
    folder = tmp_path / "sets"
    folder.mkdir()
    monkeypatch.setenv("FEDSIFT_DATA", str(folder))
    return folder


def save(path, **arrays):
    np.savez_compressed(path, **arrays)
    return path


class TestFacts:
    def test_names_and_facts(self):
        assert len(catalog.names()) == 39
        assert list(catalog.names()) == sorted(catalog.names())
        assert tuple(n for n in catalog.names() if catalog.info(n).shipped) == SHIPPED
        for name in catalog.names():
            facts = catalog.info(name)
            assert facts.name == name
            assert facts.origin
            assert facts.licence
            assert facts.task == "classification"
            assert facts.papers or name == "breast_cancer"

    def test_unknown_name(self, refused):
        with refused(UnknownDataset, "'madelom'", "Did you mean 'madelon'?"):
            catalog.load("madelom")
        with refused(UnknownDataset, "Known sets"):
            catalog.info("zzzzzzzz")


class TestShipped:
    @pytest.mark.parametrize("name", SHIPPED)
    def test_loads_without_anything(self, name):
        data = catalog.load(name)
        facts = data.info

        assert data.X.shape == (facts.n_rows, facts.n_features)
        assert data.X.dtype == np.float64
        assert data.y.dtype == np.int64
        assert len(data.classes) == facts.n_classes == len(np.unique(data.y))
        assert len(data.feature_names) == facts.n_features
        assert np.isfinite(data.X).all()
        assert catalog.is_available(name)
        assert name in repr(data)

    def test_values_are_those_of_scikit_learn(self):
        for name in ("wine", "breast_cancer"):
            truth = getattr(sklearn.datasets, f"load_{name}")()
            np.testing.assert_array_equal(catalog.load(name).X, truth.data)
            np.testing.assert_array_equal(catalog.load(name).y, truth.target)

    def test_frame(self):
        data = catalog.load("wine", as_frame=True)
        assert tuple(data.X.columns) == data.feature_names
        assert split_vertical(data.X, data.y, 2).n_features == 13

    def test_damaged_file_is_refused(self, tmp_path, monkeypatch, refused):
        copy = tmp_path / "shipped"
        shutil.copytree(catalog._SHIPPED, copy)
        (copy / "wine.npz").write_bytes((copy / "wine.npz").read_bytes() + b"x")
        monkeypatch.setattr(catalog, "_SHIPPED", copy)
        with refused(FileProblem, "wine.npz", "checksum"):
            catalog.load("wine")

    def test_readme_names_every_file(self):
        text = (catalog._SHIPPED / "README.md").read_text()
        assert all(f"{name}.npz" in text for name in SHIPPED)


class TestDirectory:
    def test_reads_file_and_extras(self, directory):
        save(directory / "colon.npz", X=np.eye(3, dtype=np.int8), y=[0, 1, 0], informative=[2])

        data = catalog.load("colon")

        assert data.feature_names == ("x0", "x1", "x2")
        assert data.classes == ("0", "1")
        assert data.extras["informative"].tolist() == [2]
        assert catalog.is_available("colon")

    def test_checksum_mismatch(self, directory, refused):
        save(directory / "colon.npz", X=np.eye(3), y=[0, 1, 0])
        (directory / "SHA256SUMS").write_text("00  colon.npz\n")
        with refused(FileProblem, "colon.npz", "checksum"):
            catalog.load("colon")
        (directory / "SHA256SUMS").write_text("00  other.npz\n")
        with refused(FileProblem, "colon.npz", "not listed"):
            catalog.load("colon")

    def test_pickles_and_rubbish_are_refused(self, directory, refused):
        save(directory / "colon.npz", X=np.array([[object()]]), y=[0])
        with refused(FileProblem, "colon.npz"):
            catalog.load("colon")
        (directory / "colon.npz").write_bytes(b"s3cr3t-cell")
        with refused(FileProblem, "colon.npz"):
            catalog.load("colon")
        save(directory / "colon.npz", X=np.eye(2))
        with refused(FileProblem, "labels"):
            catalog.load("colon")
        (directory / "colon.npz").unlink()
        (directory / "colon.npz").mkdir()
        with refused(FileProblem, "directory"):
            catalog.load("colon")

    @pytest.mark.parametrize("damage", ["compression", "method", "encrypted", "size"])
    def test_damaged_archives_are_refused(self, directory, refused, damage):
        path = directory / "colon.npz"
        np.savez_compressed(path, X=np.zeros((50, 4)), y=np.zeros(50))
        raw = bytearray(path.read_bytes())
        central = raw.index(b"PK\x01\x02")
        if damage == "compression":
            raw[60:70] = bytes(range(10))
        elif damage == "method":
            raw[8:10] = raw[central + 10 : central + 12] = (99).to_bytes(2, "little")
        elif damage == "encrypted":
            raw[6] |= 1
            raw[central + 8] |= 1
        else:
            header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1 << 60,), }"
            header = header.replace(b"1 << 60", b"1152921504606846976").ljust(117) + b"\n"
            npy = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("X.npy", npy)
                archive.writestr("y.npy", npy)
            raw = bytearray(path.read_bytes())
        path.write_bytes(raw)
        with refused(FileProblem, "colon.npz", "not a readable .npz file"):
            catalog.load("colon")

    def test_set_that_is_nowhere(self, directory, monkeypatch, refused):
        assert not catalog.is_available("colon")
        with refused(FileProblem, "not in FEDSIFT_DATA", "colon.npz"):
            catalog.load("colon")
        monkeypatch.delenv("FEDSIFT_DATA")
        with refused(FileProblem, "FEDSIFT_DATA is not set"):
            catalog.load("colon")


class TestOpenML:
    @pytest.fixture
    def fetched(self, monkeypatch):
        """A stand-in for the network that counts how often it is asked."""
        asked = []
        rng = np.random.default_rng(0)
        bunch = SimpleNamespace(
            data=rng.normal(size=(208, 60)),
            target=np.array(["Rock", "Mine"] * 104, dtype=object),
            feature_names=[f"band{i}" for i in range(60)],
        )

        def fetch(**options):
            asked.append((options, socket.getdefaulttimeout()))
            return bunch

        monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
        return asked, bunch

    def test_fetches_once_then_uses_the_cache(self, fetched, tmp_path):
        asked, bunch = fetched
        assert not catalog.is_available("sonar")

        first, second = catalog.load("sonar"), catalog.load("sonar")

        options, timeout = asked[0]
        assert len(asked) == 1
        assert options["data_id"] == 40
        assert timeout == catalog.TIMEOUT_SECONDS
        assert socket.getdefaulttimeout() is None
        np.testing.assert_array_equal(first.X, bunch.data)
        np.testing.assert_array_equal(second.X, bunch.data)
        assert second.classes == ("Mine", "Rock")
        assert second.feature_names[0] == "band0"
        assert catalog.is_available("sonar")
        files = {path.name for path in (tmp_path / "cache").iterdir()}
        assert files == {"sonar.npz", "sonar.npz.sha256"}

    def test_changed_cache_is_refused(self, fetched, tmp_path, refused):
        catalog.load("sonar")
        save(tmp_path / "cache" / "sonar.npz", X=np.eye(2), y=[0, 1])
        with refused(FileProblem, "'sonar'", "checksum", "Delete"):
            catalog.load("sonar")
        (tmp_path / "cache" / "sonar.npz.sha256").unlink()
        with refused(FileProblem, "'sonar'", "checksum"):
            catalog.load("sonar")

    def test_catalogued_checksum_is_enforced(self, fetched, monkeypatch, refused):
        _, bunch = fetched
        monkeypatch.setitem(FACTS, "sonar", replace(FACTS["sonar"], sha256="0" * 64))
        with refused(FileProblem, "catalogued checksum"):
            catalog.load("sonar")
        right = content_digest(catalog._arrays_of(bunch))
        monkeypatch.setitem(FACTS, "sonar", replace(FACTS["sonar"], sha256=right))
        assert catalog.load("sonar").X.shape == (208, 60)

    def test_other_shape_is_refused(self, fetched, refused):
        with refused(FileProblem, "(208, 60)", "(846, 18)"):
            catalog.load("vehicle")

    def test_no_network(self, monkeypatch, refused):
        monkeypatch.setattr("time.sleep", lambda seconds: None)
        with refused(FileProblem, "OpenML", "URLError", "FEDSIFT_DATA"):
            catalog.load("sonar")

    def test_cache_that_cannot_be_written(self, fetched, tmp_path, caplog):
        (tmp_path / "cache").write_text("a file where the directory should be")
        assert catalog.load("sonar").X.shape == (208, 60)
        assert "cannot cache" in caplog.text

    def test_cache_directory(self, monkeypatch, tmp_path):
        monkeypatch.delenv("FEDSIFT_CACHE")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        assert catalog.cache_directory() == tmp_path / "fedsift"
        monkeypatch.delenv("XDG_CACHE_HOME")
        assert catalog.cache_directory() == Path.home() / ".cache" / "fedsift"


def test_digest_depends_on_content_only(tmp_path):
    arrays = {"X": np.eye(2), "y": np.array([0, 1]), "classes": np.array(["a", "b"])}
    stored = read_arrays(save(tmp_path / "a.npz", **arrays))

    assert content_digest(stored) == content_digest(arrays)
    swapped = {**arrays, "X": arrays["X"].astype(">f8")}
    assert content_digest(swapped) == content_digest(arrays)
    assert content_digest({**arrays, "X": 2 * np.eye(2)}) != content_digest(arrays)


@needs_big_sets
@pytest.mark.parametrize("name", [n for n in catalog.names() if n not in SHIPPED])
def test_big_set_is_as_catalogued(name, monkeypatch):
    monkeypatch.setenv("FEDSIFT_DATA", str(BIG_SETS))

    data = catalog.load(name)

    facts = data.info
    assert data.X.shape == (facts.n_rows, facts.n_features)
    assert len(data.classes) == facts.n_classes == data.y.max() + 1


@needs_big_sets
def test_shipped_white_wine_has_the_same_values(monkeypatch):
    arrays = read_arrays(BIG_SETS / "wine_white.npz")
    np.testing.assert_array_equal(catalog.load("wine_white").X, arrays["X"].astype(float))


def test_importing_the_package_loads_no_heavy_library():
    code = (
        "import sys, fedsift.data; "
        "print([m for m in ('pandas', 'sklearn', 'pyarrow', 'scipy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
