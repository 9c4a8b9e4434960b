"""Write docs/api/: one page for every public name of fedsift, from its docstring.

Run ``python docs/api_reference.py`` (``make fix`` does) after a change to a docstring; a test compares.
"""

import inspect
import re
from pathlib import Path
from typing import Any

from sklearn.feature_selection import SelectorMixin

import fedsift

FOLDER = Path(__file__).resolve().parent / "api"
ENTRIES = ("Parameters", "Attributes", "Returns", "Yields", "Raises")
WIDTH = 90
FROM_SCIKIT_LEARN = (
    "Also has the methods of every selector of scikit-learn: `fit_transform`, `get_support`, "
    "`get_feature_names_out`, `inverse_transform`, `get_params`, `set_params`, `set_output`."
)


def sections_of(thing: Any) -> dict[str, str]:
    """Split a docstring in numpydoc format; what stands before the first heading is ``""``."""
    parts = re.split(r"^(\w[\w ]*)\n-{3,}\n", inspect.getdoc(thing) or "", flags=re.MULTILINE)
    return {"": parts[0].strip()} | {
        title: body.strip("\n") for title, body in zip(parts[1::2], parts[2::2], strict=True)
    }


def to_markdown(text: str) -> str:
    """Turn roles and double backticks of a docstring into Markdown."""

    def link(match: re.Match[str]) -> str:
        name = match[1].rpartition(".")[2]
        return f"[`{name}`]({name}.md)" if name in fedsift.__all__ else f"`{name}`"

    text = re.sub(r":\w+:`~?([\w.]+)`", link, text)
    return text.replace("``", "`")


def entries_of(body: str) -> list[tuple[str, str, str]]:
    """Read a list of parameters or attributes: names, type and meaning of each."""
    found: list[tuple[str, str, str]] = []
    for line in body.splitlines():
        if line and not line[0].isspace():
            name, _, kind = line.partition(" : ")
            found.append((name.strip(), kind.strip(), ""))
        elif line.strip():
            name, kind, meaning = found.pop()
            found.append((name, kind, f"{meaning} {line.strip()}".strip()))
    return found


def write_section(title: str, body: str, level: str) -> list[str]:
    """Write one section of a docstring."""
    lines = [f"{level} {title}" if level == "##" else f"*{title}*", ""]
    if title == "Examples":
        return [*lines, "```pycon", body, "```", ""]
    if title not in ENTRIES:
        return [*lines, to_markdown(body), ""]
    for names, kind, meaning in entries_of(body):
        shown = ", ".join(f"`{name.strip()}`" for name in names.split(","))
        typed = f" ({to_markdown(kind)})" if kind else ""
        lines.append(f"- **{shown}**{typed}" + (f": {to_markdown(meaning)}" if meaning else ""))
    return [*lines, ""]


def write_docstring(thing: Any, level: str) -> list[str]:
    """Write the sections of a docstring below its opening paragraphs."""
    lines: list[str] = []
    for title, body in sections_of(thing).items():
        if title:
            lines += write_section(title, body, level)
    return lines


def signature_of(name: str, function: Any) -> str:
    """How a function is called, without annotations; a long one has one argument per line."""
    given = inspect.signature(function)
    plain = [
        argument.replace(annotation=inspect.Parameter.empty)
        for key, argument in given.parameters.items()
        if key not in ("self", "cls")
    ]
    called = str(given.replace(parameters=plain, return_annotation=inspect.Signature.empty))
    called = re.sub(r"=<[^>]*>", "=...", called)  # an object that cannot be written down
    if len(name + called) <= WIDTH:
        return name + called
    arguments = "".join(f"\n    {part}," for part in split_arguments(called[1:-1]))
    return f"{name}({arguments}\n)"


def split_arguments(text: str) -> list[str]:
    """Cut at commas that stand outside of brackets."""
    return re.split(r", (?![^(\[{]*[)\]}])", text)


def members_of(cls: type) -> list[tuple[str, Any, bool]]:
    """Public methods and properties that fedsift itself defines, in alphabetical order."""
    return [
        (one.name, getattr(cls, one.name), one.kind == "property")
        for one in inspect.classify_class_attrs(cls)
        if one.kind in ("method", "class method", "static method", "property")
        and not one.name.startswith("_")
        and one.defining_class.__module__.startswith("fedsift")
    ]


def write_members(cls: type) -> list[str]:
    """Write properties, then methods with their signatures."""
    members = members_of(cls)
    lines: list[str] = []
    if properties := [(name, thing) for name, thing, is_property in members if is_property]:
        lines += ["## Properties", ""]
        lines += [f"- **`{name}`**: {to_markdown(summary_of(thing))}" for name, thing in properties]
        lines.append("")
    methods = [(name, thing) for name, thing, is_property in members if not is_property]
    if methods:
        lines += ["## Methods", ""]
    for name, thing in methods:
        lines += [f"### {name}", "", "```py", signature_of(name, thing), "```", ""]
        lines += [to_markdown(sections_of(thing)[""]), "", *write_docstring(thing, "###")]
    if issubclass(cls, SelectorMixin):
        lines += [FROM_SCIKIT_LEARN, ""]
    return lines


def summary_of(thing: Any) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join(sections_of(thing)[""].split("\n\n")[0].split())


def page_of(name: str) -> str:
    """The page of one public name."""
    thing = getattr(fedsift, name)
    lines = [f"# {name}", "", to_markdown(sections_of(thing)[""]), ""]
    if inspect.ismodule(thing):
        lines += ["[Error codes](../errors.md) lists all of them, with what to do.", ""]
        return "\n".join(lines)
    if "Parameters" in sections_of(thing):
        lines += ["```py", signature_of(f"fedsift.{name}", thing), "```", ""]
    lines += write_docstring(thing, "##")
    if inspect.isclass(thing):
        lines += write_members(thing)
    return "\n".join(lines)


def index() -> str:
    """The list of all public names."""
    lines = [
        *(
            "# Python API",
            "",
            "Everything that `import fedsift as fs` offers, from the docstrings.",
        ),
        *("", "| name | what it is |", "|---|---|"),
    ]
    for name in fedsift.__all__:
        summary = to_markdown(summary_of(getattr(fedsift, name))).replace("|", "\\|")
        lines.append(f"| [`{name}`]({name}.md) | {summary} |")
    return "\n".join([*lines, ""])


def pages() -> dict[str, str]:
    """All pages of the folder, by file name."""
    return {"index.md": index()} | {f"{name}.md": page_of(name) for name in fedsift.__all__}


if __name__ == "__main__":
    wanted = pages()
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.glob("*.md"):
        if path.name not in wanted:
            path.unlink()
    for file_name, text in wanted.items():
        path = FOLDER / file_name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"api/{file_name} updated")
