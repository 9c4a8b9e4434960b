# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Write the figures of docs/runtime.md from the committed result file.

Run ``python -m benchmarks.pages runtime`` after ``fedsift bench runtime --profile regular --out
benchmarks/runtime.json``; ``make bench-check`` compares the page with the file.
"""

from benchmarks.pages.writer import Page, load, table

ENGINES = ("embedded", "FLARE", "gRPC")


def of(results: dict, part: str) -> list[dict]:
    """Rows of one part of the suite."""
    return [row for row in results["rows"] if row["job"]["part"] == part]


def rounds(results: dict) -> str:
    """One round, there and back, by size and engine."""
    cells: dict[str, dict[str, str]] = {}
    for row in of(results, "echo"):
        text = f"{1000 * row['seconds']:.1f} ms"
        if row["job"]["size"] >= 10_000:
            text += f", {row['mb_per_second']:.0f} MB/s"
        size = row["case"].removeprefix("echo ").partition(",")[0]
        cells.setdefault(size, {})[row["job"]["engine"]] = text
    return table(
        ["size", "one process", "FLARE", "bare gRPC"],
        [[size, *(own[engine] for engine in ENGINES)] for size, own in cells.items()],
    )


def jobs(results: dict) -> str:
    """Whole jobs on both engines."""
    rows, pairs = [], {}
    for row in of(results, "job"):
        pairs.setdefault(row["case"].rpartition(", ")[0], {})[row["job"]["engine"]] = row
    for case, pair in pairs.items():
        here, there = pair["embedded"], pair["FLARE"]
        rows.append(
            [
                case + (", rows matched by id" if here["job"]["ids"] else ""),
                _seconds(here),
                _seconds(there),
                f"{there['limit']:.1f}",
                f"{there['rounds']}",
                f"{there['sent_bytes'] / 1e6:.1f}",
            ]
        )
    start = of(results, "start")[0]
    load = results["load"]
    return (
        table(
            [
                "job",
                "one process, s",
                "FLARE, s",
                "allowed, s",
                "rounds",
                "MB",
            ],
            rows,
        )
        + f"\nThe fastest of {results['repeats']} runs of each, in turn, from the command to the written "
        "result; after it the slowest, in brackets the protocols of the fastest alone. The fastest "
        f"are compared with what is allowed; pair by pair {_within(pairs)} were within it. "
        f"{_number(start['job']['parties'])} organisations and the hub, all on one machine "
        f"with {results['machine']['cores']} cores, were up before; that took "
        f"{start['phases']['provision']:.1f} s to issue all kits and {start['phases']['start']:.1f} s "
        "to start. Other work went on meanwhile: the load average was "
        f"{load['before']:.1f} before and {load['after']:.1f} after the run.\n"
    )


def alignment(results: dict) -> str:
    """Private set intersection."""
    rows = []
    for row in of(results, "psi"):
        job = row["job"]
        rows.append(
            [
                str(len(job["spellings"])),
                f"{job['rows']:,}",
                f"{row['common']:,}",
                " / ".join(dict.fromkeys(job["spellings"])),
                f"{row['seconds']:.1f}",
                f"{row['bytes'] / 1e6:.2f}",
                "yes" if row["exact"] else "no",
            ]
        )
    return table(
        ["parties", "ids each", "in common", "written as", "seconds", "MB", "exactly those"], rows
    )


def _seconds(row: dict) -> str:
    return f"{row['seconds']:.1f} to {max(row['runs']):.1f} ({row['protocol_seconds']:.1f})"


def _within(pairs: dict) -> str:
    """How many runs on FLARE kept to what the run just before them in one process allows."""
    kept = [
        there <= 1.5 * here + 25
        for pair in pairs.values()
        for here, there in zip(pair["embedded"]["runs"], pair["FLARE"]["runs"], strict=True)
    ]
    return f"{sum(kept)} of {len(kept)}"


def _number(parties: list[str]) -> str:
    return {2: "Two", 3: "Three", 4: "Four"}.get(len(parties), str(len(parties)))


def promises(_: dict) -> str:
    """What histories, signatures and minima cost, from a run of its own."""
    rows = [
        [
            row["case"],
            f"{row['old']['seconds']:.2f}",
            f"{row['new']['seconds']:.2f}",
            f"{row['ratio']:.2f}",
            f"{row['bytes ratio']:.3f}",
        ]
        for row in load("checkouts")["rows"]
        if row["suite"] != "federation"
    ]
    return table(["case", "before, s", "now, s", "seconds", "bytes"], rows)


def inline(results: dict) -> dict[str, str]:
    """Figures inside sentences, by name."""
    small = next(
        row
        for row in of(results, "echo")
        if row["job"]["engine"] == "FLARE" and row["job"]["size"] == 100
    )
    return {"round_trip": f"{1000 * small['seconds']:.0f} ms"}


PAGE = Page(
    "docs/runtime.md",
    lambda: load("runtime"),
    {f.__name__: f for f in (rounds, jobs, alignment, promises)},
    inline,
)
