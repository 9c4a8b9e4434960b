# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""``fedsift init``: a job file, from a few questions about the parties' tables."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from fedsift.cli.common import AsJson, console, echo_json, errors_as_exit_codes, shown, typed
from fedsift.config.toml import did_you_mean, possible, toml_value
from fedsift.errors import FileProblem, ParameterError, PartyError

_LABELS = ("label", "target", "class", "outcome", "default", "diagnosis", "churn", "y")
_IDS = ("id", "customer_id", "patient_id", "person_id", "client_id", "user_id", "customer", "key")
_NONE = "none"


def init(
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="Tables of the parties (CSV or Parquet).", metavar="[FILE...]"),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="The job file to write.")] = Path(
        "job.toml"
    ),
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Ask nothing and accept every proposal.")
    ] = False,
    method: Annotated[str | None, typer.Option("--method", help="Name of the method.")] = None,
    setting: Annotated[
        str | None, typer.Option("--setting", help="vertical: same rows; horizontal: same columns.")
    ] = None,
    label: Annotated[
        str | None, typer.Option("--label", help="The label column, or 'none'.")
    ] = None,
    id_column: Annotated[
        str | None, typer.Option("--id", help="Column that identifies a row, or 'none'.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a commented job file; reads column names only, no rows."""
    with errors_as_exit_codes(as_json):
        from fedsift.cli.init import Draft, job_text
        from fedsift.result import write_atomically

        if out.exists():
            raise FileProblem(
                f"{out} is there already.",
                "A new file is written, and none is overwritten.",
                "Choose another name with --out, or remove the file.",
            )
        asker = _Asker(quiet=yes or as_json)
        columns = _tables(asker, files or [])
        known = {"setting": setting, "label": label, "id": id_column, "method": method}
        chosen = _answers(asker, columns, known)
        draft = Draft(
            columns,
            str(chosen["setting"]),
            str(chosen["method"]),
            chosen["label"],
            chosen["id"],
        )
        write_atomically(out, job_text(draft, out))
        if as_json:
            echo_json({"job": str(out), "parties": list(draft.names), "method": draft.method})
            return
        screen = console()
        screen.print(f"Wrote {shown(out)}. Next:")
        for command in ("plan", "run"):
            screen.print(f"  fedsift {command} {typed(out)}", soft_wrap=True)


class _Asker:
    """Asks on the terminal, or takes what is proposed."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet

    def choose(self, question: str, proposed: str, known: Iterable[str]) -> str:
        """One of several names; asks again until it is one."""
        names = list(dict.fromkeys(known))
        while True:
            answer = self.say(question, proposed)
            if answer in names:
                return answer
            if self._quiet:
                raise ParameterError(
                    f"{question}: {answer!r} is not known.",
                    f"One of {', '.join(names)} is needed.",
                    did_you_mean(answer, names, "Choose one."),
                )
            typer.echo(f"  There is no {answer!r}. {did_you_mean(answer, names, ', '.join(names))}")

    def say(self, question: str, proposed: str) -> str:
        """Any text."""
        if self._quiet:
            return proposed
        return str(typer.prompt(question, default=proposed, show_default=bool(proposed))).strip()


def _tables(asker: _Asker, given: list[Path]) -> dict[Path, list[str]]:
    """Files with the names of their columns; asked for one by one if none were given."""
    from fedsift.data.files import column_names

    columns = {path: column_names(path) for path in given}
    if len(columns) < len(given):
        twice = next(path for path in given if given.count(path) > 1)
        raise PartyError(
            f"{twice} is named twice.",
            "Every party has a table of its own.",
            "Name every file once.",
        )
    while not given:
        more = asker.say("Table of a party (a CSV file; nothing if that was all)", "")
        if not more:
            break
        try:
            # Terminals put quotes around a file that is dragged to them.
            path = possible(more.strip("'\"") if more[0] == more[-1] else more)
            if any(path.absolute() == known.absolute() for known in columns):
                typer.echo(f"  {more} was named before.")
                continue
            columns[path] = column_names(path)
        except (FileProblem, ValueError) as error:
            typer.echo(f"  {error}")
    if not columns:
        raise PartyError(
            "No table was named.",
            "A job needs the table of one party at least.",
            "Name the files: fedsift init bank.csv shop.csv",
        )
    return columns


def _answers(
    asker: _Asker, columns: Mapping[Path, list[str]], given: Mapping[str, str | None]
) -> dict[str, str | None]:
    """Setting, label, id and method: given, or asked for with a proposal."""
    from fedsift.methods.registry import list_methods

    tables = list(columns.values())
    shared = [name for name in tables[0] if all(name in names for names in tables[1:])]
    same = len(tables) > 1 and all(set(names) == set(tables[0]) for names in tables)
    setting = given["setting"] or asker.choose(
        "Do the parties share rows (vertical) or columns (horizontal)?",
        "horizontal" if same else "vertical",
        ("vertical", "horizontal"),
    )
    _refuse_unknown("setting", setting, ("vertical", "horizontal"))
    found: dict[str, str | None] = {"setting": setting}
    every = [name for names in tables for name in names]
    ids = shared if setting == "vertical" and len(tables) > 1 else tables[0]
    proposed = _first(_IDS, ids) or (ids[0] if setting == "vertical" and len(ids) == 1 else _NONE)
    if given["id"] is None and setting == "vertical":
        found["id"] = asker.choose("Column that identifies a row", proposed, (*ids, _NONE))
    else:
        found["id"] = given["id"] or _first(_IDS, ids) or _NONE
    _refuse_unknown("id", str(found["id"]), (*ids, _NONE))
    labels = shared if setting == "horizontal" else every
    labels = [name for name in labels if name != found["id"]]
    proposed = _first(_LABELS, labels) or (tables[0][-1] if tables[0][-1] in labels else _NONE)
    found["label"] = given["label"] or asker.choose("Label column", proposed, (*labels, _NONE))
    _refuse_unknown("label", str(found["label"]), (*labels, _NONE))
    methods = [method.name for method in list_methods() if setting in method.protocols]
    found["method"] = given["method"] or asker.choose("Method", "filter", methods)
    _refuse_unknown("method", str(found["method"]), methods)
    return {key: None if value == _NONE else value for key, value in found.items()}


def _first(wanted: Iterable[str], names: Iterable[str]) -> str | None:
    """The first of some likely names that is there, however it is written."""
    folded = {name.casefold(): name for name in names}
    return next((folded[name] for name in wanted if name in folded), None)


def _refuse_unknown(what: str, value: str, known: Iterable[str]) -> None:
    names = list(dict.fromkeys(known))
    if value not in names:
        raise ParameterError(
            f"--{what} {value!r} is not known here.",
            f"One of {', '.join(names)} is needed.",
            did_you_mean(value, names, "Choose one."),
        )


_MOST_FEATURES = 10
_LONGEST_NAME = 40
_PLAIN = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True)
class Draft:
    """What is known of a job that is to be written.

    Parameters
    ----------
    columns : mapping of path to names
        Tables of the parties.
    setting, method : str
    label, id : str, optional
        Columns.
    """

    columns: Mapping[Path, list[str]]
    setting: str
    method: str
    label: str | None = None
    id: str | None = None

    @property
    def names(self) -> dict[str, Path]:
        """A name for every party, after its file."""
        names: dict[str, Path] = {}
        for path in self.columns:
            # As organisations may be called between machines too: "müller & söhne" is muller-sohne.
            bare = unicodedata.normalize("NFKD", path.stem.casefold()).encode("ascii", "ignore")
            stem = _PLAIN.sub("-", bare.decode()).strip("-_")[:_LONGEST_NAME] or "party"
            name, number = stem, 2
            while name in names:
                name, number = f"{stem}-{number}", number + 1
            names[name] = path
        return names

    @property
    def n_features(self) -> int:
        """Columns that are neither id nor label."""
        closed = {self.label, self.id}
        counts = [len([n for n in names if n not in closed]) for names in self.columns.values()]
        return sum(counts) if self.setting == "vertical" else counts[0]

    @property
    def label_party(self) -> str | None:
        """The first party that has the label."""
        has = (name for name, path in self.names.items() if self.label in self.columns[path])
        return next(has, None)


def job_text(draft: Draft, place: Path) -> str:
    """A job file that runs as it is; paths are relative to where it will be."""
    lines = [
        "# A job for fedsift. 'fedsift plan' says who would learn what; 'fedsift run' runs it.",
        "",
        "[job]",
        f"method = {toml_value(draft.method)}",
        "",
        *_data(draft),
        "",
        *_method(draft),
        "",
        "# Several steps one after the other: write [[step]] tables instead of both methods, each",
        "# with a method and its parameters (see docs/chains.md).",
        "",
    ]
    for name, path in draft.names.items():
        lines += _party(name, path, draft, place)
    lines += [
        "[runtime]",
        '# engine = "flare"      # between organisations; needs kit = "..." (see docs/deploy.md)',
        '# checkpoint = "kept"   # resume after an interruption with --resume',
        "",
        "[output]",
        f"directory = {toml_value(f'{place.stem}-out')}",
    ]
    return "\n".join(lines) + "\n"


def _data(draft: Draft) -> list[str]:
    lines = ["[data]", f"setting = {toml_value(draft.setting)}"]
    if draft.label is not None and draft.setting == "vertical":
        label = {"party": draft.label_party, "column": draft.label}
        lines.append(f"label = {toml_value(label)}")
    elif draft.label is not None:
        lines.append(f"label = {toml_value(draft.label)}")
    else:
        lines.append('# label = { party = "...", column = "..." }')
    if draft.id is not None:
        lines.append(f"id = {toml_value(draft.id)}")
        if draft.setting == "vertical":
            lines.append("# Rows are matched by it; nobody shows ids that others do not have.")
    elif draft.setting == "vertical":
        lines.append('# id = "..."            # without it all tables need the same rows in order')
    lines.append('# task = "auto"         # or "classification", "regression"')
    lines.append("# categorical = []      # columns of numbers that are categories")
    return lines


def _method(draft: Draft) -> list[str]:
    """What is set, and every other parameter with its default as a comment."""
    from fedsift.methods.registry import method_named
    from fedsift.methods.spec import Missing

    method = method_named(draft.method)
    known = dict(method.defaults)
    chosen: dict[str, Any] = {}
    wanted = known.get("n_features_to_select")
    if isinstance(wanted, int):
        chosen["n_features_to_select"] = max(1, min(_MOST_FEATURES, draft.n_features // 2))
    if draft.label is None and not isinstance(method.without_label, Missing):
        chosen |= method.without_label
    lines = [f"[method]                # {method.summary}"]
    lines += [f"{name} = {toml_value(value)}" for name, value in chosen.items()]
    for name, default in known.items():
        if name not in chosen and isinstance(default, (str, int, float, bool)):
            lines.append(f"# {name} = {toml_value(default)}")
    return lines


def _party(name: str, path: Path, draft: Draft, place: Path) -> list[str]:
    own = [n for n in draft.columns[path] if n not in (draft.label, draft.id)]
    label = draft.setting == "vertical" and draft.label in draft.columns[path]
    if label and name != draft.label_party:
        own_text = f"columns = {toml_value(own)}"
    else:
        own_text = f"# columns = {toml_value(own)}"
    return [
        "[[party]]",
        f"name = {toml_value(name)}",
        f"data = {toml_value(_relative(path, place))}",
        own_text,
        "# policy = { may_not_reveal = [], min_rows = 0, min_class_size = 5 }  # 'fedsift methods'",
        "",
    ]


def _relative(path: Path, place: Path) -> str:
    """A path as the job file names it, the same on all systems where that is possible."""
    start = place.absolute().parent
    try:
        return Path(os.path.relpath(path.absolute(), start)).as_posix()
    except ValueError:  # another drive
        return path.absolute().as_posix()
