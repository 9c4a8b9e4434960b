# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a submitted job would do at a member: plan, cost and budget, before anything is sent.

The member's own table is real. Tables elsewhere are made up in its shape, with the columns that the
job names, so that the plan is that of this job's settings and parties.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fedsift.config.steps import PREDICT
from fedsift.costs.chain import estimate_joint
from fedsift.costs.estimate import on_flare
from fedsift.costs.rates import rates_of_this_machine
from fedsift.data.federation import JointFederation
from fedsift.data.part import Part, read_part
from fedsift.data.sources import LabelColumn
from fedsift.deploy.own_table import columns_for, digest_table, part_for, read_table
from fedsift.deploy.site import policy_of
from fedsift.deploy.site_files import SiteSettings, load_site
from fedsift.errors import FedsiftError, PolicyViolation
from fedsift.jobs.history import Budget, History
from fedsift.jobs.inbox import Outlook
from fedsift.jobs.run import LocalParty, plan_joint
from fedsift.jobs.spec import JointJob
from fedsift.protocol.policy import OPEN, Policy, RemotePolicy

_MOST_CELLS = 20_000_000
"""Cells of all tables together; of longer tables, fewer rows are planned with."""
_FEWEST_ROWS = 200

_ELSEWHERE = (
    "Tables elsewhere are not known here: the plan takes them to have as many rows as the table "
    "here{columns}{label}."
)
_FEWER_ROWS = "The cost is that of a run with {n_rows:,} rows; the table here has {all_rows:,}."


class Outlooks:
    """Looks ahead at jobs, and remembers what it saw as long as settings and table stay the same.

    Parameters
    ----------
    folder : Path
        The member's settings.
    tell : callable, optional
        Called before this machine is measured, once, which takes some seconds.
    """

    def __init__(self, folder: Path, tell: Callable[[], None] | None = None) -> None:
        self._folder, self._tell = folder, tell
        self._seen: dict[tuple[Any, ...], Outlook] = {}

    def __call__(self, job: JointJob) -> Outlook:
        """What a job would do here."""
        settings = load_site(self._folder)
        key = (job.fingerprint, repr(settings), *_stamp(settings.data))
        if key not in self._seen:
            self._seen[key] = look_ahead(job, settings, self._tell)
        # Other jobs may have spent something since.
        budget, digests = None, self._seen[key].digests
        if settings.data is not None:
            history = History(settings.folder)
            budget = history.budget(str(settings.data), policy_of(settings), digests)
        return msgspec.structs.replace(self._seen[key], budget=budget)


def budget_now(settings: SiteSettings) -> Budget:
    """What jobs have spent of the rows that the member's table has now."""
    history = History(settings.folder)
    digests = None
    if history.path.exists():
        digests = digest_table(settings, read_table(settings), history.row_key)
    return history.budget(str(settings.data), policy_of(settings), digests)


def look_ahead(
    job: JointJob, settings: SiteSettings, tell: Callable[[], None] | None = None
) -> Outlook:
    """Plan a job with the member's own table, and predict its cost.

    Parameters
    ----------
    job : JointJob
    settings : SiteSettings
    tell : callable, optional
        Called before this machine is measured.
    """
    if settings.data is None or settings.name not in job.parties:
        return Outlook(notes=("There is no table of this job here to plan it with.",))
    found = Outlook()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            raw = read_table(settings)
            digests = digest_table(settings, raw, History(settings.folder).row_key)
            found = Outlook(digests=digests)
            own = part_for(settings, job, raw, columns_for(settings, job))
            found = msgspec.structs.replace(found, columns=own.feature_names)
            return _planned(job, settings, own, found, tell)
    except PolicyViolation as error:
        return msgspec.structs.replace(found, refusal=error.one_line)
    except FedsiftError as error:
        note = f"The plan cannot be made here: {error.one_line}"
        return msgspec.structs.replace(found, notes=(note,))


