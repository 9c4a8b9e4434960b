# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a run leaves behind: the selection, what it cost, and who learned what. Plain JSON."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from fedsift import hooks
from fedsift.errors import FileProblem

if TYPE_CHECKING:
    import pandas as pd

FORMAT = "fedsift-result/1"

SURVIVAL_TIMES = "survival times"
"""What the shape of a result says of such labels; nothing of others."""

Written = TypeVar("Written")


class Disclosure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One row of the ledger: a party learned something about another party's data.

    ``step`` is the step of a chained job; 0 is the time before its first one, and any other job.
    """

    learner: str
    learner_role: str
    about: str
    about_role: str
    kind: str
    what: str
    form: str
    key_owner: str
    message: str
    times: int = 1
    n_bytes: int = 0
    step: int = 0


class TrafficRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All messages of one type from one party to another."""

    message: str
    sender: str
    receiver: str
    messages: int
    n_bytes: int
    ciphertexts: int


class Traffic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Counts measured on the encoded bytes.

    ``lines`` commit to every message until the result is finished; its ``commitments`` have them
    then, signed.
    """

    rounds: int = 0
    messages: int = 0
    n_bytes: int = 0
    ciphertexts: int = 0
    rows: tuple[TrafficRow, ...] = ()
    lines: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        """All bytes that crossed between parties."""
        return self.n_bytes

    @property
    def by_message(self) -> dict[str, int]:
        """Bytes by message type."""
        totals: dict[str, int] = {}
        for row in self.rows:
            totals[row.message] = totals.get(row.message, 0) + row.n_bytes
        return totals

    @property
    def by_party(self) -> dict[str, int]:
        """Bytes sent by each party."""
        totals: dict[str, int] = {}
        for row in self.rows:
            totals[row.sender] = totals.get(row.sender, 0) + row.n_bytes
        return totals


class SignedChain(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Entries that one party signed, in order: ``number|content|signature``.

    ``end`` signs their ``count`` and ``head``, a hash over all of them; ``key`` is the public key.
    """

    party: str
    key: str
    entries: tuple[str, ...]
    count: int
    head: str
    end: str


