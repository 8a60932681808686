"""The manager: starts runs, holds them in a queue, steers them, and takes them up again after the server was down."""

from __future__ import annotations

import builtins
import functools
import logging
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict
from pathlib import Path
from typing import Any

from flower_http.engine import Engine
from flower_http.errors import Problem, invalid_body, unknown_run
from flower_http.event_log import EventLog
from flower_http.jobs import Ending, Job, Kit
from flower_http.journal import JournalUnavailable
from flower_http.log_book import LogBook
from flower_http.manager_api import AskFilter
from flower_http.places import RunIds, overlaps
from flower_http.projection import ACTIVE, FINISHED, INTERRUPTED, RESUMED, RunView
from flower_http.schemas import StartParams
from flower_http.steering import Steering
from flower_http.views import AskView, MailView

#: How long the disk may refuse before the runs are stopped; they go on when it is well again. Seconds.
SICK_S = 60.0
_WATCH_EVERY_S = 1.0
_RECENT = 200
_LOG = logging.getLogger(__name__)


class RunManager:
    """All runs of one server; the :class:`~flower_http.manager_api.Manager` of its routes.

    At most ``max_runs`` (>= 1) run at a time, at most ``queue`` (>= 0) wait for their turn, and never two in
    one workspace. Call :meth:`start_up` once the engine runs. Every method may be called from any thread.
    """

    def __init__(self, book: LogBook, engine: Engine, kit: Kit, *, max_runs: int, queue: int, lang: str = "en") -> None:
        self._book = book
        self._engine = engine
        self._kit = kit
        self._max_runs = max_runs
        self._queue_size = queue
        self._lang = lang
        self._ids = RunIds()
        self._lock = threading.RLock()
        self._queue: deque[Job] = deque()
        self._running: dict[str, Job] = {}
        self._stopping = False
        self._idle = threading.Condition(self._lock)
        self._steering = Steering(self._log, self.job)
        self._watch = threading.Thread(target=self._watch_journal, name="flower-watch", daemon=True)
        self._watch_stop = threading.Event()

    # ---- life of the manager

    def start_up(self, *, resume: bool = True) -> None:
        """Take up what an earlier process left: queued runs, and with ``resume`` those it went down under."""
        for view in self._book.unfinished():
            if view.state in ACTIVE:
                self._append(view.id, INTERRUPTED, {"error": "the server went down"})
            if view.state == "queued" or resume:
                try:
                    self._take_up(self._log(view.id), resumed=view.state != "queued")
                except Problem as problem:
                    _LOG.warning("run %s is not taken up: %s", view.id, problem.detail)
        self._watch.start()

    def shut_down(self, deadline_s: float) -> None:
        """Start nothing more, write the books of what runs, and stop it so that it can go on later."""
        until = time.monotonic() + deadline_s
        with self._lock:
            self._stopping = True
            running = list(self._running.values())
        self._watch_stop.set()
        for job in running:
            job.rescue()
            job.end("interrupted", "the server was stopped")
        with self._idle:
            self._idle.wait_for(lambda: not self._running, max(0.0, until - time.monotonic()))

    def ready(self) -> Sequence[str]:
        """Why runs cannot be carried on just now."""
        reasons = []
        if not self._engine.alive:
            reasons.append("engine: its loop does not run")
        if not self._book.journal.healthy:
            reasons.append("journal: the disk does not take what must be kept")
        if self._stopping:
            reasons.append("server: it is stopping")
        return reasons

    # ---- starting and ending

    def start(self, params: StartParams, *, by: str) -> RunView:
        """Queue a new run. Raises Problem: 422 for what cannot run, 409 busy workspace, 429 full queue, 503."""
        run_id = self._ids.make()
        with self._lock:
            self._check_room()
            workspace = self._kit.places.workspace(params.workspace, run_id)
            self._check_free(workspace)
            row = {
                "id": run_id,
                "flow": params.flow,
                "task": params.task,
                "workspace": self._kit.places.shown(workspace),
                "lang": params.lang or self._lang,
                "labels": params.labels,
                "params": asdict(params),
                "by": by,
            }
            self._refuse_impossible(params, run_id, workspace)
            log = self._create(row)
            self._enqueue(Job(log, params, workspace, self._kit))
        return log.view

    def cancel(self, run_id: str) -> RunView:
        """End the run; a final one stays as it is. Returns once its end is committed, or after a few seconds."""
        log = self._log(run_id)
        with self._lock:
            queued = next((job for job in self._queue if job.run_id == run_id), None)
            job = self._running.get(run_id)
            if queued is not None:
                self._queue.remove(queued)
            if job is None and not log.view.final:
                self._append(run_id, FINISHED, {"state": "cancelled", "error": "cancelled before it ran on"})
        if job is not None:
            job.end("cancelled", "cancelled by a person")
            self._steering.wait_until(log, lambda view: view.final)
        log.wait_flushed(_WATCH_EVERY_S)
        return log.view

    def resume(self, run_id: str) -> RunView:
        """Let an interrupted run go on. Raises Problem 409 for any other."""
        log = self._log(run_id)
        with self._lock:
            if log.view.state != "interrupted" or self.job(run_id) is not None:
                raise Problem(409, "not-interrupted", f"the run is {log.view.state}; only an interrupted one resumes")
            self._check_room()
            self._take_up(log, resumed=True)
        log.wait_flushed(_WATCH_EVERY_S)
        return log.view

    # ---- looking

    def get(self, run_id: str) -> RunView:
        """The run as committed. Raises Problem 404."""
        return self._log(run_id).view

    def list(
        self, *, state: str | None, labels: Mapping[str, str], limit: int, cursor: str | None
    ) -> tuple[Sequence[RunView], str | None]:
        """Runs, newest first, and where to go on."""
        return self._book.list(state, labels, limit, cursor)

    def resolve(self, run: str | None) -> str:
        """The run a root verb means. Raises Problem 404 when there is none, 409 ``which-run`` when several could be."""
        if run is not None:
            return self._log(run).run_id
        unfinished = [view.id for view in self._book.unfinished()]
        if len(unfinished) > 1:
            raise Problem(409, "which-run", "several runs are unfinished; name one with run=", runs=unfinished)
        if unfinished:
            return unfinished[0]
        ended, _ = self._book.list(limit=_RECENT)
        if not ended:
            raise Problem(404, "unknown-run", "there is no run yet; start one with POST /runs")
        return max(ended, key=lambda view: view.ended_at).id

    def steps(self, run_id: str) -> Sequence[Mapping[str, Any]]:
        """The manifest rows of this run."""
        return self._kit.places.manifest_rows(self._log(run_id).view)

    def asks(self, run_id: str, state: AskFilter) -> Sequence[AskView]:
        """The questions of a run, oldest first."""
        asks = self._log(run_id).view.asks
        return [ask for ask in asks if state == "all" or ask.state == "asked"]

    def inbox(self, run_id: str) -> Sequence[MailView]:
        """What was said to the run, oldest first."""
        return self._log(run_id).view.mail

    # ---- steering; see steering.py

    def answer(
        self, run_id: str, ask_id: str, *, text: str | None = None, option: int | None = None, by: str
    ) -> tuple[AskView, bool]:
        """Answer a question; True with the very same answer again."""
        return self._steering.answer(run_id, ask_id, text=text, option=option, by=by)

    def decline(self, run_id: str, ask_id: str, *, reason: str, by: str) -> tuple[AskView, bool]:
        """Decline a question."""
        return self._steering.decline(run_id, ask_id, reason=reason, by=by)

    def send(self, run_id: str, text: str) -> MailView:
        """Put something into the run's inbox."""
        return self._steering.send(run_id, text)

    def interrupt(self, run_id: str, text: str) -> None:
        """Stop what the agent does and let it go on with ``text``."""
        self._steering.interrupt(run_id, text)

    def job(self, run_id: str) -> Job | None:
        """The job that carries this run on, queued ones included; None when nothing does."""
        with self._lock:
            queued = next((job for job in self._queue if job.run_id == run_id), None)
            return self._running.get(run_id) or queued

    # ---- inside

    def _log(self, run_id: str) -> EventLog:
        log = self._book.get(run_id)
        if log is None:
            raise unknown_run(run_id)
        return log

    def _append(self, run_id: str, text: str, payload: Mapping[str, Any]) -> None:
        self._log(run_id).append("system", text, payload=payload)

    def _create(self, row: Mapping[str, Any]) -> EventLog:
        try:
            return self._book.create(row)
        except JournalUnavailable as error:
            raise Problem(503, "journal-unavailable", f"the run was not started: {error}") from error

    def _check_room(self) -> None:
        if self._stopping:
            raise Problem(503, "not-ready", "the server is stopping", headers={"Retry-After": "10"})
        if len(self._running) >= self._max_runs and len(self._queue) >= self._queue_size:
            raise Problem(
                429,
                "queue-full",
                f"{len(self._queue)} runs wait already; try again later",
                headers={"Retry-After": "30"},
            )

    def _check_free(self, workspace: Path) -> None:
        for job in (*self._running.values(), *self._queue):
            if overlaps(job.workspace, workspace):
                raise Problem(409, "workspace-busy", f"run {job.run_id} works in this workspace", run=job.run_id)

    def _refuse_impossible(self, params: StartParams, run_id: str, workspace: Path) -> None:
        probe = Job.context_for(params, workspace, self._kit, params.lang or self._lang)
        try:
            self._kit.flows.check(params, probe)
        except ValueError as error:
            raise invalid_body({"flow": [str(error)]}) from error

    def _take_up(self, log: EventLog, *, resumed: bool) -> None:
        view = log.view
        workspace = self._kit.places.workspace(view.workspace, view.id)
        with self._lock:
            self._check_free(workspace)
            if resumed:
                self._steering.settle_left_over(log)
                log.append("system", RESUMED, payload={"state": "queued"})
            params = StartParams(**{**view.params, "tools": _tuple(view.params.get("tools"))})
            self._enqueue(Job(log, params, workspace, self._kit, resumed=resumed))

    def _enqueue(self, job: Job) -> None:
        self._queue.append(job)
        self._pump()

    def _pump(self) -> None:
        while self._queue and len(self._running) < self._max_runs and not self._stopping:
            job = self._queue.popleft()
            self._running[job.run_id] = job
            job.future = self._engine.submit(job.run())
            job.future.add_done_callback(functools.partial(self._ended, job))

    def _ended(self, job: Job, _future: Future[None]) -> None:
        with self._lock:
            self._running.pop(job.run_id, None)
            self._pump()
            self._idle.notify_all()

    def _stop_all(self, how: Ending, reason: str) -> None:
        with self._lock:
            running = builtins.list(self._running.values())
        for job in running:
            job.end(how, reason)

    def _watch_journal(self) -> None:
        while not self._watch_stop.wait(_WATCH_EVERY_S):
            since = self._book.journal.failing_since
            if since is not None and time.monotonic() - since > SICK_S:
                self._stop_all("interrupted", "the journal could not be written")


def _tuple(value: Any) -> tuple[str, ...] | None:
    return None if value is None else tuple(value)
