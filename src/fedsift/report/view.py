# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a report shows, as plain rows: every number is already text, every name is clean."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from fedsift.methods.registry import report_texts
from fedsift.protocol.verify import verify_result
from fedsift.report import curves
from fedsift.result import Disclosure, SelectionResult

STEPS_HEADER = (
    "step",
    "method",
    "left after it",
    "features",
    "score",
    "messages",
    "sent",
    "revealed",
)
PLAIN_WARNING = (
    "Encryption was OFF in this run (security='plain'): labels and counts travelled in the clear. "
    "Use it for comparison only, never with real parties."
)
EVERYONE = "all parties"
_PHASES = {
    "prepare": "preparing features",
    "keys": "making keys",
    "encrypt": "encrypting",
    "evaluate": "computing on encrypted data",
    "decrypt": "decrypting",
    "initialise": "starting the network",
    "train": "training",
    "predict": "predicting",
    "rank": "looking for the nearest rows",
    "wait": "the driving party waiting for others",
    "total": "from start to end",
}


@dataclass(frozen=True)
class FeatureRow:
    """One feature, its score and its place among all features.

    The score comes with its standard error where there is one, and ``order`` is the number to sort
    by. P-values and q-values are there if the result has any. The margin is how far the score is
    from the other side of the cut, as a share of the range of all scores. Of a search there is the
    share of subsets that held a feature.
    """

    name: str
    score: str
    rank: str
    selected: bool
    order: float | None = None
    margin: str = "-"
    found: str = "-"
    p_value: str = "-"
    q_value: str = "-"


@dataclass(frozen=True)
class PartyFeatures:
    """Features of one party, best first."""

    party: str
    rows: tuple[FeatureRow, ...]
    n_features: int = 0

    @property
    def total(self) -> int:
        """Number of the party's features, listed or not."""
        return max(self.n_features, len(self.rows))

    @property
    def selected(self) -> tuple[FeatureRow, ...]:
        """The features that were chosen."""
        return tuple(row for row in self.rows if row.selected)

    @property
    def others(self) -> tuple[FeatureRow, ...]:
        """The features that were not chosen."""
        return tuple(row for row in self.rows if not row.selected)


@dataclass(frozen=True)
class ParticipantRow:
    """One participant, what it is worth and how sure that is, and what became of it.

    ``order`` is the number to sort by.
    """

    name: str
    importance: str
    order: float
    outcome: str


@dataclass(frozen=True)
class LearnedRow:
    """One line of the ledger."""

    learner: str
    about: str
    kind: str
    what: str
    form: str
    key_owner: str
    message: str
    times: str
    size: str
    step: str = "-"


class CostRow(NamedTuple):
    """A cost and its share of the total."""

    name: str
    amount: str
    share: float


@dataclass(frozen=True)
class ReportView:
    """Everything a report prints."""

    title: str
    headline: str
    plain: bool
    facts: tuple[tuple[str, str], ...]
    features: tuple[PartyFeatures, ...]
    participants: tuple[ParticipantRow, ...]
    learned: tuple[LearnedRow, ...]
    cost: str
    by_message: tuple[CostRow, ...]
    by_party: tuple[CostRow, ...]
    phases: tuple[CostRow, ...]
    settings: tuple[tuple[str, str], ...]
    versions: tuple[tuple[str, str], ...]
    warnings: tuple[str, ...]


def view_of(result: SelectionResult) -> ReportView:
    """Arrange a result for printing."""
    return ReportView(
        title=f"fedsift: {clean(result.method)}",
        headline=clean(result.headline()),
        plain=result.security != "secure",
        facts=_facts(result),
        features=_features(result),
        participants=_participants(result),
        learned=tuple(_learned(row) for row in result.disclosures),
        cost=cost_line(result),
        by_message=_bytes_rows(result.traffic.by_message),
        by_party=_bytes_rows(result.traffic.by_party),
        phases=_phases(result),
        settings=_pairs(sorted(result.parameters.items())),
        versions=_pairs(result.versions.items()),
        warnings=tuple(clean(text) for text in result.warnings),
    )


def cost_line(result: SelectionResult) -> str:
    """One sentence about time and traffic."""
    traffic = result.traffic
    seconds = result.timings.get("total", 0.0)
    return (
        f"{seconds:.2f} seconds, {_counted(traffic.rounds, 'round')}, "
        f"{_counted(traffic.messages, 'message')}, {size(traffic.n_bytes)}, "
        f"{_counted(traffic.ciphertexts, 'ciphertext')}."
    )


def size(n_bytes: int) -> str:
    """Bytes in a unit a person reads."""
    value = float(n_bytes)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"


