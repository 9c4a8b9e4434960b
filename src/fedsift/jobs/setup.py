# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Before a joint run: who brings what, and whether everybody agrees to the job.

Setting   Any. The coordinator is the party that will drive the method: the label holder, or a
          neutral one. A neutral party that does not drive the method is briefed.
Roles     *coordinator* (drives), *participant* (every other party with data), *neutral* (no data).
Adversary Honest but curious. A coordinator that lies about the job is refused by the fingerprint;
          one that swaps keys while the secret of the words is dealt, by the proofs that keys carry
          between organisations (:mod:`fedsift.crypto.identity`).

Who learns what
  coordinator  of every party: number of rows, names of features, kind of labels. It needs the names
               to say in the result which features were selected. Horizontally also which columns
               are categories, and which *digests* of categories and classes parties have in common.
  participant  number of rows of a coordinator that has data, number of features of all parties
               together, and common numbers for its own categories and classes.
  neutral      number of rows and of all features.

Nothing here depends on single values. A party whose policy forbids the job, or whose data does not
fit it, refuses before it sends anything that does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from fedsift.crypto import shuffle
from fedsift.crypto.identity import addressed
from fedsift.crypto.masking import MaskingKey
from fedsift.crypto.wire import PublicKeys
from fedsift.data.alignment import lacks_ids
from fedsift.data.part import Part
from fedsift.data.target import Target
from fedsift.errors import FileProblem, PartyError
from fedsift.jobs.categories import (
    check_digests,
    digest_words,
    find_own_codes,
    make_secret,
    no_secret,
    number_words,
)
from fedsift.jobs.setup_terms import (
    CLASSES,
    COORDINATOR,
    MESSAGES,
    NEUTRAL,
    NO_LABELS,
    NUMBERS,
    ONE_CLASS,
    PARTICIPANT,
    Agreed,
    Agreement,
    Briefing,
    HolderAgreement,
    HolderInvitation,
    Invitation,
    OwnOutline,
    PartySetup,
    SecretDealt,
    SecretWanted,
    Terms,
    WordNumbers,
    Words,
    WordsWanted,
    agreed_on,
    another_outline,
    check_classes,
    check_same,
    kinds_by_party,
)
from fedsift.protocol import (
    DrivingRole,
    Network,
    Protocol,
    PublicArray,
    RemoteRole,
    Role,
    handles,
)
from fedsift.protocol.policy import check_before, check_rows
from fedsift.protocol.role import errors_belong_to


