# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""``fedsift split``: make a toy federation from one file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedsift.cli.common import AsJson, console, echo_json, errors_as_exit_codes, shown, typed
from fedsift.errors import ParameterError


def split(
    file: Annotated[Path, typer.Argument(help="CSV or Parquet file.", metavar="FILE")],
    parties: Annotated[
        int | None, typer.Option("--parties", help="Number of parties; 3 by default, 4 for vfps.")
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Directory for the files and the job.")
    ] = Path("federation"),
    label: Annotated[str | None, typer.Option("--label", help="The label column.")] = None,
    setting: Annotated[
        str | None,
        typer.Option("--setting", help="vertical: split columns; horizontal: split rows."),
    ] = None,
    id_column: Annotated[
        str | None, typer.Option("--id", help="Column that identifies a row.")
    ] = None,
    overlap: Annotated[
        float, typer.Option("--overlap", help="Fraction of the rows that every party has.")
    ] = 1.0,
    method: Annotated[str, typer.Option("--method", help="Method of the job.")] = "filter",
    seed: Annotated[
        int, typer.Option("--seed", help="Seed for assigning columns or rows to parties.", min=0)
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Split one table into simulated parties: a file for each, and a job file for them."""
    with errors_as_exit_codes():
        from fedsift.data.files import read_frame
        from fedsift.deploy.local import Toy, demo_of, write_toy
        from fedsift.methods.registry import method_named
        from fedsift.methods.spec import Missing

        known = method_named(method)
        quick = demo_of(known)
        if setting is not None and setting not in known.protocols:
            raise ParameterError(
                f"The method {method!r} does not work in the setting {setting!r}.",
                f"It works in: {', '.join(known.protocols)}.",
                "Change --setting or --method.",
            )
        parameters = dict(quick.parameters)
        if label is None and not isinstance(known.without_label, Missing):
            parameters |= known.without_label
        frame = read_frame(file, [] if id_column is None else [id_column])
        toy = Toy(
            label,
            setting or quick.setting,
            quick.n_parties if parties is None else parties,
            id_column,
            overlap,
            known.name,
            parameters,
            seed,
        )
        job = write_toy(frame, out, toy)
        if as_json:
            files = sorted(str(path) for path in out.glob("party-*.csv"))
            echo_json({"job": str(job), "files": files})
            return
        screen = console()
        screen.print(f"{toy.n_parties} parties and a job are in {shown(out)}. Next:")
        for command in ("plan", "run"):
            screen.print(f"  fedsift {command} {typed(job)}", soft_wrap=True)
        screen.print(f"  fedsift deploy local {typed(job)}", soft_wrap=True)
