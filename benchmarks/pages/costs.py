# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Write the figures of docs/costs.md from the committed result file.

Run ``python -m benchmarks.pages costs`` after ``fedsift bench costs --profile regular --out
benchmarks/costs.json``; ``make bench-check`` compares the page with the file.
"""

from benchmarks.pages.writer import Page, load, table


def jobs(results: dict) -> str:
    """Prediction against reality."""
    rows = []
    for row in results["rows"]:
        job, told = row["job"], row["predicted"]
        rows.append(
            [
                row["case"],
                f"{job['rows']:,} x {job['features']}, {job['parties']} parties",
                f"{told['seconds']:.2f} / {row['seconds']:.2f}",
                f"{row['ratios']['wall']:.2f}",
                f"{told['cpu_seconds']:.2f} / {row['cpu_seconds']:.2f}",
                f"{row['ratios']['time']:.2f}",
                f"{told['bytes'] / 1e6:.3f} / {row['bytes'] / 1e6:.3f}",
                f"{row['ratios']['bytes']:.3f}",
                f"{told['rounds']} / {row['rounds']}",
                f"{told['ciphertexts']} / {row['ciphertexts']}",
            ]
        )
    header = ["job", "data", "s on the wall", "ratio", "s of the processor", "ratio", "MB", "ratio"]
    return table([*header, "rounds", "ciphertexts"], rows) + "\n" + _words(results)


def _words(results: dict) -> str:
    waited = [row["seconds"] / row["cpu_seconds"] for row in results["rows"]]
    calibration, load = results["calibration"], results["load"]
    missed = [name for name, met in results["bars"].items() if not met]
    return (
        "Predicted / real. "
        f"{sum(results['bars'].values())} of {len(results['bars'])} ratios are within their bars "
        "(1.5 for either time, 1.1 for bytes)"
        + (f"; not within: {', '.join(missed)}" if missed else "")
        + f". {calibration['units']} units of work were calibrated before, in "
        f"{calibration['cpu_seconds']:.1f} processor seconds and {calibration['seconds']:.1f} on the "
        "wall (loading PyTorch is part of that). Runs took "
        f"{min(waited):.2f} to {max(waited):.2f} times their processor seconds on the wall; the load "
        f"average was {load['before']:.1f} before and {load['after']:.1f} after.\n"
    )


PAGE = Page("docs/costs.md", lambda: load("costs"), {"jobs": jobs})