def _planned(
    job: JointJob,
    settings: SiteSettings,
    own: Part,
    found: Outlook,
    tell: Callable[[], None] | None,
) -> Outlook:
    n_rows = own.n_rows
    own = own.take(_rows_to_plan_with(job, own))
    policies: dict[str, Policy] = dict.fromkeys(job.parties, _elsewhere(job))
    policies[settings.name] = policy_of(settings)
    parts = {
        party: own if party == settings.name else _stand_in(job, party, own, number)
        for number, party in enumerate(job.parties)
    }
    local_parties = {party: LocalParty.of(part, policies[party]) for party, part in parts.items()}
    federation, plan = plan_joint(job, local_parties, simulated=False)
    notes = [*plan.notes, _say_elsewhere(job, settings.name)]
    if own.n_rows < n_rows:
        notes.append(_FEWER_ROWS.format(n_rows=own.n_rows, all_rows=n_rows))
    return msgspec.structs.replace(
        found,
        planned=plan.disclosures,
        predicted=_cost(job, federation, policies, own.n_rows, tell),
        notes=tuple(notes),
    )


def _cost(
    job: JointJob,
    federation: JointFederation,
    policies: Mapping[str, Policy],
    n_rows: int,
    tell: Callable[[], None] | None,
) -> dict[str, Any]:
    """Seconds, bytes and rounds between organisations; empty if they cannot be predicted."""
    rates = rates_of_this_machine(tell=tell)
    counts = dict.fromkeys(job.parties, n_rows)
    predicted = estimate_joint(job, federation, rates, policies, counts)
    return {} if predicted is None else on_flare(predicted).to_plain()


def _rows_to_plan_with(job: JointJob, own: Part) -> Any:
    n_columns = sum(_n_columns(job, party, own) for party in job.parties)
    most = max(_FEWEST_ROWS, _MOST_CELLS // max(1, n_columns))
    return np.linspace(0, own.n_rows - 1, min(own.n_rows, most)).astype(np.int64)


def _n_columns(job: JointJob, party: str, own: Part) -> int:
    named = None if job.setting == "horizontal" else job.columns.get(party)
    return max(1, len(own.feature_names if named is None else named))


def _stand_in(job: JointJob, party: str, own: Part, number: int) -> Part:
    """Return a made-up table of another party, with the rows that are here."""
    if job.setting == "horizontal":
        table = None if own.table is None else replace(own.table, name=party)
        return replace(own, party=party, table=table)
    random = np.random.default_rng(number)
    named = job.columns.get(party)
    names = [f"{party} {i + 1}" for i in range(_n_columns(job, party, own))]
    columns: dict[str, Any] = {
        name: random.normal(size=own.n_rows) for name in (names if named is None else named)
    }
    label: LabelColumn | None = None
    if party == job.label_party and job.task == "survival":
        label = {"time": f"{party} time", "event": f"{party} event"}
        columns[label["time"]] = random.exponential(size=own.n_rows)
        columns[label["event"]] = random.permutation(own.n_rows) % 2
    elif party == job.label_party:
        label = job.label_column or "label"
        classes = random.permutation(own.n_rows) % 2
        columns[label] = random.normal(size=own.n_rows) if job.task == "regression" else classes
    part = read_part(party, columns, label=label)
    return replace(part, ids=own.ids)


def _elsewhere(job: JointJob) -> Policy:
    """Whether other organisations allow the job is for them to say; extras they may not."""
    names = [step.method for step in job.steps]
    numbers = [number for number, name in enumerate(names, start=1) if name != PREDICT]
    selectors = [job.step(number).selector() for number in numbers] or [job.selector()]
    kinds = [cls.declaration for one in selectors for cls in one._wanted().choices]
    return RemotePolicy(
        choices=frozenset(one.kind for one in kinds),
        granted=frozenset(one.kind for one in kinds if OPEN.allows(one)),
    )


def _say_elsewhere(job: JointJob, name: str) -> str:
    if job.setting == "horizontal":
        return _ELSEWHERE.format(columns="", label="")
    unnamed = any(party not in job.columns for party in job.parties if party != name)
    asked = job.label_party not in (None, name) and job.task not in ("regression", "survival")
    return _ELSEWHERE.format(
        columns=" and, unless the job names them, as many columns" if unnamed else "",
        label="; the label to have two classes" if asked else "",
    )


def _stamp(path: Path | None) -> tuple[int, ...]:
    """Changes when a file does; empty if it cannot be read."""
    try:
        found = None if path is None else path.stat()
    except OSError:
        return ()
    return () if found is None else (found.st_mtime_ns, found.st_size)
