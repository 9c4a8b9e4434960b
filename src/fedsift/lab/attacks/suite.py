# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""All attacks there are, and a run of them on generated data."""

from __future__ import annotations

import time
from collections.abc import Sequence

from fedsift.config.toml import did_you_mean
from fedsift.errors import ParameterError
from fedsift.lab.attacks import align, dcfs, fedsdg, fpso, interaction, vfps
from fedsift.lab.attacks import filter as filters
from fedsift.lab.attacks.attack import Attack, AttackReport, Echo, mount, silent
from fedsift.methods.execution import versions

PROFILES = ("quick", "regular")

ATTACKS: tuple[Attack, ...] = (
    *align.ATTACKS,
    *filters.ATTACKS,
    *fedsdg.ATTACKS,
    *interaction.ATTACKS,
    *vfps.ATTACKS,
    *dcfs.ATTACKS,
    *fpso.ATTACKS,
)


def attack_named(name: str) -> Attack:
    """Look an attack up."""
    for attack in ATTACKS:
        if attack.name == name:
            return attack
    names = [attack.name for attack in ATTACKS]
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
    chosen = [attack_named(name) for name in names] or list(ATTACKS)
    start = time.perf_counter()
    rows = []
    for attack in chosen:
        for variant in attack.variants:
            rows.append(mount(attack, variant, attack.n_runs(profile)))
            echo(rows[-1])
    return AttackReport(profile, tuple(rows), time.perf_counter() - start, versions())
