"""A browser, if there is one: these tests are skipped on machines without Chromium or Playwright.

``make browser-tests`` installs both and sets FEDSIFT_BROWSER=required, so that nothing is skipped.
"""

import os
import shutil
from importlib import resources

import pytest

_PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")
def browser():
    """Headless Chromium."""
    try:
        from playwright.sync_api import Error, sync_playwright
    except ImportError:
        _without("Playwright is not installed; 'make browser-tests' installs it")
    program = os.environ.get("FEDSIFT_CHROMIUM") or next(
        filter(None, map(shutil.which, _PROGRAMS)), ""
    )
    if not program:
        _without("there is no Chromium; 'make browser-tests' installs it on Debian")
    flags = ["--disable-dev-shm-usage", "--disable-gpu", "--disable-background-networking"]
    if os.geteuid() == 0:
        flags.append("--no-sandbox")  # Chromium has no sandbox for root, who runs CI containers
    with sync_playwright() as playwright:
        try:
            launched = playwright.chromium.launch(
                executable_path=program, args=flags, timeout=60_000
            )
        except Error as error:
            _without(f"Chromium does not start here: {str(error).splitlines()[0]}")
        launched_contexts = launched.contexts
        yield launched
        for context in list(launched_contexts):
            context.close()
        launched.close()


@pytest.fixture(scope="module")
def axe():
    """Source of axe-core, the checker of accessibility rules."""
    try:
        return resources.files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")
    except ImportError:
        return _without("axe-core is not installed; 'make browser-tests' installs it")


def _without(reason):
    if os.environ.get("FEDSIFT_BROWSER") == "required":
        pytest.fail(reason)
    pytest.skip(reason)
