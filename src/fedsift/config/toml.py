# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Checking a TOML file as a whole: every problem with its line, then one error. And writing one.

``tomllib`` forgets where a value stood, so the lines are found here: strings and comments are
blanked out, and what is left at bracket depth zero is either a table header or ``key = ...``.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import tempfile
import tomllib
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from fedsift.config.parameters import Accepted, Parameter, sentence
from fedsift.errors import FileProblem, JobError, Mistake

Key = tuple[str | int, ...]
"""Where a value is: table names, keys, and positions in lists of tables."""

Kinds = tuple[Any, ...]
"""Accepted TOML types: ``str``, ``int``, ``float``, ``bool``, ``list``, ``dict``, or `TEXTS`."""

Wanted = Kinds | Parameter | Accepted
"""What a key takes: types, or what says itself whether a value is one of its own."""

TEXTS = list[str]
_WORDS = {
    "str": "text in quotes",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "list": "a list",
    "dict": "a table",
    str(TEXTS): "a list of texts",
}
_HIDDEN = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}' r"|'''.*?'{3,5}" r'|"(?:\\.|[^"\\\n])*"' r"|'[^'\n]*'" r"|#[^\n]*",
    re.DOTALL,
)
_PLACE = re.compile(r" ?\(at (?:line (\d+), column \d+|end of document)\)$")
_QUOTED = re.compile(r"'([^']+)'")
_MEANT = re.compile(r"Did you mean '(.+)'\?")
_REMOVE = "Remove it."
_TABLES = (".csv", ".parquet")
_MAX_FILE_BYTES = 1 << 20
_LARGEST = (1 << 63) - 1