class _PartyWithData:
    """What coordinator and participants do alike: read their data and check the job against it."""

    def __init__(self, party: str, terms: Terms, setup: PartySetup) -> None:
        self.party = party
        self._terms = terms
        self._setup = setup
        self._part: Part | None = None
        self._labels, self._n_classes = NO_LABELS, 0
        self.agreed: Agreed | None = None

    @property
    def part(self) -> Part:
        """The own data; read at the beginning."""
        assert self._part is not None  # noqa: S101 - open_part comes first
        return self._part

    def open_part(self) -> None:
        """Read the own data, look at its labels, and see whether the policy allows the job."""
        terms, policy = self._terms, self._setup.policy
        # What encryption and bins the job needs is known only once its settings are.
        sends = [pair for pair in self._setup.sends if pair[0] == self.party]
        bits = policy.min_security_bits
        check_before(terms.method, {self.party: policy}, sends, security_bits=bits)
        assert self._setup.load is not None  # noqa: S101 - asked of parties with data only
        try:
            self._part = self._setup.load()
        except FileProblem as error:
            # Where a party keeps its files is nobody else's business.
            raise PartyError(
                f"The data of party {self.party!r} cannot be read ({error.code}).",
                "A readable table is needed.",
                f"See the file of settings and the log at {self.party!r}.",
            ) from error
        check_rows(self.party, policy, self.part.n_rows)
        if terms.aligned and self.part.ids is None:
            raise lacks_ids(self.party)
        if terms.labelled and (terms.setting == "horizontal" or self.party == terms.coordinator):
            self._labels, self._n_classes = self._kind_of_labels()

    def foresee(self, n_rows: int, labels: str, n_classes: int) -> None:
        """Let the policy judge the method by what this party knows before it says anything."""
        if self._setup.foresee is None:
            return
        own, terms = self.part.feature_names, self._terms
        common = own if terms.setting == "horizontal" else ()
        rows = {terms.coordinator: n_rows, self.party: self.part.n_rows}
        features = {p: common for p in terms.parties if p != self.party}
        features = {**({self.party: own} if own else {}), **features}
        labels = CLASSES if labels == ONE_CLASS else labels
        known = Agreed(len(own), features, rows, labels, n_classes, {}, common)
        self._setup.foresee(replace(known, min_class_size=1))

    def _kind_of_labels(self) -> tuple[str, int]:
        fewest = 2 if self._terms.setting == "vertical" else 1
        target = self.part.target(self._terms.task, fewest_classes=fewest)
        if target is None:
            raise PartyError(
                f"Party {self.party!r} has no labels.",
                "The job uses its labels.",
                "Name the label column where the party's data is named.",
            )
        if target.kind == "numbers":
            return NUMBERS, 0
        return (CLASSES if target.n_classes > 1 else ONE_CLASS), target.n_classes

    @property
    def n_classes(self) -> int:
        """Number of own classes, if a setting depends on it."""
        return self._n_classes if self._terms.needs.n_classes else 0

    def outline(self, key: PublicKeys | None = None) -> OwnOutline:
        """What others may know of the own part."""
        table = self.part.table
        common = self._terms.setting == "horizontal"
        columns = table.columns if common and table is not None else ()
        return OwnOutline(
            self.part.n_rows,
            self.part.feature_names,
            tuple(column.name for column in columns if column.kind == "categorical"),
            self._labels,
            self._allows(),
            key if self._terms.numbers_words else None,
            self._setup.policy.smallest_class,
        )

    def words(self) -> dict[str, tuple[str, ...]]:
        """Categories and classes that need common numbers."""
        return self.part.words(self._target())

    def secret(self) -> bytes:
        """The secret that this party would deal to the others."""
        return make_secret(self.part, self._target(), self._terms.run)

    def _target(self) -> Target | None:
        if self._labels == NO_LABELS:
            return None
        return self.part.target(self._terms.task, fewest_classes=1)

    def _allows(self) -> tuple[str, ...]:
        """Kinds among the choices of the job that the own policy allows."""
        choices = (cls.declaration for cls in self._terms.needs.choices)
        return tuple(dict.fromkeys(d.kind for d in choices if self._setup.policy.allows(d)))

    def settle(self, agreed: Agreed) -> None:
        """Look at the whole job once more, then keep what was agreed."""
        if agreed.min_class_size < self._setup.policy.smallest_class:
            raise another_outline(self.party)
        if self._setup.review is not None:
            self._setup.review(agreed)
        self.agreed = agreed


