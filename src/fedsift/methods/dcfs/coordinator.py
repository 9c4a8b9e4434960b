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
          With ``scale="pooled"`` all members but one can subtract their part from the common means
          and spreads: with two members each learns the other's.

Who learns what
  coordinator  images B X^a of anchors it does not know; the mean score of every column. Inner
               products of images tell it how alike the parties' projections are.
  member       the matrix that aligns its own projection; the selected columns. With
               ``alignment="open"`` (the paper) also everybody's images. With
               ``alignment="local"`` there are no anchors and no images at all.
  Only with ``scale="pooled"`` all of them learn the common mean and spread of every column.

Algorithm 1, line by line
  1  anchors                     settings.anchors_for (drawn from a secret that members share)
  2  initial projections (LPP)   anchor.Collaboration
  3  images, target, M_i         Images, Coordinator._align / Member.align_openly
  4  W_i, B_i, H_i               anchor.Collaboration.align
  5  rank by the rows of W_i     ScoresWanted, masked sums, Chosen

Deviations, each with its reason
  - M_i is q x p and has no inverse: B_i = pinv(M_i) W_i^T.
  - The update uses n x n matrices; the paper's m x m inverse gives the same numbers.
  - Every member scales by its own means and spreads, so that nothing has to be exchanged: a common
    mean tells whose rows are in it where columns are many. ``scale="pooled"`` takes common ones.
  - ``target="exact"`` shares an orthonormal basis of the image instead of the image: the exact
    minimum of Eq. 6 and less to see. ``target="paper"`` is what is printed.
  - If there are as many anchors as columns, whoever knows anchors and images recovers B_i exactly
    and, over the iterations, the span of the party's rows. More anchors than columns are refused
    unless ``allow_many_anchors`` says so, and the ledger then names it.
  - Anchors come from a public range in units of the spread; the paper's range, between the
    parties' minima and maxima, would publish those. Anchors that are public or drawn from a
    seed are no secret of the members: declared as such.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fedsift.crypto.identity import addressed
from fedsift.crypto.masking import unmask_sum
from fedsift.crypto.wire import Ciphertexts
from fedsift.data.state_files import State
from fedsift.data.table import PartyTable
from fedsift.errors import BadFrame, ColumnError
from fedsift.maths import moments
from fedsift.methods.dcfs import anchor, messages
from fedsift.methods.dcfs.member import SCORE_BITS, AnyImages, Member, image_type
from fedsift.methods.dcfs.settings import SUMS_PER_COLUMN, Params, Scale
from fedsift.methods.dcfs.unsupervised import ranks_of
from fedsift.protocol import Message, Network, Protocol, PublicArray, Role, make_role
from fedsift.protocol.resume import ResumableDriver
from fedsift.protocol.role import errors_belong_to

Floats = npt.NDArray[np.float64]


def messages_used(params: Params) -> tuple[type[Message], ...]:
    """The messages a run with these settings sends, for plan and policy."""
    used: list[type[Message]] = [
        messages.Hello,
        messages.Greeting,
        messages.Roster,
        messages.SecretDealt,
    ]
    if params.scale == "pooled":
        used += [messages.SumsWanted, messages.MaskedSums, messages.CommonScale]
    if params.alignment != "local":
        align = messages.AlignAll if params.alignment == "open" else messages.AlignOne
        used += [messages.AnchorSecret, messages.ImagesWanted, image_type(params), align]
    return (*used, messages.ScoresWanted, messages.MaskedScores, messages.Chosen)


@dataclass(frozen=True)
class Joint:
    """What the coordinator knows at the end: the mean score of every common column."""

    scores: Floats
    selected: tuple[int, ...]
    ranks: npt.NDArray[np.int64]


