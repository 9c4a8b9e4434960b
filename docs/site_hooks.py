"""What MkDocs cannot do by itself: pages from the top folder, and links between the two.

README.md, SECURITY.md, CONTRIBUTING.md and others stay where readers of a repository look for
them and become pages of the site; example files and notebooks that a page links to are copied along.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
TOP_PAGES = {
    "README.md": "index.md",
    "SECURITY.md": "security.md",
    "CONTRIBUTING.md": "contributing.md",
    "CODE_OF_CONDUCT.md": "code-of-conduct.md",
    "CHANGELOG.md": "changelog.md",
}
COPIED = ("examples/*.toml", "examples/*.py", "examples/notebooks/*.ipynb", "benchmarks/*.json")
LINK = re.compile(r"(\]\()([^)#\s:]+)(#[^)\s]*)?\)")


def on_config(config: Any) -> Any:
    """Put pages that the navigation does not name under "More", but for single decisions."""
    named = set(re.findall(r"[\w./-]+\.md", str(config.nav)))
    folder = Path(config.docs_dir)
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*.md")}
    rest = sorted(page for page in found - named if not page.startswith("adr/"))
    if rest:
        config.nav.append({"More": rest})
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add what lies outside of docs/."""
    for name, page in TOP_PAGES.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / name)))
    for pattern in COPIED:
        for path in sorted(ROOT.glob(pattern)):
            name = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn links of the repository into links of the site."""
    here = page.file.src_uri
    top = {new: old for old, new in TOP_PAGES.items()}
    source = top.get(here, f"docs/{here}")

    def moved(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), match[2]))
        return match[1] + relative(target, here) + (match[3] or "") + ")"

    return outside_code(lambda text: LINK.sub(moved, text), markdown)


def relative(target: str, page: str) -> str:
    """Where a file of the repository is, seen from a page of the site."""
    target = TOP_PAGES.get(target, target.removeprefix("docs/"))
    return posixpath.relpath(target, posixpath.dirname(page) or ".")


def outside_code(change: Any, markdown: str) -> str:
    """Apply a change to everything but fenced blocks."""
    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.DOTALL | re.MULTILINE)
    return "".join(part if part.startswith("```") else change(part) for part in parts)
