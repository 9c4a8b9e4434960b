# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A comparison for people: tables as rows of text, shown as plain text or as one HTML file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fedsift.lab.compare.comparison import Comparison, DataOutcome, Row
from fedsift.lab.compare.judge import LABELS
from fedsift.lab.compare.measures import Mean
from fedsift.report import blocks
from fedsift.report.text import columns
from fedsift.report.view import clean

PLAIN_NOTE = (
    "Methods ran without encryption (security='plain'): filters and FedSDG-FS select the same to "
    "the last bit, the others up to rounding."
)


VERIFIED_NOTE = (
    "One run of each method, on the first fold, was made with encryption: 'same' says whether it "
    "selected the same features, and seconds, megabytes and disclosures are those of that run."
)


NOT_VERIFIED_NOTE = (
    "No run was made with encryption: seconds and megabytes are not those of a real federation."
)


READING = (
    "Standard errors in brackets. Selection and training saw the training rows alone. Shuffled: "
    "balanced accuracy (or R2) when the training labels are shuffled, which must be chance within "
    "two standard errors; else the method has seen the test rows."
)


FOOTER = (
    "Made by fedsift from the comparison file alone. It holds names of parties, scores and costs; "
    "no rows of anybody's data."
)


_PRECISE = 3


@dataclass(frozen=True)
class Sheet:
    """One table: a title, a header, rows of text, and which columns are numbers."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[int, ...]


def headline(comparison: Comparison) -> str:
    """One sentence: what was compared and whether the leak control held."""
    n_methods = len({r.label for d in comparison.data for r in d.rows if r.kind == "method"})
    text = (
        f"{_counted(n_methods, 'method')} on {_counted(len(comparison.data), 'data set')}, "
        f"{comparison.settings['folds']} folds, "
        f"{_counted(len(comparison.settings['seeds']), 'seed')}"
    )
    if comparison.interrupted:
        return f"{text}: interrupted, what was finished is shown."
    suspects = suspects_of(comparison)
    if suspects:
        return f"{text}. NOT CHANCE on shuffled labels: {', '.join(suspects)}."
    return f"{text}. Shuffled labels gave chance everywhere."


def suspects_of(comparison: Comparison) -> list[str]:
    """Rows that did better or worse than chance on shuffled labels."""
    return [
        f"{clean(row.label)} on {clean(data.name)}"
        for data in comparison.data
        for row in data.rows
        if row.passed is False
    ]


def notes_of(comparison: Comparison) -> list[str]:
    """What a reader must know about the whole comparison."""
    notes = [READING]
    if comparison.settings["security"] == "plain":
        notes.append(PLAIN_NOTE)
        notes.append(VERIFIED_NOTE if comparison.settings["verified"] else NOT_VERIFIED_NOTE)
    notes.append(
        f"{comparison.seconds:.0f} seconds and {comparison.cpu_seconds:.0f} CPU seconds in "
        f"{_counted(comparison.settings['workers'], 'worker')}"
        + (f"; {comparison.reused} cells were finished before." if comparison.reused else ".")
    )
    return notes


def facts_of(data: DataOutcome) -> list[tuple[str, str]]:
    """Size and setting of a data set."""
    kind = f"{data.n_classes} classes" if data.n_classes else "numbers"
    facts = [
        ("setting", f"{data.setting}, {len(data.parties)} parties"),
        ("size", f"{data.n_rows} rows x {data.n_features} features"),
        ("labels", kind if data.labelled else "none"),
    ]
    if data.truth is not None:
        facts.append(("features that matter", str(data.truth)))
    if data.guessing:
        shown = ", ".join(f"{LABELS[name]} {value:.3f}" for name, value in data.guessing.items())
        facts.append(("without any knowledge", shown))
    facts.append(("copies of rows", f"{data.n_copies}; {data.shared:.1%} of test rows in training"))
    return facts


def sheets_of(data: DataOutcome) -> Iterator[Sheet]:
    """The tables of one data set."""
    if data.labelled:
        yield _worth(data)
        yield _differences(data)
    yield _selection(data)
    yield _cost(data)
    if data.labelled:
        yield _shuffled(data)


def disclosures_of(data: DataOutcome) -> list[tuple[str, str]]:
    """Who learned what, by method."""
    return [
        (clean(row.label), "; ".join(clean(text) for text in row.disclosed))
        for row in data.rows
        if row.disclosed
    ]


def _worth(data: DataOutcome) -> Sheet:
    metrics = ("accuracy", "auc") if data.n_classes else (data.metric,)
    header = ["row", "features"]
    header += [f"{model} {LABELS[m]}" for model in data.models for m in metrics]
    rows = []
    for row in data.rows:
        cells = [clean(row.label), _plain(row.n_selected, 1)]
        for model in data.models:
            cells += [with_error(row.scores.get(model, {}).get(m)) for m in metrics]
        rows.append(tuple(cells))
    return _sheet("What the selections are worth on test rows", header, rows)


def _differences(data: DataOutcome) -> Sheet:
    controls = ("all features", "random", "best local", "pooled")
    header = ["row", "model", *(f"minus {control}" for control in controls)]
    rows = []
    for row in data.rows:
        for model in data.models if row.differences else ():
            cells = [
                with_error(row.differences.get(control, {}).get(model), sign=True)
                for control in controls
            ]
            rows.append((clean(row.label), model, *cells))
    title = f"Paired differences of {LABELS[data.metric]}, split by split"
    return _sheet(title, header, rows, first_number=2)


def _selection(data: DataOutcome) -> Sheet:
    header = ["row", "features", "stability", "95 % interval", "Jaccard"]
    if data.truth is not None:
        header += ["precision", "recall"]
    rows = []
    for row in data.rows:
        if row.stability is None:
            continue
        found = row.stability
        interval = "" if found.low is None else f"{found.low:.2f} to {found.high:.2f}"
        cells = [
            clean(row.label),
            _plain(row.n_selected, 1),
            _number(found.index, 2),
            interval,
            _number(found.jaccard, 2),
        ]
        if data.truth is not None:
            cells += [with_error(row.precision), with_error(row.recall)]
        rows.append(tuple(cells))
    return _sheet("What was selected, and how alike on every split", header, rows)


def _cost(data: DataOutcome) -> Sheet:
    header = ["row", "seconds", "CPU seconds", "MB", "messages", "disclosures", "run", "same"]
    rows = []
    for row in data.rows:
        if row.seconds is None:
            continue
        size = "" if row.n_bytes is None else f"{row.n_bytes.value / 1e6:.2f}"
        rows.append(
            (
                clean(row.label),
                _plain(row.seconds, 2),
                _plain(row.cpu_seconds, 2),
                size,
                _plain(row.messages, 0),
                str(len(row.disclosed)) if row.kind == "method" else "",
                row.cost_of or "open data",
                {True: "yes", False: "NO", None: ""}[row.verified],
            )
        )
    title = "What one selection costs, and how many things parties learn of each other"
    return _sheet(title, header, rows, text=(6, 7))


def _shuffled(data: DataOutcome) -> Sheet:
    header = ["row", "model", "shuffled", "chance", "shuffles", "verdict"]
    rows = []
    for row in data.rows:
        for model, check in row.leak.items():
            verdict = "chance" if check.passed else "NOT CHANCE"
            if check.earlier:
                values = ", ".join(f"{value:.3f}" for value in check.earlier)
                verdict += f" (before: {values})"
            value = f"{check.value:.3f} ({check.standard_error:.3f})"
            chance = f"{check.chance:.3f}" if check.metric != "r2" else "at most 0"
            rows.append((clean(row.label), model, value, chance, str(check.n), verdict))
    return _sheet("Shuffled labels", header, rows, first_number=2, text=(5,))


def with_error(mean: Mean | None, *, sign: bool = False) -> str:
    """A mean and its standard error."""
    if mean is None:
        return ""
    # Adding zero turns a rounded minus zero into zero.
    shown = f"{round(mean.value, _PRECISE) + 0.0:{'+' if sign else ''}.{_PRECISE}f}"
    return shown if mean.standard_error is None else f"{shown} ({mean.standard_error:.{_PRECISE}f})"


def failures_of(row: Row) -> str:
    """Why cells of a row are missing."""
    return "; ".join(clean(reason) for reason in row.failed)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _plain(mean: Mean | None, digits: int) -> str:
    if mean is None:
        return ""
    if mean.value == round(mean.value) and digits == 1:
        return f"{mean.value:.0f}"
    return f"{mean.value:.{digits}f}"


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _sheet(
    title: str,
    header: Sequence[str],
    rows: Sequence[tuple[str, ...]],
    *,
    first_number: int = 1,
    text: tuple[int, ...] = (),
) -> Sheet:
    numeric = tuple(i for i in range(first_number, len(header)) if i not in text)
    return Sheet(title, tuple(header), tuple(rows), numeric)


# Plain text


def render_text(comparison: Comparison) -> str:
    """Everything a terminal should show."""
    lines = [headline(comparison), ""]
    for data in comparison.data:
        lines += [clean(data.name), "=" * len(clean(data.name))]
        lines += [f"{name}: {value}" for name, value in facts_of(data)]
        lines += [f"note: {clean(note)}" for note in data.notes]
        lines += [f"failed: {clean(r.label)}: {failures_of(r)}" for r in data.rows if r.failed]
        for sheet in sheets_of(data):
            lines += ["", *_table(sheet)]
        lines.append("")
    lines += notes_of(comparison)
    return "\n".join(lines) + "\n"


def _table(sheet: Sheet) -> Iterator[str]:
    yield sheet.title
    if not sheet.rows:
        yield "  nothing yet"
        return
    for line in columns(sheet.header, sheet.rows, sheet.numeric):
        yield f"  {line}"


# HTML


def render_html(comparison: Comparison) -> str:
    """A complete page that needs nothing else."""
    parts = []
    suspects = suspects_of(comparison)
    if suspects:
        text = f"{', '.join(suspects)}: better or worse than chance although there is nothing to "
        parts.append(blocks.alarm(f"{text}learn. Do not trust these rows.", title="Not chance."))
    if comparison.interrupted:
        parts.append(
            blocks.alarm(
                "Only what was finished is shown.", title="The comparison was interrupted."
            )
        )
    parts += [_section(data) for data in comparison.data]
    parts.append(blocks.section("How to read this", "", blocks.bullets(notes_of(comparison))))
    settings = [(name, str(value)) for name, value in comparison.settings.items()]
    parts.append(
        blocks.section(
            "Settings and versions",
            "",
            blocks.grid(
                [
                    blocks.listing("Settings", settings),
                    blocks.listing("Versions", list(comparison.versions.items())),
                ]
            ),
        )
    )
    title = "fedsift: comparison"
    return blocks.document(title, headline(comparison), "\n".join(parts), footer=FOOTER)


def _section(data: DataOutcome) -> str:
    parts = [blocks.facts(facts_of(data))]
    parts += [
        blocks.alarm(f"{clean(row.label)}: {failures_of(row)}", title="Failed.")
        for row in data.rows
        if row.failed
    ]
    if data.notes:
        parts.append(blocks.bullets(clean(note) for note in data.notes))
    for sheet in sheets_of(data):
        table = blocks.table(sheet.header, sheet.rows, numeric=sheet.numeric)
        parts.append(f"<h3>{sheet.title}</h3>{table}")
    learned = disclosures_of(data)
    if learned:
        table = blocks.table(("method", "who learned what"), learned, kind="cards")
        parts.append(blocks.folded("Who learned what", table))
    return blocks.section(clean(data.name), "", "".join(parts))
