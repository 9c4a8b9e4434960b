# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a method needs of the parties before its run and for its result."""

from __future__ import annotations

from dataclasses import dataclass

from fedsift.protocol import Message


@dataclass(frozen=True)
class SetupNeeds:
    """What the sites of a job must know of each other to agree on its settings.

    Parameters
    ----------
    choices : tuple of Message types
        Messages whose kinds decide a setting: sent if everybody concerned allows them.
    n_classes : bool
        Whether a setting depends on the number of classes.
    common_words : bool
        Whether categories and classes need the same numbers at every party.
    labels : bool
        Whether the method looks at labels.
    """

    choices: tuple[type[Message], ...] = ()
    n_classes: bool = False
    common_words: bool = False
    labels: bool = True


@dataclass(frozen=True)
class ResultNeeds:
    """What a method's result needs.

    Parameters
    ----------
    order : bool
        Names behind scores in secret order.
    gates : bool
    operations : bool
        Numbers of operations, of participants and the neutral party.
    remarks : bool
        False where rows have a budget of privacy.
    """

    order: bool = False
    gates: bool = False
    operations: bool = False
    remarks: bool = True
