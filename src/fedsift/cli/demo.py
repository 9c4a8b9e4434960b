# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""``fedsift demo``: one complete secure selection, explained step by step."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from fedsift.cli.common import console, errors_as_exit_codes, shown
from fedsift.cli.run import print_paths
from fedsift.cli.tables import features_table, learned_table, live_progress

if TYPE_CHECKING:
    from fedsift.data import Federation

PARTIES = ("clinic", "laboratory", "imaging")
N_FEATURES = 8
_SEED = 7


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Directory to write to.")] = Path(
        "fedsift-demo"
    ),
) -> None:
    """Run an encrypted selection between three simulated parties; takes a few seconds."""
    with errors_as_exit_codes():
        from fedsift.cli import output
        from fedsift.report import view_of

        output.check_writable(out)
        screen = console()
        federation, selector = _scene()
        _tell_scene(screen, federation)
        _tell_plan(screen, selector.plan(federation))
        screen.print("\n[bold]3. The run.[/bold] Every message goes through real encryption.")
        with live_progress(console(errors=True)) as observer:
            result = selector.run(federation, observer=observer).result_
        view = view_of(result)
        screen.print(f"   Done: {shown(view.cost)}")
        for row in view.by_message:
            if row.share > 0.01:
                screen.print(f"   {shown(row.name)}: {row.amount}")
        paths = output.write_run(out, result)
        screen.print(f"\n[bold]4. The result.[/bold] {shown(view.headline)}")
        screen.print(features_table(view))
        screen.print(learned_table("Who learned what (from the ledger)", result.disclosures))
        print_paths(screen, result, paths)
        screen.print(
            "Open the report in a browser. Next: 'fedsift methods', 'fedsift run JOB.toml'."
        )


def _scene() -> tuple[Federation, Any]:
    """Three parties that share the rows of a public data set, and the estimator."""
    from fedsift.data import catalog, split_vertical
    from fedsift.methods.filter.selector import FilterSelector

    data = catalog.load("breast_cancer", as_frame=True)
    federation = split_vertical(
        data.X, data.y, len(PARTIES), names=PARTIES, label_holder=PARTIES[0]
    )
    return federation, FilterSelector("gini", n_features_to_select=N_FEATURES, random_state=_SEED)


def _tell_scene(screen: Console, federation: Federation) -> None:
    screen.print(
        "[bold]1. The parties.[/bold] Three organisations know different things about the same "
        f"{federation.n_rows} patients (public data set breast_cancer)."
    )
    for party, table in federation.tables.items():
        labels = " and the diagnosis of every patient" if party == federation.label_holder else ""
        screen.print(f"   {party} holds {table.n_columns} features{labels}.")
    screen.print(
        f"   Which {N_FEATURES} of the {federation.n_features} features say most about the "
        "diagnosis? No party shows a single value to another."
    )


def _tell_plan(screen: Console, plan: Any) -> None:
    screen.print(
        f"\n[bold]2. The plan.[/bold] {PARTIES[0]} encrypts the diagnoses; the others compute one "
        "score per feature on the ciphertexts, under a mask, and send it back; "
        f"{PARTIES[0]} decrypts the scores of features without names and shows each owner which "
        "of its features are among the best."
    )
    for note in plan.notes:
        screen.print(f"   {shown(note)}")
    screen.print(
        learned_table("Who will learn what (from the messages' declarations)", plan.disclosures)
    )
