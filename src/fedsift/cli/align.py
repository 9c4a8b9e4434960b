# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""``fedsift align``: keep the rows that all parties have, without showing other ids."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedsift.cli.common import AsJson, console, echo_json, errors_as_exit_codes, shown
from fedsift.cli.tables import learned_table, table
from fedsift.errors import FileProblem, ParameterError

if TYPE_CHECKING:
    import pandas as pd


def align(
    files: Annotated[
        list[Path], typer.Argument(help="One CSV or Parquet file per party.", metavar="FILE...")
    ],
    on: Annotated[
        list[str],
        typer.Option("--on", help="Id column; repeatable, if several columns form the id."),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Directory for the aligned files.")
    ] = Path("aligned"),
    as_json: AsJson = False,
) -> None:
    """Align files by private set intersection; the first file decides the order of rows.

    Every party is named after its file. Ids that not all parties have are shown to no other
    party; the number of rows of each party is.
    """
    with errors_as_exit_codes():
        from fedsift.cli import output
        from fedsift.data.files import read_frame
        from fedsift.jobs.align import intersect

        named = _named(files)
        output.check_writable(out)
        frames = {party: read_frame(path, on) for party, path in named.items()}
        ids = {party: _ids(party, frame, on) for party, frame in frames.items()}
        rows, outcome = intersect(ids)
        written = {}
        out.mkdir(parents=True, exist_ok=True)
        for party, frame in frames.items():
            target = out / named[party].name
            _write(frame.iloc[rows[party]], target)
            written[party] = str(target)
        traffic = outcome.transcript.traffic()
        sizes = {party: len(frame) for party, frame in frames.items()}
        n_common = len(next(iter(rows.values())))
        if as_json:
            echo_json(
                {
                    "n_rows": sizes,
                    "n_common": n_common,
                    "files": written,
                    "n_bytes": traffic.bytes,
                    "disclosures": outcome.ledger.rows(),
                }
            )
            return
        made = table("Aligned rows", "party", "rows", "common", "file", numeric=("rows", "common"))
        for party, n_rows in sizes.items():
            made.add_row(shown(party), str(n_rows), str(n_common), shown(written[party]))
        screen = console()
        screen.print(made)
        screen.print(learned_table("Who learned what", outcome.ledger.rows()))
        seconds = outcome.timings["total"]
        screen.print(f"Cost: {seconds:.2f} seconds, {traffic.bytes / 1e6:.2f} MB.")


def _named(files: list[Path]) -> dict[str, Path]:
    if len(files) < 2:
        raise ParameterError(
            "One file was given.", "At least two are aligned.", "Name the file of every party."
        )
    named = {path.stem: path for path in files}
    if len(named) < len(files) or len({path.name for path in files}) < len(files):
        raise ParameterError(
            "Two files have the same name.",
            "Parties are named after their files.",
            "Rename one of the files.",
        )
    return named


def _ids(party: str, frame: pd.DataFrame, on: list[str]) -> Any:
    from fedsift.data.ids import make_ids
    from fedsift.data.sources import missing_column, raw_column

    for name in on:
        if name not in frame.columns:
            raise missing_column(name, [str(column) for column in frame.columns], party)
    return make_ids([raw_column(name, frame[name], party) for name in on], party)


def _write(frame: pd.DataFrame, path: Path) -> None:
    """Write beside the target first, so that nothing half-written is left behind."""
    partial = path.with_name(path.name + ".part")
    try:
        if path.suffix.lower() == ".parquet":
            frame.to_parquet(partial, index=False)
        else:
            from fedsift.data.files import plain_cells

            plain_cells(frame).to_csv(partial, index=False)
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise FileProblem(
            f"{path.name!r} could not be written ({error.strerror or type(error).__name__}).",
            "A directory with enough space and write permission is needed.",
            "Choose another directory with --out.",
        ) from error
