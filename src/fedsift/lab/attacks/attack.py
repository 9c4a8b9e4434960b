# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What all attacks have in common: who attacks, with what, what it found, and what that means.

An attack is mounted on several *variants* of a run. It must succeed where a protection is missing:
an attack that finds nothing there proves nothing elsewhere. On the defaults it must fail, or the
disclosure ledger of the very run that was attacked must name what it found.

The same yardstick serves all measures. ``guess`` is what an attacker reaches without the run: 0.5
for a yes-or-no question, 0 for values. What lies between a guess and certainty is what can be won;
whoever wins less than a fixed share of it (``tolerance``) has won nothing to speak of.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from fedsift.result import Disclosure

UNPROTECTED, DEFAULT, OPTION, JOB = "unprotected", "default", "option", "job"
"""Variants: a protection is missing; as it comes; with more protection; a job as it is."""

SUCCEEDS, FAILS = "succeeds", "FAILS"
CLOSED, DECLARED, OPEN = "closed", "declared", "OPEN"
BAD = (FAILS, OPEN)

FORMAT = "fedsift-attack/1"


Told = tuple[tuple[Disclosure, ...], str]
"""Who learned what in a run, and the text of its job."""


@dataclass(frozen=True, eq=False)
class Trial:
    """One run that was attacked.

    Parameters
    ----------
    found : float
        Success in the attack's own measure; 1 is everything.
    guess : float
        What the attacker reaches without the run.
    ledger : tuple of Disclosure
        Who learned what in that run.
    job : str
        The text of the job, which every party has, the attacker too.
    victim : str
        Whose data it was about, where there are several.
    measure : str
        What ``found`` counts, where it is not what the attack counts elsewhere.
    """

    found: float
    guess: float
    ledger: tuple[Disclosure, ...] = ()
    job: str = ""
    victim: str = ""
    measure: str = ""


@dataclass(frozen=True, eq=False)
class Attack:
    """One attack, and the variants of a run that it is mounted on.

    Parameters
    ----------
    name, method : str
    attacker : str
        Role of the attacker in the protocol.
    uses : tuple of str
        Messages that the attacker received.
    aims_at : str
        The leak.
    measure : str
        What ``found`` counts.
    unprotected, default, option : str
        The variants in words; there need not be an option.
    trial : callable
        Given a variant and a seed; makes the run and attacks it.
    runs : tuple of int
        Runs per variant in the quick and in the regular profile.
    declared_as : tuple of str
        Kinds of disclosure that say what this attack finds.
    tolerance : float
        Share of what can be won that does not count.
    """

    name: str
    method: str
    attacker: str
    uses: tuple[str, ...]
    aims_at: str
    measure: str
    unprotected: str
    default: str
    trial: Callable[[str, int], Trial]
    runs: tuple[int, int] = (1, 5)
    declared_as: tuple[str, ...] = ()
    option: str = ""
    tolerance: float = 0.2

    @property
    def variants(self) -> dict[str, str]:
        """Variants in words."""
        texts = {UNPROTECTED: self.unprotected, DEFAULT: self.default, OPTION: self.option}
        return {variant: text for variant, text in texts.items() if text}

    def n_runs(self, profile: str) -> int:
        """Runs per variant."""
        return self.runs[profile != "quick"]


class AttackRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one attack found in one variant: a line of the report."""

    attack: str
    method: str
    attacker: str
    uses: tuple[str, ...]
    aims_at: str
    measure: str
    variant: str
    protection: str
    runs: int
    found: float
    error: float
    guess: float
    threshold: float
    declared: tuple[str, ...]
    verdict: str
    seconds: float = 0.0


class AttackReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All lines, and where they come from."""

    profile: str
    rows: tuple[AttackRow, ...]
    seconds: float
    versions: dict[str, str]
    source: str = "generated data"
    notes: tuple[str, ...] = ()
    format: str = FORMAT

    @property
    def bad(self) -> tuple[AttackRow, ...]:
        """Lines that nobody may overlook."""
        return tuple(row for row in self.rows if row.verdict in BAD)

    def to_json(self) -> str:
        """The report for machines."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1).decode() + "\n"


Echo = Callable[[AttackRow], None]
"""Given every line as soon as it is there."""


def silent(row: AttackRow) -> None:
    """For callers who wait for the report."""


def mount(attack: Attack, variant: str, n_runs: int) -> AttackRow:
    """Attack some runs of one variant."""
    start = time.perf_counter()
    trials = run_trials(attack, variant, n_runs)
    seconds = time.perf_counter() - start
    return judged(attack, variant, attack.variants[variant], trials, seconds=seconds)


def run_trials(attack: Attack, variant: str, n_runs: int) -> list[Trial]:
    """Runs of one variant, attacked by somebody who has the job's text with its seed."""
    trials = [attack.trial(variant, seed) for seed in range(n_runs)]
    return [
        replace(trial, job=job_with_seed(attack.method, trial.job, seed))
        for seed, trial in enumerate(trials)
    ]


def job_with_seed(method: str, job: str, seed: int) -> str:
    """The text of a job in which a seed stands, whatever drove the draws of its run.

    Examples
    --------
    >>> job_with_seed("ranking", '{"parameters":{"score":"f"}}', 7)
    '{"method":"ranking","parameters":{"score":"f"},"seed":7}'
    """
    fields = msgspec.json.decode(job) if job else {"parameters": {}}
    return msgspec.json.encode({"method": method, **fields, "seed": seed}, order="sorted").decode()


def judged(
    attack: Attack, variant: str, protection: str, trials: Sequence[Trial], *, seconds: float = 0.0
) -> AttackRow:
    """Hold what was found against a guess and against the ledger."""
    found = np.array([trial.found for trial in trials])
    guess = float(np.mean([trial.guess for trial in trials]))
    threshold = guess + attack.tolerance * (1 - guess)
    kinds = declared_kinds(attack, [row for trial in trials for row in trial.ledger])
    mean = float(found.mean())
    return AttackRow(
        attack=attack.name,
        method=attack.method,
        attacker=attack.attacker,
        uses=attack.uses,
        aims_at=attack.aims_at,
        measure=attack.measure,
        variant=variant,
        protection=protection,
        runs=len(trials),
        found=mean,
        error=float(found.std(ddof=1) / math.sqrt(len(found))) if len(found) > 1 else 0.0,
        guess=guess,
        threshold=threshold,
        declared=kinds,
        verdict=verdict(variant, won=mean > threshold, declared=bool(kinds)),
        seconds=seconds,
    )


def verdict(variant: str, *, won: bool, declared: bool) -> str:
    """What a line means.

    Examples
    --------
    >>> verdict(DEFAULT, won=True, declared=False)
    'OPEN'
    """
    if variant == UNPROTECTED:
        return SUCCEEDS if won else FAILS
    if not won:
        return CLOSED
    return DECLARED if declared else OPEN


def declared_kinds(attack: Attack, ledger: Iterable[Disclosure]) -> tuple[str, ...]:
    """Kinds in a ledger by which the attacker's role was told what the attack finds."""
    told = {row.kind for row in ledger if row.learner_role == attack.attacker}
    return tuple(kind for kind in attack.declared_as if kind in told)
