# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The one way to run a job on the parties' own tables, and to plan it, with one step or several."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fedsift.data.federation import JointFederation
from fedsift.engine import LOCAL_ENGINE, Engine
from fedsift.engine.observer import Watching
from fedsift.jobs.chain_files import ChainModel
from fedsift.jobs.chain_plan import ChainSetup
from fedsift.jobs.chain_run import ChainRun
from fedsift.jobs.phases import JointRun, KeepOwn, LocalParty
from fedsift.jobs.spec import JointJob
from fedsift.methods.execution import Plan
from fedsift.result import SelectionResult

__all__ = ["LocalParty", "plan_joint", "run_joint"]


def run_joint(
    job: JointJob,
    local_parties: Mapping[str, LocalParty],
    engine: Engine = LOCAL_ENGINE,
    *,
    observer: Watching = None,
    place: Path | None = None,
    selector: Any = None,
    keep_own: KeepOwn | None = None,
    keep_predictions: Callable[[str], None] | None = None,
    keep_model: Callable[[ChainModel], None] | None = None,
) -> SelectionResult | None:
    """Run this site's part of a job.

    Parameters
    ----------
    job : JointJob
        The same at every site.
    local_parties : mapping of party to LocalParty
        The parties of this site: all parties with data, if no engine is given.
    engine : Engine
        Reaches the other sites.
    observer : Observer or callable, optional
        Follows the run; a callable is called after every message.
    place : Path, optional
        Where checkpoints are kept. If it holds an interrupted run of the same job, this one goes on
        there.
    selector : estimator, optional
        Of a job with one step, for a caller who wants to keep it; fitted at the coordinator.
    keep_own : callable, optional
        Given what each party of this site may keep of the run, or of every step, for itself.
    keep_predictions : callable, optional
        Given the predictions at the label holder, as the text of a CSV file.
    keep_model : callable, optional
        Given the parts of a trained model that belong to the parties of this site.

    Returns
    -------
    result : SelectionResult or None
        None at sites without the coordinator.
    """
    if job.steps:
        return ChainRun(
            job, local_parties, engine, observer, place, keep_own, keep_predictions, keep_model
        ).run()
    if selector is None:
        selector = job.selector(checkpoint=None if place is None else str(place))
    return JointRun(job, local_parties, engine, observer, selector, keep_own).run()


def plan_joint(
    job: JointJob, local_parties: Mapping[str, LocalParty], *, simulated: bool = True
) -> tuple[JointFederation, Plan]:
    """Who will learn what if the job runs; needs all parties here, and sends nothing.

    Parameters
    ----------
    job : JointJob
    local_parties : mapping of party to LocalParty
        All parties with data.
    simulated : bool
        False for a job whose parties will be at other sites.

    Returns
    -------
    federation : JointFederation
        As the run will have it.
    plan : Plan
        Of all steps.
    """
    run = (ChainSetup if job.steps else JointRun)(job, local_parties, LOCAL_ENGINE)
    run.simulated = simulated
    return run.plan()