class Commitments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What ``fedsift verify`` checks a ledger against.

    Attributes
    ----------
    run : str
        Names the run; part of everything that is signed.
    messages : tuple of SignedChain
        For every party, what it sent and received.
    rows : SignedChain
        Digests of the rows of the ledger, signed by the party that wrote the result.
    outcome : SignedChain, optional
        Digests of the other parts of the result, such as the selection and the scores, signed by
        the same party.
    """

    run: str
    messages: tuple[SignedChain, ...]
    rows: SignedChain
    outcome: SignedChain | None = None

    @property
    def fingerprint(self) -> str:
        """Short name of all keys together, to be compared with what the run printed."""
        chains = [*self.messages, self.rows, *([] if self.outcome is None else [self.outcome])]
        keys = sorted({(one.party, one.key) for one in chains})
        digest = hashlib.sha256(msgspec.json.encode(keys)).hexdigest()[:24]
        return " ".join(digest[i : i + 4] for i in range(0, len(digest), 4))


class SelectionResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The same object the estimators keep as ``result_`` and the command line writes as JSON.

    Attributes
    ----------
    selected : dict of party -> feature names
    scores : dict of party -> feature name -> score
        Only what the policies let out to the holder of this result.
    history : tuple of dict
        One entry per round or step, method by method.
    traffic, timings, disclosures
        Cost and ledger of the run.
    security : {"secure", "plain"}
    steps : tuple of SelectionResult
        Results of all steps of a chained job; the other attributes are those of its last selection,
        with the cost and the ledger of the whole chain.
    predicted : dict
        What 'fedsift run' predicted before the run (seconds, bytes, rounds, ciphertexts) and, under
        ``took``, what it took; empty where nothing was predicted.
    commitments : Commitments, optional
        Signatures of all parties on messages, ledger, selection and the rest, for 'fedsift verify';
        missing in results of version 0.1.0.
    p_values, q_values : dict of party -> feature name -> probability
        How likely a score at least as good is if the feature tells nothing of the label, and the
        share of false discoveries among all features that are at least as significant; empty where
        the method has none. Kept back wherever scores are.
    distance_bits : float, optional
        What owners of keys decrypt is within a statistical distance of ``2**-distance_bits`` of
        what does not depend on others' data, beside the results that the ledger lists; for all
        ciphertexts of the run together. Missing where there are none.
    created : str
        When the result was signed, in ISO 8601 and UTC.
    """

    method: str
    setting: str
    selected: dict[str, tuple[str, ...]]
    scores: dict[str, dict[str, float]] = {}
    ranking: dict[str, dict[str, int]] = {}
    history: tuple[dict[str, Any], ...] = ()
    participants: dict[str, float] = {}
    traffic: Traffic = Traffic()
    timings: dict[str, float] = {}
    disclosures: tuple[Disclosure, ...] = ()
    parameters: dict[str, Any] = {}
    security: str = "secure"
    security_bits: int = 0
    crypto: str = ""
    seed: int | None = None
    shape: dict[str, Any] = {}
    versions: dict[str, str] = {}
    warnings: tuple[str, ...] = ()
    format: str = FORMAT
    steps: tuple[SelectionResult, ...] = ()
    predicted: dict[str, Any] = {}
    commitments: Commitments | None = None
    distance_bits: float | None = None
    p_values: dict[str, dict[str, float]] = {}
    q_values: dict[str, dict[str, float]] = {}
    created: str = ""

    @property
    def run_id(self) -> str:
        """Name of the run, the same at all parties; empty in results that are not signed."""
        return "" if self.commitments is None else self.commitments.run

    @property
    def n_selected(self) -> int:
        """Number of selected features; columns that all parties share count once."""
        if self.setting == "horizontal":
            return len({name for names in self.selected.values() for name in names})
        return sum(len(names) for names in self.selected.values())

    def headline(self) -> str:
        """Return a one-sentence summary of the selection."""
        by_party = ", ".join(f"{party} {len(names)}" for party, names in self.selected.items())
        where = f"common to {len(self.selected)} parties"
        methods = " > ".join(step.method for step in self.steps) or self.method
        return (
            f"{methods}: {self.n_selected} features selected "
            f"({where if self.setting == 'horizontal' else by_party})."
        )

    def to_json(self) -> str:
        """Indented JSON."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode()

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the result as JSON, completely or not at all."""
        return write_atomically(path, self.to_json())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SelectionResult:
        """Read a result file written by :meth:`save`."""
        which = "result.json that 'fedsift run' wrote"
        return read_written(path, cls, "result file", FORMAT, which)

    def to_frame(self) -> pd.DataFrame:
        """Return a table with one row per feature that the result names.

        Columns are ``party``, ``feature``, ``selected``, ``rank``, ``score``, ``p_value`` and
        ``q_value``; what is not known is missing.
        """
        import pandas as pd

        known: dict[str, Mapping[str, Mapping[str, float]]] = {
            "rank": self.ranking, "score": self.scores,
            "p_value": self.p_values, "q_value": self.q_values,
        }  # fmt: skip
        rows = []
        for party in dict.fromkeys(p for one in (self.selected, *known.values()) for p in one):
            chosen = self.selected.get(party, ())
            names = dict.fromkeys(
                [*chosen, *(n for one in known.values() for n in one.get(party, ()))]
            )
            for name in names:
                found = {what: one.get(party, {}).get(name) for what, one in known.items()}
                rows.append({"party": party, "feature": name, "selected": name in chosen, **found})
        frame = pd.DataFrame(rows, columns=["party", "feature", "selected", *known])
        numbers = dict.fromkeys(("score", "p_value", "q_value"), "float64")
        return frame.astype({"selected": bool, "rank": "Int64", **numbers})

    def verify(self, keys: Any = None, fingerprint: str | None = None) -> Any:
        """Check the signatures of all parties, as ``fedsift verify`` does.

        Parameters
        ----------
        keys : path, sequence of paths, or mapping of party to bytes, optional
            Public key files of members, or their public keys; without them, the keys in the result
            are taken, whose fingerprint you compare with the one that the run printed.
        fingerprint : str, optional
            The one that the run printed.

        Returns
        -------
        verification : Verification
            ``passed`` says whether everything fits, ``problems`` what does not.
        """
        if isinstance(keys, (str, os.PathLike)):
            keys = [keys]
        if keys is not None and not isinstance(keys, Mapping):
            keys = hooks.use("signing_keys")([Path(path) for path in keys])
        return hooks.use("verify")(self, keys, fingerprint)

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write a self-contained HTML report built from this result alone."""
        return write_atomically(path, hooks.use("html").render(self))

    # Plots for notebooks: each draws on matplotlib axes, new ones if none are given.

    def plot_ranking(self, ax: Any = None) -> Any:
        """Draw the scores of the best features, by party."""
        return hooks.use("plots").ranking(self, ax)

    def plot_participants(self, ax: Any = None) -> Any:
        """Draw what participants are worth, with standard errors."""
        return hooks.use("plots").participants(self, ax)

    def plot_gates(self, ax: Any = None) -> Any:
        """Draw open gates by epoch."""
        return hooks.use("plots").gates(self, ax)

    def plot_losses(self, ax: Any = None) -> Any:
        """Draw training and validation loss by epoch."""
        return hooks.use("plots").losses(self, ax)

    def plot_convergence(self, ax: Any = None) -> Any:
        """Draw the accuracy of the swarms' best subset by step."""
        return hooks.use("plots").convergence(self, ax)

    def plot_accuracy(self, ax: Any = None) -> Any:
        """Draw accuracy against number of features."""
        return hooks.use("plots").accuracy(self, ax)

    def plot_frontier(self, ax: Any = None) -> Any:
        """Draw the smallest validation loss by number of features (FedSDG-FS)."""
        return hooks.use("plots").frontier(self, ax)

    def plot_interaction(self, ax: Any = None) -> Any:
        """Draw the interactions of features as a heat map."""
        return hooks.use("plots").interaction(self, ax)

    def plot_redundancy(self, ax: Any = None) -> Any:
        """Draw the redundancy of participants as a heat map."""
        return hooks.use("plots").redundancy(self, ax)

    def plot_traffic(self, ax: Any = None, *, by: str = "message") -> Any:
        """Draw bytes by message or party, or seconds by phase."""
        return hooks.use("plots").traffic(self, ax, by=by)


def read_written(
    path: str | os.PathLike[str], kind: type[Written], what: str, form: str, which: str
) -> Written:
    """Read back a JSON file that fedsift wrote; ``which`` names the right one."""
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        raise FileProblem(
            f"Cannot read {os.fspath(path)}: {error.strerror}.",
            f"A {what} written by fedsift is needed.",
            "Check the path.",
        ) from error
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise FileProblem(
            f"{os.fspath(path)} is not a fedsift {what}.",
            f"A JSON file of format {form} is needed.",
            f"Pass the {which}.",
        ) from error


def write_atomically(path: str | os.PathLike[str], text: str) -> Path:
    """Write a text file so that a crash leaves the old file or the new one, never half of it."""
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise _unwritable(target, error) from error
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        os.chmod(temporary, 0o644)
        os.replace(temporary, target)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise _unwritable(target, error) from error
    return target


def _unwritable(target: Path, error: OSError) -> FileProblem:
    return FileProblem(
        f"Cannot write {target}: {error.strerror}.",
        "A writable place with free space is needed.",
        "Choose another output path; nothing was written.",
    )
