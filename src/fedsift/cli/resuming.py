# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of ``fedsift run``: nothing is overwritten, and failures say how to go on."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

from fedsift.cli.common import one_line
from fedsift.data.state_files import unfinished
from fedsift.errors import ConfigError, FedsiftError, FileProblem, ProtocolError

if TYPE_CHECKING:
    from fedsift.config.job import Job


def check_place(job: Job, *, resume: bool) -> None:
    """Refuse to start over an unfinished run, and to resume where nothing can be kept."""
    place = job.checkpoint
    if place is None:
        if resume:
            raise ConfigError(
                "The job keeps no checkpoints.",
                "An interrupted run resumes from those that it kept.",
                'Add checkpoint = "..." to [runtime], and run the job without --resume.',
            )
        return
    if job.data.dataset is not None and job.data.setting == "horizontal" and job.seed is None:
        raise ConfigError(
            "The rows of the data set are split at random, and the job has no seed.",
            "A run can be resumed if the parties have the same rows again.",
            "Add seed = ... to [job], or remove checkpoint from [runtime].",
        )
    if unfinished(place):
        if not resume:
            raise FileProblem(
                f"{place} holds the checkpoints of an unfinished run.",
                "A new run needs a directory without any.",
                "Resume with --resume, or remove the directory to start again.",
            )
        typer.echo(one_line(f"Resuming the run in {place}."), err=True)
    elif resume:
        text = f"There is nothing to resume in {place}: starting from the beginning."
        typer.echo(one_line(text), err=True)


@contextlib.contextmanager
def noting_checkpoints(job: Job) -> Iterator[None]:
    """Tell whoever reads of a failure that finished rounds are kept."""
    try:
        yield
    except (FedsiftError, KeyboardInterrupt) as error:
        # What is wrong with data or settings has to be put right first.
        mendable = isinstance(error, (ProtocolError, FileProblem, KeyboardInterrupt))
        if mendable and has_unfinished(job):
            error.add_note(how_to_go_on(job))
        raise


def has_unfinished(job: Job) -> bool:
    """Whether the job has left something to go on from."""
    return job.checkpoint is not None and bool(unfinished(job.checkpoint))


def how_to_go_on(job: Job) -> str:
    """The sentence for it."""
    return (
        f"Finished rounds are kept in {job.checkpoint}: "
        f"'fedsift run {job.path.name} --resume' continues from there."
    )
