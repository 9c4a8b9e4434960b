# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""``fedsift completion``: a script that lets a shell complete commands and options."""

from __future__ import annotations

import importlib
import os
from typing import Annotated, Any

import typer

from fedsift.cli.common import errors_as_exit_codes
from fedsift.config.toml import did_you_mean
from fedsift.errors import ParameterError

SHELLS = ("bash", "zsh", "fish", "powershell")
VARIABLE = "_FEDSIFT_COMPLETE"
"""Set by the script when the shell asks what could come next."""


def completion(
    shell: Annotated[
        str,
        typer.Argument(
            help="bash, zsh, fish or powershell.", metavar="SHELL", autocompletion=lambda: SHELLS
        ),
    ],
) -> None:
    """Print a completion script.

    For this shell: source <(fedsift completion bash); put that line into ~/.bashrc or ~/.zshrc to
    keep it. Fish: fedsift completion fish > ~/.config/fish/completions/fedsift.fish
    PowerShell: fedsift completion powershell | Out-String | Invoke-Expression
    """
    with errors_as_exit_codes():
        if shell not in SHELLS:
            raise ParameterError(
                f"There is no script for the shell {shell!r}.",
                f"One of {', '.join(SHELLS)} is needed.",
                did_you_mean(shell, SHELLS, "Choose one of these."),
            )
        make = _typers_own().get_completion_script
        script = make(prog_name="fedsift", complete_var=VARIABLE, shell=shell)
        if shell == "zsh":
            # A sourced script runs before or after compinit; without it there is no compdef.
            script = "autoload -Uz compinit && (( $+functions[compdef] )) || compinit\n" + script
        typer.echo(script)


def prepare_to_complete() -> None:
    """Know how to answer a shell, if this process was started to do that."""
    if VARIABLE in os.environ:
        _typers_own().completion_init()


def _typers_own() -> Any:
    """Typer's module behind its own options for completion, which it does not type."""
    return importlib.import_module("typer.completion")
