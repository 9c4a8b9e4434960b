"""A person says yes: jobs wait at a member, are decided once, and expire."""

import http.client
import re
import time
import urllib.parse

import msgspec
import pytest

from fedsift.errors import ConfigError
from fedsift.jobs.history import History, JobRecord
from fedsift.jobs.inbox import APPROVED, EXPIRED, REJECTED, WAITING, Inbox
from fedsift.protocol import Policy
from fedsift.protocol.policy import PlannedDisclosure
from fedsift.report.inbox import InboxServer
from helpers.joint import horizontal, vertical


def submitted(number=1, job=None):
    job = vertical("filter", ("bank", "shop"), n_features_to_select=1) if job is None else job
    return msgspec.structs.replace(job, nonce=f"{number:032x}", submitter="ann@bank.example")


@pytest.fixture
def inbox(tmp_path):
    return Inbox(tmp_path)


class TestDecisions:
    def test_a_job_waits_until_it_is_approved(self, inbox):
        job = submitted()
        assert inbox.ask(job, 60) == (WAITING, "")
        assert inbox.ask(job, 60) == (WAITING, "")
        assert inbox.decide(job.fingerprint[:8], approve=True) == job.fingerprint
        assert inbox.ask(job, 60) == (APPROVED, "")
        assert inbox.ask(submitted(2), 60) == (WAITING, "")

    def test_a_rejection_has_a_reason_without_control_characters(self, inbox):
        job = submitted()
        inbox.ask(job, 60)
        inbox.decide(job.fingerprint, approve=False, reason="no purpose\x1b[2J")
        state, reason = inbox.ask(job, 60)
        assert (state, reason) == (REJECTED, "no purpose [2J")

    def test_after_the_time_limit_nobody_can_approve(self, inbox):
        job = submitted()
        inbox.ask(job, 0.05)
        time.sleep(0.1)
        assert inbox.ask(job, 60) == (EXPIRED, "")
        with pytest.raises(ConfigError, match="not waiting: expired"):
            inbox.decide(job.fingerprint, approve=True)

    def test_a_decision_is_final_and_names_one_job(self, inbox):
        for number in range(20):
            inbox.ask(submitted(number), 60)
        names = [request.job for request in inbox.list_requests(Policy())]
        shared = next(c for c in "0123456789abcdef" if sum(n.startswith(c) for n in names) > 1)
        for wrong in ("", "no such job", shared):
            with pytest.raises(ConfigError, match="begin with"):
                inbox.decide(wrong, approve=True)
        inbox.decide(names[0], approve=False, reason="no")
        with pytest.raises(ConfigError, match="not waiting: rejected"):
            inbox.decide(names[0], approve=True)


class TestRequests:
    def test_it_says_what_could_be_learned_and_what_was_learned_before(self, inbox, tmp_path):
        earlier, history = submitted(5), History(tmp_path)
        history.begin(earlier, "table.csv")
        record = JobRecord(history, earlier, "shop", Policy(), "table.csv")
        record.charge({})
        rows = [("bank", "feature-scores"), ("stranger", "feature-scores"), ("bank", "row-count")]
        record.note_plan(
            [PlannedDisclosure(who, "r", "shop", "r", kind, "", "M") for who, kind in rows]
        )
        job = submitted()
        inbox.ask(job, 60)
        (request,) = inbox.list_requests(Policy(may_not_reveal=("bin-counts",)))
        assert request.before == {"bank": {"feature-scores": 1, "row-count": 1}}
        kinds = {one.kind for one in request.may_reveal}
        assert {"feature-scores", "common-ids"} <= kinds
        assert not {"bin-counts", "pooled-sums"} & kinds  # forbidden; of the other setting
        assert (request.submitter, request.labels_from) == ("ann@bank.example", "bank")

    def test_it_says_what_the_job_would_spend(self, inbox):
        inbox.ask(submitted(job=horizontal("filter", score="mi", epsilon=0.5)), 60)
        (request,) = inbox.list_requests(Policy())
        assert (request.epsilon, request.setting) == (0.5, "horizontal")


class TestPage:
    @pytest.fixture
    def server(self, inbox):
        with InboxServer("shop", inbox, lambda: inbox.list_requests(Policy())) as running:
            yield running

    def ask(self, server, name="", form=None, *, path=None, **headers):
        address = urllib.parse.urlsplit(server.url)
        link = http.client.HTTPConnection(address.netloc, timeout=10)
        given = headers or {"Sec-Fetch-Site": "same-origin"}
        headers = {**given, "Content-Type": "application/x-www-form-urlencoded"}
        body = None if form is None else urllib.parse.urlencode(form)
        target = address.path + name if path is None else path
        link.request("GET" if form is None else "POST", target, body, headers)
        answer = link.getresponse()
        text = answer.read().decode()
        link.close()
        return answer.status, text

    def test_a_job_is_approved_on_the_page(self, server, inbox):
        job = submitted()
        inbox.ask(job, 60)
        status, page = self.ask(server)
        assert status == 200
        assert "shop: 1 job waits for a decision" in page
        assert "form-action 'self'" in page
        (named,) = set(re.findall(r'name="job" value="(\w+)"', page))
        status, page = self.ask(server, "approve", {"job": named})
        assert status == 200
        assert f"Job {job.fingerprint[:12]}: approved." in page
        assert inbox.ask(job, 60) == (APPROVED, "")

    def test_a_job_is_rejected_with_a_reason(self, server, inbox):
        job = submitted()
        inbox.ask(job, 60)
        form = {"job": job.fingerprint, "reason": "<script>not now</script>"}
        _, page = self.ask(server, "reject", form)
        assert "<script>not now" not in page
        assert inbox.ask(job, 60) == (REJECTED, form["reason"])
        _, page = self.ask(server, "approve", form)
        assert "not waiting" in page

    @pytest.mark.parametrize(
        "headers",
        [
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "same-site"},
            {"Sec-Fetch-Site": "none"},
            {"Origin": "http://evil.example"},
            {"Origin": "null"},
        ],
        ids=str,
    )
    def test_other_pages_cannot_decide(self, server, inbox, headers):
        job = submitted()
        inbox.ask(job, 60)
        status, _ = self.ask(server, "approve", {"job": job.fingerprint}, **headers)
        assert status == 403
        assert inbox.ask(job, 60) == (WAITING, "")

    def test_without_the_token_nothing_is_decided(self, server, inbox):
        job = submitted()
        inbox.ask(job, 60)
        form = {"job": job.fingerprint}
        assert self.ask(server, form=form, path="/guess/approve")[0] == 404
        assert self.ask(server, "delete", form)[0] == 404
        assert self.ask(server, "approve", {**form, "reason": "x" * 20_000})[0] == 400
        assert inbox.ask(job, 60) == (WAITING, "")
