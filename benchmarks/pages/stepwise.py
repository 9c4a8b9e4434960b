# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Write the figures of docs/evidence/stepwise.md from the committed result file.

Run ``python -m benchmarks.pages stepwise`` after ``python -m benchmarks stepwise --profile regular
--out benchmarks/stepwise.json``; ``make bench-check`` compares the page with the file.
"""

from benchmarks.pages.writer import Page, listed, load, table

SELECTORS = {
    "random": "random",
    "f": "f filter",
    "mrmr": "mRMR",
    "mrmr_information": "mRMR by information",
    "stepwise": "stepwise",
}
MODELS = {"logistic": "logistic", "neighbours": "5-NN", "trees": "boosted trees"}


def accuracy(results: dict) -> str:
    """Accuracies by data set and selector, three models each."""
    rows = []
    for row in results["accuracy"]:
        n, m = row["shape"]
        cells = [_three(row["accuracy"][s]) for s in SELECTORS]
        rows.append([row["data"], f"{n} x {m}, {row['n_classes']}", *cells])
    means = results["accuracy_summary"]["mean"]
    rows.append(["**mean**", "", *(f"**{_three(means[s])}**" for s in SELECTORS)])
    leads = results["accuracy_summary"]["lead"]
    ahead = [
        [SELECTORS[s], *(f"{_signed(leads[s][m])}" for m in MODELS)]
        for s in SELECTORS
        if s != "stepwise"
    ]
    return (
        f"Percent of correct predictions with ten columns, {listed(MODELS.values())}; means over 3 folds "
        "with each of 2 seeds, selection inside the folds.\n\n"
        + table(["data", "rows x columns, classes", *SELECTORS.values()], rows)
        + "\nHow far stepwise selection is ahead of others, in points, on the mean of these sets; standard "
        "errors over sets in brackets:\n\n"
        + table(["ahead of", *MODELS.values()], ahead)
        + "\n"
        + _losses(results)
    )


def _three(values: dict) -> str:
    return " / ".join(f"{values[m]:.1f}" for m in MODELS)


def _signed(lead: dict) -> str:
    return f"{lead['mean']:+.1f} ({lead['error']:.1f})"


def _losses(results: dict) -> str:
    """Where the f filter is clearly better, with any model."""
    behind = [
        (row["data"], f"{MODELS[m]} {row['lead']['f'][m]['mean']:+.1f}")
        for row in results["accuracy"]
        for m in MODELS
        if row["lead"]["f"][m]["mean"] + 2 * row["lead"]["f"][m]["error"] < 0
    ]
    if not behind:
        return "It is behind the f filter by two standard errors nowhere.\n"
    named = listed(f"{data} ({what})" for data, what in behind)
    return f"It is behind the f filter by two standard errors over splits on {named}.\n"


def discoveries(results: dict) -> str:
    """Realised false discoveries and power, by correlation; what chance selects."""
    found = results["discoveries_summary"]
    rows = []
    for name, rates in found["by_correlation"].items():
        cells = [
            f"{100 * rates[way][what]['mean']:.1f} ({100 * rates[way][what]['error']:.1f})"
            for what in ("false", "power")
            for way in ("federated", "pooled")
        ]
        rows.append([name, *cells])
    header = [
        "correlation of neighbours",
        *("false, federated", "false, pooled", "found, federated", "found, pooled"),
    ]
    return (
        f"Percent, with standard errors over {len(results['discoveries']['knockoffs'])} generated "
        "federations in all: false ones among the kept columns, and causes found.\n\n"
        + table(header, rows)
        + f"\n`auto` selected something in {_share(found['null']['selected_something'])} of "
        f"{found['null']['runs']} runs in which columns and label had nothing to do with each other.\n"
    )


def bank(results: dict) -> str:
    """How often the partner with something new was named."""
    found = results["bank_summary"]
    return table(
        ["", f"of {found['runs']} runs"],
        [
            ["the new column comes first", str(found["new_first"])],
            ["`auto` stops there", str(found["stops_there"])],
            ["the new column has the largest F, one by one", str(found["one_by_one"])],
        ],
    ) + (
        f"\nOwn columns explain {_share(found['own_columns_explain'])} of the label, the new column adds "
        f"{_share(found['adds'])} on the mean.\n"
    )


def _share(value: float) -> str:
    return f"{100 * value:.1f} %"


def inline(results: dict) -> dict[str, str]:
    """Figures inside sentences, by name."""
    leads = results["accuracy_summary"]["lead"]
    rates = results["discoveries_summary"]["by_correlation"]["all"]
    madelon = next(row for row in results["accuracy"] if row["data"] == "madelon")
    return {
        "sets": f"{len(results['accuracy'])} public data sets",
        "lead_f": f"{leads['f']['logistic']['mean']:.1f} points",
        "lead_mrmr": f"{_signed(leads['mrmr']['logistic'])} points",
        "false": _share(rates["federated"]["false"]["mean"]),
        "power": _share(rates["federated"]["power"]["mean"]),
        "power_pooled": _share(rates["pooled"]["power"]["mean"]),
        "null": _share(results["discoveries_summary"]["null"]["selected_something"]),
        "first": f"{results['bank_summary']['new_first']} of {results['bank_summary']['runs']}",
        "stops": f"{results['bank_summary']['stops_there']} of {results['bank_summary']['runs']}",
        "madelon": f"{madelon['accuracy']['stepwise']['neighbours']:.1f} %",
        "madelon_f": f"{madelon['accuracy']['f']['neighbours']:.1f} %",
    }


PAGE = Page(
    "docs/evidence/stepwise.md",
    lambda: load("stepwise"),
    {"accuracy": accuracy, "discoveries": discoveries, "bank": bank},
    inline,
)