class SetupParticipant(_PartyWithData, Role, name=PARTICIPANT):
    """A party with data that does not drive."""

    def __init__(self, party: str, terms: Terms, setup: PartySetup) -> None:
        super().__init__(party, terms, setup)
        self._secret = b""
        self._coordinator_rows, self._holder_labels = 0, (NO_LABELS, 0)

    @cached_property
    def _key(self) -> MaskingKey:
        return MaskingKey.generate()

    @handles(Invitation)
    async def introduce(self, ask: Invitation, net: Network) -> OwnOutline:
        """Say what there is, if this is the job this site knows and its policy allows it."""
        check_same(self.party, self._terms, ask.version, ask.job)
        with self.clock("prepare"):
            self.open_part()
            self.foresee(0, self._labels, 0)
        return self.outline(self._key.announce(net, net.members(PARTICIPANT)))

    @handles(HolderInvitation)
    async def introduce_to_holder(self, ask: HolderInvitation, net: Network) -> OwnOutline:
        """The same to a coordinator that has sent its number of rows."""
        check_same(self.party, self._terms, ask.version, ask.job)
        with self.clock("prepare"):
            self.open_part()
            self.foresee(ask.n_rows, ask.labels, ask.n_classes)
        self._coordinator_rows, self._holder_labels = ask.n_rows, (ask.labels, ask.n_classes)
        return self.outline()

    @handles(SecretWanted)
    async def deal(self, ask: SecretWanted, net: Network) -> SecretDealt:
        """Make the secret of the words and seal it for everybody else."""
        self._secret = self.secret()
        sealed = {
            p: shuffle.deal(self._secret, self._key, net, p, key) for p, key in ask.keys.items()
        }
        return SecretDealt(sealed)

    @handles(WordsWanted)
    async def tell_words(self, ask: WordsWanted, net: Network) -> Words:
        """Digests of the own categories and classes."""
        if ask.dealer is not None and ask.sealed is not None:
            dealer = net.members(PARTICIPANT)[0]
            self._secret = shuffle.receive(ask.sealed, self._key, net, dealer, ask.dealer)
        if not self._secret:
            # Digests without a secret would be as good as the words.
            raise no_secret()
        return Words(digest_words(self.words(), self._secret))

    @handles(Agreement)
    async def agree(self, message: Agreement, net: Network) -> None:
        """Check the whole job against the own data and policy; raise to refuse."""
        own, parties = self.part.feature_names, self._terms.parties
        if set(message.columns) != set(own) or len(message.columns) != len(own):
            raise another_outline(self.party)
        features = dict.fromkeys(parties, message.columns)
        labels = CLASSES if self._labels == ONE_CLASS else self._labels
        rows, allowed = {self.party: self.part.n_rows}, dict(message.allowed)
        with self.clock("prepare"):
            agreed = Agreed(len(own), features, rows, labels, 0, allowed, message.columns)
            self.settle(replace(agreed, min_class_size=message.min_class_size))

    @handles(HolderAgreement)
    async def agree_with_holder(self, message: HolderAgreement, net: Network) -> None:
        """The same where the coordinator is one of the parties."""
        own = self.part.feature_names
        if (self.party in message.tables) != bool(own) or message.n_features < len(own):
            raise another_outline(self.party)
        features = {party: own if party == self.party else () for party in message.tables}
        rows = {self._terms.coordinator: self._coordinator_rows, self.party: self.part.n_rows}
        allowed = dict(message.allowed)
        with self.clock("prepare"):
            agreed = Agreed(message.n_features, features, rows, *self._holder_labels, allowed)
            self.settle(replace(agreed, min_class_size=message.min_class_size))

    @handles(WordNumbers)
    async def take_numbers(self, message: WordNumbers, net: Network) -> None:
        """Keep the common numbers of the own categories and classes."""
        if self.agreed is None:
            raise no_secret()
        codes = find_own_codes(message.codes, message.sizes, self.words())
        self.agreed = replace(self.agreed, codes={self.party: codes})


class SetupNeutral(Role, name=NEUTRAL):
    """A party without data that takes part in the method and does not drive it."""

    def __init__(self, party: str, terms: Terms, setup: PartySetup) -> None:
        self.party = party
        self._terms = terms
        self._setup = setup
        self.agreed: Agreed | None = None

    @handles(Briefing)
    async def take_note(self, message: Briefing, net: Network) -> None:
        """Check the job and keep what was agreed."""
        check_same(self.party, self._terms, message.version, message.job)
        agreed = Agreed(
            message.n_features,
            dict.fromkeys(message.tables, ()),
            {self._terms.coordinator: message.n_rows},
            message.labels,
            message.n_classes,
            dict(message.allowed),
            min_class_size=message.min_class_size,
        )
        if self._setup.review is not None:
            self._setup.review(agreed)
        self.agreed = agreed


