# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Names that several processes of a federation must agree on: tasks, topics, keys and files."""

from __future__ import annotations

SETUP, WORK = "setup", "work"
"""The tasks that the hub hands out: accept or refuse the job; run your part in it."""

RELAY = "fedsift.relay"
"""Topic of sealed messages between members."""

REPORTS = "fedsift.reports"
"""Topic of sealed reports to the hub, and of the command by which the submitter asks for them."""

PROGRESS = "fedsift.progress"
"""Topic of counts and sealed snapshots to the hub."""

SENDER, CONTENT, REFUSED = "sender", "content", "refused"
"""Keys of a message between members."""

CODE = "code"
"""Key of the reply to the setup task: empty if the member accepts the job."""

SITE, REPORT, FAILED, DROVE, SNAPSHOT = "site", "report", "failed", "drove", "snapshot"
"""Keys of a report to the hub; ``SITE`` and ``SNAPSHOT`` are keys of progress too."""

PROTOCOL, ROUND = "protocol", "round"
"""Keys of progress and of the status: number of the protocol that runs, and its round."""

FINISHED = "finished"
"""Key of the status, beside ``FAILED`` and ``REFUSED``: members that are done."""

DONE, STATUS, SEALED, SNAPSHOTS, N_SNAPSHOTS = (
    "done",
    "status",
    "reports",
    "snapshots",
    "n_snapshots",
)
"""Keys of the hub's reply to a submitter."""

RESULT_FOLDER, REPORT_SUFFIX, STATUS_FILE = "fedsift", ".report", "status.json"
"""Where the result of a job holds the sealed reports and the status."""
