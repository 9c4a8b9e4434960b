# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The report of attacks as one HTML page."""

from __future__ import annotations

from html import escape

from fedsift.lab.attacks.attack import (
    CLOSED,
    DECLARED,
    FAILS,
    JOB,
    OPEN,
    SUCCEEDS,
    AttackReport,
    AttackRow,
)
from fedsift.report import blocks

_LEGEND = {
    SUCCEEDS: "without the protection the attack works, as it must to prove anything",
    CLOSED: "the attacker gains next to nothing over a guess",
    DECLARED: "it works, and the disclosure ledger of that very run says so",
    OPEN: "it works and nothing declares it",
    FAILS: "it does not even work without the protection, so it proves nothing",
}


def legend(report: AttackReport) -> list[str]:
    """What the verdicts in a report mean."""
    used = {row.verdict for row in report.rows}
    return [f"{verdict}: {text}." for verdict, text in _LEGEND.items() if verdict in used]


def against(row: AttackRow) -> str:
    """The protection of a line in words."""
    return row.protection if row.variant == JOB else f"{row.variant}: {row.protection}"


def headline(report: AttackReport) -> str:
    """The outcome in a sentence."""
    verdicts = [row.verdict for row in report.rows]
    counts = [
        f"{verdicts.count(verdict)} {verdict}"
        for verdict in (SUCCEEDS, CLOSED, DECLARED, OPEN, FAILS)
        if verdicts.count(verdict)
    ]
    attacks = len({row.attack for row in report.rows})
    return (
        f"{attacks} attacks on {report.source}, {len(verdicts)} verdicts: "
        f"{', '.join(counts) or 'nothing to attack'}."
    )


def found_text(row: AttackRow) -> str:
    """What was found, with its standard error where there are several runs."""
    return f"{row.found:.3f}" + (f" ± {row.error:.3f}" if row.runs > 1 else "")


def render(report: AttackReport) -> str:
    """Build the page.

    Parameters
    ----------
    report : AttackReport
        The only source of everything on the page.

    Returns
    -------
    page : str
        A complete HTML document.
    """
    parts = []
    if report.bad:
        names = ", ".join(dict.fromkeys(row.attack for row in report.bad))
        parts.append(blocks.alarm(f"Look at {names}.", title="Not as declared."))
    parts.append(
        blocks.facts(
            [
                ("data", report.source),
                ("profile", report.profile),
                ("attacks", str(len({row.attack for row in report.rows}))),
                ("seconds", f"{report.seconds:.0f}"),
            ]
        )
    )
    for method in dict.fromkeys(row.method for row in report.rows):
        rows = [row for row in report.rows if row.method == method]
        by_attack: dict[str, list[AttackRow]] = {}
        for row in rows:
            by_attack.setdefault(row.attack, []).append(row)
        content = "".join(_attack(some) for some in by_attack.values())
        parts.append(blocks.section(f"Method {method}", "", content))
    if report.notes:
        parts.append(blocks.section("Remarks", "", blocks.bullets(report.notes)))
    parts.append(blocks.section("How to read this", "", blocks.bullets(legend(report))))
    parts.append(blocks.section("Versions", "", blocks.listing("", report.versions.items())))
    return blocks.document("fedsift attack", headline(report), "\n".join(parts))


def _attack(rows: list[AttackRow]) -> str:
    """One attack: what it wants and with what, then a line for each variant or attacker."""
    first = rows[0]
    alike = len({(row.attacker, row.uses) for row in rows}) == 1
    lead = f"Aim: {first.aims_at}. Measure: {first.measure}."
    header = ["against", "recovered", "guess", "declared as", "verdict"]
    cells = [
        [
            against(row),
            found_text(row),
            f"{row.guess:.3f}",
            ", ".join(row.declared) or "-",
            row.verdict,
        ]
        for row in rows
    ]
    if alike:
        lead = f"Attacker: {first.attacker}, with {used_text(first)}. {lead}"
    else:
        header = ["attacker", "used", *header]
        cells = [
            [row.attacker, used_text(row), *line] for row, line in zip(rows, cells, strict=True)
        ]
    shown = blocks.table(header, cells, numeric=(len(header) - 4, len(header) - 3))
    return f"<h3>{escape(first.attack)}</h3><p>{escape(lead)}</p>{shown}"


def used_text(row: AttackRow) -> str:
    """The messages that the attacker had."""
    return ", ".join(row.uses) or "nothing, as none came"
