# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Alignment: a party asks about people by putting their ids on its list.

Method    align (private set intersection before any vertical method).
Leak      Private set intersection answers "which of my ids do you have too". A prober that pads its
          list with ids it only guesses learns who is in the other's table
          (:func:`members_among`). One that is told nothing but the size of the intersection asks
          about one person at a time: the size grows by one or it does not.
Fix       None: it is what an intersection says. Both sides learn how long the other's list is, and
          a policy with ``min_rows`` refuses a list that is shorter before any id is compared.
Remains   A list that is long enough and holds real ids besides the guesses passes. The answers are
          declared as ``common-ids``.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import numpy.typing as npt

from fedsift.data.ids import Ids
from fedsift.engine import run_local
from fedsift.errors import FedsiftError
from fedsift.jobs import align
from fedsift.lab.attacks.attack import OPTION, Attack, Trial
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


def _aligned(held: Ids, asked: Ids, least: int) -> tuple[np.ndarray, tuple[Disclosure, ...]]:
    """Rows of the prober's list that are common, and who learned what."""
    policies = {"holder": Policy(min_rows=least)}
    nodes = align.build_nodes({"prober": asked, "holder": held}, "prober", policies)
    outcome = run_local(align.PROTOCOL, nodes)
    (leader,) = nodes["prober"]
    return leader.facts()["rows"], outcome.ledger.rows()


def _padded_list(variant: str, seed: int) -> Trial:
    held, own, guesses = _tables(seed)
    least = _LEAST if variant == OPTION else 0
    common, ledger = _aligned(held, np.concatenate([own, guesses]), least)
    found = members_among(common, len(own), len(guesses))
    return Trial(float((found == np.isin(guesses, held)).mean()), 0.5, ledger)


def _sizes(variant: str, seed: int) -> Trial:
    """Asks with a short list, once without and once with each guess, and looks at sizes only."""
    held, own, guesses = _tables(seed)
    least = _LEAST if variant == OPTION else 0
    own, guesses = own[-_SHORT:], guesses[:4]
    own[0] = held[0]  # an alignment without a common row ends with an error
    points: list[float] = []
    ledger: tuple[Disclosure, ...] = ()
    for guess in guesses:
        try:
            without, ledger = _aligned(held, own, least)
            with_guess, ledger = _aligned(held, np.append(own, guess), least)
        except FedsiftError:
            points.append(0.5)  # refused: a coin
            continue
        points.append(float((len(with_guess) > len(without)) == (guess in held)))
    return Trial(float(np.mean(points)), 0.5, ledger)


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
        trial = Trial(float((said == true).mean()), max(share, 1 - share), stage.ledger)
        yield "psi-padded-list", party, trial


_attack = partial(
    Attack,
    method="align",
    attacker="id leader",
    uses=("BlindedSet", "TwiceBlinded"),
    measure="guesses answered rightly",
    unprotected="no policy",
    default="no policy (the default has no least number of rows)",
    runs=(1, 3),
    declared_as=("common-ids",),
)

ATTACKS = (
    _attack(
        name="psi-padded-list",
        aims_at="who is in the other party's table",
        option=f"policy with min_rows = {_LEAST}, which a long list passes",
        trial=_padded_list,
    ),
    _attack(
        name="psi-size-probing",
        aims_at="whether a person is in the other party's table, from sizes of intersections",
        option=f"policy with min_rows = {_LEAST}, which refuses a list of {_SHORT}",
        trial=_sizes,
    ),
)
