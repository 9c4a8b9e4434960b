# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""All attacks there are, and a run of them on generated data."""

from __future__ import annotations

import time
from collections.abc import Sequence

from fedsift.config.toml import did_you_mean
from fedsift.errors import ParameterError
from fedsift.lab.attacks.attack import Attack, AttackReport, Echo, mount, silent
from fedsift.methods.execution import versions
from fedsift.methods.registry import ALIGN, ALIGNMENT, list_methods, load_address
from fedsift.methods.spec import Attacks

PROFILES = ("quick", "regular")


def attacks_on(name: str) -> Attacks | None:
    """Where the attacks on a method, or on ``align``, are; None if there are none."""
    if name == ALIGN:
        return ALIGNMENT
    found = [method.attacks for method in list_methods() if method.name == name]
    return found[0] if found and isinstance(found[0], Attacks) else None


def list_attacks() -> tuple[Attack, ...]:
    """All attacks: on the alignment, method by method, then those that concern several."""
    known = (attacks_on(name) for name in (ALIGN, *(method.name for method in list_methods())))
    from fedsift.lab.attacks import key_swap, known_seed  # which import all methods

    own_ones = (attack for own in known if own for attack in load_address(own.suite))
    return (*own_ones, *key_swap.ATTACKS, *known_seed.ATTACKS)


def attack_named(name: str) -> Attack:
    """Look an attack up."""
    attacks = list_attacks()
    for attack in attacks:
        if attack.name == name:
            return attack
    names = [attack.name for attack in attacks]
    raise ParameterError(
        f"There is no attack {name!r}.",
        f"Known: {', '.join(names)}.",
        did_you_mean(name, names, "See 'fedsift attack --list'."),
    )


def run_attacks(
    profile: str = "quick",
    names: Sequence[str] = (),
    echo: Echo = silent,
) -> AttackReport:
    """Mount attacks on generated data, in all their variants.

    Parameters
    ----------
    profile : {"quick", "regular"}
        How many runs there are per variant.
    names : sequence of str
        Attacks to mount; all of them if empty.
    echo : callable
        Given every row as soon as it is there.
    """
    chosen = [attack_named(name) for name in names] or list(list_attacks())
    start = time.perf_counter()
    rows = []
    for attack in chosen:
        for variant in attack.variants:
            rows.append(mount(attack, variant, attack.n_runs(profile)))
            echo(rows[-1])
    return AttackReport(profile, tuple(rows), time.perf_counter() - start, versions())
