"""Questions about runs that are answered on the side: who is being asked now, and what was answered before.

An oracle's question and answer lie in a file of their own, apart from the journal: nothing of them is part of the run.
The file is written before the question counts as asked, and again when it has been answered.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import logging
import re
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from flower_core.events import Event
from flower_core.files import atomic_write
from flower_core.workbench import Workbench
from flower_http.encode import rfc3339
from flower_http.engine import Engine
from flower_http.errors import Problem, invalid_body, unavailable, unknown_run
from flower_http.event_log import EventLog
from flower_http.jobs import Job
from flower_http.kit import Kit
from flower_http.schemas import StartParams

#: Of how many of its last events a run is looked at; most say nothing to a person, and 60 are shown in the end.
_RECENT = 400
#: How long to wait for an agent program to be gone, in seconds.
_STOP_S = 5.0
_ID = re.compile(r"o[1-9][0-9]{0,8}", re.ASCII)
_BUSY = {"Retry-After": "5"}
_LOST = "no answer was kept: the server went down, or its disk refused it; ask again"
_STOPPED = "the server was stopped before there was an answer; ask again"
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class OracleQuestion:
    """One question and what came of it. Times are RFC 3339, ``cost_usd`` US dollars; ``ref`` names the request."""

    id: str
    question: str
    asked_at: str
    state: Literal["thinking", "answered", "failed"] = "thinking"
    answer: str = ""
    cost_usd: float = 0.0
    error: str = ""
    answered_at: str = ""
    ref: str = ""

    def to_json(self) -> dict[str, Any]:
        """As a client is shown it."""
        shown = asdict(self)
        del shown["ref"]
        return {**shown, "answered_at": self.answered_at or None}


@dataclass(eq=False)
class _Asking:
    """A question that is being answered. ``task`` belongs to the engine's loop."""

    question: OracleQuestion | None = None
    task: asyncio.Task[None] | None = None
    done: concurrent.futures.Future[None] | None = None
    stopped: bool = False

    def stop(self) -> None:
        """On the loop: give up. Before the task has begun it will see for itself."""
        self.stopped = True
        if self.task is not None:
            self.task.cancel()