class TomlCheck:
    """A parsed file and the problems found in it so far.

    Parameters
    ----------
    path : Path
    maker : str
        The command that writes such a file, to name where there is none.
    """

    def __init__(self, path: Path, maker: str = "") -> None:
        self.path = path
        self.problems: list[tuple[int | None, str, str, str]] = []
        text = _read(path, maker)
        self._text = text.split("\n")
        try:
            self.document: dict[str, Any] = tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            # Beside what is not TOML: a number too long to read, nesting too deep.
            place = _PLACE.search(str(error))
            line = int(place[1]) if place and place[1] else len(text.splitlines())
            reason = _PLACE.sub("", str(error))
            if not isinstance(error, tomllib.TOMLDecodeError):
                reason = "nested too deeply, or a number with too many digits"
            found = f"Not valid TOML: {reason}."
            needed = "A table, or one 'key = value', is needed here."
            action = "Fix the line; text needs quotes."
            if "\\" in "".join(self._text[line - 1 : line]):
                action = "Write paths with / or in single quotes, such as 'C:\\data\\bank.csv'."
            elif maker and path.suffix.lower() in _TABLES:
                action = f"A table is not what is needed here; {maker!r} writes such a file."
            self.problems.append((line, found, needed, action))
            self.finish("it")
        self._lines = line_numbers(text)

    def add(self, key: Key, found: str, needed: str = "", action: str = "") -> None:
        """Note a problem at a key."""
        self.problems.append((self.line(key), found, needed, action))

    def line(self, key: Key) -> int | None:
        """The line of a key, or of the closest table around it."""
        for length in range(len(key), 0, -1):
            if key[:length] in self._lines:
                return self._lines[key[:length]]
        return None

    def has(self, key: Key) -> bool:
        """Whether the file says anything at a key, right or wrong."""
        value: Any = self.document
        for step in key:
            if isinstance(step, str) and not (isinstance(value, dict) and step in value):
                return False
            value = value[step]
        return True

    def table(
        self, key: Key, given: Any, known: Mapping[str, Wanted], name: str = ""
    ) -> dict[str, Any]:
        """Entries that are known and of an accepted kind; all others become problems."""
        name = name or (f"[{'.'.join(map(str, key))}]" if key else "the file")
        good: dict[str, Any] = {}
        for entry, value in given.items():
            if entry not in known:
                needed = f"Known keys: {', '.join(known)}."
                action = did_you_mean(entry, known, "Remove it.")
                self.add((*key, entry), f"Unknown key {entry!r} in {name}.", needed, action)
            elif isinstance(value, int) and not -_LARGEST <= value <= _LARGEST:
                found = f"{entry} in {name} is a whole number of {value.bit_length()} bits."
                self.add((*key, entry), found, "At most 63 bits are allowed.", "Change it.")
            elif not fits(value, kinds := _kinds(known[entry])):
                words = " or ".join(_word(kind) for kind in kinds)
                found = f"{entry} in {name} is {_word(type(value))}."
                self.add((*key, entry), found, f"It must be {words}.", "Change it.")
            elif not fits(value, known[entry]):
                self._refuse((*key, entry), value, known[entry])
            else:
                good[entry] = value
        return good

    def _refuse(self, key: Key, value: Any, parameter: Any) -> None:
        """A value of the right kind that the parameter does not take."""
        action, problem = getattr(parameter, "action", "") or "Change it.", "not possible"
        if isinstance(value, str):
            action, problem = did_you_mean(value, parameter.words, action), "not known"
        found = f"{key[-1]} = {value!r} is {problem}."
        self.add(key, found, sentence(parameter.needed), action)

    def choice(self, key: Key, value: str, allowed: Iterable[str]) -> None:
        """One of a few words."""
        allowed = tuple(allowed)
        if value not in allowed:
            needed = f"It must be one of: {', '.join(allowed)}."
            self.add(
                key,
                f"{key[-1]} = {value!r} is not known.",
                needed,
                did_you_mean(value, allowed, "Choose one."),
            )

    def known(
        self, key: Key, what: str, name: str, names: Collection[str], action: str = ""
    ) -> None:
        """A name that must exist."""
        if name not in names:
            listed = f": {', '.join(names)}" if len(names) <= 12 else ""
            needed = f"It must be one of the {len(names)} known ones{listed}."
            action = did_you_mean(name, names, action or "Name one of these.")
            self.add(key, f"There is no {what} {name!r}.", needed, action)

    def file(self, key: Key, given: str | None) -> Path | None:
        """A file that must exist, relative to this file."""
        path = self.place(key, given)
        if path is None:
            return None
        try:
            if path.is_file():
                return path
            found = f"{given!r} is {'a directory' if path.is_dir() else 'not there'}."
        except OSError as error:
            found = f"{str(given)[:60]!r} is no path: {error.strerror}."
        needed = "A file is needed; its path is relative to this file."
        self.add(key, found, needed, _similar_file(str(given), path, "Mend the path."))
        return None

    def place(self, key: Key, given: str | None) -> Path | None:
        """A path relative to this file, whether or not anything is there."""
        if given is None:
            return None
        try:
            return self.path.parent / possible(given)
        except ValueError as error:
            needed = "A path is needed; it is relative to this file."
            self.add(key, f"{error}", needed, "Mend the path.")
            return None

    def finish(self, what: str) -> None:
        """Raise one error if there was any problem."""
        if not self.problems:
            return
        ordered = sorted(self.problems, key=lambda problem: problem[0] or 0)
        listed = tuple(_listed(problem) for problem in ordered)
        mistakes = tuple(_mistake(problem, self._text) for problem in ordered)
        line, found, needed, action = ordered[0]
        if len(ordered) == 1:
            place = f"{self.path.name}, line {line}" if line else self.path.name
            raise JobError(f"{place}: {found}", needed, action, problems=listed, mistakes=mistakes)
        raise JobError(
            f"{self.path.name} has {len(ordered)} problems.",
            f"Fix all of them before {what} can be used.",
            f"Start with {listed[0]}",
            problems=listed,
            mistakes=mistakes,
        )


def closest(name: str, known: Iterable[str]) -> str | None:
    """Find the known name a person most likely meant, or None."""
    folded = {candidate.strip().casefold(): candidate for candidate in known}
    close = difflib.get_close_matches(name.strip().casefold(), list(folded), n=1, cutoff=0.6)
    return folded[close[0]] if close else None


def did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    """``Did you mean ...?``, or another hint if nothing is close."""
    meant = closest(name, known)
    return otherwise if meant is None else f"Did you mean {meant!r}?"


