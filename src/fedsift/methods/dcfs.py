# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""DCFS: unsupervised selection by parties with different rows, aligned through anchor data.

Paper 003 (Distributed Collaborative Feature Selection Based on Intermediate Representation).

Setting   Horizontal; no labels are used.
Roles     *coordinator* (drives, neutral, holds no data), *member* (any number, at least two).
Adversary Honest but curious. Members may collude with each other, not with the coordinator: only
          members know the anchors, only the coordinator sees the images (``alignment="server"``).

Who learns what
  coordinator  images B X^a of anchors it does not know; pooled sums of values, squares and scores.
  member       common mean and spread of every column; the matrix that aligns its own projection;
               the selected columns. With ``alignment="open"`` (the paper) also everybody's images.

Algorithm 1, line by line
  1  anchors                     Member.anchors (drawn from a secret that members share)
  2  initial projections (LPP)   anchor.Collaboration
  3  images, target, M_i         Images, Coordinator._align / Member.align_openly
  4  W_i, B_i, H_i               anchor.Collaboration.align
  5  rank by the rows of W_i     ScoresWanted, masked sums, Chosen

Deviations, each with its reason
  - M_i is q x p and has no inverse: B_i = pinv(M_i) W_i^T.
  - The update uses n x n matrices; the paper's m x m inverse gives the same numbers.
  - Everybody scales by common means and spreads, from masked sums; else scores do not compare.
  - If there are as many anchors as columns, whoever knows anchors and images recovers B_i exactly
    and, over the iterations, the span of the party's rows. More anchors than columns are refused
    unless ``allow_many_anchors`` says so, and the ledger then names it.
  - Anchors come from a public range in units of the common spread; ``anchor_range="parties"``
    (the paper: each party's minima and maxima) is declared as a disclosure of its own.
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
from fedsift.data.table import PartyTable
from fedsift.errors import ColumnError, ParameterError, PartyError, ValueProblem
from fedsift.maths import anchor, moments
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
    ImagesOfManyAnchors,
    MaskedSums,
    RangesWanted,
    Roster,
    ScoresWanted,
    SecretDealt,
    SumsWanted,
)
from fedsift.protocol import (
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

ANCHOR_RANGE = 3.0
"""Public range of the anchors, in units of the common spread around the common mean."""

SCORE_BITS = 40


@dataclass(frozen=True)
class Params:
    """Settings of one run, the same at every party (paper's symbols in brackets).

    Parameters
    ----------
    n_features_to_select : int
    alpha, beta : float
        Weight of sparsity and of the local structure.
    n_components : int
        Dimensions of the common target [q].
    n_dimensions : int
        Dimensions of the first projections [p].
    n_anchors : int
        Anchors in total [r].
    n_neighbors, n_iterations : int
    alignment : {"server", "open"}
    anchor_range : {"public", "parties"}
    many_anchors : bool
        More anchors than columns, allowed by an explicit override.
    protected : bool
        False sends sums without masks (``security="plain"``).
    seed : int, optional
        Makes anchors repeatable, for simulations; by default they come from a dealt secret.
    """

    n_features_to_select: int
    alpha: float = 1.0
    beta: float = 1.0
    n_components: int = 5
    n_dimensions: int = 10
    n_anchors: int = 100
    n_neighbors: int = 5
    n_iterations: int = 5
    alignment: str = "server"
    anchor_range: str = "public"
    many_anchors: bool = False
    protected: bool = True
    seed: int | None = None


def messages_used(params: Params) -> tuple[type[Message], ...]:
    """The messages a run with these settings sends, for plan and policy."""
    ranges = (RangesWanted, ColumnRanges) if params.anchor_range == "parties" else ()
    image = ImagesOfManyAnchors if params.many_anchors else Images
    align = AlignAll if params.alignment == "open" else AlignOne
    return (
        Hello,
        Greeting,
        Roster,
        SecretDealt,
        AnchorSecret,
        SumsWanted,
        MaskedSums,
        *ranges,
        CommonScale,
        image,
        align,
        ScoresWanted,
        Chosen,
    )


class Member(Role, name="member"):
    """Owns rows; shows images of anchors and masked sums, never rows."""

    def __init__(self, table: PartyTable, params: Params) -> None:
        self._table = table
        self._params = params
        self._values = _numbers(table)
        self._key = MaskingKey.generate()
        self._masks: PairwiseMasks | None = None
        self._roster: Roster | None = None
        self._secret = b""
        self._state: anchor.Collaboration | None = None
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
        if net.party != next(iter(told.keys)):
            return SecretDealt({})
        self._secret = new_secret()
        others = {party: key for party, key in told.keys.items() if party != net.party}
        return SecretDealt({p: deal(self._secret, self._key, key) for p, key in others.items()})

    @handles(AnchorSecret)
    async def take_secret(self, told: AnchorSecret, net: Network) -> None:
        """Open the dealt secret; the coordinator that carried it cannot."""
        assert self._roster is not None  # noqa: S101 - the roster comes first
        dealer = next(iter(self._roster.keys.values()))
        self._secret = receive(told.sealed, self._key, dealer)

    @handles(SumsWanted)
    async def sums(self, ask: SumsWanted, net: Network) -> MaskedSums:
        """Count, sum and sum of squares of every column, masked."""
        none, no_target = np.empty(0, dtype=np.int64), np.empty(0)
        numbers = [
            number
            for column in self._values.T
            for number in moments.column_sums(column, none, 0, no_target)
        ]
        return self._sealed(numbers, "sums", moments.LIMBS)

    @handles(RangesWanted)
    async def ranges(self, ask: RangesWanted, net: Network) -> ColumnRanges:
        """The paper's anchors need every party's smallest and largest values."""
        ends = np.stack([self._values.min(axis=0), self._values.max(axis=0)])
        return ColumnRanges(PublicArray.of(ends))

    @handles(CommonScale)
    async def start(self, told: CommonScale, net: Network) -> Images | ImagesOfManyAnchors:
        """Lines 1 and 2: scale, draw the anchors, project, show their first image."""
        m = self._table.n_columns
        mean, spread = told.mean.array(shape=(m,)), told.spread.array(shape=(m,))
        X = (self._values - mean) / np.where(spread > 0, spread, 1.0)
        low, high = told.low.array(shape=(m,)), told.high.array(shape=(m,))
        with self.clock("train"):
            self._state = anchor.Collaboration(
                X,
                self._anchors(low, high),
                alpha=self._params.alpha,
                beta=self._params.beta,
                n_dimensions=self._params.n_dimensions,
                k=self._params.n_neighbors,
            )
            return self._image()

    @handles(AlignOne)
    async def align_one(self, told: AlignOne, net: Network) -> Images | ImagesOfManyAnchors:
        """Lines 3 and 4 with the matrix the coordinator computed for this party."""
        with self.clock("train"):
            self._collaboration().align(told.matrix.array())
            return self._image()

    @handles(AlignAll)
    async def align_openly(self, told: AlignAll, net: Network) -> Images | ImagesOfManyAnchors:
        """Lines 3 and 4 as the paper has them: everybody sees every image."""
        with self.clock("train"):
            images = {party: image.array() for party, image in told.images.items()}
            target = anchor.common_target(list(images.values()), self._params.n_components)
            self._collaboration().align(anchor.alignment_matrix(target, images[net.party]))
            return self._image()

    @handles(ScoresWanted)
    async def scores(self, ask: ScoresWanted, net: Network) -> MaskedSums:
        """Line 5: the own scores, masked, so that only their mean appears."""
        fixed = np.rint(np.ldexp(self._collaboration().scores, SCORE_BITS)).astype(np.int64)
        return self._sealed(fixed.tolist(), "scores", 1)

    @handles(Chosen)
    async def choose(self, told: Chosen, net: Network) -> None:
        """Remember the joint selection."""
        self._chosen = told.features

    def facts(self) -> dict[str, Any]:
        """The own ranking, which no other party sees."""
        return {"scores": self._collaboration().scores, "selected": self._chosen}

    def _anchors(self, low: Floats, high: Floats) -> Floats:
        """Uniform numbers in the agreed range; the same at every member, unknown elsewhere."""
        seed = (
            int.from_bytes(self._secret, "big") if self._params.seed is None else self._params.seed
        )
        rng = np.random.default_rng(seed)
        return low + (high - low) * rng.random((self._params.n_anchors, len(low)))

    def _image(self) -> Images | ImagesOfManyAnchors:
        image = PublicArray.of(self._collaboration().image())
        return ImagesOfManyAnchors(image) if self._params.many_anchors else Images(image)

    def _collaboration(self) -> anchor.Collaboration:
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
        keys = {party: g.key for party, g in zip(members, greetings, strict=True)}
        dealt = await net.ask("member", Roster(keys), SecretDealt)
        await self._carry_secret(dealt[0].sealed, net)

        images = await self._first_images(len(members), greetings[0].n_features, net)
        for _ in range(self._params.n_iterations):
            with self.clock("train"):
                asks = self._align(dict(zip(members, images, strict=True)))
            images = self._read(await net.ask("member", asks, self._image_type), members)

        totals = unmask_sum(
            [r.sums.array() for r in await net.ask("member", ScoresWanted(), MaskedSums)]
        )
        scores = np.ldexp(np.array(totals, dtype=np.float64), -SCORE_BITS) / len(members)
        joint = _ranked(scores, self._params.n_features_to_select)
        await net.tell("member", Chosen(joint.selected))
        return joint

    @property
    def _image_type(self) -> type[Images] | type[ImagesOfManyAnchors]:
        return ImagesOfManyAnchors if self._params.many_anchors else Images

    async def _carry_secret(self, sealed: Mapping[str, Ciphertexts], net: Network) -> None:
        """Pass on what the first member sealed for the others."""
        await net.tell("member", {party: AnchorSecret(blob) for party, blob in sealed.items()})

    async def _first_images(self, n_members: int, n_features: int, net: Network) -> list[Floats]:
        """Common scale by masked sums, then everybody's first image."""
        replies = await net.ask("member", SumsWanted(), MaskedSums)
        totals = iter(unmask_sum([r.sums.array() for r in replies], moments.LIMBS))
        columns = [moments.read_column(totals, 0, with_target=False) for _ in range(n_features)]
        mean = np.array([float(c.sums[0] / c.counts[0]) for c in columns])
        spread = np.sqrt([moments.variance(c) for c in columns])
        low, high = await self._range(mean, spread, net)
        scale = CommonScale(*(PublicArray.of(a) for a in (mean, spread, low, high)))
        return self._read(await net.ask("member", scale, self._image_type), net.members("member"))

    async def _range(self, mean: Floats, spread: Floats, net: Network) -> tuple[Floats, Floats]:
        """Ends of the anchors' range in common units."""
        if self._params.anchor_range == "public":
            return np.full(len(mean), -ANCHOR_RANGE), np.full(len(mean), ANCHOR_RANGE)
        replies = await net.ask("member", RangesWanted(), ColumnRanges)
        ends = np.stack([reply.ends.array(shape=(2, len(mean))) for reply in replies])
        unit = np.where(spread > 0, spread, 1.0)
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
        self, replies: Sequence[Images | ImagesOfManyAnchors], members: Sequence[str]
    ) -> list[Floats]:
        images = []
        for party, reply in zip(members, replies, strict=True):
            with blaming(party, "CommonScale", 0):
                width = (reply.image.shape[0], self._params.n_anchors)
                images.append(np.asarray(reply.image.array(shape=width), dtype=np.float64))
        return images


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
        Images,
        ImagesOfManyAnchors,
        AlignOne,
        AlignAll,
        ScoresWanted,
        Chosen,
    ),
    roles=(Coordinator, Member),
)


