# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The member of DCFS: what a party with rows does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedsift.crypto.masking import MaskingKey, PairwiseMasks, to_limbs
from fedsift.crypto.shuffle import deal, new_secret, receive
from fedsift.data.state_files import State
from fedsift.data.table import PartyTable
from fedsift.maths import moments
from fedsift.methods.dcfs import anchor, messages
from fedsift.methods.dcfs.settings import Params, Scale, anchors_for, column_moments, numbers_of
from fedsift.methods.dcfs.unsupervised import Floats, local_selection, ranks_of
from fedsift.protocol import MaskedArray, Network, PublicArray, handles
from fedsift.protocol.resume import Resumable

AnyImages = messages.Images | messages.ImagesOfKnownAnchors | messages.ImagesOfManyAnchors

SCORE_BITS = 40
"""Fraction bits of a masked score."""


def image_type(
    params: Params,
) -> type[messages.Images | messages.ImagesOfKnownAnchors | messages.ImagesOfManyAnchors]:
    """The message that names what images disclose under these settings."""
    if params.many_anchors:
        return messages.ImagesOfManyAnchors
    return messages.ImagesOfKnownAnchors if params.anchors_are_known else messages.Images


class Member(Resumable, name="member", signals=messages.SIGNALS):
    """Owns rows; shows images of anchors and masked sums, never rows."""

    def __init__(self, table: PartyTable, params: Params, checkpoints: Path | None = None) -> None:
        self.keep_checkpoints(checkpoints, table.name, params, table)
        self._table = table
        self._params = params
        self._values = numbers_of(table)
        self._key = MaskingKey.generate()
        self._masks: PairwiseMasks | None = None
        self._roster: messages.Roster | None = None
        self.secret = b""
        self.scale: Scale | None = None
        if params.scale == "own":
            self.scale = Scale.of_rows(self._values, params.scaling)
        self._state: anchor.Collaboration | None = None
        self._alone: Floats | None = None
        self._chosen: tuple[int, ...] = ()

    @handles(messages.Hello)
    async def greet(self, ask: messages.Hello, net: Network) -> messages.Greeting:
        """Offer its own masking key."""
        key = self._key.announce(net, net.members("member"))
        return messages.Greeting(key, self._table.n_columns)

    @handles(messages.Roster)
    async def meet(self, message: messages.Roster, net: Network) -> messages.SecretDealt:
        """Agree on masks; the first member deals the secret that anchors are drawn from."""
        self._roster = message
        self._masks = self._key.make_masks(net, message.keys, net.members("member"))
        dealer = net.party == next(iter(message.keys))
        # A resumed run goes on with the anchors it has.
        if not dealer or self.secret or self._params.alignment == "local":
            return messages.SecretDealt({})
        self.secret = new_secret()
        others = {party: key for party, key in message.keys.items() if party != net.party}
        return messages.SecretDealt(
            {p: deal(self.secret, self._key, net, p, key) for p, key in others.items()}
        )

    @handles(messages.AnchorSecret)
    async def take_secret(self, message: messages.AnchorSecret, net: Network) -> None:
        """Open the dealt secret; the coordinator that carried it cannot."""
        assert self._roster is not None  # noqa: S101 - the roster comes first
        dealer, public = next(iter(self._roster.keys.items()))
        self.secret = receive(message.sealed, self._key, net, dealer, public)

    @handles(messages.SumsWanted)
    async def sums(self, ask: messages.SumsWanted, net: Network) -> messages.MaskedSums:
        """Count, sum and sum of squares of every column, masked."""
        sums = column_moments(self._values)
        return messages.MaskedSums(self._sealed(sums, "sums", moments.LIMBS))

    @handles(messages.CommonScale)
    async def rescale(self, message: messages.CommonScale, net: Network) -> None:
        """Scale by what all members have in common."""
        shape = (self._table.n_columns,)
        self.scale = Scale(message.mean.array(shape=shape), message.unit.array(shape=shape))

    @handles(messages.ImagesWanted)
    async def start(self, ask: messages.ImagesWanted, net: Network) -> AnyImages:
        """Lines 1 and 2: scale, draw the anchors, project, show their first image."""
        with self.clock("train"):
            self._state = anchor.Collaboration(**self._inputs())
            return self._image()

    def _inputs(self) -> dict[str, Any]:
        """Scaled rows, anchors and settings of this member's part."""
        return {
            "X": self._known_scale().of(self._values),
            "anchors": anchors_for(self._params, self.secret, self._known_scale()),
            "alpha": self._params.alpha,
            "beta": self._params.beta,
            "n_dimensions": self._params.n_dimensions,
            "k": self._params.n_neighbors,
            "target": self._params.target,
        }

    @handles(messages.AlignOne)
    async def align_one(self, message: messages.AlignOne, net: Network) -> AnyImages:
        """Lines 3 and 4 with the matrix the coordinator computed for this party."""
        with self.clock("train"):
            self.collaboration.align(message.matrix.array())
            return self._image()

    @handles(messages.AlignAll)
    async def align_openly(self, message: messages.AlignAll, net: Network) -> AnyImages:
        """Lines 3 and 4 as the paper has them: everybody sees every image."""
        with self.clock("train"):
            images = {party: image.array() for party, image in message.images.items()}
            target = anchor.common_target(list(images.values()), self._params.n_components)
            self.collaboration.align(anchor.alignment_matrix(target, images[net.party]))
            return self._image()

    @handles(messages.ScoresWanted)
    async def scores(self, ask: messages.ScoresWanted, net: Network) -> messages.MaskedScores:
        """Line 5: its own scores, masked, so that only their mean appears; ranks if alone."""
        if self._params.alignment == "local":
            points = self._table.n_columns - ranks_of(self._select_alone())
            return messages.MaskedScores(self._sealed(points.tolist(), "ranks", 1))
        fixed = np.rint(np.ldexp(self.collaboration.scores, SCORE_BITS)).astype(np.int64)
        return messages.MaskedScores(self._sealed(fixed.tolist(), "scores", 1))

    def _select_alone(self) -> Floats:
        """Without anchors: the local baseline."""
        with self.clock("train"):
            weights = local_selection(
                self._known_scale().of(self._values),
                alpha=self._params.alpha,
                beta=self._params.beta,
                n_components=self._params.n_components,
                n_neighbors=self._params.n_neighbors,
                n_iterations=self._params.n_iterations,
            )
        self._alone = anchor.relative(weights)
        return self._alone

    @handles(messages.Chosen)
    async def choose(self, message: messages.Chosen, net: Network) -> None:
        """Remember the joint selection."""
        self._chosen = message.features

    def facts(self) -> dict[str, Any]:
        """This party's own ranking, which no other party sees."""
        scores = self.collaboration.scores if self._alone is None else self._alone
        return {"scores": scores, "selected": self._chosen}

    def checkpoint(self) -> State:
        """The scale, the anchors' secret, and how far this member's own matrices have come."""
        scale, state = self.scale, self._state
        return {
            "secret": self.secret,
            "scale": None if scale is None else [scale.mean, scale.unit],
            "state": None if state is None else state.to_plain(),
        }

    def restore(self, saved: State) -> None:
        """Go on after the last finished alignment."""
        self.secret = saved["secret"]
        if saved["scale"] is not None:
            self.scale = Scale(*saved["scale"])
        if saved["state"] is not None:
            with self.clock("train"):
                inputs = self._inputs()
                self._state = anchor.Collaboration.resumed(saved=saved["state"], **inputs)

    def _image(self) -> AnyImages:
        return image_type(self._params)(PublicArray.of(self.collaboration.image()))

    @property
    def collaboration(self) -> anchor.Collaboration:
        """This member's own state; there is one after ImagesWanted."""
        assert self._state is not None  # noqa: S101 - ImagesWanted comes first
        return self._state

    def _known_scale(self) -> Scale:
        assert self.scale is not None  # noqa: S101 - CommonScale comes first, if there is one
        return self.scale

    def _sealed(self, values: Sequence[int], context: str, limbs: int) -> MaskedArray:
        assert self._masks is not None  # noqa: S101 - the roster comes first
        if not self._params.protected:
            return MaskedArray.of(to_limbs(values, limbs))
        return MaskedArray.of(self._masks.mask(values, context, limbs))
