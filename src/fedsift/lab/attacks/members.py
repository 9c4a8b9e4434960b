# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Organisations that keep histories, for attacks by more than one job."""

from __future__ import annotations

import contextlib
import secrets
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from fedsift.crypto.masking import unmask_sum
from fedsift.data.part import Part, read_part
from fedsift.data.row_digests import digest_rows
from fedsift.data.sources import read_source
from fedsift.jobs.history import History, JobRecord
from fedsift.jobs.row_sets import HISTORY_FILE
from fedsift.jobs.run import LocalParty, run_joint
from fedsift.jobs.spec import JointJob
from fedsift.lab.attacks.attack import UNPROTECTED, Told
from fedsift.lab.attacks.recording import RecordingEngine, Stage
from fedsift.methods.filter.horizontal_messages import MaskedSums
from fedsift.protocol import Policy
from fedsift.result import SelectionResult

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
        local_parties = {
            party: self._local_party(job, party, table) for party, table in tables.items()
        }
        result = run_joint(job, local_parties, engine)
        assert result is not None  # noqa: S101 - the coordinator is in this process
        return result, engine.stages

    def forget(self, party: str) -> None:
        """Remove the history of a party, which is its own to remove."""
        if self.folder is not None:
            (self.folder / party / HISTORY_FILE).unlink(missing_ok=True)

    def _local_party(self, job: JointJob, party: str, table: pd.DataFrame) -> LocalParty:
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
