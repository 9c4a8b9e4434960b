# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A party that repeats the others' private draws from the seed in the job.

Method    All. The seed stands in the job, which every party reads.
Leak      In version 0.1.0 a seed drove every draw. Whoever knew it undid secret orders of columns,
          drew the anchors and the query rows again, and took noise off the votes.
Fix       Between organisations a seed drives public draws only; all others, and noise everywhere,
          come from the operating system (:mod:`fedsift.privacy.draws`).
Remains   Nothing. In one process a seed repeats draws, and whoever runs it has all the data.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.data import Federation, split_horizontal, split_vertical
from fedsift.lab.attacks.attack import UNPROTECTED, Attack, Trial
from fedsift.lab.attacks.recording import RecordingEngine, Stage
from fedsift.methods.dcfs.member import Member
from fedsift.methods.dcfs.selector import DCFSSelector
from fedsift.methods.dcfs.settings import ANCHOR_RANGE
from fedsift.methods.execution import execute
from fedsift.methods.fedsdg.selector import FedSDGSelector
from fedsift.methods.filter.selector import FilterSelector
from fedsift.methods.fpso.selector import FPSOSelector
from fedsift.methods.interaction.selector import InteractionSelector
from fedsift.methods.stepwise.selector import StepwiseSelector
from fedsift.methods.vfps.selector import VFPSSelector
from fedsift.protocol import Policy
from fedsift.testing.draws import let_seeds_drive_everything

Guess = Callable[[Stage, int], tuple[npt.ArrayLike, npt.ArrayLike]]
"""What the attacker draws from the seed, and what the victim drew."""

_VICTIM = "party-2"
_COLUMNS = 30


def _run(selector: Any, federation: Federation, variant: str) -> Stage:
    """Run a selector as parties at other sites do, with the seed in the job."""
    engine = RecordingEngine({})
    if variant == UNPROTECTED:
        with let_seeds_drive_everything():
            execute(selector.prepare(federation), engine=engine)
    else:
        execute(selector.prepare(federation), engine=engine)
    return engine.stages[-1]


def _by_columns(seed: int, n_parties: int = 2) -> Federation:
    rng = np.random.default_rng((seed, 1))
    y = rng.permutation(np.arange(60) % 2)
    return split_vertical(rng.normal(size=(60, _COLUMNS)) + y[:, None], y, n_parties)


def _by_rows(seed: int) -> Federation:
    rng = np.random.default_rng((seed, 2))
    y = rng.permutation(np.arange(240) % 2)
    return split_horizontal(
        rng.normal(size=(240, _COLUMNS)) + y[:, None], y, 3, task="classification", random_state=0
    )


def _role(stage: Stage, party: str, field: str) -> Any:
    """The role of a party that has something."""
    return next(role for role in stage.nodes[party] if hasattr(role, field))


def _order(stage: Stage, seed: int) -> tuple[npt.ArrayLike, npt.ArrayLike]:
    true = _role(stage, _VICTIM, "_order")._order
    return np.random.default_rng([seed, *_VICTIM.encode()]).permutation(len(true)), true


def _queries(stage: Stage, seed: int) -> tuple[npt.ArrayLike, npt.ArrayLike]:
    true = _role(stage, "party-1", "_queries")._queries
    return np.random.default_rng(seed).permutation(60)[: len(true)], true


def _anchors(stage: Stage, seed: int) -> tuple[npt.ArrayLike, npt.ArrayLike]:
    (member,) = (role for role in stage.nodes[_VICTIM] if isinstance(role, Member))
    true = member._inputs()["anchors"]
    uniform = np.random.default_rng(seed).random(true.shape)
    return np.round(ANCHOR_RANGE * (2 * uniform - 1), 6), np.round(true, 6)