class Oracles:
    """Has questions about runs answered, one at a time for each run, ``at_once`` (>= 1) for all together.

    ``job_of`` finds the job that carries a run on. Every method may be called from any thread.
    """

    def __init__(self, engine: Engine, kit: Kit, job_of: Callable[[str], Job | None], *, at_once: int) -> None:
        self._engine = engine
        self._kit = kit
        self._job_of = job_of
        self._at_once = at_once
        self._changed = threading.Condition()
        self._asking: dict[str, _Asking] = {}
        #: Runs that are being deleted, and by how many at once.
        self._leaving: Counter[str] = Counter()
        self._closed = False

    def ask(self, log: EventLog, question: str, *, key: str = "") -> OracleQuestion:
        """Have ``question`` about a run answered; it is kept, and being looked into, when this returns.

        The ``key`` of the request is kept with it: one that is repeated, also after the server went down, is told of
        the question it has asked. Raises Problem: 422 for a blank question, 404 for a run that has been deleted
        meanwhile, 429 ``oracle-busy``, 503.
        """
        words = question.strip()
        if not words:
            raise invalid_body({"question": ["must say something"]})
        folder = self._kit.places.oracle_dir(log.run_id)
        before = next((known for known in (_kept(folder) if key else ()) if known.ref == key), None)
        if before is not None:
            return self.get(log.run_id, before.id)
        asking = self._claim(log.run_id)
        try:
            if log.forgotten:  # nothing may be kept about it any more
                raise unknown_run(log.run_id)
            events = _recent(log)
            number = 1 + sum(1 for _ in folder.glob("o*.json"))
            asked = asking.question = OracleQuestion(f"o{number}", words, rfc3339(time.time()), ref=key)
            _keep(folder, asked)
            asking.done = self._engine.submit(self._think(log, asking, asked, events))
        except BaseException as error:
            self._release(log.run_id)
            if isinstance(error, OSError):
                raise unavailable(f"it was not asked: {error}") from error
            raise
        return asked

    def get(self, run_id: str, question_id: str) -> OracleQuestion:
        """A question and its answer, as far as there is one. Raises Problem 404."""
        asking = self._asking.get(run_id)  # first, for the file is written before the place is given up
        if asking is not None and asking.question is not None and asking.question.id == question_id:
            return asking.question  # who sees an answer may ask again at once
        path = self._kit.places.oracle_dir(run_id) / f"{question_id}.json"
        known = _read(path) if _ID.fullmatch(question_id) else None
        if known is None:
            raise Problem(404, "unknown-question", f"nobody asked about this run under {question_id[:80]!r}")
        return replace(known, state="failed", error=_LOST) if known.state == "thinking" else known

    @contextmanager
    def silent(self, run_id: str) -> Iterator[None]:
        """Give up the question about this run, if there is one, and let nobody ask another while the body runs.

        So nothing is written about a run once what was asked about it is deleted. Raises Problem 503 when the question
        has not come to its end within a few seconds.
        """
        with self._changed:
            self._leaving[run_id] += 1
        try:
            with self._changed:
                asking = self._asking.get(run_id)
                if asking is not None:
                    self._engine.call_soon(asking.stop)
                if not self._changed.wait_for(lambda: run_id not in self._asking, _STOP_S):
                    detail = "a question about this run is still being given up; try again"
                    raise Problem(503, "not-ready", detail, headers=_BUSY)
            yield
        finally:
            with self._changed:
                self._leaving -= Counter([run_id])

    def close(self, timeout: float) -> None:
        """Take no more questions and give up those being answered, within ``timeout`` seconds."""
        with self._changed:
            self._closed = True
            left = list(self._asking.values())
        for each in left:
            self._engine.call_soon(each.stop)
        concurrent.futures.wait([each.done for each in left if each.done is not None], timeout)

    # ---- inside

    def _claim(self, run_id: str) -> _Asking:
        with self._changed:
            if self._closed:
                raise Problem(503, "not-ready", "the server is stopping", headers={"Retry-After": "10"})
            if run_id in self._leaving:
                raise Problem(503, "not-ready", "the run is being deleted", headers=_BUSY)
            if run_id in self._asking:
                raise Problem(429, "oracle-busy", "a question about this run is being answered", headers=_BUSY)
            if len(self._asking) >= self._at_once:
                raise Problem(429, "oracle-busy", f"{self._at_once} questions are being answered", headers=_BUSY)
            return self._asking.setdefault(run_id, _Asking())

    def _release(self, run_id: str) -> None:
        with self._changed:
            del self._asking[run_id]
            self._changed.notify_all()

    async def _think(self, log: EventLog, asking: _Asking, asked: OracleQuestion, events: list[Event]) -> None:
        """Get the answer and keep it. Never raises, and its future is never cancelled from outside."""
        done = replace(asked, state="failed", error=_STOPPED)
        try:
            if not asking.stopped:
                asking.task = asyncio.current_task()
                done = await self._answer(log, asked, events)
        except asyncio.CancelledError:
            pass
        except (Exception, SystemExit) as error:  # a question must never harm the engine, where the runs live
            _LOG.exception("run %s: its oracle failed", log.run_id)
            done = replace(done, error=f"{type(error).__name__}: {error}")
        asking.task = None
        try:
            done = replace(done, answered_at=rfc3339(time.time()))
            await asyncio.to_thread(_keep, self._kit.places.oracle_dir(log.run_id), done)
        except OSError as error:
            _LOG.error("run %s: an answer of its oracle could not be kept: %s", log.run_id, error)
        finally:
            self._release(log.run_id)

    async def _answer(self, log: EventLog, asked: OracleQuestion, events: list[Event]) -> OracleQuestion:
        view, kit = log.view, self._kit
        workspace = kit.places.again(view)
        workbench = self._workbench(log, workspace)
        config_dir = kit.places.oracle_config_dir(log.run_id)
        beside = [] if workbench is None else [workbench.root]
        admitted = await asyncio.to_thread(kit.admit, config_dir, workspace, *beside)
        with kit.way_to_model() as environ:
            answer = await kit.oracle(
                asked.question,
                workspace=workspace,
                run_dir=kit.places.oracle_dir(log.run_id),
                workbench=workbench,
                events=events,
                lang=view.lang or "en",
                model=view.params.get("model"),
                environ={**environ, **admitted},
                upstream=kit.upstream,
                config_dir=config_dir,
            )
        state: Literal["answered", "failed"] = "answered" if answer.ok else "failed"
        return replace(asked, state=state, answer=answer.text, cost_usd=answer.cost_usd, error=answer.error)

    def _workbench(self, log: EventLog, workspace: Path) -> Workbench | None:
        """The one the run works with; once it has ended, the usual one if something is there."""
        job = self._job_of(log.run_id)
        if job is not None and job.runtime is not None:
            return job.runtime.workbench
        params = StartParams.restore(log.view.params)
        usual = self._kit.context(params, workspace, log.view.lang or "en").workbench
        return usual if usual.root.is_dir() else None


def _recent(log: EventLog) -> list[Event]:
    """The last events of a run, oldest first, as far as they are kept."""
    after, events = max(0, log.last_seq - _RECENT), deque[Event](maxlen=_RECENT)
    while True:
        page = json.loads(log.page(after, _RECENT, skip_gap=True))
        events += [Event(each["kind"], each["text"], each["tool"], each["payload"]) for each in page["events"]]
        after = page["next_after"]
        if not page["pending"] or not page["events"]:
            return list(events)


def _keep(folder: Path, question: OracleQuestion) -> None:
    atomic_write(folder / f"{question.id}.json", json.dumps(asdict(question)), private=True)


def _kept(folder: Path) -> list[OracleQuestion]:
    return [known for path in folder.glob("o*.json") if (known := _read(path)) is not None]


def _read(path: Path) -> OracleQuestion | None:
    try:
        return OracleQuestion(**json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None
