# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Write the figures of docs/evidence/interaction.md from the committed result file.

Run ``python -m benchmarks.pages interaction`` after ``fedsift bench interaction --profile regular
--out benchmarks/interaction.json``; ``make bench-check`` compares the page with the file.
"""

from benchmarks.pages.writer import Page, listed, load, table
from benchmarks.suites.interaction.accuracy import WIDE, lead_over

RANKERS = ("random", "gini", "gini10", "paper_literal", "paper", "iwfs", "product", "miw")
CORRECTED = ("paper", "iwfs", "miw")
VARIANTS = {
    "wine_white, 1-NN": "7 classes",
    "wine_white, 1-NN, no copies": "7 classes, repeated rows removed",
    "wine_white, 1-NN, two classes": "2 classes (quality 6 or better)",
    "wine_white, 1-NN, two classes, no copies": "2 classes, repeated rows removed",
}


def sets(results: dict) -> list[dict]:
    """Accuracies of whole data sets, without the variants of white wine."""
    return [row for row in results["accuracy"] if row["data"] not in (*VARIANTS, *WIDE)]


def variant(results: dict, name: str) -> dict:
    """White wine with one neighbour."""
    return next(row for row in results["accuracy"] if row["data"] == name)


def best(row: dict, ranker: str) -> float:
    """Accuracy with the best number of features."""
    return max(row["curves"][ranker])


def accuracy(results: dict) -> str:
    """Accuracies by data set and measure, and what they show."""
    rows = []
    for row in sets(results):
        n, m = row["shape"]
        values = [f"{row['accuracy'][r]:.1f} ({row['standard_error'][r]:.1f})" for r in RANKERS]
        rows.append([row["data"], f"{n} x {m}, {row['n_classes']}", *values])
    means = results["accuracy_summary"]["mean"]
    rows.append(["**mean**", "", *(f"**{means[r]:.1f}**" for r in RANKERS)])
    fewer = sum(row["n_folds"] == 3 for row in sets(results))
    wine = [
        [label, *(f"{best(variant(results, name), r):.1f}" for r in RANKERS)]
        for name, label in VARIANTS.items()
    ]
    xor = results["xor"]["right_after_its_mate"]
    return (
        "Percent of correct 5-nearest-neighbour predictions, mean over 1 to 20 selected features, 5 "
        f"repeats of 5 folds (3 for the last {fewer}), selection inside the folds, standard error over "
        "repeats\nin brackets. `gini` cuts columns at their mean as the paper does, `gini10` into ten "
        "quantile bins as `FilterSelector` does; `product` is `miw` of version 0.1.\n\n"
        + table(["data", "rows x features, classes", *RANKERS], rows)
        + f"\n{_leads(results)}\n\nWhite wine with one neighbour (the paper's setting), best number of "
        "features for each ranking:\n\n"
        + table(["label", *RANKERS], wine)
        + "\nThe paper's 70 to 80 % can only be those of a two-class label: with seven classes no "
        "selection and no number of features comes near.\n\n"
        "XOR, share of trials in which the partner is selected right after its mate: "
        + ", ".join(f"{name} {100 * share:.0f} %" for name, share in xor.items())
        + ".\n\nShare of trials in which both columns of a pair are among the first four of 20 (1,000 rows):\n\n"
        + _pairs(results)
    )


def _pairs(results: dict) -> str:
    found = results["xor"]["among_the_first_four"]
    rankers = list(next(iter(found.values())))
    rows = [
        [name, *(f"{100 * shares[r]:.0f} %" for r in rankers)] for name, shares in found.items()
    ]
    return table(["pair", *rankers], rows)


def wide(results: dict) -> str:
    """Tables with more columns than rows."""
    rows = []
    for row in results["accuracy"]:
        if row["data"] not in WIDE:
            continue
        n, m = row["shape"]
        values = [f"{row['accuracy'][r]:.1f} ({row['standard_error'][r]:.1f})" for r in RANKERS]
        leads = [f"{a:+.1f} ({b:.1f})" for a, b in (lead_over(row, o) for o in _RIVALS)]
        rows.append([row["data"], f"{n} x {m}, {row['n_classes']}", *values, *leads])
    against = [f"`miw` - {name}" for name in _RIVALS]
    return (
        "As [above](#accuracy), 5 folds; the last columns are differences with their paired standard "
        "error. These sets had no part in the choice of the rule.\n\n"
        + table(["data", "rows x features, classes", *RANKERS, *against], rows)
    )


_RIVALS = ("gini10", "random", "product")


def _leads(results: dict) -> str:
    rows, means = sets(results), results["accuracy_summary"]["mean"]
    madelon = next(row["accuracy"] for row in rows if row["data"] == "madelon")
    alike = [r["data"] for r in rows if _spread(r["accuracy"]) < 2]
    behind = [r["data"] for r in rows if r["accuracy"]["gini10"] - r["accuracy"]["miw"] >= 0.05]
    return (
        f"`miw` is {means['miw'] - means['gini']:.1f} points ahead of the paper's Gini baseline on the "
        f"mean ({means['miw'] - means['gini10']:.1f} ahead of the ten-bin one) and "
        f"{madelon['miw'] - madelon['gini']:.1f} on madelon. On {listed(alike) or 'no set'} all measures "
        f"are within two points of each other;\nten-bin Gini is ahead of `miw` on {listed(behind) or 'no set'}. "
        "`miw` was chosen as the default with these same data sets in view, so its lead over `iwfs` "
        "is no more than a hint."
    )


def _spread(values: dict) -> float:
    measured = [value for name, value in values.items() if name != "random"]
    return max(measured) - min(measured)


def cost(results: dict) -> str:
    """Whole runs, and what Table I of the paper counts."""
    rows = []
    for row in results["rows"]:
        counts = row["operations"]
        rows.append(
            [
                row["case"],
                f"{row['seconds']:.0f}",
                f"{row['bytes'] / 1e6:.0f}",
                f"{row['peak_memory'] / 2**20:.0f}",
                *(str(counts[k]) for k in ("encryptions", "ciphertext products", "rotations")),
                " / ".join(
                    "yes" if row[name] else "no" for name in ("equals_simulation", "equals_oracle")
                ),
            ]
        )
    first = results["rows"][0]
    printed, ours = first["table_1"], first["operations"]
    rows_only = [row for row in results["rows"] if row["case"].startswith("generated")]
    seconds = [row["seconds"] for row in rows_only]
    return (
        "Two cores, all parties in one process, 128-bit security (`benchmarks/interaction.json`).\n\n"
        + table(
            ["case", "seconds", "MB", "peak MiB", "encryptions", "ciphertext products", "rotations",
             "order is that of the simulation / float oracle"],
            rows,
        )
        + f"\nTable I of the paper for white wine: {printed['encryptions_of_features']:,} encryptions of "
        f"features, {printed['encryptions_of_labels']:,} of labels and {printed['products']:,} ciphertext "
        f"products; here {ours['encryptions']} encryptions and {ours['ciphertext products']} products in "
        "all, over all plaintext primes.\n"
        f"Ten times the rows take {seconds[1] / seconds[0]:.1f} times as long.\n"
    )  # fmt: skip


def inline(results: dict) -> dict[str, str]:
    """Figures inside sentences, by name."""
    xor = results["xor"]["right_after_its_mate"]
    found = [100 * xor[name] for name in CORRECTED]
    means = results["accuracy_summary"]["mean"]
    seven, alone = (variant(results, name) for name in list(VARIANTS)[:2])
    lifts = [best(seven, r) - best(alone, r) for r in RANKERS if r != "random"]
    agree = sum(row["equals_oracle"] for row in results["rows"])
    return {
        "xor": f"{min(found):.0f} to {max(found):.0f} %",
        "xor_printed": f"{100 * xor['paper_literal']:.0f} %",
        "lead": f"{means['miw'] - means['gini']:.1f} points",
        **_pair_figures(results),
        "sets": f"{len(sets(results))} data sets",
        "seven_classes": f"{max(best(seven, r) for r in RANKERS):.1f} %",
        "repeated": f"{seven['shape'][0] - alone['shape'][0]} repeated rows",
        "lift": f"{min(lifts):.0f} to {max(lifts):.0f} points",
        "orders": f"{agree} of {len(results['rows'])} runs",
    }


def _pair_figures(results: dict) -> dict[str, str]:
    found = results["xor"]["among_the_first_four"]
    shares = {"pure": found["pure XOR"], "ring": found["ring"]}
    started = {name: f"{100 * own['miw']:.0f} %" for name, own in shares.items()}
    alone = {f"{n}_alone": f"{100 * own['miw, no pair start']:.0f} %" for n, own in shares.items()}
    return started | alone


PAGE = Page(
    "docs/evidence/interaction.md",
    lambda: load("interaction"),
    {"accuracy": accuracy, "cost": cost, "wide": wide},
    inline,
)