def check_anchors(n_anchors: int, n_features: int, *, allowed: bool) -> bool:
    """Whether there are as many anchors as columns; refused unless explicitly allowed."""
    if n_anchors < n_features:
        return False
    if not allowed:
        raise ParameterError(
            f"{n_anchors} anchors for {n_features} columns.",
            "With as many anchors as columns, images give a party's projection away.",
            "Use fewer, or set allow_many_anchors=True to accept and record that disclosure.",
        )
    return True


def build_nodes(tables: Mapping[str, PartyTable], params: Params) -> dict[str, Sequence[Role]]:
    """A neutral coordinator and one member per party."""
    if "coordinator" in tables or len(tables) < 2:
        raise PartyError(
            f"The federation has {len(tables)} parties"
            + (", one named 'coordinator'." if "coordinator" in tables else "."),
            "DCFS needs at least two parties, none of them with the coordinator's name.",
            "Add or rename a party.",
        )
    nodes: dict[str, Sequence[Role]] = {"coordinator": (Coordinator(params),)}
    for party, table in tables.items():
        nodes[party] = (Member(table, params),)
    return nodes


def _numbers(table: PartyTable) -> Floats:
    """The table as complete numbers with enough rows for a neighbourhood."""
    for column in table.columns:
        if column.kind != "numeric":
            raise ColumnError(
                f"Column {column.name!r} of party {table.name!r} holds categories.",
                "DCFS needs numbers.",
                "Drop or encode the column at every party.",
            )
        if column.missing.any():
            raise ValueProblem(
                f"Column {column.name!r} of party {table.name!r} has missing values (NaN).",
                "DCFS needs complete columns.",
                "Fill the missing values at every party in the same way.",
            )
    if table.n_rows < 3:
        raise PartyError(
            f"Party {table.name!r} has {table.n_rows} rows.",
            "DCFS needs at least 3 rows at every party.",
            "Leave the party out or give it more rows.",
        )
    return table.numeric_matrix()


def _ranked(scores: Floats, n_select: int) -> Joint:
    order = np.argsort(-scores, kind="stable")
    ranks = np.empty(len(scores), dtype=np.int64)
    ranks[order] = np.arange(1, len(scores) + 1)
    return Joint(scores, tuple(np.sort(order[:n_select]).tolist()), ranks)
