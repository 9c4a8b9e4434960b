"""The documentation site is built strictly, no link of it is broken, and it asks nobody for anything."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

pytest.importorskip("mkdocs")

pytestmark = [pytest.mark.xdist_group("site"), pytest.mark.slow(3)]

ROOT = Path(__file__).resolve().parents[2]
LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src"}


class Page(HTMLParser):
    """Links, anchors and loaded files of one page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.anchors, self.loaded = [], set(), []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.anchors |= {given[key] for key in ("id", "name") if given.get(key)}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        if LOADED.get(tag) in given:
            self.loaded.append(given[LOADED[tag]])
        if tag == "link" and given.get("rel") in ("stylesheet", "icon", "preconnect"):
            self.loaded.append(given["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site):
    # The page for missing addresses is written for the root of a server.
    return {path: Page(path) for path in site.rglob("*.html") if path.name != "404.html"}


def test_there_is_a_page_for_every_document(site):
    for source in sorted((ROOT / "docs").rglob("*.md")):
        name = source.relative_to(ROOT / "docs").with_suffix("")
        folder = name.parent if name.name == "index" else name
        assert (site / folder / "index.html").exists(), name
    for name in ("security", "contributing", "changelog", "code-of-conduct"):
        assert (site / name / "index.html").exists(), name


def test_no_internal_link_is_broken(site, pages):
    broken = []
    for path, page in pages.items():
        for link in (*page.links, *page.loaded):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target = target / "index.html"
            found = pages.get(target)
            anchor = unquote(parts.fragment)
            if not target.exists() or (found and anchor and anchor not in found.anchors):
                broken.append(f"{path.relative_to(site)}: {link}")
    assert broken == []


def test_no_page_loads_anything_from_elsewhere(pages):
    foreign = [link for page in pages.values() for link in page.loaded if urlsplit(link).netloc]
    assert foreign == []


def test_links_of_the_repository_itself_lead_somewhere():
    """The same files are read without the site, where nothing rewrites a link."""
    texts = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    broken = [
        f"{text.relative_to(ROOT)}: {target}"
        for text in texts
        for target in re.findall(r"\]\(([^)#\s:]+)(?:#[^)\s]*)?\)", without_code(text))
        if not (text.parent / target).exists()
    ]
    assert broken == []


def without_code(path):
    text = path.read_text(encoding="utf-8")
    return re.sub(r"^```.*?^```$|`[^`\n]*`", "", text, flags=re.DOTALL | re.MULTILINE)