class SetupCoordinator(_PartyWithData, DrivingRole, name=COORDINATOR):
    """Asks everybody, checks that the parts fit together, and says what all will compute with."""

    async def drive(self, net: Network) -> Agreed:
        """Return what the coordinator knows of everybody."""
        participants, outlines = net.members(PARTICIPANT), dict[str, OwnOutline]()
        if self._setup.load is not None:
            with self.clock("prepare"):
                self.open_part()
                self.foresee(self.part.n_rows, self._labels, self.n_classes)
            outlines[self.party] = self.outline()
        if participants:
            replies = await net.ask(PARTICIPANT, self._invitation(), OwnOutline)
            outlines |= dict(zip(participants, replies, strict=True))
        agreed = agreed_on(self._terms, outlines, self.n_classes)
        with self.clock("prepare"):
            self.settle(agreed)
        if net.members(NEUTRAL):
            await net.tell(NEUTRAL, self._briefing(agreed))
        if participants:
            await net.tell(PARTICIPANT, self._agreement(agreed))
        if participants and self._terms.numbers_words:
            await self._number_words(outlines, net)
        return agreed

    def _invitation(self) -> Invitation | HolderInvitation:
        version, job = self._terms.version, self._terms.job
        if self._setup.load is None:
            return Invitation(version, job)
        return HolderInvitation(version, job, self.part.n_rows, self._labels, self.n_classes)

    def _agreement(self, agreed: Agreed) -> Agreement | HolderAgreement:
        allowed = dict(agreed.allowed)
        if self._setup.load is None:
            return Agreement(agreed.columns, allowed, agreed.min_class_size)
        features, smallest = tuple(agreed.features), agreed.min_class_size
        return HolderAgreement(features, agreed.n_features, allowed, smallest)

    def _briefing(self, agreed: Agreed) -> Briefing:
        return Briefing(
            self._terms.version,
            self._terms.job,
            agreed.n_rows.get(self.party, 0),
            agreed.labels,
            agreed.n_classes,
            tuple(agreed.features),
            agreed.n_features,
            dict(agreed.allowed),
            agreed.min_class_size,
        )

    async def _number_words(self, outlines: Mapping[str, OwnOutline], net: Network) -> None:
        """Common numbers of categories and classes; the words stay with the parties."""
        parties = list(outlines)
        keys = {party: outline.key for party, outline in outlines.items() if outline.key}
        dealer, *others = parties
        if set(keys) != set(parties):
            raise another_outline(", ".join(set(parties) - set(keys)))
        wanted = SecretWanted({party: addressed(keys, dealer)[party] for party in others})
        (dealt,) = await net.ask(PARTICIPANT, {dealer: wanted}, SecretDealt)
        asks = {dealer: WordsWanted(None, None)}
        for party in others:
            with errors_belong_to(dealer, "SecretWanted", 2):
                if party not in dealt.sealed:
                    raise no_secret()
            asks[party] = WordsWanted(addressed(keys, party)[dealer], dealt.sealed[party])
        replies = await net.ask(PARTICIPANT, asks, Words)
        for party, words in zip(parties, replies, strict=True):
            with errors_belong_to(party, "WordsWanted", 3):
                check_digests(words.digests)
        lists = {p: words.digests for p, words in zip(parties, replies, strict=True)}
        codes, sizes = number_words(lists)
        check_classes(sizes)
        numbers = {
            party: WordNumbers({name: PublicArray.of(one) for name, one in own.items()}, sizes)
            for party, own in codes.items()
        }
        await net.tell(PARTICIPANT, numbers)


def agree_here(terms: Terms, setups: Mapping[str, PartySetup]) -> tuple[Agreed, dict[str, Part]]:
    """What a setup would agree on with every party in this process; nothing is sent."""
    here = {party: _PartyWithData(party, terms, setups[party]) for party in terms.parties}
    for party_here in here.values():
        party_here.open_part()
    outlines = {party: party_here.outline() for party, party_here in here.items()}
    n_classes = here[terms.coordinator].n_classes if terms.coordinator in here else 0
    agreed = agreed_on(terms, outlines, n_classes)
    if terms.numbers_words:
        secret = here[terms.parties[0]].secret()
        words = {party: party_here.words() for party, party_here in here.items()}
        codes, sizes = number_words(
            {party: digest_words(own, secret) for party, own in words.items()}
        )
        check_classes(sizes)
        common = {
            party: {name: (own, sizes[name]) for name, own in lists.items()}
            for party, lists in codes.items()
        }
        agreed = replace(agreed, codes=common)
    return agreed, {party: party_here.part for party, party_here in here.items()}


PROTOCOL = Protocol(
    name="meeting", messages=MESSAGES, roles=(SetupCoordinator, SetupParticipant, SetupNeutral)
)


def build_nodes(terms: Terms, setups: Mapping[str, PartySetup]) -> dict[str, Sequence[Role]]:
    """One node per party; parties without one here are at other sites."""
    neutrals = () if terms.neutral is None else (terms.neutral,)
    kinds: dict[str, Any] = kinds_by_party(PROTOCOL, terms.coordinator, neutrals, terms.parties)
    return {
        party: (kind(party, terms, setups[party]) if party in setups else RemoteRole(kind),)
        for party, kind in kinds.items()
    }
