# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Attacks on FedSDG-FS."""

from fedsift.lab.attacks.fedsdg.trials import ATTACKS, attack_run
from fedsift.lab.attacks.fedsdg.views import CURIOUS

__all__ = ["ATTACKS", "CURIOUS", "attack_run"]
