# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a meeting is about: the job as every site knows it, and what a site knows afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from fedsift.data.part import Part
from fedsift.errors import Disagreement, ParameterError, PartyError, ValueProblem
from fedsift.methods.meeting_messages import (
    Agreement,
    Briefing,
    HolderInvitation,
    Invitation,
    OwnOutline,
    SecretDealt,
    SecretWanted,
    SeededWords,
    Words,
    WordsWanted,
)
from fedsift.methods.meeting_words import Codes
from fedsift.protocol import Message, Policy

NO_LABELS, CLASSES, ONE_CLASS, NUMBERS = "none", "classes", "one class", "numbers"


@dataclass(frozen=True)
class Wanted:
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
class Terms:
    """The job as every site knows it.

    Parameters
    ----------
    version, job : str
        Version of fedsift and fingerprint of the job; equal at all sites.
    method, setting : str
    parties : tuple of str
        With data, in the order of the job.
    chair : str
    neutral : str, optional
        Party without data; may be the chair.
    labelled : bool
        Whether labels are used: those of the chair (vertical) or of every party (horizontal).
    aligned : bool
        Whether rows are matched by ids.
    task : str
    categorical : tuple of str
    seed : int, optional
    wanted : Wanted
    """

    version: str
    job: str
    method: str
    setting: str
    parties: tuple[str, ...]
    chair: str
    neutral: str | None = None
    labelled: bool = True
    aligned: bool = False
    task: str = "auto"
    categorical: tuple[str, ...] = ()
    seed: int | None = None
    wanted: Wanted = field(default_factory=Wanted)

    @property
    def numbers_words(self) -> bool:
        """Whether categories and classes get common numbers: parties share columns, not rows."""
        return self.setting == "horizontal" and self.wanted.common_words


@dataclass(frozen=True, eq=False)
class Agreed:
    """What one site knows after the meeting.

    Parameters
    ----------
    n_features : int
        Of all parties together.
    features : mapping of party to feature names
        Parties with features; names are known to the chair (vertical) or to all (horizontal).
    n_rows : mapping of party to int
        As far as this site was told.
    labels : {"none", "classes", "numbers"}
    n_classes : int
    allowed : mapping of party to kinds
    columns : tuple of str
        Common order of columns that all share.
    codes : mapping of party to codes and size by list of words
        Of the parties that are at home here.
    """

    n_features: int
    features: Mapping[str, tuple[str, ...]]
    n_rows: Mapping[str, int]
    labels: str
    n_classes: int
    allowed: Mapping[str, tuple[str, ...]]
    columns: tuple[str, ...] = ()
    codes: Mapping[str, Mapping[str, tuple[Codes, int]]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Seat:
    """What a party at home takes to the meeting.

    Parameters
    ----------
    load : callable, optional
        Reads the party's data when it is first needed; a party without data has none.
    policy : Policy
    review : callable, optional
        Checks the job against policy and data once its settings are known, and raises to refuse.
    """

    policy: Policy
    load: Callable[[], Part] | None = None
    review: Callable[[Agreed], None] | None = None


def messages_used(terms: Terms) -> tuple[type[Message], ...]:
    """The messages a meeting on these terms sends, for plan and policy."""
    guests = [party for party in terms.parties if party != terms.chair]
    used: list[type[Message]] = []
    if guests:
        used += [HolderInvitation if terms.chair in terms.parties else Invitation, OwnOutline]
    if guests and terms.numbers_words:
        if terms.seed is None:
            used += [SecretWanted, SecretDealt]
        used += [WordsWanted, Words if terms.seed is None else SeededWords]
    if terms.neutral not in (None, terms.chair):
        used.append(Briefing)
    return (*used, Agreement) if guests else tuple(used)


def check_same(party: str, terms: Terms, version: str, job: str) -> None:
    """Refuse to compute together with a site that would compute something else."""
    if version != terms.version:
        raise Disagreement(
            f"Party {party!r} runs fedsift {terms.version}, the chair {version[:20]!r}.",
            "All sites of a job need the same version.",
            "Install the same version everywhere.",
        )
    if job != terms.job:
        raise Disagreement(
            f"Party {party!r} knows another job than the chair.",
            "All sites run the same job, to the last letter.",
            "Submit the job again.",
        )


def another_outline(party: str) -> ParameterError:
    """Build the error for a chair that makes up what a party told it."""
    return ParameterError(
        f"The chair describes party {party!r} otherwise than it is.",
        "A party has the features it told the chair.",
        "Check that all sites run the same version of fedsift.",
    )


def nobody_has_features() -> PartyError:
    """Build the error for parties without any column to choose from."""
    return PartyError(
        "No party has features.",
        "At least one party needs columns besides ids and label.",
        "Add a party with features.",
    )


def one_class() -> ValueProblem:
    """Build the error for labels that tell nothing."""
    return ValueProblem(
        "The label has one class only, the same at all parties.",
        "At least two classes are needed to judge features.",
        "Check that the right label is used and that no filter removed the other classes.",
    )
