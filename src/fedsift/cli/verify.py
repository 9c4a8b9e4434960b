# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""``fedsift verify``: check a result against the signatures of its parties."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedsift.cli.common import AsJson, console, echo_json, errors_as_exit_codes, shown

if TYPE_CHECKING:
    from fedsift.protocol.verify import Verification


def verify(
    result: Annotated[
        Path,
        typer.Argument(help="result.json of a run, or its directory.", metavar="RESULT.json"),
    ],
    keys: Annotated[
        list[Path] | None,
        typer.Option(
            "--keys",
            help="Public key file of a member, or settings file with pinned keys; repeatable.",
        ),
    ] = None,
    fingerprint: Annotated[
        str | None,
        typer.Option("--fingerprint", help="Fingerprint of the keys that the run printed."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check who signed a result and its ledger, and name everything that was altered.

    Needs no data and no secret. Exits with code 5 if something does not fit.
    """
    with errors_as_exit_codes(as_json):
        from fedsift.cli.output import RESULT
        from fedsift.errors import LedgerAltered
        from fedsift.result import SelectionResult

        loaded = SelectionResult.load(result / RESULT if result.is_dir() else result)
        found = loaded.verify(keys or None, fingerprint)
        if as_json:
            echo_json(found)
            raise typer.Exit(0 if found.passed else LedgerAltered.exit_code)
        _print(found)
        if not found.signed:
            raise LedgerAltered(
                "The result carries no signatures.",
                "Version 0.1.0 wrote none; later versions sign every result.",
                "Run the job again, or ask its submitter for the file that the run wrote.",
            )
        if found.problems:
            raise LedgerAltered(
                f"{len(found.problems)} things do not fit; the first: {found.problems[0].text}",
                "Every entry must be as its party signed it.",
                "Ask the submitter and the parties for the file that the run wrote.",
            )


def _print(found: Verification) -> None:
    out = console()
    if not found.signed:
        return
    out.print(f"Signed by: {shown(', '.join(found.parties))}")
    out.print(f"Fingerprint of their keys: {found.fingerprint}")
    for problem in found.problems:
        out.print(
            f"[bold red]{problem.kind}[/bold red], {shown(problem.where)}: {shown(problem.text)}"
        )
    if found.passed:
        out.print(f"[bold]Verified:[/bold] {shown(found.summary)}")
        for signers, parts in _by_signers(found).items():
            out.print(f"Signed by {shown(signers)}: {shown(parts)}", soft_wrap=True)
        out.print(f"Not signed: {shown(', '.join(found.not_covered))}")


def _by_signers(found: Verification) -> dict[str, str]:
    """Which parts of the result were signed by the same parties."""
    parts: dict[str, str] = {}
    for part, parties in found.covered.items():
        signers = ", ".join(parties)
        parts[signers] = f"{parts[signers]}, {part}" if signers in parts else part
    return parts