def number(value: float) -> str:
    """A score with six digits that count."""
    return f"{value:.6g}"


def with_error(value: float, error: float | None) -> str:
    """A score and its standard error, with one digit more than the error can vouch for.

    Examples
    --------
    >>> with_error(0.163981, 0.0171), with_error(697.2353, 59.0), with_error(0.25, None)
    ('0.1640 ± 0.017', '697.2 ± 59', '0.25')
    >>> with_error(0.568072, 0.0202)
    '0.5681 ± 0.020'
    """
    if error is None or not error > 0:
        return number(value)
    rounded = float(f"{error:.2g}")
    if not 1e-4 <= rounded < 1e6 or abs(value) > 1e9 * error:
        return f"{number(value)} ± {error:.2g}"
    decimals = max(0, 1 - math.floor(math.log10(rounded)))
    return f"{value:.{decimals + (rounded < 100)}f} ± {rounded:.{decimals}f}"


def clean(value: Any) -> str:
    """Text of one line without characters that a terminal or a browser would act upon."""
    text = str(value)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " for c in text)


def _facts(result: SelectionResult) -> tuple[tuple[str, str], ...]:
    shape = result.shape
    facts: list[tuple[str, Any]] = [("method", result.method), ("setting", result.setting)]
    if result.created:
        facts += [("created", result.created.replace("T", " ")), ("run", result.run_id)]
    if "n_rows" in shape:
        facts.append(("rows", shape["n_rows"]))
        facts.append(("features", shape.get("n_features", "-")))
    if shape.get("label_holder"):
        facts.append(("label holder", shape["label_holder"]))
    if "labels" in shape:
        facts.append(("labels", shape["labels"]))
    facts.append(("protection", _protection(result)))
    if result.distance_bits is not None:
        distance = f"at most 2^-{result.distance_bits:g} for all ciphertexts together"
        facts.append(("statistical distance", distance))
    facts += _budgets(result.parameters.get("privacy", {}))
    facts.append(("seed", "none" if result.seed is None else result.seed))
    facts.append(("ledger", say_verified(result)))
    return _pairs(facts)


def say_verified(result: SelectionResult) -> str:
    """Say who signed the ledger, and whether it is still what they signed."""
    found = verify_result(result, quick=True)
    if not found.signed:
        return "not signed"
    if found.problems:
        return f"NOT WHAT WAS SIGNED: {found.problems[0].text} See 'fedsift verify'."
    return (
        f"verified by {', '.join(found.parties)} ({found.n_messages:,} messages), "
        f"fingerprint of their keys {found.fingerprint}"
    )


