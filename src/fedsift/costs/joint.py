# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Cost of what comes before and after a method that runs on the parties' own tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedsift.costs.counts import Counts, frame
from fedsift.crypto.wire import Ciphertexts
from fedsift.data import Federation
from fedsift.jobs import align, collect
from fedsift.jobs import setup_messages as messages
from fedsift.jobs.spec import JointJob
from fedsift.methods.needs import ResultNeeds
from fedsift.protocol import PublicArray

_POINT_BYTES = 35  # a point of the curve in the library's own encoding
_EMPTY = Ciphertexts("psi", ())
_FINGERPRINT = "0" * 64
_SALT = "0" * 32


def tally_joint(
    job: JointJob, federation: Federation, selector: Any, n_ids: Mapping[str, int]
) -> Counts:
    """Meeting, alignment and findings; ``n_ids`` are the rows before they are matched."""
    tally = Counts()
    participants = [party for party in job.parties if party != job.coordinator]
    _meet(tally, job, federation, participants)
    if job.aligned:
        _align(
            tally,
            federation.n_rows,
            n_ids[job.coordinator],
            [n_ids[party] for party in participants],
        )
    _find(tally, job, federation, selector._asked(job.setting), participants)
    return tally


def _meet(tally: Counts, job: JointJob, federation: Federation, participants: list[str]) -> None:
    version, n_rows = job.version, federation.n_rows
    without_data = job.coordinator not in job.parties
    invitation: Any = messages.HolderInvitation(version, _FINGERPRINT, n_rows, "classes", 0)
    agreement: Any = messages.HolderAgreement(tuple(job.parties), federation.n_features, {})
    if without_data:
        columns = tuple(next(iter(federation.tables.values())).feature_names)
        invitation = messages.Invitation(version, _FINGERPRINT)
        agreement = messages.Agreement(columns, {})
    for number, party in enumerate(participants):
        table = federation.tables.get(party)
        names = () if table is None else tuple(table.feature_names)
        outline = messages.OwnOutline(n_rows, names, (), "classes", (), None)
        tally.ask(invitation, outline, others=1)
        tally.ask(agreement, others=1)
        tally.rounds -= 2 * (number > 0)
    if job.neutral is not None and not without_data:
        briefing = messages.Briefing(
            version, _FINGERPRINT, n_rows, "classes", 0, job.parties, federation.n_features, {}
        )
        tally.ask(briefing, others=1)


def _align(tally: Counts, n_common: int, n_own: int, n_others: list[int]) -> None:
    """Private set intersection between the coordinator and everybody else."""
    start = align.AlignmentStart(_SALT, n_own)
    request = frame(align.BlindedIds(_EMPTY), (1, _POINT_BYTES * n_own))
    twice = frame(align.TwiceBlinded(_EMPTY), (1, _POINT_BYTES * n_own))
    common = PublicArray.of(np.zeros((n_common, 2), dtype=np.uint64))
    for number, count in enumerate(n_others):
        own = frame(align.BlindedSet(count, _EMPTY), (1, _POINT_BYTES * count))
        tally.ask(start, own, others=1)
        tally.ask(request, twice, others=1)
        tally.ask(align.CommonRows(common), others=1)
        tally.rounds -= 3 * (number > 0)
        tally.do("encrypt", "blind id", count)
        tally.do("evaluate", "blind id", n_own)
        tally.do("decrypt", "blind id", n_own)
    tally.do("encrypt", "blind id", n_own)


def _find(
    tally: Counts,
    job: JointJob,
    federation: Federation,
    asked: ResultNeeds,
    participants: list[str],
) -> None:
    told = [party for party in participants if party in federation.tables]
    for number, party in enumerate(told):
        n_columns = federation.tables[party].n_columns
        before = tally.rounds
        if asked.remarks:
            tally.ask(collect.RemarksWanted(), collect.Remarks((), ()), others=1)
        if asked.order:
            order = collect.SecretOrder(tuple(range(n_columns)))
            tally.ask(collect.OrderWanted(), order, others=1)
        if asked.gates:
            means = PublicArray.of(np.zeros(n_columns))
            gates = collect.NamedGates(means, tuple(range(n_columns // 2)))
            tally.ask(collect.GatesWanted(), gates, others=1)
        if asked.operations:
            counts = collect.OperationCounts({"encryptions": 100})
            tally.ask(collect.CountsWanted(), counts, others=1)
        if number:
            tally.rounds = before
    if asked.operations and job.neutral not in (None, job.coordinator):
        counts_of = {"ciphertext products": 100, "plaintext products": 1000, "rotations": 100}
        reply = collect.NeutralCounts(counts_of)
        tally.ask(collect.NeutralCountsWanted(), reply, others=1)
