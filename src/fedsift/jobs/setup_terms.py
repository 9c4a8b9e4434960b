# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a setup is about: its messages, the job as every site knows it, and what it knows then."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.data.federation import RemoteTable
from fedsift.data.horizontal import different_kinds, refuse_other_columns
from fedsift.data.part import LABEL, Part
from fedsift.data.vertical import different_rows, refuse_unknown_categorical
from fedsift.errors import Disagreement, ParameterError, PartyError, ValueProblem
from fedsift.jobs.categories import Codes
from fedsift.methods.checks import SetupNeeds
from fedsift.protocol import Message, Policy, Protocol, PublicArray, Role, message
from fedsift.protocol.message import Declaration
from fedsift.protocol.policy import SMALLEST_CLASS

NO_LABELS, CLASSES, ONE_CLASS, NUMBERS = "none", "classes", "one class", "numbers"


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
    coordinator : str
    neutral : str, optional
        Party without data; may be the coordinator.
    label_party : str, optional
        Who has the labels, in the vertical setting.
    labelled : bool
        Whether labels are used: those of the coordinator (vertical) or of every party (horizontal).
    aligned : bool
        Whether rows are matched by ids.
    task : str
    categorical : tuple of str
    run : str
        Names the computation: the same if a job is submitted again.
    needs : SetupNeeds
    """

    version: str
    job: str
    method: str
    setting: str
    parties: tuple[str, ...]
    coordinator: str
    neutral: str | None = None
    label_party: str | None = None
    labelled: bool = True
    aligned: bool = False
    task: str = "auto"
    categorical: tuple[str, ...] = ()
    run: str = ""
    needs: SetupNeeds = field(default_factory=SetupNeeds)

    @property
    def numbers_words(self) -> bool:
        """Whether categories and classes get common numbers: parties share columns, not rows."""
        return self.setting == "horizontal" and self.needs.common_words


@dataclass(frozen=True, eq=False)
class Agreed:
    """What one site knows after the setup.

    Parameters
    ----------
    n_features : int
        Of all parties together.
    features : mapping of party to feature names
        Parties with features; names are known to the coordinator (vertical) or to all (horizontal).
    n_rows : mapping of party to int
        As far as this site knows.
    labels : {"none", "classes", "numbers"}
    n_classes : int
    allowed : mapping of party to kinds
    columns : tuple of str
        Common order of columns that all share.
    min_class_size : int
        Fewest rows of a class of the label, by the strictest policy.
    codes : mapping of party to codes and size by list of words
        Of the parties of this site.
    """

    n_features: int
    features: Mapping[str, tuple[str, ...]]
    n_rows: Mapping[str, int]
    labels: str
    n_classes: int
    allowed: Mapping[str, tuple[str, ...]]
    columns: tuple[str, ...] = ()
    codes: Mapping[str, Mapping[str, tuple[Codes, int]]] = field(default_factory=dict)
    min_class_size: int = SMALLEST_CLASS


@dataclass(frozen=True, eq=False)
class PartySetup:
    """What a party of this site brings to the setup.

    Parameters
    ----------
    load : callable, optional
        Reads the party's data when it is first needed; a party without data has none.
    policy : Policy
    review : callable, optional
        Checks the job against policy and data once its settings are known, and raises to refuse.
    sends : sequence of (party, Declaration)
        What the job will disclose whatever its settings are; checked before the first message.
    foresee : callable, optional
        Given what the party knows at first: raises if the method needs kinds of disclosure that
        its policy does not allow, whatever the others bring. Called before it says anything.
    """

    policy: Policy
    load: Callable[[], Part] | None = None
    review: Callable[[Agreed], None] | None = None
    sends: Sequence[tuple[str, Declaration]] = ()
    foresee: Callable[[Agreed], None] | None = None


def messages_used(terms: Terms) -> tuple[type[Message], ...]:
    """The messages that a setup on these terms sends, for plan and policy."""
    participants = [party for party in terms.parties if party != terms.coordinator]
    used: list[type[Message]] = []
    if participants:
        used += [HolderInvitation if terms.coordinator in terms.parties else Invitation, OwnOutline]
    if terms.neutral not in (None, terms.coordinator):
        used.append(Briefing)
    if participants:
        used.append(HolderAgreement if terms.coordinator in terms.parties else Agreement)
    if participants and terms.numbers_words:
        used += [SecretWanted, SecretDealt, WordsWanted, Words, WordNumbers]
    return tuple(used)


def agreed_on(terms: Terms, outlines: Mapping[str, OwnOutline], n_classes: int) -> Agreed:
    """What follows from the outlines of all parties, if their parts fit together."""
    names = {party: outlines[party].features for party in terms.parties}
    rows = {party: outlines[party].n_rows for party in terms.parties}
    unknown = set(terms.categorical) - {name for own in names.values() for name in own}
    refuse_unknown_categorical(unknown, names)
    kinds = {outline.labels for outline in outlines.values()} - {NO_LABELS}
    labels = NUMBERS if NUMBERS in kinds else CLASSES if kinds else NO_LABELS
    features = {party: own for party, own in names.items() if own}
    columns: tuple[str, ...] = ()
    if not features:
        raise nobody_has_features()
    if terms.setting == "vertical":
        _check_rows(terms, rows)
        n_features = sum(len(own) for own in features.values())
    else:
        columns = _common_columns(outlines, terms.parties)
        features = dict.fromkeys(features, columns)
        n_features = len(columns)
        if NUMBERS in kinds and len(kinds) > 1:
            raise _different_labels()
        if kinds == {ONE_CLASS} and not terms.numbers_words:
            raise one_class()
    allowed = {party: outlines[party].allows for party in terms.parties}
    smallest = max(outlines[party].min_class_size for party in terms.parties)
    agreed = Agreed(n_features, features, rows, labels, n_classes, allowed, columns)
    return replace(agreed, min_class_size=smallest)


def check_classes(sizes: Mapping[str, int]) -> None:
    """Refuse labels of all parties together that have one class only."""
    if sizes.get(LABEL) == 1:
        raise one_class()


def _check_rows(terms: Terms, rows: Mapping[str, int]) -> None:
    """Without ids to match by, equal positions must mean equal rows."""
    first = terms.parties[0]
    for party, n_rows in rows.items():
        if n_rows != rows[first] and not terms.aligned:
            raise different_rows(first, rows[first], party, n_rows)


def _common_columns(
    outlines: Mapping[str, OwnOutline], parties: tuple[str, ...]
) -> tuple[str, ...]:
    """Columns in the first party's order; all parties need the same, of the same kinds."""
    tables = {party: RemoteTable(party, outlines[party].features) for party in parties}
    first = tables[parties[0]]
    known = set(outlines[first.name].categorical)
    for party, table in tables.items():
        refuse_other_columns(first, table)
        different = known ^ set(outlines[party].categorical)
        if different:
            raise different_kinds(first.name, party, sorted(different))
    return first.feature_names


