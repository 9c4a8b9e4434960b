# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a job will cost, for ``plan``; and prediction against reality, for ``run``."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from fedsift.cli.common import console, shown
from fedsift.cli.tables import table
from fedsift.errors import FedsiftError

if TYPE_CHECKING:
    from fedsift.config.job import Job
    from fedsift.costs import Estimate
    from fedsift.result import SelectionResult

_log = logging.getLogger(__name__)

NOT_PREDICTED = "The cost of this job is not predicted: the data or a policy will refuse it."


def predicted_before(ready: Any) -> Estimate | None:
    """As :func:`predicted`; a prediction that fails is no reason not to run the job."""
    try:
        return predicted(ready)
    except Exception:
        _log.warning("no prediction", exc_info=True)
        return None


def predicted_from_files(job: Job) -> Estimate | None:
    """What a job between organisations will cost whose files are all on this machine."""
    from fedsift.cli.prepare import prepare
    from fedsift.costs.estimate import on_flare

    try:
        forecast = predicted_before(prepare(job))
    except FedsiftError:  # the organisation concerned will say so
        return None
    return None if forecast is None else on_flare(forecast)


def predicted(ready: Any) -> Estimate | None:
    """The cost of a job that was made ready, with what FLARE adds if it is between organisations.

    None where it cannot be predicted: a job that will be refused is refused by the run itself, with
    the right words.
    """
    from fedsift.costs.estimate import on_flare

    own = _predicted_tables if ready.federation is None else _predicted_catalogued
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            expected = own(ready)
    except FedsiftError:
        return None
    return expected if expected is None or ready.job.engine != "flare" else on_flare(expected)


def _predicted_tables(ready: Any) -> Estimate | None:
    """The cost of a job on the parties' own tables."""
    from fedsift.costs import rates_of_this_machine
    from fedsift.costs.chain import estimate_joint

    federation, _ = ready.plan()
    policies = {party: local.policy for party, local in ready.local_parties.items()}
    rows = {
        party: local.load().n_rows if local.load is not None else federation.n_rows
        for party, local in ready.local_parties.items()
    }
    rates = rates_of_this_machine(tell=tell_measuring)
    return estimate_joint(ready.joint, federation, rates, policies, rows)


def _predicted_catalogued(ready: Any) -> Estimate | None:
    """The cost of a job on a catalogued data set."""
    from fedsift.config.steps import PREDICT
    from fedsift.costs import estimate, rates_of_this_machine
    from fedsift.costs.chain import estimate_steps

    rates = rates_of_this_machine(tell=tell_measuring)
    names = [step.method for step in ready.job.steps]
    if not names:
        return estimate(ready.selector, ready.federation, rates)
    federation, _ = ready.plan()
    selectors = list(ready.selector.steps)
    return estimate_steps(selectors, federation, rates, predicts=PREDICT in names)


def tell_measuring() -> None:
    """Say why a first prediction takes longer."""
    typer.echo("Measuring this machine once, for predictions; that takes some seconds.", err=True)


class Stopwatch:
    """Seconds on the wall and of the processor."""

    seconds = cpu_seconds = 0.0


@contextmanager
def timed() -> Iterator[Stopwatch]:
    """Take the time of a run."""
    watch, wall, cpu = Stopwatch(), time.perf_counter(), time.process_time()
    try:
        yield watch
    finally:
        watch.seconds = time.perf_counter() - wall
        watch.cpu_seconds = time.process_time() - cpu


def with_prediction(
    result: SelectionResult, forecast: Estimate | None, watch: Stopwatch
) -> SelectionResult:
    """The result with what was predicted and what it took."""
    if forecast is None:
        return result
    import msgspec

    took = {"seconds": watch.seconds}
    if not forecast.waiting:  # of organisations, this process sees the clock alone
        took["cpu_seconds"] = watch.cpu_seconds
    return msgspec.structs.replace(result, predicted={**forecast.to_plain(), "took": took})


def comparison(result: SelectionResult) -> str | None:
    """One line: prediction against reality."""
    expected = result.predicted
    if not expected:
        return None
    took, traffic = expected["took"], result.traffic
    processor = ""
    if "cpu_seconds" in took:
        processor = (
            f" ({amount_of_seconds(took['cpu_seconds'])} of processor time, predicted "
            f"{amount_of_seconds(expected['cpu_seconds'])})"
        )
    return (
        f"predicted {amount_of_seconds(expected['seconds'])}, took "
        f"{amount_of_seconds(took['seconds'])}{processor}; "
        f"predicted {amount_of_bytes(expected['bytes'])}, sent {amount_of_bytes(traffic.n_bytes)}; "
        f"predicted {expected['rounds']} rounds and {expected['ciphertexts']} ciphertexts, had "
        f"{traffic.rounds} and {traffic.ciphertexts}."
    )


def print_forecast(forecast: Estimate | None) -> None:
    """The table of ``plan``."""
    out = console()
    if forecast is None:
        out.print(NOT_PREDICTED)
        return
    made = table("Predicted cost", "what", "amount", numeric=("amount",))
    idle = "time, organisations on one machine" if forecast.waiting else "time on an idle machine"
    made.add_row(idle, _between(forecast, "seconds", amount_of_seconds))
    for phase, seconds in sorted(forecast.phases.items(), key=lambda entry: -entry[1]):
        made.add_row(f"  processor time: {shown(phase)}", amount_of_seconds(seconds))
    for what, seconds in forecast.waiting.items():
        made.add_row(f"  FLARE on a loopback: {shown(what)}", amount_of_seconds(seconds))
    made.add_row("bytes between parties", _between(forecast, "bytes", amount_of_bytes))
    made.add_row("rounds", f"{forecast.rounds:,}")
    made.add_row("messages", f"{forecast.messages:,}")
    made.add_row("ciphertexts", f"{forecast.ciphertexts:,}")
    out.print(made)
    for remark in forecast.remarks:
        out.print(f"Note: {shown(remark)}")


def _between(forecast: Estimate, what: str, words: Any) -> str:
    """An amount, and the range where the data decides."""
    text = str(words(forecast.seconds if what == "seconds" else forecast.n_bytes))
    if not forecast.lowest:
        return text
    return f"{text} ({words(forecast.lowest[what])} to {words(forecast.highest[what])})"


def amount_of_seconds(seconds: float) -> str:
    """Seconds as people say them."""
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def amount_of_bytes(n_bytes: float) -> str:
    """Bytes as people say them."""
    for unit in ("B", "kB", "MB"):
        if n_bytes < 1000:
            return f"{n_bytes:.4g} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.4g} GB"
