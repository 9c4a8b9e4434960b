"""Reference pages are written from the code they describe."""

import importlib.util
import inspect
import re
from pathlib import Path

import pytest

import fedsift
from fedsift import errors
from fedsift.config import parties as job_parties
from fedsift.methods.registry import list_built_in

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    page.relative_to(ROOT).as_posix(): page.read_text(encoding="utf-8")
    for page in sorted((ROOT / "docs").rglob("*.md"))
}


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def reference():
    return load("reference")


@pytest.fixture(scope="module")
def api():
    return load("api_reference")


def test_the_pages_are_fresh(reference):
    stale = [name for name, text in PAGES.items() if reference.updated(text) != text]
    assert stale == [], "run 'python docs/reference.py' or 'make fix'"


def test_every_block_has_its_page(reference):
    used = [match[2] for text in PAGES.values() for match in reference.BLOCK.finditer(text)]
    assert sorted(used) == sorted(reference.BLOCKS)


def test_every_public_name_has_a_page_from_its_docstring(api):
    folder = ROOT / "docs" / "api"
    written = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.md")}
    assert written == api.pages(), "run 'python docs/api_reference.py' or 'make fix'"
    assert set(written) == {"index.md", *(f"{name}.md" for name in fedsift.__all__)}


def test_every_public_name_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for name in ("index", *fedsift.__all__):
        assert f": api/{name}.md\n" in navigation


@pytest.mark.parametrize("name", [name for name in fedsift.__all__ if name.endswith("Selector")])
def test_the_page_of_an_estimator_has_all_its_parameters(name):
    page = PAGES[f"docs/api/{name}.md"]
    listed = page.split("\n## Parameters\n")[1].split("\n## ")[0]
    for parameter in inspect.signature(getattr(fedsift, name)).parameters:
        assert f"`{parameter}`" in listed, parameter
    assert "\n## Attributes\n" in page
    assert (">>> " in page) == (">>> " in inspect.getdoc(getattr(fedsift, name)))
    assert "\n### fit\n" in page


def test_every_key_of_a_job_file_is_explained(reference):
    """A key without a meaning would be an empty cell."""
    page = PAGES["docs/job-file.md"]
    assert re.findall(r"^\| `(\w+)` \| [^|]+ \|  \|$", page, re.MULTILINE) == []
    for name in (*job_parties.POLICY_KEYS, "method", "dataset", "engine"):
        assert f"| `{name}` |" in page


def test_every_parameter_of_a_method_is_explained():
    page = PAGES["docs/job-file.md"]
    for method in list_built_in():
        part = page.split(f"### `{method.name}`\n")[1].split("\n### ")[0]
        for name in method.defaults:
            row = re.search(rf"^\| `{name}` \|.*\| ([^|]*) \|$", part, re.MULTILINE)
            assert row is not None, (method.name, name)
            assert row[1].strip(), (method.name, name)


def test_every_error_is_listed_under_a_code_of_its_own():
    page = PAGES["docs/errors.md"]
    known = [cls for _, cls in inspect.getmembers(errors, inspect.isclass) if hasattr(cls, "code")]
    assert len({cls.code for cls in known}) == len(known)
    for cls in known:
        if cls is not errors.FedsiftError:
            assert f"| {cls.code} | `{cls.__name__}` | {cls.exit_code} |" in page


@pytest.mark.parametrize("name", [method.name for method in list_built_in()])
def test_the_page_of_a_method_answers_what_readers_ask(name):
    """When to use it, how to run it, roles, who learns what; no figures before that is said."""
    page = PAGES[f"docs/methods/{name}.md"]
    assert f"<!-- reference:glance:{name} -->" in page
    assert page.index("## How to run") < page.index("## Who learns what")
    assert f"fedsift run examples/{name}" in page
    assert "<!-- learns:" in page
    assert f"(../evidence/{name}.md" in page
    assert "<!-- figure" not in page


@pytest.mark.parametrize("name", [method.name for method in list_built_in()])
def test_the_evidence_of_a_method_judges_its_paper(name):
    """Claim, what holds of it, what the paper gets wrong, figures."""
    page = PAGES[f"docs/evidence/{name}.md"]
    assert f"(../methods/{name}.md)" in page
    assert page.index("**The claim.**") < page.index("**What holds.**")
    assert re.search(r"^## What the paper", page, re.MULTILINE)
    assert re.search(r"^##+ (Accuracy|Figures|Cost|Precision)", page, re.MULTILINE)