def _budgets(privacy: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What may be spent on one row, of what is counted and of what is selected."""
    budgets = {
        "differential privacy": privacy,
        "differential privacy of the selection": privacy.get("release", {}),
    }
    return [
        (name, f"epsilon {own['epsilon']:g}, delta {own.get('delta', 0):g}{_mechanism(own)}")
        for name, own in budgets.items()
        if "epsilon" in own
    ]


def _mechanism(budget: Mapping[str, Any]) -> str:
    return f", {budget['mechanism']}" if "mechanism" in budget else ""


def _protection(result: SelectionResult) -> str:
    if result.security != "secure":
        return "NONE (plain)"
    bits = f", {result.security_bits}-bit security" if result.security_bits else ""
    return f"{result.crypto or 'secure'}{bits}"


def _features(result: SelectionResult) -> tuple[PartyFeatures, ...]:
    parties = list(result.selected)
    scored = curves.features(result)
    margins = dict(
        zip(((one.party, one.name) for one in scored), curves.margins(scored), strict=True)
    )
    errors = {(one.party, one.name): one.standard_error for one in scored}
    if result.setting == "horizontal" and parties:
        # All parties have the same columns, so one table says it all.
        return (_party_features(result, parties[0], EVERYONE, "", margins, errors),)
    return tuple(_party_features(result, party, party, party, margins, errors) for party in parties)


def _party_features(
    result: SelectionResult,
    party: str,
    title: str,
    owner: str,
    margins: Mapping[tuple[str, str], float | None],
    errors: Mapping[tuple[str, str], float | None],
) -> PartyFeatures:
    scores, ranks = result.scores.get(party, {}), result.ranking.get(party, {})
    p_values, q_values = result.p_values.get(party, {}), result.q_values.get(party, {})
    chosen = set(result.selected[party])
    found, n_subsets = curves.found_in(result)
    names = list(dict.fromkeys([*result.selected[party], *scores, *found]))
    names.sort(key=lambda name: (ranks.get(name, len(ranks) + 1), -found.get(name, 0)))
    rows = []
    for name in names:
        margin, error = margins.get((owner, name)), errors.get((owner, name))
        rows.append(
            FeatureRow(
                clean(name),
                with_error(scores[name], error) if name in scores else "-",
                str(ranks.get(name, "-")),
                name in chosen,
                scores.get(name),
                "-" if margin is None else f"{margin:.1%}",
                f"{found[name] / n_subsets:.0%}" if name in found else "-",
                probability(p_values.get(name)),
                probability(q_values.get(name)),
            )
        )
    return PartyFeatures(clean(title), tuple(rows), _n_features(result, party))


def probability(value: float | None) -> str:
    """Two digits, as one reads p-values.

    Examples
    --------
    >>> probability(0.0312), probability(2.4e-12), probability(1e-200), probability(None)
    ('0.031', '2.4e-12', '< 1e-99', '-')
    """
    if value is None:
        return "-"
    return "< 1e-99" if value < 1e-99 else f"{value:.2g}"


def _n_features(result: SelectionResult, party: str) -> int:
    """As the result's shape tells; 0 if it does not."""
    parties = result.shape.get("parties")
    own = parties.get(party) if isinstance(parties, dict) else None
    count = own.get("n_features") if isinstance(own, dict) else None
    return count if isinstance(count, int) else 0


def _participants(result: SelectionResult) -> tuple[ParticipantRow, ...]:
    """Participants, most important first; errors and gains are in the history of the run."""
    errors = {one.name: one.standard_error for one in curves.participants(result)}
    left_out = {
        str(entry.get("participant")) for entry in result.history if entry.get("step") == "left out"
    }
    chosen = [value for party, value in result.participants.items() if result.selected.get(party)]
    rows = []
    for party, value in sorted(result.participants.items(), key=lambda item: -item[1]):
        outcome = "selected" if result.selected.get(party) else "not selected"
        if result.setting == "horizontal":
            outcome = "-"  # all of them have the selected features
        if party in left_out and chosen and min(chosen) > 0:
            # A copy of a selected participant gives itself away here: it adds next to nothing.
            share = max(0.0, value) / min(chosen)
            outcome += f", would add {share:.0%} of what the least of the selected adds"
        text = with_error(value, errors.get(party))
        rows.append(ParticipantRow(clean(party), text, value, outcome))
    return tuple(rows)


def _learned(row: Disclosure) -> LearnedRow:
    return LearnedRow(
        learner=clean(row.learner),
        about=clean(row.about),
        kind=clean(row.kind),
        what=clean(row.what),
        form=clean(row.form),
        key_owner=clean(row.key_owner),
        message=clean(row.message),
        times=f"{row.times:,}",
        size=size(row.n_bytes),
        step=str(row.step) if row.step else "-",
    )


def _bytes_rows(amounts: dict[str, int]) -> tuple[CostRow, ...]:
    total = sum(amounts.values()) or 1
    ordered = sorted(amounts.items(), key=lambda item: -item[1])
    return tuple(CostRow(clean(name), size(n), n / total) for name, n in ordered)


def _phases(result: SelectionResult) -> tuple[CostRow, ...]:
    timings, names = result.timings, _PHASES | dict(report_texts(result.method).phases)
    # Parties work side by side, so a phase is compared with the longest one, not with a sum.
    longest = max(timings.values(), default=0.0) or 1.0
    return tuple(
        CostRow(names.get(name, clean(name)), f"{seconds:.2f} s", seconds / longest)
        for name, seconds in timings.items()
    )


def _pairs(items: Iterable[tuple[str, Any]]) -> tuple[tuple[str, str], ...]:
    return tuple((clean(name), clean(_told(value))) for name, value in items)


def _told(value: Any) -> Any:
    """A setting as a person would write it."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {_told(one)}" for name, one in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(str(_told(one)) for one in value)
    return "none" if value is None else value


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def steps_of(result: SelectionResult) -> list[tuple[str, ...]]:
    """One line per step; empty for a job without steps."""
    return [
        (
            str(number),
            clean(step.method),
            clean(_left(step)),
            str(step.n_selected),
            _score(step),
            f"{step.traffic.messages:,}",
            size(step.traffic.n_bytes),
            f"{sum(row.times for row in step.disclosures):,} disclosures",
        )
        for number, step in enumerate(result.steps, start=1)
    ]


def _left(step: SelectionResult) -> str:
    """Parties that have features, with the number of them."""
    counts = [f"{party} {len(names)}" for party, names in step.selected.items() if names]
    return ", ".join(counts) or "nothing"


def _score(step: SelectionResult) -> str:
    """Score of a model, on the rows that judged its training or on those held out."""
    score = step.parameters.get("score", step.parameters.get("validation_score"))
    return f"{score:.4f}" if isinstance(score, float) else "-"
