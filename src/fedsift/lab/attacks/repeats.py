# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Attacks by more than one job: what a single run hides, several runs on the same tables tell.

Differences
Method    filter on rows of the same columns (and any other method that opens sums over rows).
Leak      Totals of two jobs whose rows differ by one row differ by that row, value for value
          (``row-difference``, ``count-difference``).
Fix       Every member remembers which rows it took part with, and refuses a job whose rows differ
          from those of one or two earlier ones, added or subtracted, in fewer than
          ``min_row_change`` (:mod:`fedsift.jobs.history`).
Remains   Totals are declared as ``pooled-sums``, and so are those of the rows by which two jobs may
          differ. Two jobs that differ by a member differ by its sums.

Repetitions
Method    filter, as the example; every method that reveals sums or scores of the same rows.
Leak      Noise is averaged out over jobs (``repeat-job``), over the steps of one job
          (``budget-by-steps``), or over runs of one job that the hub starts again
          (``replayed-job``). A label holder that asks for scores of labels of its choice finds out
          which rows of a feature holder share a bin (``pair-probing``): for two classes the Gini
          impurity is linear in sums over pairs of rows, so four scores leave a single pair. Each
          class has rows enough for any minimum.
Fix       Every member keeps a history: budgets add up over steps and jobs, a job runs once, and a
          table takes part in so many jobs.
