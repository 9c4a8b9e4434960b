# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Attacks on the alignment of rows: lists of ids that are padded with guesses."""

from __future__ import annotations

import numpy as np

from fedsift.data.ids import Ids
from fedsift.engine import run_local
from fedsift.errors import FedsiftError
from fedsift.jobs import align
from fedsift.lab.attacks.align import psi_probing
from fedsift.lab.attacks.attack import OPTION, Attack, Trial
from fedsift.protocol import Policy
from fedsift.result import Disclosure

_PEOPLE, _HELD, _OWN, _GUESSES = 400, 200, 120, 20
_SHORT = 30
"""Length of the list of a prober that asks one by one."""

_LEAST = 50
"""What a careful holder's policy asks for."""


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
    common, ledger = _aligned(held, psi_probing.padded(own, guesses), least)
    found = psi_probing.members_among(common, len(own), len(guesses))
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
            with_guess, ledger = _aligned(held, psi_probing.padded(own, np.array([guess])), least)
        except FedsiftError:
            points.append(0.5)  # refused: a coin
            continue
        said = psi_probing.member_by_sizes(len(without), len(with_guess))
        points.append(float(said == (guess in held)))
    return Trial(float(np.mean(points)), 0.5, ledger)


ATTACKS = (
    Attack(
        name="psi-padded-list",
        method="align",
        attacker="id leader",
        uses=("BlindedSet", "TwiceBlinded"),
        aims_at="who is in the other party's table",
        measure="guesses answered rightly",
        unprotected="no policy",
        default="no policy (the default has no least number of rows)",
        option=f"policy with min_rows = {_LEAST}, which a long list passes",
        trial=_padded_list,
        runs=(1, 3),
        declared_as=("common-ids",),
    ),
    Attack(
        name="psi-size-probing",
        method="align",
        attacker="id leader",
        uses=("BlindedSet", "TwiceBlinded"),
        aims_at="whether a person is in the other party's table, from sizes of intersections",
        measure="guesses answered rightly",
        unprotected="no policy",
        default="no policy (the default has no least number of rows)",
        option=f"policy with min_rows = {_LEAST}, which refuses a list of {_SHORT}",
        trial=_sizes,
        runs=(1, 3),
        declared_as=("common-ids",),
    ),
)
