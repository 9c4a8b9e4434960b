# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The inbox of a member as a local page, for people who do not use a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from html import escape
from http import HTTPStatus

from fedsift.errors import FedsiftError
from fedsift.jobs.inbox import WAITING, Inbox, Request
from fedsift.report import blocks
from fedsift.report.history import SHOWN
from fedsift.report.live_server import HTML, NOTHING_HERE, Answer, LocalServer
from fedsift.report.view import clean, size

_FOOTER = "Served by fedsift on this machine only, until the command that started it is stopped."
_PLANNED = "The plan of this job with its settings, party by party. Nothing has been sent yet."
_POSSIBLE = (
    "There is no plan. This is what the methods of the job reveal by role, as far as the policy "
    "here allows it."
)
LEARNED_TITLE = "Who would learn what"
LEARNED_HEADER = ("about", "who learns it", "kind", "what")


def request_facts(request: Request) -> list[tuple[str, str]]:
    """Name what a person needs to know first about a job."""
    budget = request.epsilon + request.release_epsilon
    labels = request.labels_from or "every party"
    return [
        ("job", request.job[:SHOWN]),
        ("state", f"{request.state}: {clean(request.reason)}" if request.reason else request.state),
        ("submitter", clean(request.submitter)),
        ("method", clean(request.method)),
        ("setting", request.setting),
        ("parties", clean(", ".join(request.parties))),
        ("led by", clean(request.coordinator)),
        ("labels from", clean(labels)),
        ("settings", clean(request.parameters)),
        ("columns asked", _asked(request)),
        ("columns used here", clean(", ".join(request.columns)) or "not known"),
        ("held-out rows", request.rows_apart or "none"),
        ("budget", f"one job, epsilon {budget:g}" if budget else "one job, no privacy budget"),
        ("left before it", _left(request)),
        ("predicted cost", _cost(request)),
        *([("refused here", clean(request.refusal))] if request.refusal else []),
        ("expires", _minute(request.expires)),
    ]


def _asked(request: Request) -> str:
    """Say which columns the job names, party by party."""
    named = [f"{party}: {', '.join(names)}" for party, names in request.asked_columns.items()]
    others = [party for party in request.parties if party not in request.asked_columns]
    if others:
        named.append(f"{', '.join(others)}: all that they release")
    return clean("; ".join(named))


def _left(request: Request) -> str:
    amounts = [f"{name} {max(0.0, left):g}" for name, left in request.left.items()]
    return ", ".join(amounts) or "not known"


def _cost(request: Request) -> str:
    cost = request.predicted
    if not cost:
        return "not known"
    return (
        f"{size(int(cost['bytes']))} between all parties, {cost['rounds']:,} rounds, "
        f"{cost['seconds']:.3g} seconds with all organisations on one machine"
    )


def learned_lines(request: Request) -> list[tuple[str, str, str, str]]:
    """List who learns what about whom: by party where there is a plan, by role elsewhere."""
    if not request.planned:
        rows = [(one.about, one.learner, one.kind, one.what) for one in request.may_reveal]
    else:
        rows = [(one.about, one.learner, one.kind, one.what) for one in request.planned]
    return [(clean(a), clean(b), kind, clean(what)) for a, b, kind, what in dict.fromkeys(rows)]


def before_lines(request: Request) -> list[tuple[str, str, int]]:
    """List what parties of the job learned before: who, kind, and in how many jobs."""
    return [
        (clean(who), kind, times)
        for who, kinds in request.before.items()
        for kind, times in kinds.items()
    ]


def render(member: str, requests: Iterable[Request], notice: str = "") -> str:
    """Build the page; ``notice`` says what came of the last decision."""
    every = list(requests)
    waiting = [request for request in every if request.state == WAITING]
    decided = [request for request in every if request.state != WAITING]
    parts = [f'<p role="status">{escape(notice)}</p>' if notice else ""]
    parts += map(_section, waiting)
    if decided:
        lines = [
            (one.job[:SHOWN], one.state, clean(one.submitter), clean(one.method), clean(one.reason))
            for one in reversed(decided)
        ]
        header = ("job", "state", "submitter", "method", "reason")
        parts.append(blocks.section("Decided", "", blocks.table(header, lines, kind="cards")))
    jobs = "job waits" if len(waiting) == 1 else "jobs wait"
    headline = f"{clean(member)}: {len(waiting)} {jobs} for a decision"
    return blocks.document("fedsift inbox", headline, "\n".join(parts), footer=_FOOTER, forms=True)


def _section(request: Request) -> str:
    learned = [(who, kind, str(times)) for who, kind, times in before_lines(request)]
    job = escape(request.job, quote=True)
    hidden = f'<input type="hidden" name="job" value="{job}">'
    forms = (
        f'<form method="post" action="approve">{hidden}<button>Approve</button></form>'
        f'<form method="post" action="reject">{hidden}<label>Reason, which the submitter reads '
        '<input name="reason" maxlength="500" required></label> <button>Reject</button></form>'
    )
    content = [
        blocks.listing("", request_facts(request)),
        f"<h3>{LEARNED_TITLE}</h3>",
        f"<p>{escape(_PLANNED if request.planned else _POSSIBLE)}</p>",
        blocks.table(LEARNED_HEADER, learned_lines(request), kind="cards"),
        *(f"<p>{escape(clean(note))}</p>" for note in request.notes),
        "<h3>What these parties have learned before</h3>",
        blocks.table(("who", "kind", "jobs"), learned, numeric=(2,))
        if learned
        else "<p>Nothing.</p>",
        forms,
    ]
    return blocks.section(f"Job {request.job[:SHOWN]}", "", "".join(content))


class InboxServer(LocalServer):
    """Serves the inbox until it is stopped.

    Parameters
    ----------
    member : str
    inbox : Inbox
    listed : callable
        Returns the requests as they are now.
    """

    takes_forms = True

    def __init__(self, member: str, inbox: Inbox, listed: Callable[[], Iterable[Request]]) -> None:
        super().__init__("The inbox", "Use 'fedsift deploy inbox' without --web.")
        self._member, self._inbox, self._listed = member, inbox, listed

    def show(self, name: str) -> Answer:
        """Return the inbox as it is now."""
        return NOTHING_HERE if name else self._page("")

    def take(self, name: str, form: Mapping[str, str]) -> Answer:
        """Approve or reject a job."""
        if name not in ("approve", "reject"):
            return NOTHING_HERE
        try:
            job = self._inbox.decide(
                form.get("job", ""), approve=name == "approve", reason=form.get("reason", "")
            )
        except FedsiftError as error:
            return self._page(error.one_line)
        return self._page(f"Job {job[:SHOWN]}: {'approved' if name == 'approve' else 'rejected'}.")

    def _page(self, notice: str) -> Answer:
        return HTTPStatus.OK, HTML, render(self._member, self._listed(), notice).encode()


def _minute(time: str) -> str:
    return time[:16].replace("T", " ") + " UTC"
