# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A member's history as texts and as an HTML page: what was revealed, and what is left."""

from __future__ import annotations

from collections.abc import Sequence

from fedsift.jobs.history import Budget, PastJob
from fedsift.report import blocks
from fedsift.report.view import clean

_FOOTER = "Made by fedsift from the member's own history. It holds names and counts; no rows."
JOB_HEADER = ("started", "job", "state", "submitter", "method", "rows", "epsilon", "revealed")
BUDGET_HEADER = ("table", "budget", "spent", "limit", "left")
SHOWN = 12
"""Characters of a job's fingerprint that are shown; enough to name it."""


def job_cells(job: PastJob) -> tuple[str, ...]:
    """One line for a job, in the order of ``JOB_HEADER``."""
    spent = job.epsilon + job.release_epsilon
    return (
        job.started.partition(".")[0].replace("T", " "),
        job.job[:SHOWN],
        f"{job.state}: {clean(job.reason)}" if job.reason else job.state,
        clean(job.submitter),
        clean(job.method),
        str(job.n_rows) if job.counted else "-",
        f"{spent:g}" if spent else "-",
        "; ".join(revealed_texts(job)) or "nothing",
    )


def revealed_texts(job: PastJob) -> list[str]:
    """Who learned what, one text for each party; nothing where the data was not used."""
    if not job.counted:
        return []
    kinds: dict[str, list[str]] = {}
    for one in job.revealed:
        kinds.setdefault(one.learner, []).append(one.kind)
    return [f"{clean(who)}: {', '.join(dict.fromkeys(what))}" for who, what in kinds.items()]


def budget_cells(budget: Budget) -> list[tuple[str, ...]]:
    """Lines for the budgets of a table, in the order of ``BUDGET_HEADER``."""
    left = budget.left()
    table = clean(budget.data)
    lines: list[tuple[str, ...]] = [
        (table, "jobs", str(budget.jobs), str(budget.most_jobs), str(budget.jobs_left))
    ]
    amounts = (
        ("epsilon", budget.epsilon, budget.most_epsilon),
        ("release_epsilon", budget.release_epsilon, budget.most_release_epsilon),
        ("epsilon_total", budget.epsilon + budget.release_epsilon, budget.most_epsilon_total),
    )
    for name, spent, most in amounts:
        if most is not None or spent:
            rest = left[name]
            shown = "no limit" if most is None or rest is None else f"{max(rest, 0.0):g}"
            lines.append((table, name, f"{spent:g}", "-" if most is None else f"{most:g}", shown))
    return lines


def render(member: str, jobs: Sequence[PastJob], budgets: Sequence[Budget]) -> str:
    """Build the page.

    Parameters
    ----------
    member : str
        Whose history it is.
    jobs : sequence of PastJob
    budgets : sequence of Budget
        One for each table.
    """
    states = [job.state for job in jobs]
    counts = [f"{states.count(state)} {state}" for state in dict.fromkeys(states)]
    facts = [("jobs", str(len(jobs))), *((text.split()[1], text.split()[0]) for text in counts)]
    lines = [line for budget in budgets for line in budget_cells(budget)]
    learned = [
        (job.job[:SHOWN], clean(one.learner), one.kind, clean(one.what))
        for job in jobs
        if job.counted
        for one in job.revealed
    ]
    parts = [
        blocks.facts(facts),
        blocks.section("Budgets", "", blocks.table(BUDGET_HEADER, lines, numeric=(2, 3, 4))),
        blocks.section(
            "Jobs", "", blocks.table(JOB_HEADER, map(job_cells, jobs), numeric=(5, 6), kind="cards")
        ),
        blocks.section(
            "What was revealed",
            "As planned before the first message of each job; a job that broke off may have "
            "revealed less.",
            blocks.table(("job", "who", "kind", "what"), learned, kind="cards"),
        ),
    ]
    headline = f"History of {clean(member)}: {', '.join(counts) or 'no jobs yet'}"
    return blocks.document("fedsift history", headline, "\n".join(parts), footer=_FOOTER)
