"""The page "Add a method" is a package: it is built, installed and used as the page says."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "add-a-method.md").read_text(encoding="utf-8")
FENCE = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.DOTALL | re.MULTILINE)
BLOCKS = FENCE.findall(PAGE)
COMMANDS = [
    shlex.split(line)
    for language, _, text in BLOCKS
    if language == "bash"
    for line in text.splitlines()
]

pytestmark = pytest.mark.timeout(400)


class Reader:
    """Somebody who does what the page says, in a folder of their own."""

    def __init__(self, folder):
        self.folder, self.installed = folder, folder / "installed"
        for _, title, text in BLOCKS:
            if title:
                (folder / title).parent.mkdir(exist_ok=True)
                (folder / title).write_text(text, encoding="utf-8")
        options = ("--no-deps", "--no-build-isolation", "--no-index", "--quiet")
        self.python("-m", "pip", "install", *options, "--target", str(self.installed), ".")
        self.python(
            "-c", "".join(text for lang, title, text in BLOCKS if (lang, title) == ("python", ""))
        )

    def python(self, *arguments, status=0):
        """Run Python with the package; what it printed."""
        paths = [str(self.installed), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
        ran = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "COLUMNS": "200"},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert ran.returncode == status, ran.stderr
        return ran.stdout + ran.stderr

    def fedsift(self, *arguments, **options):
        return self.python("-m", "fedsift", *arguments, **options)


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    return Reader(tmp_path_factory.mktemp("reader"))


def test_every_command_of_the_page_runs(reader):
    """Among them a run here and one of a hub and three organisations, with the same result."""
    pytest.importorskip("nvflare", reason="the extra fedsift[flare] is not installed")
    printed = {tuple(words): reader.fedsift(*words[1:]) for words in COMMANDS}
    names = [words[1] for words in COMMANDS]
    assert names == ["methods", "plan", "run", "report", "attack", "attack", "deploy"]

    said = {words[1]: text for words, text in printed.items()}
    assert "pooled-sums" in said["methods"]
    assert "pooled-sums" in said["plan"]
    assert "how many values of the column are missing" in said["report"]
    alone = printed["fedsift", "attack", "completeness.toml"]
    suite = printed["fedsift", "attack", "--only", "member-counts"]
    assert "member-counts" in alone
    assert "closed" in alone
    assert "succeeds" in suite
    assert "closed" in suite

    here, there = (
        json.loads((reader.folder / place / "result.json").read_text())
        for place in ("here", "there")
    )
    assert here["method"] == "completeness"
    assert all(len(names) == 4 for names in here["selected"].values())
    for field in ("selected", "scores", "ranking", "shape"):
        assert there[field] == here[field]
    messages = [{**row, "n_bytes": 0} for row in here["traffic"]["rows"]]
    assert [{**row, "n_bytes": 0} for row in there["traffic"]["rows"]] == messages


def test_a_broken_package_says_so_and_breaks_nothing_else(reader):
    """Wrong addresses, wrong names and failing imports of other packages."""
    entries = {
        "nowhere": "no_such_module:METHOD",
        "nothing": "fedsift_completeness:__doc__",
        "other": "fedsift_completeness:METHOD",
        "filter": "fedsift_completeness:METHOD",
        "train": "fedsift_completeness:METHOD",
    }
    info = reader.installed / "bad_one-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: bad-one\nVersion: 1.0\n")
    lines = [f"{name} = {address}" for name, address in entries.items()]
    (info / "entry_points.txt").write_text("\n".join(["[fedsift.methods]", *lines]) + "\n")
    try:
        told = reader.fedsift("methods")
        assert "bad-one" not in reader.fedsift("--help")
        refused = reader.fedsift("methods", "nowhere", status=2)
        assert "completeness" in reader.fedsift("plan", "completeness.toml")
    finally:
        for file in info.iterdir():
            file.unlink()
        info.rmdir()

    for name in entries:
        assert f"The method {name!r} of the package 'bad-one' cannot be used" in told
    assert "Ranks features by one score" in told
    assert "E205" in refused
    assert "No module named 'no_such_module'" in refused
