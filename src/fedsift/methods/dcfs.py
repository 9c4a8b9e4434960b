# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""DCFS: unsupervised selection by parties with different rows, aligned through anchor data.

Paper 003 (Distributed Collaborative Feature Selection Based on Intermediate Representation).

Setting   Horizontal; no labels are used.
Roles     *coordinator* (drives, neutral, holds no data), *member* (any number, at least two).
Adversary Honest but curious. Members may collude with each other, not with the coordinator: only
          members know the anchors, only the coordinator sees the images (``alignment="server"``).
          A coordinator that colludes with one member is in the position of a member of the open
          mode. A malicious coordinator could swap masking keys and by that learn the anchors.
          All members but one can subtract their part from the common means and spreads: with two
          members each learns the other's.

Who learns what
  coordinator  images B X^a of anchors it does not know; pooled sums of values, squares and scores.
               Inner products of images tell it how alike the parties' projections are.
  member       common mean and spread of every column; the matrix that aligns its own projection;
               the selected columns. With ``alignment="open"`` (the paper) also everybody's images.
               With ``alignment="local"`` there are no anchors and no images at all.

Algorithm 1, line by line
  1  anchors                     settings.anchors_for (drawn from a secret that members share)
  2  initial projections (LPP)   anchor.Collaboration
  3  images, target, M_i         Images, Coordinator._align / Member.align_openly
  4  W_i, B_i, H_i               anchor.Collaboration.align
  5  rank by the rows of W_i     ScoresWanted, masked sums, Chosen