class Coordinator(ResumableDriver, name="coordinator", signals=messages.SIGNALS):
    """Holds no data and does not know the anchors; aligns images and adds up masked numbers."""

    def __init__(self, params: Params, checkpoints: Path | None = None) -> None:
        self._params = params
        self.keep_checkpoints(checkpoints, "coordinator", params)
        self._images: list[Floats] = []
        self._n_aligned = 0

    async def drive(self, net: Network) -> Joint:
        """Algorithm 1 over all members."""
        await self.begin(net)
        members = net.members("member")
        greetings = await net.ask("member", messages.Hello(), messages.Greeting)
        n_features = _common_width(dict(zip(members, greetings, strict=True)))
        keys = {party: g.key for party, g in zip(members, greetings, strict=True)}
        rosters = {party: messages.Roster(addressed(keys, party)) for party in keys}
        dealt = await net.ask("member", rosters, messages.SecretDealt)
        if self._params.scale == "pooled" and not self._images:
            await self._tell_scale(n_features, net)
        if self._params.alignment != "local":
            if not self._images:
                await self._start(members, dealt[0].sealed, net)
            await self._iterate(members, net)
        joint = await self._joint(len(members), n_features, net)
        await net.tell("member", messages.Chosen(joint.selected))
        await self.finish(net)
        return joint

    async def _tell_scale(self, n_features: int, net: Network) -> None:
        """Common means and units of all columns, by masked sums."""
        replies = await net.ask("member", messages.SumsWanted(), messages.MaskedSums)
        shape = (1 + SUMS_PER_COLUMN * n_features, moments.LIMBS)
        totals = unmask_sum([r.sums.array(shape=shape) for r in replies], moments.LIMBS)
        scale = Scale.of_sums(totals, self._params.scaling)
        common = messages.CommonScale(PublicArray.of(scale.mean), PublicArray.of(scale.unit))
        await net.tell("member", common)

    async def _start(
        self, members: Sequence[str], sealed: Mapping[str, Ciphertexts], net: Network
    ) -> None:
        """Lines 1 and 2: pass on what the first member sealed for the others, take first images."""
        await net.tell(
            "member", {party: messages.AnchorSecret(blob) for party, blob in sealed.items()}
        )
        replies = await net.ask("member", messages.ImagesWanted(), image_type(self._params))
        self._images = self._read(replies, members, "ImagesWanted")
        await self.done(net)

    async def _iterate(self, members: Sequence[str], net: Network) -> None:
        """Lines 3 and 4: images in, alignments out, as often as agreed."""
        kind = image_type(self._params)
        for _ in range(self._n_aligned, self._params.n_iterations):
            with self.clock("train"):
                asks = self._align(dict(zip(members, self._images, strict=True)))
            asked = type(next(iter(asks.values()))).__name__
            self._images = self._read(await net.ask("member", asks, kind), members, asked)
            self._n_aligned += 1
            await self.done(net)

    def checkpoint(self) -> State:
        """The members' latest images."""
        return {"images": self._images, "n_aligned": self._n_aligned}

    def restore(self, saved: State) -> None:
        """Go on after the last finished alignment."""
        self._images, self._n_aligned = saved["images"], saved["n_aligned"]

    def _align(self, images: Mapping[str, Floats]) -> dict[str, Message]:
        """Line 3: one matrix per party, or (the paper) all images to everybody."""
        if self._params.alignment == "open":
            everything = messages.AlignAll(
                {p: PublicArray.of(image) for p, image in images.items()}
            )
            return dict.fromkeys(images, everything)
        target = anchor.common_target(list(images.values()), self._params.n_components)
        return {
            party: messages.AlignOne(PublicArray.of(anchor.alignment_matrix(target, image)))
            for party, image in images.items()
        }

    def _read(
        self, replies: Sequence[AnyImages], members: Sequence[str], asked: str
    ) -> list[Floats]:
        """Images of the agreed number of anchors, or the failure of whoever sent another one."""
        most = max(self._params.n_dimensions, self._params.n_components)
        images = []
        for party, reply in zip(members, replies, strict=True):
            with errors_belong_to(party, asked, 0):
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
        replies = await net.ask("member", messages.ScoresWanted(), messages.MaskedScores)
        parts = [r.scores.array(shape=(n_features, 1)) for r in replies]
        totals = np.array(unmask_sum(parts), dtype=np.float64)
        if self._params.alignment == "local":
            scores = totals / (n_members * max(1, n_features - 1))
        else:
            scores = np.ldexp(totals, -SCORE_BITS) / n_members
        order = np.argsort(-scores, kind="stable")[: self._params.n_features_to_select]
        return Joint(scores, tuple(np.sort(order).tolist()), ranks_of(scores))


PROTOCOL = Protocol(
    name="dcfs",
    messages=messages.MESSAGES,
    roles=(Coordinator, Member),
)


def build_nodes(
    tables: Mapping[str, PartyTable], params: Params, checkpoints: Path | None = None
) -> dict[str, Sequence[Role]]:
    """A neutral coordinator and one member per party."""
    if params.anchors is not None:
        anchor.check_width(params.anchors, next(iter(tables.values())).n_columns)
    nodes: dict[str, Sequence[Role]] = {"coordinator": (Coordinator(params, checkpoints),)}
    for party, table in tables.items():
        nodes[party] = (make_role(Member, table, params, checkpoints),)
    return nodes


def _common_width(greetings: Mapping[str, messages.Greeting]) -> int:
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


__all__ = [
    "PROTOCOL",
    "Coordinator",
    "Joint",
    "Member",
    "build_nodes",
    "image_type",
    "messages_used",
]
