# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""All attacks there are, and a run of them on generated data."""

from __future__ import annotations

import time
from collections.abc import Sequence

from fedsift.config.toml import did_you_mean
from fedsift.errors import ParameterError
from fedsift.lab.attacks.align import trials as attack_align
from fedsift.lab.attacks.attack import Attack, AttackReport, Echo, mount, silent
from fedsift.lab.attacks.dcfs import trials as attack_dcfs
from fedsift.lab.attacks.fedsdg import trials as attack_fedsdg
from fedsift.lab.attacks.filter import trials as attack_filter
from fedsift.lab.attacks.fpso import trials as attack_fpso
from fedsift.lab.attacks.interaction import trials as attack_interaction
from fedsift.lab.attacks.vfps import trials as attack_vfps
from fedsift.methods.execution import versions

PROFILES = ("quick", "regular")

ATTACKS: tuple[Attack, ...] = (
    *attack_align.ATTACKS,
    *attack_filter.ATTACKS,
    *attack_fedsdg.ATTACKS,
    *attack_interaction.ATTACKS,
    *attack_vfps.ATTACKS,
    *attack_dcfs.ATTACKS,
    *attack_fpso.ATTACKS,
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
