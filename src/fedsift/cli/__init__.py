# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The ``fedsift`` command: one file per command, nothing heavy imported until one runs."""

from __future__ import annotations

from typing import Annotated

import typer

from fedsift import __version__
from fedsift.cli import (
    align,
    attack,
    bench,
    compare,
    completion,
    datasets,
    demo,
    deploy,
    deploy_history,
    deploy_local,
    deploy_run,
    deploy_submit,
    doctor,
    init,
    methods,
    plan,
    report,
    run,
    split,
    verify,
)
from fedsift.cli.common import output_checked

__all__ = ["app", "main"]

# Rich tracebacks would print local variables, and those hold data.
app = typer.Typer(
    name="fedsift",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _command in (
    demo.demo,
    init.init,
    plan.plan,
    run.run,
    report.report,
    verify.verify,
    compare.compare,
    attack.attack,
    align.align,
    split.split,
    methods.methods,
    datasets.datasets,
    doctor.doctor,
    bench.bench,
    completion.completion,
):
    app.command()(_command)
for _part in (deploy_run, deploy_submit, deploy_local, deploy_history):
    _part.add_to(deploy.app)
app.add_typer(deploy.app)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fedsift {__version__}")
        raise typer.Exit


@app.callback()
def _fedsift(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """Find the features worth having in other organisations' data, without seeing the data.

    Start with `fedsift demo`.
    """


def main() -> None:
    """Run the command line; the ``fedsift`` script calls this."""
    completion.prepare_to_complete()
    with output_checked():
        app(prog_name="fedsift")