Deviations, each with its reason
  - M_i is q x p and has no inverse: B_i = pinv(M_i) W_i^T.
  - The update uses n x n matrices; the paper's m x m inverse gives the same numbers.
  - Everybody scales by common means and spreads, from masked sums; else scores do not compare.
  - ``target="exact"`` shares an orthonormal basis of the image instead of the image: the exact
    minimum of Eq. 6 and less to see. ``target="paper"`` is what is printed.
  - If there are as many anchors as columns, whoever knows anchors and images recovers B_i exactly
    and, over the iterations, the span of the party's rows. More anchors than columns are refused
    unless ``allow_many_anchors`` says so, and the ledger then names it.
  - Anchors come from a public range in units of the common spread; ``anchor_range="parties"``
    (the paper: each party's minima and maxima) is declared as a disclosure of its own. Anchors
    that are public or drawn from a seed are no secret of the members: declared as such.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.crypto.masking import MaskingKey, PairwiseMasks, to_limbs, unmask_sum
from fedsift.crypto.shuffle import deal, new_secret, receive
from fedsift.crypto.wire import Ciphertexts
from fedsift.data.outline import is_elsewhere
from fedsift.data.table import PartyTable
from fedsift.errors import BadFrame, ColumnError, PartyError
from fedsift.maths import anchor, moments
from fedsift.maths.unsupervised import local_selection, ranks_of
from fedsift.methods.dcfs_messages import (
    AlignAll,
    AlignOne,
    AnchorSecret,
    Chosen,
    ColumnRanges,
    CommonScale,
    Greeting,
    Hello,
    Images,
    ImagesOfKnownAnchors,
    ImagesOfManyAnchors,
    LocalScale,
    MaskedSums,
    RangesWanted,
    Roster,
    ScoresWanted,
    SecretDealt,
    SumsWanted,
)
from fedsift.methods.dcfs_settings import (
    ANCHOR_RANGE,
    Params,
    Scale,
    anchors_for,
    column_moments,
    common_units,
    numbers_of,
)
from fedsift.protocol import (
    Absent,
    DrivingRole,
    MaskedArray,
    Message,
    Network,
    Protocol,
    PublicArray,
    Role,
    handles,
)
from fedsift.protocol.network import blaming

Floats = npt.NDArray[np.float64]
AnyImages = Images | ImagesOfKnownAnchors | ImagesOfManyAnchors

SCORE_BITS = 40
"""Fraction bits of a masked score."""


def image_type(params: Params) -> type[Images | ImagesOfKnownAnchors | ImagesOfManyAnchors]:
    """The message that names what images disclose under these settings."""
    if params.many_anchors:
        return ImagesOfManyAnchors
    return ImagesOfKnownAnchors if params.anchors_are_known else Images


def messages_used(params: Params) -> tuple[type[Message], ...]:
    """The messages a run with these settings sends, for plan and policy."""
    opening = (Hello, Greeting, Roster, SecretDealt, SumsWanted, MaskedSums)
    closing = (ScoresWanted, Chosen)
    if params.alignment == "local":
        return (*opening, LocalScale, *closing)
    ranges = (RangesWanted, ColumnRanges) if params.anchor_range == "parties" else ()
    align = AlignAll if params.alignment == "open" else AlignOne
    return (*opening, AnchorSecret, *ranges, CommonScale, image_type(params), align, *closing)


class Member(Role, name="member"):
    """Owns rows; shows images of anchors and masked sums, never rows."""

    def __init__(self, table: PartyTable, params: Params) -> None:
        self._table = table
        self._params = params
        self._values = numbers_of(table)
        self._key = MaskingKey.generate()
        self._masks: PairwiseMasks | None = None
        self._roster: Roster | None = None
        self.secret = b""
        self._state: anchor.Collaboration | None = None
        self._local = np.zeros(table.n_columns)
        self._chosen: tuple[int, ...] = ()

    @handles(Hello)
    async def greet(self, ask: Hello, net: Network) -> Greeting:
        """Offer the own masking key."""
        return Greeting(self._key.public, self._table.n_columns)

    @handles(Roster)
    async def meet(self, told: Roster, net: Network) -> SecretDealt:
        """Agree on masks; the first member deals the secret that anchors are drawn from."""
        self._roster = told
        self._masks = PairwiseMasks(net.party, self._key, told.keys)
        if net.party != next(iter(told.keys)) or self._params.alignment == "local":
            return SecretDealt({})
        self.secret = new_secret()
        others = {party: key for party, key in told.keys.items() if party != net.party}
        return SecretDealt({p: deal(self.secret, self._key, key) for p, key in others.items()})

    @handles(AnchorSecret)
    async def take_secret(self, told: AnchorSecret, net: Network) -> None:
        """Open the dealt secret; the coordinator that carried it cannot."""
        assert self._roster is not None  # noqa: S101 - the roster comes first
        dealer = next(iter(self._roster.keys.values()))
        self.secret = receive(told.sealed, self._key, dealer)

    @handles(SumsWanted)
    async def sums(self, ask: SumsWanted, net: Network) -> MaskedSums:
        """Count, sum and sum of squares of every column, masked."""
        return self._sealed(column_moments(self._values), "sums", moments.LIMBS)

    @handles(RangesWanted)
    async def ranges(self, ask: RangesWanted, net: Network) -> ColumnRanges:
        """The paper's anchors need every party's smallest and largest values."""
        ends = np.stack([self._values.min(axis=0), self._values.max(axis=0)])
        return ColumnRanges(PublicArray.of(ends))

    @handles(CommonScale)
    async def start(self, told: CommonScale, net: Network) -> AnyImages:
        """Lines 1 and 2: scale, draw the anchors, project, show their first image."""
        shape = (self._table.n_columns,)
        ends = (told.mean, told.unit, told.low, told.high)
        scale = Scale(*(numbers.array(shape=shape) for numbers in ends))
        with self.clock("train"):
            self._state = anchor.Collaboration(
                scale.of(self._values),
                anchors_for(self._params, self.secret, scale),
                alpha=self._params.alpha,
                beta=self._params.beta,
                n_dimensions=self._params.n_dimensions,
                k=self._params.n_neighbors,
                target=self._params.target,
            )
            return self._image()

    @handles(AlignOne)
    async def align_one(self, told: AlignOne, net: Network) -> AnyImages:
        """Lines 3 and 4 with the matrix the coordinator computed for this party."""
        with self.clock("train"):
            self.collaboration.align(told.matrix.array())
            return self._image()

    @handles(AlignAll)
    async def align_openly(self, told: AlignAll, net: Network) -> AnyImages:
        """Lines 3 and 4 as the paper has them: everybody sees every image."""
        with self.clock("train"):
            images = {party: image.array() for party, image in told.images.items()}
            target = anchor.common_target(list(images.values()), self._params.n_components)
            self.collaboration.align(anchor.alignment_matrix(target, images[net.party]))
            return self._image()

    @handles(LocalScale)
    async def select_alone(self, told: LocalScale, net: Network) -> None:
        """Without anchors: the local baseline on commonly scaled rows."""
        shape = (self._table.n_columns,)
        mean, unit = told.mean.array(shape=shape), told.unit.array(shape=shape)
        with self.clock("train"):
            weights = local_selection(
                (self._values - mean) / unit,
                alpha=self._params.alpha,
                beta=self._params.beta,
                n_components=self._params.n_components,
                n_neighbors=self._params.n_neighbors,
                n_iterations=self._params.n_iterations,
            )
            self._local = anchor.relative(weights)

    @handles(ScoresWanted)
    async def scores(self, ask: ScoresWanted, net: Network) -> MaskedSums:
        """Line 5: the own scores, masked, so that only their mean appears; ranks if alone."""
        if self._params.alignment == "local":
            points = self._table.n_columns - ranks_of(self._local)
            return self._sealed(points.tolist(), "ranks", 1)
        fixed = np.rint(np.ldexp(self.collaboration.scores, SCORE_BITS)).astype(np.int64)
        return self._sealed(fixed.tolist(), "scores", 1)

    @handles(Chosen)
    async def choose(self, told: Chosen, net: Network) -> None:
        """Remember the joint selection."""
        self._chosen = told.features

    def facts(self) -> dict[str, Any]:
        """The own ranking, which no other party sees."""
        alone = self._params.alignment == "local"
        scores = self._local if alone else self.collaboration.scores
        return {"scores": scores, "selected": self._chosen}

    def _image(self) -> AnyImages:
        return image_type(self._params)(PublicArray.of(self.collaboration.image()))

    @property
    def collaboration(self) -> anchor.Collaboration:
        """This member's own state; there is one after CommonScale."""
        assert self._state is not None  # noqa: S101 - CommonScale comes first
        return self._state

    def _sealed(self, values: Sequence[int], context: str, limbs: int) -> MaskedSums:
        assert self._masks is not None  # noqa: S101 - the roster comes first
        if not self._params.protected:
            return MaskedSums(MaskedArray.of(to_limbs(values, limbs)))
        return MaskedSums(MaskedArray.of(self._masks.mask(values, context, limbs)))


@dataclass(frozen=True)
class Joint:
    """What the coordinator knows at the end: the mean score of every common column."""

    scores: Floats
    selected: tuple[int, ...]
    ranks: npt.NDArray[np.int64]


class Coordinator(DrivingRole, name="coordinator"):
    """Holds no data and does not know the anchors; aligns images and adds up masked numbers."""

    def __init__(self, params: Params) -> None:
        self._params = params

    async def drive(self, net: Network) -> Joint:
        """Algorithm 1 over all members."""
        members = net.members("member")
        greetings = await net.ask("member", Hello(), Greeting)
        n_features = _common_width(dict(zip(members, greetings, strict=True)))
        keys = {party: g.key for party, g in zip(members, greetings, strict=True)}
        dealt = await net.ask("member", Roster(keys), SecretDealt)
        mean, unit = await self._units(n_features, net)
        if self._params.alignment == "local":
            await net.tell("member", LocalScale(PublicArray.of(mean), PublicArray.of(unit)))
        else:
            await self._carry_secret(dealt[0].sealed, net)
            await self._collaborate(members, mean, unit, net)
        joint = await self._joint(len(members), n_features, net)
        await net.tell("member", Chosen(joint.selected))
        return joint

    async def _units(self, n_features: int, net: Network) -> tuple[Floats, Floats]:
        """Common means and units of all columns, by masked sums."""
        replies = await net.ask("member", SumsWanted(), MaskedSums)
        totals = iter(unmask_sum([r.sums.array() for r in replies], moments.LIMBS))
        columns = [moments.read_column(totals, 0, with_target=False) for _ in range(n_features)]
        return common_units(columns, self._params.scaling)

    async def _carry_secret(self, sealed: Mapping[str, Ciphertexts], net: Network) -> None:
        """Pass on what the first member sealed for the others."""
        await net.tell("member", {party: AnchorSecret(blob) for party, blob in sealed.items()})

    async def _collaborate(
        self, members: Sequence[str], mean: Floats, unit: Floats, net: Network
    ) -> None:
        """Lines 2 to 4: images in, alignments out, as often as agreed."""
        low, high = await self._range(mean, unit, net)
        scale = CommonScale(*(PublicArray.of(a) for a in (mean, unit, low, high)))
        kind = image_type(self._params)
        images = self._read(await net.ask("member", scale, kind), members, "CommonScale")
        for _ in range(self._params.n_iterations):
            with self.clock("train"):
                asks = self._align(dict(zip(members, images, strict=True)))
            asked = type(next(iter(asks.values()))).__name__
            images = self._read(await net.ask("member", asks, kind), members, asked)

    async def _range(self, mean: Floats, unit: Floats, net: Network) -> tuple[Floats, Floats]:
        """Ends of the anchors' range in common units."""
        if self._params.anchor_range == "public":
            return np.full(len(mean), -ANCHOR_RANGE), np.full(len(mean), ANCHOR_RANGE)
        replies = await net.ask("member", RangesWanted(), ColumnRanges)
        ends = np.stack([reply.ends.array(shape=(2, len(mean))) for reply in replies])
        return (ends[:, 0].min(axis=0) - mean) / unit, (ends[:, 1].max(axis=0) - mean) / unit

    def _align(self, images: Mapping[str, Floats]) -> dict[str, Message]:
        """Line 3: one matrix per party, or (the paper) all images to everybody."""
        if self._params.alignment == "open":
            everything = AlignAll({p: PublicArray.of(image) for p, image in images.items()})
            return dict.fromkeys(images, everything)
        target = anchor.common_target(list(images.values()), self._params.n_components)
        return {
            party: AlignOne(PublicArray.of(anchor.alignment_matrix(target, image)))
            for party, image in images.items()
        }

    def _read(
        self, replies: Sequence[AnyImages], members: Sequence[str], asked: str
    ) -> list[Floats]:
        """Images of the agreed number of anchors, or the failure of whoever sent another one."""
        most = max(self._params.n_dimensions, self._params.n_components)
        images = []
        for party, reply in zip(members, replies, strict=True):
            with blaming(party, asked, 0):
                shape = reply.image.shape
                if len(shape) != 2 or shape[1] != self._params.n_anchors or shape[0] > most:
                    raise BadFrame(
                        f"Images of shape {shape} arrived.",
                        f"At most {most} rows of {self._params.n_anchors} numbers were agreed, "
                        "one per anchor.",
                        "Check that all parties run the same job with the same anchors.",
                    )
                images.append(np.asarray(reply.image.array(), dtype=np.float64))
        return images

    async def _joint(self, n_members: int, n_features: int, net: Network) -> Joint:
        """Line 5: mean scores (mean ranks if everybody selects alone) from masked sums."""
        replies = await net.ask("member", ScoresWanted(), MaskedSums)
        totals = np.array(unmask_sum([r.sums.array() for r in replies]), dtype=np.float64)
        if self._params.alignment == "local":
            scores = totals / (n_members * max(1, n_features - 1))
        else:
            scores = np.ldexp(totals, -SCORE_BITS) / n_members
        order = np.argsort(-scores, kind="stable")[: self._params.n_features_to_select]
        return Joint(scores, tuple(np.sort(order).tolist()), ranks_of(scores))


PROTOCOL = Protocol(
    name="dcfs",
    messages=(
        Hello,
        Greeting,
        Roster,
        SecretDealt,
        AnchorSecret,
        SumsWanted,
        MaskedSums,
        RangesWanted,
        ColumnRanges,
        CommonScale,
        LocalScale,
        Images,
        ImagesOfKnownAnchors,
        ImagesOfManyAnchors,
        AlignOne,
        AlignAll,
        ScoresWanted,
        Chosen,
    ),
    roles=(Coordinator, Member),
)


def build_nodes(tables: Mapping[str, PartyTable], params: Params) -> dict[str, Sequence[Role]]:
    """A neutral coordinator and one member per party."""
    if "coordinator" in tables or len(tables) < 2:
        raise PartyError(
            f"The federation has {len(tables)} parties"
            + (", one named 'coordinator'." if "coordinator" in tables else "."),
            "DCFS needs at least two parties, none of them with the coordinator's name.",
            "Add or rename a party.",
        )
    if params.anchors is not None:
        anchor.check_width(params.anchors, next(iter(tables.values())).n_columns)
    nodes: dict[str, Sequence[Role]] = {"coordinator": (Coordinator(params),)}
    for party, table in tables.items():
        nodes[party] = (Absent(Member) if is_elsewhere(table) else Member(table, params),)
    return nodes


def _common_width(greetings: Mapping[str, Greeting]) -> int:
    """The number of columns that all members have."""
    widths = {party: greeting.n_features for party, greeting in greetings.items()}
    first, width = next(iter(widths.items()))
    for party, other in widths.items():
        if other != width:
            raise ColumnError(
                f"Party {first!r} has {width} columns, party {party!r} has {other}.",
                "All members need the same columns in the same order.",
                "Compare the column names of the parties.",
            )
    return width
