# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The inbox of a member as a local page, for people who do not use a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from html import escape
from http import HTTPStatus

from fedsift.errors import FedsiftError
from fedsift.jobs.inbox import WAITING, Inbox, Request
from fedsift.protocol.policy import Policy
from fedsift.report import blocks
from fedsift.report.history import SHOWN
from fedsift.report.live_server import HTML, NOTHING_HERE, Answer, LocalServer
from fedsift.report.view import clean

_FOOTER = "Served by fedsift on this machine only, until the command that started it is stopped."
_POSSIBLE = (
    "What the methods of the job reveal, as far as the policy here allows it. What is about this "
    "organisation depends on its role."
)


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
        ("cost", f"one job, epsilon {budget:g}" if budget else "one job, no privacy budget"),
        ("expires", _minute(request.expires)),
    ]


def before_lines(request: Request) -> list[tuple[str, str, int]]:
    """List what parties of the job learned before: who, kind, and in how many jobs."""
    return [
        (clean(who), kind, times)
        for who, kinds in request.before.items()
        for kind, times in kinds.items()
    ]


def render(member: str, requests: Iterable[Request], told: str = "") -> str:
    """Build the page; ``told`` says what came of the last decision."""
    every = list(requests)
    waiting = [request for request in every if request.state == WAITING]
    decided = [request for request in every if request.state != WAITING]
    parts = [f'<p role="status">{escape(told)}</p>' if told else ""]
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
    possible = [(one.kind, one.about, one.learner, one.what) for one in request.may_reveal]
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
        "<h3>Who could learn what</h3>",
        f"<p>{escape(_POSSIBLE)}</p>",
        blocks.table(("kind", "about", "who learns it", "what"), possible, kind="cards"),
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
    policy : callable
        Returns the member's policy as it is now.
    """

    takes_forms = True

    def __init__(self, member: str, inbox: Inbox, policy: Callable[[], Policy]) -> None:
        super().__init__("The inbox", "Use 'fedsift deploy inbox' without --web.")
        self._member, self._inbox, self._policy = member, inbox, policy

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

    def _page(self, told: str) -> Answer:
        requests = self._inbox.list_requests(self._policy())
        return HTTPStatus.OK, HTML, render(self._member, requests, told).encode()


def _minute(time: str) -> str:
    return time[:16].replace("T", " ") + " UTC"
