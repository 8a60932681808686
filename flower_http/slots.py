"""Who runs, who waits for a turn, and which workspaces are taken.

Nothing here touches the disk or waits for anybody while the lock is held: the engine's loop takes it, too, whenever
a run ends, and all runs would stand still.
"""

from __future__ import annotations

import bisect
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from flower_http.errors import Problem
from flower_http.places import overlaps


class Seated(Protocol):
    """What occupies a slot; a :class:`~flower_http.jobs.Job` does."""

    @property
    def run_id(self) -> str:
        """The run it carries on."""
        ...

    @property
    def leaving(self) -> bool:
        """Whether it is about to say that it has ended, after which it is dropped at once."""
        ...


J = TypeVar("J", bound=Seated)

#: How long somebody who leaves may hold up a claim, in seconds; it takes milliseconds.
_LEAVE_S = 5.0


@dataclass(frozen=True)
class Claim:
    """A run's hold on its workspace, and on the flow ``flow`` if that serves one run at a time."""

    run_id: str
    workspace: Path
    flow: str = ""


class Slots(Generic[J]):
    """Room for ``max_runs`` (>= 1) jobs at a time, and for ``queue`` (>= 0) more that wait. Every method: any thread.

    A run first claims its place with :meth:`claim`, where it may be refused; then :meth:`put` puts its job in, or
    :meth:`drop` gives the place up. ``begin(job)`` starts a job whose turn it is; it is called with the lock held, so
    it must not wait. Whoever carries a job on calls :meth:`drop` once nothing of it is left.
    """

    def __init__(self, begin: Callable[[J], None], *, max_runs: int, queue: int) -> None:
        self._begin = begin
        self._max_runs = max_runs
        self._queue_size = queue
        self._changed = threading.Condition()
        self._claims: dict[str, Claim] = {}
        self._queue: list[J] = []
        self._running: dict[str, J] = {}
        self._closed = False
        self._held = False

    @property
    def closed(self) -> bool:
        """Whether no run is taken any more."""
        return self._closed

    def claim(self, claim: Claim, *, always: bool = False) -> None:
        """Take a place for a run. ``always``: even if the queue is full already, for what was accepted earlier.

        Raises Problem: 503 when closed, 429 ``queue-full``, 409 ``workspace-busy`` or ``flow-busy`` with the other run.
        """
        with self._changed:
            # Whoever has seen that a run has ended must not be told that it is still there.
            self._changed.wait_for(lambda: not self._refusal(claim, always) or not self._somebody_leaves(), _LEAVE_S)
            if problem := self._refusal(claim, always):
                raise problem
            self._claims[claim.run_id] = claim

    def put(self, job: J) -> None:
        """Let the job of a run that has claimed its place run when it is its turn; the oldest run goes first."""
        with self._changed:
            bisect.insort(self._queue, job, key=lambda queued: queued.run_id)  # run ids sort by time
            self._pump()

    def withdraw(self, run_id: str) -> J | None:
        """Take the job of this run out of the queue, and give its place up; None when it does not wait there."""
        with self._changed:
            job = next((job for job in self._queue if job.run_id == run_id), None)
            if job is not None:
                self._queue.remove(job)
                del self._claims[run_id]
            return job

    def drop(self, run_id: str) -> None:
        """Give up the place of a run: its job has ended, or there will be none."""
        with self._changed:
            self._claims.pop(run_id, None)
            self._running.pop(run_id, None)
            self._pump()
            self._changed.notify_all()

    def find(self, run_id: str) -> J | None:
        """The job that carries this run on, or will; None when there is none."""
        with self._changed:
            queued = next((job for job in self._queue if job.run_id == run_id), None)
            return self._running.get(run_id) or queued

    def running(self) -> list[J]:
        """The jobs that have their turn."""
        with self._changed:
            return list(self._running.values())

    def hold(self, on: bool) -> None:
        """While on, no further job begins."""
        with self._changed:
            self._held = on
            self._pump()

    def close(self) -> list[J]:
        """Take and begin nothing more; the jobs that run."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            return list(self._running.values())

    def wait_idle(self, timeout: float) -> bool:
        """Wait at most ``timeout`` seconds until no job runs; whether none does."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._running, timeout)

    def _pump(self) -> None:
        while self._queue and len(self._running) < self._max_runs and not (self._closed or self._held):
            job = self._queue.pop(0)
            self._running[job.run_id] = job
            self._begin(job)

    def _somebody_leaves(self) -> bool:
        return not self._closed and any(job.leaving for job in self._running.values())

    def _refusal(self, wanted: Claim, always: bool) -> Problem | None:
        if self._closed:
            return Problem(503, "not-ready", "the server is stopping", headers={"Retry-After": "10"})
        for other in self._claims.values():
            if other.run_id == wanted.run_id:
                return Problem(409, "not-interrupted", "the run is being taken up already")
            if overlaps(other.workspace, wanted.workspace):
                return Problem(409, "workspace-busy", f"run {other.run_id} works in this workspace", run=other.run_id)
            if wanted.flow and other.flow == wanted.flow:
                detail = f"flow {wanted.flow!r} is one object and serves one run at a time, now run {other.run_id}"
                return Problem(409, "flow-busy", detail, run=other.run_id)
        if not always and len(self._claims) >= self._max_runs + self._queue_size:
            waiting = len(self._claims) - len(self._running)
            detail = f"{waiting} runs wait already; try again later"
            return Problem(429, "queue-full", detail, headers={"Retry-After": "30"})
        return None