def possible(given: str) -> Path:
    """A path with ``~`` filled in; ValueError says why it cannot be one."""
    if not given.strip() or "\0" in given:
        raise ValueError(f"{given!r} is no path.")
    try:
        return Path(given).expanduser()
    except RuntimeError:
        raise ValueError(f"{given!r} is in a home that is not known here.") from None


def _similar_file(given: str, path: Path, otherwise: str) -> str:
    """``Did you mean ...?`` with a file beside the one that is missing."""
    try:
        beside = [one.name for one in path.parent.iterdir() if one.is_file()]
    except (OSError, ValueError):
        return otherwise
    close = did_you_mean(path.name, beside, "")
    wanted = _MEANT.fullmatch(close)
    if wanted is None or not given.endswith(path.name):
        return otherwise
    return f"Did you mean {given.removesuffix(path.name) + wanted[1]!r}?"


def line_numbers(text: str) -> dict[Key, int]:
    r"""Line of every table header and key of a valid TOML text.

    Examples
    --------
    >>> line_numbers('[job]\nseed = 7\n[[party]]\nname = "a"')
    {('job',): 1, ('job', 'seed'): 2, ('party', 0): 3, ('party', 0, 'name'): 4}
    """
    lines: dict[Key, int] = {}
    counts: dict[Key, int] = {}
    table: Key = ()
    depth = 0
    blanked = _HIDDEN.sub(_blank, text).split("\n")
    for number, (shown, line) in enumerate(zip(blanked, text.split("\n"), strict=True), start=1):
        if depth == 0 and shown.lstrip().startswith("["):
            table = _header(line, shown, counts)
            lines.setdefault(table, number)
        elif depth == 0 and "=" in shown:
            name = _names(line[: shown.index("=")] + "= 0")
            for length in range(1, len(name) + 1):
                lines.setdefault((*table, *name[:length]), number)
            depth += _balance(shown)
        else:
            depth += _balance(shown)
    return lines


def _header(line: str, shown: str, counts: dict[Key, int]) -> Key:
    """Full key of a table header; lists of tables are numbered."""
    end = shown.rindex("]") + 1
    full: Key = ()
    names = _names(line[:end].replace("[[", "[", 1).replace("]]", "]"))
    for position, name in enumerate(names):
        full = (*full, name)
        if shown.lstrip().startswith("[[") and position == len(names) - 1:
            counts[full] = counts.get(full, -1) + 1
        if full in counts:
            full = (*full, counts[full])
    return full


def _names(snippet: str) -> list[str]:
    """The names in a dotted key, quoted or not; TOML itself takes them apart."""
    value: Any = tomllib.loads(snippet)
    names = []
    while isinstance(value, dict) and value:
        name, value = next(iter(value.items()))
        names.append(name)
    return names


def _blank(match: re.Match[str]) -> str:
    if match[0].startswith("#"):
        return ""
    return re.sub(r"[^\n]", "_", match[0])


def _balance(shown: str) -> int:
    return sum(shown.count(c) for c in "[{") - sum(shown.count(c) for c in "]}")


def fits(value: Any, wanted: Wanted) -> bool:
    """Whether a value read from a file is of one of the kinds, and one that a parameter takes."""
    if isinstance(wanted, Parameter | Accepted) and (value is None or not wanted.takes(value)):
        return False
    return any(_fits(value, kind) for kind in _kinds(wanted))


def _kinds(wanted: Wanted) -> Kinds:
    return wanted.kinds if isinstance(wanted, Parameter | Accepted) else wanted


def _fits(value: Any, kind: Any) -> bool:
    if kind == TEXTS:
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    if isinstance(value, bool):
        return kind is bool
    # A whole number is a number too.
    return isinstance(value, (int, float)) if kind is float else isinstance(value, kind)


def _word(kind: Any) -> str:
    name = kind.__name__ if isinstance(kind, type) and kind != TEXTS else str(kind)
    return _WORDS.get(name, f"a {name}")


def _listed(problem: tuple[int | None, str, str, str]) -> str:
    line, *parts = problem
    text = " ".join(part for part in parts if part)
    return f"line {line}: {text}" if line else text