def _votes(stage: Stage, seed: int) -> tuple[npt.ArrayLike, npt.ArrayLike]:
    voters = {party: _role(stage, party, "_votes") for party in stage.nodes if "party" in party[:5]}
    noise = next(iter(voters.values()))._params.noise(_COLUMNS)
    drawn = sum(noise.draw((_COLUMNS,), [seed, *party.encode()]) for party in voters)
    return stage.outcome.value.votes - drawn, sum(role._votes for role in voters.values())


def _mount(make: Callable[[int], Any], data: Callable[[int], Federation], guess: Guess) -> Any:
    def trial(variant: str, seed: int) -> Trial:
        stage = _run(make(seed), data(seed), variant)
        drawn, true = (np.asarray(values) for values in guess(stage, seed))
        return Trial(float((drawn == true).mean()), 0.0, *stage.told)

    return trial


def _selector(kind: Any, **settings: Any) -> Callable[[int], Any]:
    return lambda seed: kind(random_state=seed, **settings)


_attack = partial(
    Attack,
    unprotected="the seed drives every draw (version 0.1.0)",
    default="private draws come from the operating system",
    runs=(1, 3),
    tolerance=0.5,
)
_PLAIN = {"security": "plain"}
_WIDE = _PLAIN | {
    "policy": Policy(
        may_reveal=("basic", "products", "numeric-scores"), min_class_size=1, min_security_bits=0
    )
}
"""The label holder has more columns than its few rows allow otherwise."""
_NETWORK = {"max_epochs": 1, "outputs": 2, "init": "constant"}

ATTACKS = (
    _attack(
        name="known-seed",
        method="filter",
        attacker="label holder",
        uses=("SealedScores",),
        aims_at="the secret order of another party's columns, from the seed in the job",
        measure="columns in their place",
        trial=_mount(
            _selector(FilterSelector, n_features_to_select=2, **_PLAIN), _by_columns, _order
        ),
    ),
    _attack(
        name="known-seed-interaction",
        method="interaction",
        attacker="label owner",
        uses=("Offer",),
        aims_at="the secret order of another party's columns, from the seed in the job",
        measure="columns in their place",
        trial=_mount(
            _selector(InteractionSelector, n_features_to_select=2, **_PLAIN), _by_columns, _order
        ),
    ),
    _attack(
        name="known-seed-stepwise",
        method="stepwise",
        attacker="label holder",
        uses=("Offer",),
        aims_at="the secret order of another party's columns, from the seed in the job",
        measure="columns in their place",
        trial=_mount(
            _selector(StepwiseSelector, n_features_to_select=2, keep_own=False, **_WIDE),
            _by_columns,
            _order,
        ),
    ),
    _attack(
        name="known-seed-vfps",
        method="vfps",
        attacker="aggregator",
        uses=("ListsWanted",),
        aims_at="the rows that are queries, from the seed in the job",
        measure="query rows known",
        trial=_mount(
            _selector(VFPSSelector, n_participants=2, n_queries=10, n_groups=4, **_PLAIN),
            partial(_by_columns, n_parties=4),
            _queries,
        ),
    ),
    _attack(
        name="known-seed-fedsdg",
        method="fedsdg",
        attacker="label holder",
        uses=("GateSums",),
        aims_at="private draws of a feature holder, from the seed in the job",
        measure="columns in their place",
        trial=_mount(_selector(FedSDGSelector, **_NETWORK, **_PLAIN), _by_columns, _order),
    ),
    _attack(
        name="known-seed-dcfs",
        method="dcfs",
        attacker="coordinator",
        uses=("Images",),
        aims_at="the secret anchors of the members, from the seed in the job",
        measure="anchors known",
        trial=_mount(_selector(DCFSSelector, n_features_to_select=2), _by_rows, _anchors),
    ),
    _attack(
        name="known-seed-fpso",
        method="fpso",
        attacker="third party",
        uses=("NoisyVotes",),
        aims_at="exact votes behind the noise, from the seed in the job",
        measure="votes known",
        trial=_mount(
            _selector(FPSOSelector, n_features_to_select=2, epsilon=0.5, n_blocks=3),
            _by_rows,
            _votes,
        ),
    ),
)
