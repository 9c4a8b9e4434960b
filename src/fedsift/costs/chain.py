# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Cost of what surrounds a method: setup, alignment and collection, and the steps of a chain.

Each step of a chain is priced on what the one before it will probably leave.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from fedsift.config.steps import PREDICT
from fedsift.costs.counts import Counts, frame
from fedsift.costs.estimate import Estimate, estimate
from fedsift.costs.rates import Rates
from fedsift.crypto.wire import Ciphertexts
from fedsift.data import Federation
from fedsift.data.federation import JointFederation
from fedsift.jobs import align, collect
from fedsift.jobs import setup_terms as messages
from fedsift.jobs.chain import keep_selected
from fedsift.jobs.spec import JointJob
from fedsift.methods.base import number_to_select
from fedsift.methods.checks import ResultNeeds
from fedsift.protocol import Policy, PublicArray

_ASSUMED = "Steps after a selection are priced as if every party kept the same share of features."
_NO_PREDICTION = "The prediction at the end is not part of the cost."

Around = Callable[[int, Federation, Any], Counts | None]
"""From a step's number, federation and selector to what comes before and after the method."""


def estimate_steps(
    selectors: Sequence[Any],
    federation: Federation,
    rates: Rates,
    around: Around | None = None,
    *,
    predicts: bool = False,
) -> Estimate | None:
    """Predict the cost of all steps; None if that of one cannot be predicted."""
    found: list[Estimate] = []
    for number, selector in enumerate(selectors, start=1):
        beside = None if around is None else around(number, federation, selector)
        one = estimate(selector, federation, rates, beside)
        if one is None:
            return None
        found.append(one)
        federation = _probably_left(federation, selector)
    remarks = dict.fromkeys(remark for one in found for remark in one.remarks)
    own = [*([_ASSUMED] if len(found) > 1 else []), *([_NO_PREDICTION] if predicts else [])]
    return Estimate(
        sum(one.seconds for one in found),
        sum(one.cpu_seconds for one in found),
        _added([one.phases for one in found]),
        sum(one.rounds for one in found),
        sum(one.messages for one in found),
        sum(one.n_bytes for one in found),
        sum(one.ciphertexts for one in found),
        _ends(found, [one.lowest for one in found]),
        _ends(found, [one.highest for one in found]),
        (*remarks, *own),
    )


def estimate_joint(
    job: JointJob,
    federation: Federation,
    rates: Rates,
    policies: Mapping[str, Policy],
    n_rows: Mapping[str, int],
) -> Estimate | None:
    """Predict the cost of a job on the parties' own tables; None if it cannot be predicted.

    Parameters
    ----------
    job : JointJob
    federation : Federation
        As it was planned.
    rates : Rates
    policies : mapping of party to Policy
    n_rows : mapping of party to int
        Before rows are matched.
    """
    if not job.steps:
        selector = job.selector(policy=policies)
        return estimate(selector, federation, rates, tally_joint(job, federation, selector, n_rows))
    names = [step.method for step in job.steps]
    numbers = [number for number, name in enumerate(names, start=1) if name != PREDICT]

    def around(number: int, left: Federation, selector: Any) -> Counts:
        step = job.step(number, tuple(left.parties))
        if number == 1:
            step = msgspec.structs.replace(step, aligned=job.aligned)
        return tally_joint(step, left, selector, n_rows)

    selectors = [job.step(number).selector() for number in numbers]
    predicts = len(numbers) < len(names)
    return estimate_steps(selectors, federation, rates, around, predicts=predicts)


def _probably_left(federation: Federation, selector: Any) -> Federation:
    """The same federation with as many participants or features as a step keeps."""
    settings = selector.get_params(deep=False)
    parties, kept_by_all = list(federation.tables), federation.setting == "horizontal"
    wanted = settings.get("n_participants")
    names = {party: list(table.feature_names) for party, table in federation.tables.items()}
    if wanted is not None:
        n_parties = int(wanted) if wanted >= 1 else max(1, round(wanted * len(parties)))
        names = {party: own for party, own in names.items() if party in parties[:n_parties]}
    elif isinstance(settings["n_features_to_select"], str):
        return federation  # it keeps all, or the data decides
    else:
        kept = number_to_select(settings["n_features_to_select"], federation.n_features)
        share = kept / federation.n_features
        names = {party: own[: max(1, round(share * len(own)))] for party, own in names.items()}
    left = keep_selected(federation, names)
    if isinstance(left, JointFederation):
        counts = [len(own) for own in names.values()]
        return replace(left, total_features=counts[0] if kept_by_all else sum(counts))
    return left


def _added(parts: Sequence[dict[str, float]]) -> dict[str, float]:
    totals: dict[str, float] = {}
    for part in parts:
        for name, amount in part.items():
            totals[name] = totals.get(name, 0.0) + amount
    return totals


def _ends(found: Sequence[Estimate], ends: Sequence[dict[str, float]]) -> dict[str, float]:
    """The range of all steps, if the data decides in one of them."""
    if not any(ends):
        return {}
    fixed = [{"seconds": one.seconds, "bytes": float(one.n_bytes)} for one in found]
    return _added([end or own for end, own in zip(ends, fixed, strict=True)])


_POINT_BYTES = 35  # a point of the curve in the library's own encoding
_EMPTY = Ciphertexts("psi", ())
_FINGERPRINT = "0" * 64
_SALT = "0" * 32


def tally_joint(
    job: JointJob, federation: Federation, selector: Any, n_ids: Mapping[str, int]
) -> Counts:
    """Setup, alignment and collection; ``n_ids`` are the rows before they are matched."""
    tally = Counts()
    participants = [party for party in job.parties if party != job.coordinator]
    _count_setup(tally, job, federation, participants)
    if job.aligned:
        _count_alignment(
            tally,
            federation.n_rows,
            n_ids[job.coordinator],
            [n_ids[party] for party in participants],
        )
    _count_collection(tally, job, federation, selector._asked(job.setting), participants)
    return tally


def _count_setup(
    tally: Counts, job: JointJob, federation: Federation, participants: list[str]
) -> None:
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


def _count_alignment(tally: Counts, n_common: int, n_own: int, n_others: list[int]) -> None:
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


def _count_collection(
    tally: Counts,
    job: JointJob,
    federation: Federation,
    asked: ResultNeeds,
    participants: list[str],
) -> None:
    named = [party for party in participants if party in federation.tables]
    for number, party in enumerate(named):
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