Remains   What the jobs within the limits tell.
"""

from __future__ import annotations

import contextlib
import secrets
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pandas as pd

from fedsift.crypto.masking import unmask_sum
from fedsift.data.part import Part, read_part
from fedsift.data.row_digests import digest_rows
from fedsift.data.sources import read_source
from fedsift.errors import BadEnvelope, PolicyViolation
from fedsift.jobs.chain_joint import run_chain
from fedsift.jobs.history import MOST_JOBS, History, JobRecord
from fedsift.jobs.run import LocalParty, run_joint
from fedsift.jobs.spec import JointJob, JointStep
from fedsift.lab.attacks import filter as single_runs
from fedsift.lab.attacks.attack import UNPROTECTED, Attack, Told, Trial
from fedsift.lab.attacks.filter import COLUMNS, Parties, Totals, draw_members, recovered
from fedsift.lab.attacks.recording import RecordingEngine, Stage
from fedsift.maths import moments
from fedsift.methods.filter.horizontal_messages import MaskedSums
from fedsift.protocol import Policy
from fedsift.result import SelectionResult

Floats = npt.NDArray[np.float64]
LABEL = "label"


@dataclass(frozen=True, eq=False)
class Members:
    """Organisations that keep histories, or keep none as in version 0.1.0.

    Parameters
    ----------
    folder : Path, optional
        Where every member has a folder of its own; without one nobody keeps a history.
    policy : Policy
        Of every member.
    """

    folder: Path | None
    policy: Policy

    @classmethod
    @contextlib.contextmanager
    def meet(cls, variant: str, policy: Policy | None = None) -> Iterator[Members]:
        """Keep histories for a while, unless the variant is the unprotected one."""
        with tempfile.TemporaryDirectory(prefix="fedsift-attack-") as folder:
            kept = None if variant == UNPROTECTED else Path(folder)
            yield cls(kept, Policy() if policy is None else policy)

    def run(
        self, job: JointJob, tables: Mapping[str, pd.DataFrame]
    ) -> tuple[SelectionResult, list[Stage]]:
        """Run a job among all members; raises what the first of them to refuse raises."""
        engine = RecordingEngine({}, job=job.to_text())
        homes = {party: self._home(job, party, table) for party, table in tables.items()}
        script: Callable[..., SelectionResult | None] = run_chain if job.steps else run_joint
        result = script(job, homes, engine)
        assert result is not None  # noqa: S101 - the coordinator is in this process
        return result, engine.stages

    def _home(self, job: JointJob, party: str, table: pd.DataFrame) -> LocalParty:
        label = LABEL if LABEL in table else None
        if self.folder is None:
            return LocalParty.of(read_part(party, table, label=label), self.policy)
        place = self.folder / party
        place.mkdir(exist_ok=True)
        history = History(place)
        history.begin(job, party)
        record = JobRecord(history, job, party, self.policy, party)

        def load() -> Part:
            raw = read_source(table, party=party)
            record.charge(digest_rows(raw, (), history.row_key))
            return read_part(party, raw, label=label)

        return LocalParty(load, self.policy, record)


def submit(setting: str, parties: Sequence[str], **fields: Any) -> JointJob:
    """Make a job as a submission is made: with a number of its own."""
    vertical = setting == "vertical"
    return JointJob(
        setting=setting,
        parties=tuple(parties),
        labelled=True,
        label_party=parties[0] if vertical else None,
        nonce=secrets.token_hex(16),
        **fields,
    )


def opened_totals(stages: Sequence[Stage], width: int = 1) -> list[list[int]]:
    """Totals that the coordinator opened last in every run of the filter."""
    found = []
    for stage in stages:
        sent = dict(stage.received_from("coordinator", MaskedSums))
        if sent:
            found.append(unmask_sum([message.sums.array() for message in sent.values()], width))
    return found


def told_of(stages: Sequence[Stage]) -> Told:
    """Who learned what in all stages, and the text of the first job."""
    return tuple(row for stage in stages for row in stage.ledger), stages[0].job if stages else ""


_EDGES = (-0.5, 0.5, 1.5)
_CLASSES = 2

# Rows by which two jobs differ

_WIDE = 12
"""Columns of the tables whose counts are subtracted."""


def _two_jobs(variant: str, parties: Parties, fewer: Parties, **settings: Any) -> list[list[Stage]]:
    """Submit a job, then the same on tables that lack a row; the second may be refused."""
    found: list[list[Stage]] = []
    with Members.meet(variant) as members, contextlib.suppress(PolicyViolation):
        for given in (parties, fewer):
            tables = {
                party: pd.DataFrame(X).add_prefix("x").assign(label=y)
                for party, (X, y) in given.items()
            }
            job = submit("horizontal", list(tables), method="filter", parameters=settings)
            found.append(members.run(job, tables)[1])
    return found


def _row_difference(variant: str, seed: int) -> Trial:
    parties = draw_members(seed)
    X, y = parties["party-1"]
    row = int(np.random.default_rng((seed, 2)).integers(len(y)))
    fewer = {**parties, "party-1": (np.delete(X, row, axis=0), np.delete(y, row))}
    runs = _two_jobs(variant, parties, fewer, score="f", n_features_to_select=1)
    if len(runs) < 2:
        return Trial(0.0, 0.0, *told_of(runs[0]))
    more, less = (
        Totals.read(opened_totals(stages, moments.LIMBS)[-1], COLUMNS, _CLASSES) for stages in runs
    )
    gap = more.minus(less)
    return Trial(recovered(gap.means, X[row]), 0.0, *told_of(runs[0]))


def _count_difference(variant: str, seed: int) -> Trial:
    """Bin-by-class counts of all members together, as the coordinator adds them up, subtracted."""
    parties = draw_members((seed, 4), 60, _WIDE)
    X, y = parties["party-1"]
    fewer = {**parties, "party-1": (X[1:], y[1:])}
    settings = {"score": "gini", "bins": list(_EDGES), "n_features_to_select": 1}
    runs = _two_jobs(variant, parties, fewer, **settings)
    guess = 1 / (len(_EDGES) + 1)
    if len(runs) < 2:
        return Trial(guess, guess, *told_of(runs[0]))
    # Classes have numbers of their own in every run; bins do not.
    more, less = (
        np.array(opened_totals(stages)[-1]).reshape(_WIDE, -1, _CLASSES).sum(axis=2)
        for stages in runs
    )
    found = float(((more - less).argmax(axis=1) == np.searchsorted(_EDGES, X[0])).mean())
    return Trial(found, guess, *told_of(runs[0]))


# Noise that is averaged out

_TIMES = 20
_EPSILON = 1.0
_CLOSE = 3.0
"""Rows by which a count may be wrong to be known; the noise of one run is several times that."""
_BINS = len(_EDGES) + 1
_COUNTED = {"score": "gini", "bins": list(_EDGES), "n_features_to_select": 2, "epsilon": _EPSILON}


def _hospitals(seed: int) -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng((seed, 7))
    tables = {}
    for name in ("north", "south", "west"):
        y = rng.permutation(np.arange(60) % _CLASSES)
        X = rng.normal(size=(60, 2)) + y[:, None]
        tables[name] = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], LABEL: y})
    return tables


def _share_close(totals: Sequence[Sequence[int]], tables: Mapping[str, pd.DataFrame]) -> float:
    """Share of cells whose mean over all runs is nearly the true count.

    Classes have numbers of their own in every run: the attacker takes the order that fits the runs
    before best, and is told which of the two it has in the end.
    """
    whole = pd.concat(tables.values())
    cells = [np.searchsorted(_EDGES, whole[name]) * _CLASSES + whole[LABEL] for name in ("a", "b")]
    true = np.array([np.bincount(one, minlength=_BINS * _CLASSES) for one in cells])
    total = np.zeros((2, _BINS, _CLASSES))
    for numbers in totals:
        one = np.array(numbers).reshape(2, -1, _CLASSES)[:, :_BINS]
        total += max(one, one[:, :, ::-1], key=lambda order: float((order * total).sum()))
    found = [order.reshape(true.shape) / len(totals) for order in (total, total[:, :, ::-1])]
    return max(float((np.abs(one - true) <= _CLOSE).mean()) for one in found)


def _averaged(attack: str, variant: str, seed: int) -> Trial:
    """Run a job with noise as often as members let it, and average what was opened."""
    tables = _hospitals(seed)
    limit = (
        Policy() if variant == UNPROTECTED or attack == "replayed-job" else Policy(max_epsilon=1)
    )
    one = submit("horizontal", list(tables), method="filter", parameters=_COUNTED)
    steps = (JointStep(method="filter", parameters=_COUNTED),) * _TIMES
    stages: list[Stage] = []
    with Members.meet(variant, limit) as members:
        jobs = [one] * _TIMES
        if attack == "repeat-job":
            jobs = [msgspec.structs.replace(one, nonce=f"{n:032x}") for n in range(_TIMES)]
        elif attack == "budget-by-steps":
            chain = submit("horizontal", list(tables), method="chain", steps=steps)
            jobs = [chain, one]  # if the chain is refused, one run is what there is
        for job in jobs:
            with contextlib.suppress(PolicyViolation, BadEnvelope):
                stages += members.run(job, tables)[1]
    totals = opened_totals(stages)
    guess = float(np.mean([_share_close([one], tables) for one in totals]))
    return Trial(_share_close(totals, tables), guess, *told_of(stages))


# Labels of choice

_ROWS, _BASE, _PROBES = 60, 8, 60
"""Rows of the feature holder, rows that are in the first class of every job, and jobs."""


def shares_bin(scores: Mapping[frozenset[int], float], base: frozenset[int], row: int) -> bool:
    """Whether a row and row 0 are in one bin, by the scores of four sets of rows.

    With rows ``A`` in the first class, the impurity is a constant less a multiple of the sum over
    all pairs in ``A`` of ``1 / n`` if both are in one bin of ``n`` rows, plus a function of the
    number of rows in ``A``; the second difference over sets leaves one pair and a constant.
    """
    both, first, second = base | {0, row}, base | {0}, base | {row}
    gap = scores[both] - scores[first] - scores[second] + scores[base]
    # Without the pair in one bin, the gap is 0; the scale of a pair is above 2 / (rows * rows).
    return bool(abs(gap) > 2.0 / (_ROWS * _ROWS))


def _pairs(variant: str, seed: int) -> Trial:
    rng = np.random.default_rng((seed, 8))
    values = rng.normal(size=_ROWS)
    base = frozenset(range(_ROWS - _BASE, _ROWS))
    others = range(1, _ROWS - _BASE)
    sets = [base, base | {0}]
    for row in others:
        sets += [base | {row}, base | {0, row}]
    settings = {"score": "gini", "bins": 6, "n_features_to_select": 1, "security": "plain"}
    scores: dict[frozenset[int], float] = {}
    told: Told = ((), "")
    # The protection looked at is the history: encryption hides nothing from the label holder.
    with Members.meet(variant, Policy(min_security_bits=0)) as members:
        for chosen in sets[:_PROBES]:
            label = [int(row in chosen) for row in range(_ROWS)]
            tables = {"bank": pd.DataFrame({LABEL: label}), "shop": pd.DataFrame({"x": values})}
            # The attacker's own history is its own to forget; the victim's counts.
            if members.folder is not None:
                (members.folder / "bank" / "history.sqlite").unlink(missing_ok=True)
            job = submit("vertical", ["bank", "shop"], method="filter", parameters=settings)
            try:
                result, stages = members.run(job, tables)
            except PolicyViolation:
                break
            scores[chosen] = result.scores["shop"]["x"]
            told = told_of(stages)
    order = values.argsort().argsort() * 6 // _ROWS
    known = [row for row in others if base | {0, row} in scores]
    right = [shares_bin(scores, base, row) == (order[row] == order[0]) for row in known]
    return Trial(float(sum(right) / len(others)), 0.0, *told)


_attack = partial(
    Attack,
    method="filter",
    attacker="coordinator",
    uses=("MaskedSums",),
    aims_at="bin-by-class counts behind noise",
    measure=f"counts known to {_CLOSE:g} rows",
    runs=(1, 3),
    declared_as=(),
    tolerance=0.25,
)

ATTACKS = (
    *single_runs.ATTACKS,
    Attack(
        name="row-difference",
        method="filter",
        attacker="coordinator",
        uses=("MaskedSums",),
        aims_at="the one row by which two jobs differ",
        measure="values known",
        unprotected="members forget; the totals of two jobs are subtracted",
        default="members remember, and refuse rows that differ in fewer than min_row_change",
        trial=_row_difference,
        runs=(1, 3),
        declared_as=("pooled-sums",),
        tolerance=0.05,
    ),
    Attack(
        name="count-difference",
        method="filter",
        attacker="coordinator",
        uses=("MaskedSums",),
        aims_at="bins of the one row by which two jobs differ",
        measure="bins right",
        unprotected="members forget; the tables of two jobs are subtracted",
        default="members remember, and refuse rows that differ in fewer than min_row_change",
        trial=_count_difference,
        runs=(1, 3),
        declared_as=("pooled-sums",),
    ),
    _attack(
        name="budget-by-steps",
        unprotected=f"every step may spend an epsilon of {_EPSILON:g}; {_TIMES} steps",
        default=f"max_epsilon = {_EPSILON:g} is for all steps together",
        trial=partial(_averaged, "budget-by-steps"),
    ),
    _attack(
        name="repeat-job",
        unprotected=f"every job may spend an epsilon of {_EPSILON:g}; {_TIMES} jobs",
        default=f"members remember; max_epsilon = {_EPSILON:g} is for all jobs on a table",
        trial=partial(_averaged, "repeat-job"),
    ),
    _attack(
        name="replayed-job",
        unprotected=f"the hub starts one job {_TIMES} times",
        default="members run a job once",
        trial=partial(_averaged, "replayed-job"),
    ),
    _attack(
        name="pair-probing",
        attacker="label holder",
        uses=("SealedScores",),
        aims_at="which rows of another party share a bin with a given row",
        measure="rows found out about",
        unprotected=f"members forget; {_PROBES} jobs",
        default=f"members remember; {MOST_JOBS} jobs on a table",
        trial=_pairs,
        runs=(1, 2),
        tolerance=0.2,
    ),
)
