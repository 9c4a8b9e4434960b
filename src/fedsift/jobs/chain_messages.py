# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Between the steps of a chained job: which rows take part, and who and what stays.

Setting   Any; the same parties as in the setup.
Roles     *coordinator* (drives), *participant* (every other party with data), *neutral* (no data).
Adversary Honest but curious.

Who learns what
  participant  which of its own features stay and which parties do; which of the common rows have no
               label, if those are to be predicted.
  neutral      which parties stay.
  coordinator  which steps of an interrupted run the others have finished.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.errors import BadFrame, FileProblem
from fedsift.jobs.setup_terms import COORDINATOR, NEUTRAL, PARTICIPANT, kinds_by_party
from fedsift.protocol import (
    DrivingRole,
    Message,
    Network,
    Protocol,
    PublicArray,
    RemoteRole,
    Role,
    handles,
    message,
)

Rows = npt.NDArray[np.int64]
NOTHING = -1
"""Last finished step of a run that has not begun; 0 is one whose rows are known."""

_DOWN, _UP = f"{COORDINATOR} -> {PARTICIPANT}", f"{PARTICIPANT} -> {COORDINATOR}"


@message(flow=_DOWN, reveals="nothing: asks which steps of an interrupted run are finished")
class StepsWanted(Message, frozen=True):
    """Asks for finished steps."""


@message(flow=_UP, reveals="nothing: which steps of an interrupted run are finished")
class StepsDone(Message, frozen=True):
    """Steps that the sender can go on after, of which run, and whether it keeps any."""

    run: str
    steps: tuple[int, ...]
    keeps: bool


@message(flow=_DOWN, reveals="nothing: after which step the run goes on")
class GoOn(Message, frozen=True):
    """Go on after a step; a run without a name keeps nothing."""

    run: str
    step: int


@message(
    flow=_DOWN,
    reveals="unlabelled-rows: which of the common rows have no label and are to be predicted",
)
class RowsApart(Message, frozen=True):
    """Positions among the common rows."""

    rows: PublicArray


@message(
    flow=_DOWN,
    reveals="selected-features: which of the receiver's features stay, which parties do, and how "
    "many features that is in total",
)
class Staying(Message, frozen=True):
    """What a step has left; a party without a feature takes no part in the next one."""

    parties: tuple[str, ...]
    features: tuple[str, ...]
    n_features: int


@message(
    flow=f"{COORDINATOR} -> {NEUTRAL}",
    reveals="staying-parties: which parties stay, and with how many features in total",
)
class StayingParties(Message, frozen=True):
    """Who takes part in the next step, and which one that is."""

    step: int
    parties: tuple[str, ...]
    n_features: int


class ChainParticipant(Role, name=PARTICIPANT):
    """Takes note of what the coordinator says, if it can be true.

    Parameters
    ----------
    parties : sequence of str
        Those of the step before.
    features : sequence of str
        Own ones.
    n_rows : int
    done : StepsDone
        What can be gone on from here.
    """

    def __init__(
        self, parties: Sequence[str], features: Sequence[str], n_rows: int, done: StepsDone
    ) -> None:
        self._known = (set(parties), set(features), n_rows)
        self._done = done
        self.go_on_after: tuple[str, int] = ("", NOTHING)
        self.apart: Rows = np.empty(0, dtype=np.int64)
        self.staying: tuple[tuple[str, ...], tuple[str, ...], int] | None = None

    @handles(StepsWanted)
    async def tell_steps(self, ask: StepsWanted, net: Network) -> StepsDone:
        """Which steps are finished."""
        return self._done

    @handles(GoOn)
    async def go_on(self, message: GoOn, net: Network) -> None:
        """Begin, or go on after a step that is finished here."""
        if message.step == NOTHING and self._done.steps and message.run:
            raise FileProblem(
                f"Party {net.party!r} has finished steps of another unfinished run.",
                "A new run needs a directory without checkpoints.",
                "Resume that run, or remove its files or choose another directory.",
            )
        if message.step != NOTHING and (message.run, message.step) not in _each(self._done):
            raise lost_steps(net.party, message.step)
        self.go_on_after = (message.run, message.step)

    @handles(RowsApart)
    async def set_apart(self, message: RowsApart, net: Network) -> None:
        """Keep rows for the prediction."""
        rows = message.rows.array().astype(np.int64)
        n_rows = self._known[2]
        if rows.ndim != 1 or len(np.unique(rows)) != len(rows) or not _within(rows, n_rows):
            raise _impossible("rows", f"Positions below {n_rows}, each once at most, are needed.")
        self.apart = rows

    @handles(Staying)
    async def take_note(self, message: Staying, net: Network) -> None:
        """Keep what stays."""
        parties, features, _ = self._known
        known = set(message.parties) <= parties and set(message.features) <= features
        if not known or message.n_features < len(message.features):
            raise _impossible("parties or features", "Only what was there before can stay.")
        if bool(message.features) != (net.party in message.parties):
            raise _impossible("parties", "A party stays if one of its features does.")
        self.staying = (message.parties, message.features, message.n_features)