def _mistake(problem: tuple[int | None, str, str, str], lines: list[str]) -> Mistake:
    """A problem with the place to point at, and the line as it was probably meant."""
    line, found, needed, action = problem
    if not line or line > len(lines):
        return Mistake(found, needed, action)
    source = lines[line - 1]
    named = _QUOTED.search(found)
    word = None if named is None else _word_in(source, named[1])
    start, end = word or _what_is_said(source)
    meant_by = _MEANT.fullmatch(action)
    replacement = None
    if meant_by is not None and word is not None:
        replacement = source[:start] + meant_by[1] + source[end:]
    elif action == _REMOVE and word is not None:
        replacement = ""
    return Mistake(found, needed, action, line, start + 1, end - start, source, replacement)


def _word_in(source: str, word: str) -> tuple[int, int] | None:
    """Where a whole word stands in a line."""
    found = re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", source)
    return None if found is None else found.span()


def _what_is_said(source: str) -> tuple[int, int]:
    """The value of a key, or the whole line, without blanks and comments."""
    shown = _HIDDEN.sub(_blank, source)
    start = shown.index("=") + 1 if "=" in shown and not shown.lstrip().startswith("[") else 0
    said = shown[start:]
    first = start + len(said) - len(said.lstrip())
    return first, max(first + len(said.strip()), first + 1)


def _read(path: Path, maker: str) -> str:
    try:
        with path.open("rb") as stream:
            raw = stream.read(_MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        # No file of that name, or a name that no file can have.
        reason = getattr(error, "strerror", None) or "no file has such a name"
        action = "Check the path and its permissions."
        if isinstance(error, FileNotFoundError):
            new = f"Check the path; {maker!r} writes a new file." if maker else action
            action = _similar_file(os.fspath(path), path, new)
        raise FileProblem(
            f"Cannot read {os.fspath(path)}: {reason}.", "A readable TOML file is needed.", action
        ) from None
    try:
        if len(raw) > _MAX_FILE_BYTES:
            raise UnicodeDecodeError("utf-8", b"", 0, 0, "too large")
        # TOML knows two line ends; one is easier to count.
        return raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise FileProblem(
            f"{os.fspath(path)} is not a text file in UTF-8 of at most 1 MiB.",
            "A TOML file is needed.",
            "Pass a job or party file, not a table or a result.",
        ) from None


PRIVATE = 0o600
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def toml_text(sections: Mapping[str, Mapping[str, Any] | list[Mapping[str, Any]]]) -> str:
    r"""Tables of numbers, texts, lists of them, and tables of texts; empty ones are left out.

    Examples
    --------
    >>> print(toml_text({"party": {"name": "bank"}, "keys": {"pinned": {"a@b": "x"}}}), end="")
    [party]
    name = "bank"
    <BLANKLINE>
    [keys.pinned]
    "a@b" = "x"
    """
    blocks: list[str] = []
    for name, content in sections.items():
        if isinstance(content, list):
            blocks += [f"[[{name}]]\n{_lines(entry)}" for entry in content]
            continue
        plain = {key: value for key, value in content.items() if not isinstance(value, Mapping)}
        if plain:
            blocks.append(f"[{name}]\n{_lines(plain)}")
        for key, value in content.items():
            if isinstance(value, Mapping) and value:
                blocks.append(f"[{name}.{_key(key)}]\n{_lines(value)}")
    return "\n".join(blocks)


def write_text(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file so that a crash leaves the old one or the new one."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, partial = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        os.chmod(partial, mode)
        os.replace(partial, path)
    except OSError as error:
        raise FileProblem(
            f"Cannot write {path}: {error.strerror}.",
            "A writable folder with free space is needed.",
            "Check the folder and its permissions.",
        ) from None


def _lines(entries: Mapping[str, Any]) -> str:
    return "".join(f"{_key(key)} = {toml_value(value)}\n" for key, value in entries.items())


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else toml_value(name)


def toml_value(value: Any) -> str:
    """A value on one line."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(k)} = {toml_value(v)}" for k, v in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(toml_value(entry) for entry in value) + "]"
    if isinstance(value, str):
        # A JSON text is a TOML text, but for one control character.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)