def check_same(party: str, terms: Terms, version: str, job: str) -> None:
    """Refuse to compute together with a site that would compute something else."""
    if version != terms.version:
        raise Disagreement(
            f"Party {party!r} runs fedsift {terms.version}, the coordinator {version[:20]!r}.",
            "All sites of a job need the same version.",
            "Install the same version everywhere.",
        )
    if job != terms.job:
        raise Disagreement(
            f"Party {party!r} knows another job than the coordinator.",
            "All sites run exactly the same job.",
            "Submit the job again.",
        )


def another_outline(party: str) -> ParameterError:
    """Build the error for a coordinator that makes up what a party sent it."""
    return ParameterError(
        f"The coordinator describes party {party!r} otherwise than it is.",
        "A party has the features that it sent to the coordinator.",
        "Check that all sites run the same version of fedsift.",
    )


def _different_labels() -> ParameterError:
    return ParameterError(
        "The labels look like numbers at some parties and like classes at others.",
        "They must mean the same at every party.",
        'Say task = "classification" or "regression" in the job.',
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


COORDINATOR, PARTICIPANT, NEUTRAL = "coordinator", "participant", "neutral"
_DOWN, _UP = f"{COORDINATOR} -> {PARTICIPANT}", f"{PARTICIPANT} -> {COORDINATOR}"


@message(flow=_DOWN, reveals="nothing: which job and which version of fedsift")
class Invitation(Message, frozen=True):
    """From a coordinator without data; asks what the receiver brings along."""

    version: str
    job: str


@message(
    flow=_DOWN,
    reveals="outline: number of rows, and whether the labels are classes (how many, if a setting "
    "depends on it) or numbers",
)
class HolderInvitation(Message, frozen=True):
    """From a coordinator that is a party itself; asks what the receiver brings along."""

    version: str
    job: str
    n_rows: int
    labels: str
    n_classes: int


@message(
    flow=_UP,
    reveals="outline: number of rows, names of features and (where all need the same) which of "
    "them are categories, and whether the labels are numbers, classes or a single class",
)
class OwnOutline(Message, frozen=True, omit_defaults=True):
    """What a party brings along, and which of the disclosures that are a choice it allows.

    ``min_class_size`` is what its policy says.
    """

    n_rows: int
    features: tuple[str, ...]
    categorical: tuple[str, ...]
    labels: str
    allows: tuple[str, ...]
    key: PublicKeys | None
    min_class_size: int = SMALLEST_CLASS


@message(flow=_DOWN, reveals="nothing: the columns that all parties have, and what they allow")
class Agreement(Message, frozen=True, omit_defaults=True):
    """From a coordinator without data: what all sites compute the same settings from.

    ``columns`` is the common order of columns; ``allowed`` lists the disclosures by choice that
    each party allows; ``min_class_size`` is the strictest party's.
    """

    columns: tuple[str, ...]
    allowed: dict[str, tuple[str, ...]]
    min_class_size: int = SMALLEST_CLASS


@message(
    flow=_DOWN,
    reveals="total-feature-count: number of features of all parties together, and who has any",
)
class HolderAgreement(Message, frozen=True, omit_defaults=True):
    """From a coordinator that is a party itself: what all sites compute the same settings from."""

    tables: tuple[str, ...]
    n_features: int
    allowed: dict[str, tuple[str, ...]]
    min_class_size: int = SMALLEST_CLASS


@message(
    flow=f"{COORDINATOR} -> {NEUTRAL}",
    reveals="outline: number of rows, number of features of all parties together, and whether the "
    "labels are classes or numbers",
)
class Briefing(Message, frozen=True, omit_defaults=True):
    """What a party without data needs to compute the same settings."""

    version: str
    job: str
    n_rows: int
    labels: str
    n_classes: int
    tables: tuple[str, ...]
    n_features: int
    allowed: dict[str, tuple[str, ...]]
    min_class_size: int = SMALLEST_CLASS


@message(flow=_DOWN, reveals="nothing: public keys of the other parties")
class SecretWanted(Message, frozen=True):
    """Asks one party to deal a secret that the coordinator does not learn."""

    keys: dict[str, PublicKeys]


@message(flow=_UP, reveals="nothing: sealed for the other parties")
class SecretDealt(Message, frozen=True):
    """The secret for each of the others."""

    sealed: dict[str, Ciphertexts]


@message(flow=_DOWN, reveals="nothing: passes on what another party sealed")
class WordsWanted(Message, frozen=True):
    """Asks for the categories and classes of the receiver, as digests under the secret."""

    dealer: PublicKeys | None
    sealed: Ciphertexts | None


@message(
    flow=_UP,
    reveals="word-counts: how many categories and classes there are, and how many of them other "
    "parties have too; the words themselves are under a secret the receiver does not know",
)
class Words(Message, frozen=True):
    """Digests by column, two words each."""

    digests: dict[str, PublicArray]


@message(
    flow=_DOWN,
    reveals="word-counts: how many categories and classes all parties have together",
    about=PARTICIPANT,
)
class WordNumbers(Message, frozen=True):
    """Common numbers of the receiver's own words, and how many there are, by column."""

    codes: dict[str, PublicArray]
    sizes: dict[str, int]


MESSAGES = (
    Invitation,
    HolderInvitation,
    OwnOutline,
    Briefing,
    Agreement,
    HolderAgreement,
    SecretWanted,
    SecretDealt,
    WordsWanted,
    Words,
    WordNumbers,
)


def kinds_by_party(
    protocol: Protocol, coordinator: str, neutrals: Sequence[str], parties: Sequence[str]
) -> dict[str, type[Role]]:
    """Roles of all parties in a protocol of coordinator, participants and neutral parties."""
    lead, participant, neutral = protocol.roles
    kinds = dict.fromkeys(parties, participant) | dict.fromkeys(neutrals, neutral)
    return kinds | {coordinator: lead}
