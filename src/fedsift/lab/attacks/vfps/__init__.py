# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Attacks on VF-PS."""

from fedsift.lab.attacks.vfps.techniques import CURIOUS
from fedsift.lab.attacks.vfps.trials import ATTACKS, attack_run

__all__ = ["ATTACKS", "CURIOUS", "attack_run"]
