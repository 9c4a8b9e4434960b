# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The attacks of a method on a job's own run: every role with what it really received."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from fedsift.errors import ConfigError
from fedsift.jobs.run import LocalParty, run_joint
from fedsift.jobs.spec import JointJob
from fedsift.lab.attacks.attack import (
    JOB,
    Attack,
    AttackReport,
    AttackRow,
    Echo,
    Trial,
    judged,
    silent,
)
from fedsift.lab.attacks.recording import (
    JobRun,
    RecordingEngine,
    Stage,
)
from fedsift.lab.attacks.suite import attack_named, attacks_on, list_attacks
from fedsift.methods.execution import versions
from fedsift.methods.registry import ALIGN, load_address


def refuse_without_attacks(method: str) -> None:
    """Say politely that there is nothing to mount."""
    if attacks_on(method) is not None:
        return
    known = sorted({attack.method for attack in list_attacks()} - {ALIGN})
    advice = "Make every step a job of its own and attack those." if method == "chain" else ""
    raise ConfigError(
        f"There are no attacks on the method {method!r}.",
        f"There are some on {', '.join(known)}.",
        advice or "See 'fedsift attack --list'.",
    )


def player_for(method: str, job: str = "") -> RecordingEngine:
    """A player that keeps what the attacks of a method need."""
    attacks = attacks_on(method)
    if attacks is None:
        return RecordingEngine({}, keep_frames=False, job=job)
    curious = load_address(attacks.curious) if attacks.curious else {}
    return RecordingEngine(curious, keep_frames=attacks.needs_frames, job=job)


def record_federation(
    method: str, selector: Any, federation: Any, timeout_seconds: float | None = None
) -> JobRun:
    """Run a selector on a federation that is here as a whole."""
    engine = player_for(method)
    selector.run(federation, timeout_seconds=timeout_seconds, engine=engine)
    targets = dict(federation.targets)
    if federation.target is not None:
        targets[federation.label_holder] = federation.target
    return JobRun(method, engine.stages, dict(federation.tables), labels_of(targets))


def record_tables(joint: JointJob, local_parties: Mapping[str, LocalParty]) -> JobRun:
    """Run a job on the parties' own tables, all of which are here."""
    engine = player_for(joint.method, joint.to_text())
    run_joint(joint, local_parties, engine, selector=joint.selector())
    parts = {
        party: local.load() for party, local in local_parties.items() if local.load is not None
    }
    targets = {party: part.target(joint.task, fewest_classes=1) for party, part in parts.items()}
    tables = {party: part.table for party, part in parts.items() if part.table is not None}
    return JobRun(joint.method, engine.stages, tables, labels_of(targets))


def labels_of(targets: Mapping[str, Any]) -> dict[str, npt.NDArray[Any]]:
    """Class names or numbers of every party that has labels."""
    return {
        party: (
            np.asarray(target.classes)[target.codes]
            if target.kind == "classes"
            else np.asarray(target.values)
        )
        for party, target in targets.items()
        if target is not None
    }


def attack_run(run: JobRun, source: str, echo: Echo = silent) -> AttackReport:
    """Mount every attack that the run allows."""
    start = time.perf_counter()
    rows: list[AttackRow] = []
    for name in (ALIGN, run.method):
        stage, attacks = run.stage(name), attacks_on(name)
        if stage is None or attacks is None:
            continue
        last = time.perf_counter()
        for attack, party, trial in load_address(attacks.on_run)(run, stage):
            seconds, last = time.perf_counter() - last, time.perf_counter()
            rows.append(_row(attack_named(attack), stage, party, trial, seconds))
            echo(rows[-1])
    if any(row.form.startswith("PLAIN") for stage in run.stages for row in stage.ledger):
        run.notes.append("The job runs without protection (security = 'plain').")
    seconds = time.perf_counter() - start
    notes = tuple(dict.fromkeys(run.notes))
    return AttackReport(JOB, tuple(rows), seconds, versions(), source, notes)


def _row(attack: Attack, stage: Stage, party: str, trial: Trial, seconds: float) -> AttackRow:
    """A line that names the attacking party, and only messages that it really received."""
    received = {entry.message for entry in stage.outcome.transcript.view(party)}
    told = tuple(row for row in trial.ledger if row.learner == party)
    protection = f"the job; data of {trial.victim}" if trial.victim else "the job"
    row = judged(attack, JOB, protection, [replace(trial, ledger=told)], seconds=seconds)
    return msgspec.structs.replace(
        row,
        attacker=party if party == attack.attacker else f"{party} ({attack.attacker})",
        uses=tuple(name for name in attack.uses if name in received),
        measure=trial.measure or attack.measure,
    )
