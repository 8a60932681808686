"""The manager: starts runs, holds them in a queue, steers them, and takes them up again after the server was down."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from flower_http.disk_watch import SICK_S, DiskWatch
from flower_http.documents import Document
from flower_http.engine import Engine
from flower_http.errors import Problem, unavailable, unknown_run
from flower_http.event_log import EventLog, LogClosed
from flower_http.files import Tree
from flower_http.jobs import Job
from flower_http.journal import JournalUnavailable
from flower_http.kit import Kit
from flower_http.log_book import LogBook
from flower_http.manager_api import AskFilter
from flower_http.oracles import OracleQuestion, Oracles
from flower_http.places import RunIds
from flower_http.projection import ACTIVE, FINISHED, GETS_NOWHERE, INTERRUPTED, RESUMED, RunView
from flower_http.resolving import REQUEST, resolve, started_with
from flower_http.schemas import StartParams
from flower_http.slots import Claim, Slots
from flower_http.steering import Steering
from flower_http.views import AskView, MailView

#: How long a request to start a run waits for the disk, in seconds.
CREATE_S = 10.0
CANCELLED = "cancelled by a person"
_FLUSH_S = 1.0
_LOG = logging.getLogger(__name__)


class RunManager:
    """All runs of one server; the :class:`~flower_http.manager_api.Manager` of its routes.

    At most ``max_runs`` (>= 1) run at a time, at most ``queue`` (>= 0) wait for their turn, and never two in
    one workspace. A start waits at most ``create_s`` seconds for the journal; ``sick_s`` is that of
    :class:`~flower_http.disk_watch.DiskWatch`. Call :meth:`start_up` once the engine runs. Every method may be called
    from any thread; none holds a lock while it waits for the disk.
    """

    def __init__(
        self,
        book: LogBook,
        engine: Engine,
        kit: Kit,
        *,
        max_runs: int,
        queue: int,
        lang: str = "en",
        create_s: float = CREATE_S,
        sick_s: float = SICK_S,
    ) -> None:
        self._book = book
        self._engine = engine
        self._kit = kit
        self._lang = lang
        self._create_s = create_s
        self._ids = RunIds()
        self._slots: Slots[Job] = Slots(lambda job: job.start(engine, self._ended), max_runs=max_runs, queue=queue)
        self._steering = Steering(self._log, self._slots.find, kit.open_asks)
        self._oracles = Oracles(engine, kit, self._slots.find, at_once=max_runs)
        self._watch = DiskWatch(book.journal, self._slots, self._go_on, sick_s=sick_s)

    # ---- life of the manager

    def start_up(self, *, resume: bool = True) -> None:
        """Take up what an earlier process left: queued runs, and with ``resume`` those it went down under.

        One that gets nowhere stays ``interrupted``, and says so.
        """
        logs = [self._log(view.id) for view in self._book.unfinished()]
        for log in logs:
            view = log.view
            why = GETS_NOWHERE if view.gets_nowhere else "the server went down"
            if view.state in ACTIVE or (view.gets_nowhere and view.error != why):
                log.append("system", INTERRUPTED, payload={"error": why})
            if view.state == "queued" or (resume and not view.gets_nowhere):
                self._try_to_take_up(log, interrupted=view.state != "queued")
        for log in logs:
            log.wait_flushed(_FLUSH_S)  # nobody is to see a run as running that is not
        self._kit.places.sweep({log.run_id for log in logs if not log.final})
        self._watch.start()

    def shut_down(self, deadline_s: float) -> None:
        """Start nothing more, write the books of what runs, and stop it so that it can go on later."""
        until = time.monotonic() + deadline_s
        running = self._slots.close()
        self._watch.stop()
        for job in running:
            try:
                job.rescue()
            except Exception:
                _LOG.exception("run %s: its books could not be written", job.run_id)
            job.end("interrupted", "the server was stopped")
        self._oracles.close(max(0.0, until - time.monotonic()))
        self._slots.wait_idle(max(0.0, until - time.monotonic()))

    def ready(self) -> Sequence[str]:
        """Why runs cannot be carried on just now."""
        reasons = []
        if not self._engine.alive:
            reasons.append("engine: its loop does not run")
        if not self._book.journal.healthy:
            reasons.append("journal: the disk does not take what must be kept")
        if self._slots.closed:
            reasons.append("server: it is stopping")
        return reasons

    # ---- starting and ending

    def start(self, params: StartParams, *, by: str, key: str = "", again: bool = False) -> RunView:
        """Queue a new run. Raises Problem: 422 for what cannot run, 409 busy workspace, 429 full queue, 503."""
        known = started_with(self._book, key) if key and again else None
        if known is not None:
            return known
        run_id = self._ids.make()
        workspace = self._kit.places.find(params.workspace, run_id)
        self._kit.check(params, workspace, params.lang or self._lang)
        self._slots.claim(self._claim(run_id, workspace, params))
        try:
            self._kit.places.make(workspace)
            log = self._create(run_id, params, workspace, by, key)
            self._slots.put(Job(log, params, workspace, self._kit))
        except BaseException:
            self._slots.drop(run_id)
            raise
        return log.view

    def cancel(self, run_id: str) -> RunView:
        """End the run; a final one stays as it is. Returns once its end is committed, or after a few seconds."""
        log = self._log(run_id)
        self._slots.withdraw(run_id)
        if self._slots.find(run_id) is None and not log.view.final:
            self._end_unstarted(log)
        job = self._slots.find(run_id)
        if job is not None:
            job.end("cancelled", CANCELLED)
        return self._steering.wait_until(log, lambda view: view.final)

    def resume(self, run_id: str) -> RunView:
        """Let an interrupted run go on. Raises Problem 409 for any other."""
        log = self._log(run_id)
        log.wait_flushed(_FLUSH_S)
        if log.view.state != "interrupted":
            raise _not_interrupted(log)
        self._take_up(log, interrupted=True)
        log.wait_flushed(_FLUSH_S)
        return log.view

    def delete(self, run_id: str) -> None:
        """Forget an ended run and all that is its own; see :meth:`~flower_http.places.Places.drop`.

        Raises Problem 409 for a run that has not ended, 503 when something cannot be removed; it may then be repeated.
        """
        log = self._log(run_id)
        if not log.final:
            raise Problem(409, "not-ended", f"the run is {log.view.state}; cancel it first")
        try:
            with self._oracles.silent(run_id):
                where = log.view.workspace
                shared = any(other.workspace == where for other in self._book.unfinished())
                self._kit.places.drop(log.view, shared=shared)
                self._book.delete(run_id)  # last, so that no books are left that nobody knows of
        except (OSError, sqlite3.Error, JournalUnavailable) as error:
            raise unavailable(f"the run is still there: {error}") from error

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
        return resolve(self._book) if run is None else self._log(run).run_id

    def steps(self, run_id: str) -> Sequence[Mapping[str, Any]]:
        """The manifest rows of this run."""
        return self._kit.places.manifest_rows(self._log(run_id).view)

    def files(self, run_id: str) -> Tree:
        """The files of the run's workspace."""
        return self._kit.places.files(self._log(run_id).view)

    def documents(self, run_id: str) -> Sequence[Document]:
        """The documents of the run, as far as they exist."""
        return self._kit.places.documents.of(self._log(run_id).run_id)

    def asks(self, run_id: str, state: AskFilter) -> Sequence[AskView]:
        """The questions of a run, oldest first."""
        log = self._log(run_id)
        return log.conversation.asks() if state == "all" else log.view.asks

    def inbox(self, run_id: str) -> Sequence[MailView]:
        """What was said to the run, oldest first."""
        return self._log(run_id).conversation.mail()

    # ---- steering; see steering.py

    def answer(
        self, run_id: str, ask_id: str, *, text: str | None = None, option: int | None = None, by: str
    ) -> tuple[AskView, bool]:
        """Answer a question; True with the very same answer again."""
        return self._steering.answer(run_id, ask_id, text=text, option=option, by=by)

    def decline(self, run_id: str, ask_id: str, *, reason: str, by: str) -> tuple[AskView, bool]:
        """Decline a question."""
        return self._steering.decline(run_id, ask_id, reason=reason, by=by)

    def send(self, run_id: str, text: str, *, key: str = "") -> MailView:
        """Put something into the run's inbox."""
        return self._steering.send(run_id, text, key)

    def interrupt(self, run_id: str, text: str, *, key: str = "") -> None:
        """Stop what the agent does and let it go on with ``text``."""
        self._steering.interrupt(run_id, text, key)

    def ask_oracle(self, run_id: str, question: str, *, key: str = "") -> OracleQuestion:
        """Have a question about the run answered on the side; see oracles.py."""
        return self._oracles.ask(self._log(run_id), question, key=key)

    def oracle_answer(self, run_id: str, question_id: str) -> OracleQuestion:
        """A question about the run, and its answer as far as there is one."""
        return self._oracles.get(self._log(run_id).run_id, question_id)

    # ---- inside

    def _log(self, run_id: str) -> EventLog:
        log = self._book.get(run_id)
        if log is None:
            raise unknown_run(run_id)
        return log

    def _claim(self, run_id: str, workspace: Path, params: StartParams) -> Claim:
        return Claim(run_id, workspace, self._kit.flows.alone(params.flow))

    def _ended(self, job: Job) -> None:
        if job.unwritten:
            self._watch.told(job.run_id)
        self._slots.drop(job.run_id)

    def _create(self, run_id: str, params: StartParams, workspace: Path, by: str, key: str) -> EventLog:
        more = {REQUEST: key}
        row = {**self._kit.row(run_id, params, workspace, params.lang or self._lang, **more), "by": by}
        try:
            return self._book.create(row, timeout=self._create_s)
        except JournalUnavailable as error:
            raise unavailable(f"the run was not started: {error}") from error

    def _end_unstarted(self, log: EventLog) -> None:
        """Write down the end of a run that no job carries. Should one take it up meanwhile, it finds the log closed."""
        with suppress(LogClosed):
            self._steering.decline_open(log)
            self._kit.places.end(log.run_id)
            log.append("system", FINISHED, payload={"state": "cancelled", "error": CANCELLED})

    def _take_up(self, log: EventLog, *, interrupted: bool, always: bool = False) -> None:
        """Let a run of an earlier process, or one that was stopped, go on. Raises Problem when that cannot be.

        ``always``: also when the queue is full, for the run was accepted and nobody but the server has stopped it.
        """
        view = log.view
        params = StartParams.restore(view.params)
        workspace = self._kit.places.again(view)
        self._slots.claim(self._claim(view.id, workspace, params), always=always)
        try:
            self._kit.places.make(workspace)
            if interrupted:
                self._steering.settle_kept(log)
                log.append("system", RESUMED, payload={"state": "queued"})
            # Also a run that was queued when the server went down may have run before.
            self._slots.put(Job(log, params, workspace, self._kit, resumed=interrupted or bool(view.started_at)))
        except BaseException as error:
            self._slots.drop(view.id)
            if isinstance(error, LogClosed):
                raise _not_interrupted(log) from error
            raise

    def _try_to_take_up(self, log: EventLog, *, interrupted: bool) -> None:
        try:
            self._take_up(log, interrupted=interrupted, always=True)
        except Problem as problem:
            _LOG.warning("run %s is not taken up: %s", log.run_id, problem.detail)
        except Exception:  # one run that cannot go on must not keep the others, or the server, from it
            _LOG.exception("run %s is not taken up", log.run_id)

    def _go_on(self, run_id: str) -> bool:
        """Let a run go on that was stopped because of the disk; False while it still has to come to its stop."""
        log = self._book.get(run_id)
        if log is None or log.view.final:
            return True
        if self._slots.find(run_id) is not None or log.view.state != "interrupted":
            return False
        self._try_to_take_up(log, interrupted=True)
        return True


def _not_interrupted(log: EventLog) -> Problem:
    return Problem(409, "not-interrupted", f"the run is {log.view.state}; only an interrupted one resumes")