class ChainNeutral(Role, name=NEUTRAL):
    """A party without data, here or in a later step."""

    def __init__(self) -> None:
        self.staying: tuple[int, tuple[str, ...], int] | None = None

    @handles(StayingParties)
    async def take_note(self, message: StayingParties, net: Network) -> None:
        """Keep who stays."""
        self.staying = (message.step, message.parties, message.n_features)


Lead = Callable[[Network], Awaitable[Any]]


class ChainCoordinator(DrivingRole, name=COORDINATOR):
    """Leads one of the exchanges below."""

    def __init__(self, lead: Lead) -> None:
        self._lead = lead

    async def drive(self, net: Network) -> Any:
        """Return what the exchange brings."""
        return await self._lead(net)


def agree_on_start(
    done: StepsDone, new_run: str, left: Mapping[int, tuple[Sequence[str], int]]
) -> Lead:
    """Find the last step that everybody has finished.

    Parameters
    ----------
    done : StepsDone
        The coordinator's own.
    new_run : str
        Name of the run if it begins anew.
    left : mapping of step to parties and number of features
        What stayed after the coordinator's finished steps.

    Returns
    -------
    lead : callable
        Brings the run's name (empty: nobody keeps anything) and the step to go on after.
    """

    async def lead(net: Network) -> tuple[str, int]:
        participants = net.members(PARTICIPANT)
        if not done.keeps:
            return "", NOTHING
        others = await net.ask(PARTICIPANT, StepsWanted(), StepsDone) if participants else []
        run, step = done.run, NOTHING
        if done.steps:
            have = [_each(one) for one in (done, *others)]
            common = set.intersection(*have)
            if not common:
                short = next(
                    p for p, one in zip(participants, have[1:], strict=True) if not one & have[0]
                )
                raise lost_steps(short, max(done.steps))
            step = max(step for _, step in common)
        else:
            # A run that some could not continue is not worth anybody's files.
            run = new_run if all(one.keeps for one in others) else ""
        if participants:
            await net.tell(PARTICIPANT, GoOn(run, step))
        if step != NOTHING and net.members(NEUTRAL):
            parties, n_features = left[step]
            await net.tell(NEUTRAL, StayingParties(step, tuple(parties), n_features))
        return run, step

    return lead


def send_rows(rows: Rows) -> Lead:
    """Tell all participants which rows are to be predicted."""

    async def lead(net: Network) -> None:
        if net.members(PARTICIPANT):
            await net.tell(PARTICIPANT, RowsApart(PublicArray.of(rows)))

    return lead


def send_staying(
    step: int, parties: Sequence[str], features: Mapping[str, Sequence[str]], n_features: int
) -> Lead:
    """Tell every participant what of its own stays after a step, and who does."""

    async def lead(net: Network) -> None:
        stay = tuple(parties)
        own = {
            party: Staying(stay, tuple(features.get(party, ())), n_features)
            for party in net.members(PARTICIPANT)
        }
        if own:
            await net.tell(PARTICIPANT, own)
        if net.members(NEUTRAL):
            await net.tell(NEUTRAL, StayingParties(step, stay, n_features))

    return lead


MESSAGES = (StepsWanted, StepsDone, GoOn, RowsApart, Staying, StayingParties)
AT_START: tuple[type[Message], ...] = (StepsWanted, StepsDone, GoOn, StayingParties)
"""Messages of :func:`agree_on_start`."""
ROWS_APART: tuple[type[Message], ...] = (RowsApart,)
"""Messages of :func:`send_rows`."""
AFTER_A_STEP: tuple[type[Message], ...] = (Staying, StayingParties)
"""Messages of :func:`send_staying`."""
PROTOCOL = Protocol(
    name="chain", messages=MESSAGES, roles=(ChainCoordinator, ChainParticipant, ChainNeutral)
)


def build_nodes(
    coordinator: str,
    neutrals: Sequence[str],
    parties: Sequence[str],
    here: Mapping[str, Role],
) -> dict[str, Sequence[Role]]:
    """One node per party; those without a role here are at other sites."""
    kinds = kinds_by_party(PROTOCOL, coordinator, neutrals, parties)
    return {party: (here.get(party) or RemoteRole(kind),) for party, kind in kinds.items()}


def lost_steps(party: str, step: int) -> FileProblem:
    """Build the error for a party that cannot go on after a step."""
    return FileProblem(
        f"Party {party!r} has no checkpoint of step {step} of this run.",
        "A run resumes after a step that all parties have finished.",
        "Restore this party's files, or remove those of all parties and start again.",
    )


def _each(done: StepsDone) -> set[tuple[str, int]]:
    return {(done.run, step) for step in done.steps}


def _within(rows: Rows, n_rows: int) -> bool:
    return bool(len(rows)) and int(rows.min()) >= 0 and int(rows.max()) < n_rows


def _impossible(what: str, needed: str) -> BadFrame:
    return BadFrame(
        f"The coordinator names {what} that cannot be.",
        needed,
        "Check that all sites run the same version of fedsift.",
    )
