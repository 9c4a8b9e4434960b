# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""How long every part of fedsift waits for another: one table of limits, in seconds.

Nothing waits without a limit. Whatever waits takes its limit from a :class:`Timeouts`, which is
passed to it or is :data:`DEFAULT_TIMEOUTS`. An organisation sets two of them in its settings; see
:meth:`Timeouts.for_member`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Timeouts:
    """Limits of waits and lengths of pauses; every field that ends in ``seconds`` is a time."""

    # A run of a protocol, in one process or at a site
    request_seconds: float = 900.0
    """A role answers a request within this time, however much it computes."""
    thread_end_seconds: float = 1.0
    """A party's thread gets this long to end before it is left behind."""

    # Messages between sites
    round_trip_seconds: float = 60.0
    """A small message and its reply take at most this long. A site inside one long computation
    cannot even say that it is busy, so this must not be short."""
    hold_seconds: float = 5.0
    """A site that still computes says so after this time."""
    bytes_per_second: float = 100_000.0
    """The slowest connection that is expected; large messages get so much more time."""
    attempts: int = 2
    """A message is sent this often before its receiver counts as unreachable."""
    join_seconds: float = 180.0
    """The sites wait this long for the last one to join."""
    idle_seconds: float = 600.0
    """A site ends its part when the driving site was silent for this long."""
    cancel_seconds: float = 5.0
    """A site that ends a run waits this long for the others to take note."""
    probe_seconds: float = 2.0
    """A site that is asked whether it is still there must reply within this time."""
    first_retry_seconds: float = 0.05
    """A site that has not joined yet is tried again after this pause, which then doubles."""
    longest_retry_seconds: float = 1.0
    """The pause between two such attempts grows to this length."""
    abort_check_seconds: float = 0.2
    """A wait looks this often whether the run was aborted."""

    # A member's part in a job
    checkpoint_turn_seconds: float = 45.0
    """A run waits this long for an earlier run of its job to release the checkpoints; FLARE ends
    an aborted job within seconds."""
    lock_poll_seconds: float = 0.1
    """The lock of the checkpoints is tried this often."""
    approval_poll_seconds: float = 2.0
    """Between two questions of the hub to a member where a person has to approve a job."""
    setup_seconds: int = 300
    """A member accepts or refuses a job within this time."""
    progress_interval_seconds: float = 2.0
    """A member reports its progress to the hub this often."""
    progress_send_seconds: float = 15.0
    """Sending such a report takes at most this long."""
    linger_seconds: float = 4.0
    """A member of an aborted job stays this long, so that others see that it was not the one
    that was lost."""
    last_report_seconds: float = 60.0
    """Once one member has reported how the job ended, the hub waits this long for the others."""
    last_report_after_failure_seconds: float = 15.0
    """The same, if a member has failed."""
    last_report_after_driver_seconds: float = 3.0
    """The same, if the driving member has failed: nobody can say more than it did."""
    last_report_after_abort_seconds: float = 6.0
    """The hub of an aborted job waits this long for reports."""
    report_fetch_seconds: float = 3.0
    """The hub of a failed job waits this long for the submitter to fetch the reports."""
    controller_poll_seconds: float = 0.1
    """The hub looks this often whether members have finished."""
    shortest_request_seconds: float = 0.1
    """FLARE gets no shorter limit: it would read zero as *without encryption*."""

    # FLARE's own settings
    site_lost_seconds: int = 120
    """FLARE counts an organisation as lost after so long without a heartbeat."""
    hub_lost_seconds: float = 10.0
    """An organisation's FLARE process waits this long for a reply of the hub."""
    schedule_seconds: float = 0.5
    """The hub tries to start a waiting job after this pause, at first."""
    longest_schedule_seconds: float = 5.0
    """The pause between two such attempts grows to this length."""
    stream_retry_seconds: float = 5.0
    """FLARE repeats a message that was not confirmed for so long."""
    stream_retry_wait_seconds: float = 1.0
    """FLARE waits this long before it repeats one."""
    task_check_seconds: float = 1.0
    """A member's job process looks this often whether its task still exists."""
    task_request_seconds: float = 0.5
    """A member's job process asks the hub for its next task this often."""
    job_heartbeat_seconds: float = 5.0
    """A member's job process sends the hub a heartbeat this often."""

    # Processes of a federation
    member_heartbeat_seconds: int = 5
    """An organisation that waits for jobs sends the hub a heartbeat this often."""
    member_start_seconds: float = 90.0
    """A member comes up within this time; a loaded machine needs a part of it."""
    process_poll_seconds: float = 0.1
    """A start looks this often whether the member is up."""
    process_end_seconds: float = 10.0
    """A process that is asked to end gets this long before it is killed."""
    job_end_notice_seconds: float = 1.0
    """A member whose jobs were ended gets this long to tell the hub."""
    port_check_seconds: float = 1.0
    """A process that listens on this machine accepts a connection within this time."""

    # A submitter
    connect_seconds: float = 20.0
    """The hub is reached within this time."""
    command_seconds: float = 30.0
    """The hub answers a command within this time."""
    command_margin_seconds: float = 30.0
    """The process that passes commands to the hub gets so much more time than FLARE itself."""
    proxy_end_seconds: float = 10.0
    """That process gets this long to end before it is killed."""
    job_limit_seconds: float = 24 * 3600.0
    """A job that takes longer than this is ended."""
    job_poll_seconds: float = 0.5
    """A submitter asks this often how far the job is."""
    reconnect_seconds: float = 60.0
    """A submitter tries this long to reach a hub that went away."""
    forgotten_seconds: float = 10.0
    """A job that nobody at the hub has heard of for this long is not run any more."""

    @classmethod
    def for_member(cls, idle_seconds: float, heartbeat_seconds: float) -> Timeouts:
        """The limits of an organisation, from the two that it sets for itself."""
        return cls(
            round_trip_seconds=min(cls.round_trip_seconds, idle_seconds / 4),
            hold_seconds=heartbeat_seconds,
            join_seconds=min(cls.join_seconds, idle_seconds),
            idle_seconds=idle_seconds,
        )

    @property
    def heartbeat_seconds(self) -> float:
        """A site shows this often that it is alive: several times before others give it up."""
        return self.idle_seconds / 5

    @property
    def away_seconds(self) -> float:
        """An organisation that sent no heartbeat for this long does not count as connected."""
        return 8.0 * self.member_heartbeat_seconds

    def limit_round_trip(self, n_bytes: int, hold_seconds: float = 0.0) -> float:
        """Return the limit of one message and its reply, by their size."""
        return self.round_trip_seconds + hold_seconds + n_bytes / self.bytes_per_second


DEFAULT_TIMEOUTS = Timeouts()
"""The limits of everything that was given no others."""
