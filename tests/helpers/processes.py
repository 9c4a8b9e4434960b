"""Processes of a federation that behave otherwise than those of users; see ``site/sitecustomize``."""

import os
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

_PLACE = str(Path(__file__).parent / "site")


@contextmanager
def changed_processes(what, out=None):
    """Change the processes that are started meanwhile."""
    path = os.pathsep.join([_PLACE, *filter(None, [os.environ.get("PYTHONPATH")])])
    new = {"PYTHONPATH": path, "FEDSIFT_TESTS": what, "FEDSIFT_TESTS_OUT": str(out)}
    with patch.dict(os.environ, new):
        yield
