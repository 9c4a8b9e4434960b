# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""``fedsift methods``: what there is to run, and what each method discloses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from fedsift.cli.common import AsJson, console, echo_json, errors_as_exit_codes, shown
from fedsift.cli.tables import table

if TYPE_CHECKING:
    from fedsift.methods.registry import Method
    from fedsift.protocol.message import Declaration


def methods(
    name: Annotated[str | None, typer.Argument(help="Only this method.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the methods of this version and what they disclose."""
    with errors_as_exit_codes():
        from fedsift.methods.registry import list_broken, list_methods, method_named

        chosen = list_methods() if name is None else (method_named(name),)
        if name is None:
            for broken in list_broken():
                typer.echo(f"warning: {shown(broken.one_line)}", err=True)
        if as_json:
            echo_json([_as_mapping(method) for method in chosen])
            return
        out = console()
        out.print(_overview(chosen))
        for method in chosen:
            for setting in method.protocols:
                out.print(_disclosures(method, setting))
        out.print(_around())
        out.print(_sets())
        out.print(
            "A policy names kinds of the first columns, or sets of them, in may_reveal and "
            "may_not_reveal. What may_reveal does not name stops a run."
        )


def _as_mapping(method: Method) -> dict[str, Any]:
    return {
        "name": method.name,
        "summary": method.summary,
        "selects": method.selects,
        "settings": list(method.protocols),
        "parameters": method.defaults,
        "disclosures": [
            {
                "setting": setting,
                "kind": declaration.kind,
                "what": declaration.text,
                "about": declaration.sender,
                "learner": declaration.receiver,
                "message": declaration.name,
                "optional": declaration.optional,
            }
            for setting, declaration in method.declarations()
        ],
    }


def _overview(chosen: tuple[Method, ...]) -> Table:
    made = table("Methods", "name", "selects", "settings", "what it does", "parameters")
    for method in chosen:
        parameters = ", ".join(f"{key}={value!r}" for key, value in method.defaults.items())
        made.add_row(
            shown(method.name),
            method.selects,
            ", ".join(method.protocols),
            shown(method.summary),
            shown(parameters),
        )
    return made


def _disclosures(method: Method, setting: str) -> Table:
    own = (declaration for place, declaration in method.declarations() if place == setting)
    return _learned(f"{method.name}, {setting}: who may learn what", own)


def _around() -> Table:
    from fedsift.methods.registry import joint_declarations

    title = "Any method on the parties' own tables: who may learn what before and after it"
    return _learned(title, joint_declarations())


def _sets() -> Table:
    from fedsift.config.parties import KIND_SETS

    made = table("Names of sets that a policy can use", "set", "kinds")
    for name, kinds in KIND_SETS.items():
        made.add_row(name, ", ".join(kinds))
    return made


def _learned(title: str, declarations: Iterable[Declaration]) -> Table:
    made = table(title, "kind", "who", "about", "what")
    for declaration in declarations:
        note = " (only if a policy names it)" if declaration.optional else ""
        made.add_row(
            declaration.kind,
            declaration.receiver,
            declaration.about,
            shown(declaration.text + note),
        )
    return made
