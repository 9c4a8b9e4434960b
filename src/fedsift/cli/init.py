# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""``fedsift init``: a job file, from a few questions about the parties' tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated

import typer

from fedsift.cli.common import AsJson, console, echo_json, errors_as_exit_codes, shown, typed
from fedsift.config.toml import did_you_mean, possible
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
        from fedsift.cli.init_text import Draft, job_text
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
