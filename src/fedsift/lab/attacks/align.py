# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Alignment: a party asks about people by putting their ids on its list.

Method    align (private set intersection before any vertical method).
Leak      Private set intersection answers "which of my ids do you have too". A prober that pads its
          list with ids it only guesses learns who is in the other's table
          (:func:`members_among`). One that is told nothing but the size of the intersection asks
          about one person at a time: the size grows by one or it does not.
Fix       For the size: a member remembers how long lists were and which of its rows were common. A
          list that is a few ids longer or shorter is refused before any id is compared. One of the
          same length with a few other ids is noticed when the common rows differ from earlier ones
          in a few; then no more lists of that leader are compared.
          For the list: none, it is what an intersection says. Both sides learn how long the other's
          list is, a policy with ``min_rows`` refuses a shorter one and ``max_ids_asked`` a longer
          one, before any id is compared.
Remains   A list of a length that passes and that holds real ids besides the guesses is answered.
          The answers are declared as ``common-ids``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fedsift.data.ids import Ids
from fedsift.data.row_digests import digest_rows
from fedsift.data.sources import read_source
from fedsift.engine import run_local
from fedsift.errors import FedsiftError
from fedsift.jobs import align
from fedsift.jobs.history import History, JobRecord
from fedsift.lab.attacks.attack import OPTION, UNPROTECTED, Attack, Told, Trial
from fedsift.lab.attacks.members import submit
from fedsift.lab.attacks.recording import JobRun, Mounted, Stage
from fedsift.protocol import Policy
from fedsift.result import Disclosure

Flags = npt.NDArray[np.bool_]

_PEOPLE, _HELD, _OWN, _GUESSES = 400, 200, 120, 20
_SHORT = 30
"""Length of the list of a prober that asks one by one."""

_LEAST = 50
"""What a careful holder's policy asks for."""


def members_among(common: npt.NDArray[np.int64], n_own: int, n_guesses: int) -> Flags:
    """Which guesses were right, from the common rows of a list that is padded with them.

    Examples
    --------
    >>> members_among(np.array([0, 2, 5]), n_own=4, n_guesses=3).tolist()
    [False, True, False]
    """
    return np.isin(np.arange(n_own, n_own + n_guesses), common)


def _tables(seed: int) -> tuple[Ids, Ids, Ids]:
    """The holder's ids, ids the prober really has, and guesses, half of them right."""
    rng = np.random.default_rng(seed)
    people = np.array([f"person {i}" for i in rng.permutation(_PEOPLE)])
    held, others = people[:_HELD], people[_HELD:]
    own = np.concatenate([held[: _OWN // 2], others[: _OWN // 2]])
    half = _GUESSES // 2
    guesses = np.concatenate([held[-half:], others[-half:]])
    return held, own, rng.permutation(guesses)


def _aligned(
    held: Ids, asked: Ids, *, least: int = 0, folder: Path | None = None
) -> tuple[npt.NDArray[np.int64], Told, bool]:
    """Rows of the prober's list that are common, what was told, and whether any answer came.

    The holder keeps a history in ``folder``, if there is one.
    """
    policies = {"holder": Policy(min_rows=least)}
    job = submit("vertical", ["prober", "holder"], method="filter", aligned=True)
    history = None if folder is None else History(folder)
    records = {}
    ledger: tuple[Disclosure, ...] = ()
    if history is not None:
        history.begin(job, "holder")
        records["holder"] = JobRecord(history, job, "holder", policies["holder"], "holder")
    nodes = align.build_nodes({"prober": asked, "holder": held}, "prober", policies, records)
    try:
        if history is not None:
            raw = read_source({"id": held}, party="holder")
            records["holder"].charge(digest_rows(raw, ["id"], history.row_key))
        ledger = run_local(align.PROTOCOL, nodes).ledger.rows()
    except FedsiftError as error:
        if history is not None:
            history.end(job.fingerprint, error)
    # A leader that is refused after the comparison knows the common rows all the same.
    rows = nodes["prober"][0].facts()["rows"]
    return rows, (ledger, job.to_text()), len(rows) > 0


def _padded_list(variant: str, seed: int) -> Trial:
    held, own, guesses = _tables(seed)
    least = _LEAST if variant == OPTION else 0
    with tempfile.TemporaryDirectory(prefix="fedsift-attack-") as folder:
        kept = None if variant == UNPROTECTED else Path(folder)
        asked = np.concatenate([own, guesses])
        common, told, _ = _aligned(held, asked, least=least, folder=kept)
    found = members_among(common, len(own), len(guesses))
    return Trial(float((found == np.isin(guesses, held)).mean()), 0.5, *told)


def _sizes(variant: str, seed: int) -> Trial:
    """Asks with a short list, then with each guess added to it or put in place of its last id."""
    held, own, guesses = _tables(seed)
    own = own[-_SHORT:]
    own[0] = held[0]  # an alignment without a common row ends with an error
    points: list[float] = []
    with tempfile.TemporaryDirectory(prefix="fedsift-attack-") as folder:
        kept = None if variant == UNPROTECTED else Path(folder)
        without, told, _ = _aligned(held, own, folder=kept)
        for guess in guesses:
            for asked in (np.append(own, guess), np.append(own[:-1], guess)):
                rows, _, answered = _aligned(held, asked, folder=kept)
                if answered:
                    points.append(float((len(rows) > len(without)) == (guess in held)))
                    break
            else:
                points.append(0.5)  # refused: a coin
    return Trial(float(np.mean(points)), 0.5, *told)


def attack_run(run: JobRun, stage: Stage) -> Iterator[Mounted]:  # noqa: ARG001 - as all
    """The leader of an alignment knows which of its rows others have: the guess is the larger part.

    With more than two parties it is held against the rows that all have.
    """
    holders = stage.roles(align.IdHolder)
    for party, leader in stage.roles(align.IdLeader).items():
        ids = leader._ids
        true = np.ones(len(ids), dtype=bool)
        for holder in holders.values():
            true &= np.isin(ids, holder._ids)
        said = np.isin(np.arange(len(ids)), leader.facts()["rows"])
        share = float(true.mean())
        trial = Trial(float((said == true).mean()), max(share, 1 - share), *stage.told)
        yield "psi-padded-list", party, trial


_attack = partial(
    Attack,
    method="align",
    attacker="id leader",
    uses=("BlindedSet", "TwiceBlinded"),
    measure="guesses answered rightly",
    unprotected="members forget",
    runs=(1, 3),
    declared_as=("common-ids",),
)

ATTACKS = (
    _attack(
        name="psi-padded-list",
        aims_at="who is in the other party's table",
        default="members remember; the list is as long as other lists",
        option=f"policy with min_rows = {_LEAST}, which a long list passes",
        trial=_padded_list,
    ),
    _attack(
        name="psi-size-probing",
        aims_at="whether a person is in the other party's table, from sizes of intersections",
        default="members remember, and refuse lists that differ in fewer than min_row_change",
        trial=_sizes,
    ),
)
