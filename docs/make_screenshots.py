"""Make the pictures of reports in docs/images: run the examples, open their pages, take pictures.

Run ``make screenshots`` (installs a browser where it can). Pictures change with every run, because
seconds and sizes of ciphertexts do; the selections do not.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
JOBS = {
    "report-filter": "filters_vertical",
    "report-filter-horizontal": "filters_horizontal",
    "report-interaction": "interaction",
    "report-vfps": "vfps",
    "report-dcfs": "dcfs",
    "report-fpso": "fpso",
    "report-fedsdg": "fedsdg",
}
COMPARISON = """
[compare]
folds = 3
seeds = 1
permutations = 1
models = ["knn"]
security = "plain"

[[data]]
dataset = "wine"
setting = "vertical"
parties = 3
n_features_to_select = 4

[[method]]
name = "gini"
method = "filter"
score = "gini"

[[method]]
method = "interaction"
"""
MOST_BYTES = 300_000
WIDTH, HEIGHT, TALL = 900, 1250, 2000
LIMIT_SECONDS = 1800


def main() -> None:
    wanted = sys.argv[1:] or [*JOBS, "compare", "attack", "live"]
    program = os.environ.get("FEDSIFT_CHROMIUM") or shutil.which("chromium")
    flags = ["--disable-dev-shm-usage", "--disable-gpu"]
    if os.geteuid() == 0:
        flags.append("--no-sandbox")
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=flags)
        for name in wanted:
            if name == "live":
                live(browser, Path(folder))
            else:
                picture(browser, page_of(name, Path(folder)).as_uri(), name)
        browser.close()


def page_of(name: str, folder: Path) -> Path:
    """Run what a page is about, and say where the page is."""
    place = folder / name
    if name == "compare":
        file = folder / "compare.toml"
        file.write_text(COMPARISON)
        fedsift("compare", file, "--out", place)
        return place / "report.html"
    if name == "attack":
        fedsift("attack", ROOT / "examples" / "filters_vertical.toml", "--out", place)
        return place / "attack.html"
    fedsift("run", ROOT / "examples" / f"{JOBS[name]}.toml", "--out", place)
    return place / "report.html"


def fedsift(*arguments: object) -> None:
    command = [sys.executable, "-m", "fedsift.cli", *map(str, arguments)]
    subprocess.run(command, check=True, timeout=LIMIT_SECONDS, stdout=subprocess.DEVNULL)  # noqa: S603


def live(browser: Browser, folder: Path) -> None:
    """A job that trains, when about half of its epochs are done."""
    job = ROOT / "examples" / "fedsdg.toml"
    command = [sys.executable, "-m", "fedsift.cli", "run", str(job), "--live", "--quiet"]
    running = subprocess.Popen(  # noqa: S603
        [*command, "--out", str(folder / "live")],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert running.stderr is not None  # noqa: S101
        url = running.stderr.readline().removeprefix("Live view: ").strip()
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.goto(url)
        page.locator("figcaption", has_text="Open gates").wait_for(timeout=LIMIT_SECONDS * 1000)
        page.wait_for_function(
            "() => { const bar = document.querySelector('progress');"
            " return bar && bar.value >= Math.min(5, bar.max); }",
            timeout=LIMIT_SECONDS * 1000,
        )
        saved(page, "live")
        page.close()
    finally:
        running.terminate()
        running.wait(60)


def picture(browser: Browser, address: str, name: str) -> None:
    height = TALL if name in JOBS else HEIGHT  # reports show their charts further down
    page = browser.new_page(viewport={"width": WIDTH, "height": height})
    page.goto(address)
    saved(page, name)
    page.close()


def saved(page, name: str) -> None:  # type: ignore[no-untyped-def]
    path = IMAGES / f"{name}.png"
    page.screenshot(path=path)
    size = path.stat().st_size
    if size > MOST_BYTES:
        sys.exit(f"{path.name} has {size:,} bytes; at most {MOST_BYTES:,} are wanted.")
    print(f"{path.name}: {size:,} bytes", flush=True)


if __name__ == "__main__":
    main()
