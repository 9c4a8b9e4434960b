"""What runs in one process needs nothing that only POSIX systems have."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from fedsift.data.state_files import part_path, safe_name
from fedsift.deploy import processes
from fedsift.errors import ConfigError

CODE = textwrap.dedent(
    """
    import builtins, os, pkgutil, sys, importlib

    POSIX_ONLY = {"fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "syslog", "posix"}
    usual = builtins.__import__

    def guarded(name, globals=None, locals=None, fromlist=(), level=0):
        asks = (globals or {}).get("__name__", "")
        if asks.startswith("fedsift") and name.partition(".")[0] in POSIX_ONLY:
            raise ImportError(f"{asks} imports {name}, which is not there")
        return usual(name, globals, locals, fromlist, level)

    builtins.__import__ = guarded
    import fedsift as fs
    import fedsift.cli

    # Members of a federation are POSIX processes, and say so.
    skipped = ("fedsift.deploy", "fedsift.deploy.flare.executor")
    for found in pkgutil.walk_packages(fs.__path__, "fedsift."):
        if not found.name.startswith(skipped) and not found.name.endswith("__main__"):
            try:
                importlib.import_module(found.name)
            except ImportError as error:
                if "which is not there" in str(error):
                    raise

    from sklearn.datasets import load_wine

    X, y = load_wine(return_X_y=True)
    for name in ("fork", "posix_spawn", "killpg", "getuid", "geteuid", "setsid", "fchmod"):
        if hasattr(os, name):
            delattr(os, name)
    selector = fs.FilterSelector("gini", n_features_to_select=2, random_state=0).fit(X, y)
    selector.result_.to_html("report.html")
    selector.result_.save("result.json")
    assert fs.SelectionResult.load("result.json").selected == selector.result_.selected
    print("ran", selector.get_support().sum())
    """
)


@pytest.mark.slow(20)
def test_everything_but_federations_runs_without_posix(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", CODE], cwd=tmp_path, capture_output=True, text=True,
        timeout=110, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["ran", "2"]


def test_members_of_a_federation_say_where_they_run(monkeypatch):
    pytest.importorskip("nvflare")
    monkeypatch.delattr(os, "posix_spawn", raising=False)
    with pytest.raises(ConfigError, match="Linux or macOS"):
        processes.command_of(None)


@pytest.mark.parametrize("name", ["con", "CON", "Nul", "com1", "LPT9", "aux", "prn"])
def test_names_of_parties_are_no_devices_of_windows(name):
    """Windows takes "con.anything" for a device, so the part before the first dot counts."""
    devices = {"con", "nul", "com1", "lpt9", "aux", "prn"}
    assert name.casefold() in devices
    assert part_path(Path("model"), name).name.split(".")[0].casefold() not in devices
    assert safe_name(name) != safe_name(name + "x")
    assert safe_name("console") == "console"


@pytest.mark.parametrize(
    "name", ["a:b", "con/1", "north\\south", 'quo"ted', "star*", "who?", "a<b>c|"]
)
def test_names_of_parties_make_files_that_windows_accepts(name):
    assert not set(safe_name(name)) & set('<>:"/\\|?*')
    assert safe_name(name) != safe_name(name + "x")
