"""Layers are checked on import statements, so no module may find another one by its name."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

import pytest

import fedsift

ROOT = Path(fedsift.__file__).parent
# Packages of methods hold specifications, whose addresses only the registry follows.
SPECIFICATIONS = ROOT.glob("methods/*/__init__.py")
ALLOWED = {ROOT / "__init__.py", ROOT / "methods" / "registry.py", *SPECIFICATIONS}
FILES = [path for path in sorted(ROOT.rglob("*.py")) if path not in ALLOWED]


def strings_of(tree):
    return {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def imports_by_name(tree):
    return any(
        isinstance(node, ast.Call)
        and ast.unparse(node.func).endswith(("import_module", "__import__"))
        for node in ast.walk(tree)
    )


def is_module(text):
    if not all(part.isidentifier() for part in text.split(".")):
        return False
    try:
        return importlib.util.find_spec(text) is not None
    except ModuleNotFoundError:
        return False


def hidden_imports(path):
    """Addresses of this package that a file holds as text and could import."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    ours = {text for text in strings_of(tree) if text.startswith("fedsift.")}
    found = {text for text in ours if is_module(text.partition(":")[0]) and ":" in text}
    if imports_by_name(tree):
        own = ".".join(("fedsift", *path.parent.relative_to(ROOT).parts, ""))
        # A package may put off the import of its own modules until they are used.
        lazy = path.name == "__init__.py"
        found |= {t for t in ours if is_module(t) and not (lazy and t.startswith(own))}
    return found


def test_no_module_is_found_by_its_name():
    assert {str(path): found for path in FILES if (found := hidden_imports(path))} == {}


@pytest.mark.parametrize(
    "text",
    [
        'import importlib\nimportlib.import_module("fedsift.report.html")',
        'from importlib import import_module\nHOME = "fedsift.jobs.run"\nimport_module(HOME)',
        'PLACE = "fedsift.jobs.align:psi"',
    ],
)
def test_a_hidden_import_is_seen(text, tmp_path, monkeypatch):
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    path = tmp_path / "module.py"
    path.write_text(text, encoding="utf-8")
    assert hidden_imports(path)
