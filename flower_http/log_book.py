"""All runs: those in memory, and those that only the journal knows any more."""

from __future__ import annotations

import sqlite3
import threading
import time
import uuid
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakValueDictionary

from flower_core.events import jsonable
from flower_http import records
from flower_http.encode import complete, encode_event, rfc3339
from flower_http.event_log import RING_BYTES, RING_EVENTS, EventLog
from flower_http.journal import Journal, JournalUnavailable
from flower_http.projection import ACTIVE, CREATED, STATES, RunView, fold

#: How many ended runs keep their newest events in memory for the readers who are not through yet.
_ENDED_KEPT: Final = 8
_TIMEOUT_S: Final = 10.0

Views = list[RunView]


@dataclass(frozen=True)
class Totals:
    """What has happened since the book was opened: events kept, US dollars spent, runs ended by state."""

    events: int
    cost_usd: float
    ended: Mapping[str, int]


class LogBook:
    """The event logs of all runs, one object per run as long as anybody holds it.

    ``ring`` and ``ring_bytes`` bound what each keeps in memory. Of a run that writes, the newest ``keep_events`` (>= 1)
    at least are kept at all, None for every one. Every method may be called from any thread.
    """

    def __init__(
        self,
        journal: Journal,
        ring: int = RING_EVENTS,
        *,
        ring_bytes: int = RING_BYTES,
        keep_events: int | None = None,
    ) -> None:
        self.journal = journal
        self._ring = ring
        self._ring_bytes = ring_bytes
        self._keep_events = keep_events
        self._lock = threading.Lock()
        self._known: WeakValueDictionary[str, EventLog] = WeakValueDictionary()
        self._live: dict[str, EventLog] = {}
        self._ended: OrderedDict[str, EventLog] = OrderedDict()
        # Not the lock above: under that one the journal may be read, and here its writer would wait.
        self._counting = threading.Lock()
        self._events_shown, self._cost_usd = 0, 0.0
        self._ended_as: Counter[str] = Counter()

    @property
    def totals(self) -> Totals:
        """What has happened since the book was opened."""
        with self._counting:
            return Totals(self._events_shown, self._cost_usd, dict(self._ended_as))

    def create(self, row: Mapping[str, Any], *, timeout: float = _TIMEOUT_S) -> EventLog:
        """A new run from its row: ``id``, and flow, task, workspace, lang, labels, params for ``run.created`` to say.

        Returns once the run and its first event are committed. Raises ValueError when the id is taken,
        :class:`JournalUnavailable` after ``timeout`` seconds, and then there is no such run.
        """
        at = rfc3339(time.time())
        _, rest = encode_event("system", CREATED, payload=row)
        body = complete(1, at, rest)
        # The run is made from the whole row: the event may show a long task cut, but the run must be able to start.
        whole = {"kind": "system", "text": CREATED, "payload": jsonable(row)}
        view = fold(RunView(id=str(row["id"]), epoch=uuid.uuid4().hex), 1, at, whole)
        try:
            number = self.journal.execute(lambda db: records.insert_run(db, view, body), timeout)
        except sqlite3.IntegrityError as error:
            raise ValueError(f"there is a run {view.id!r} already") from error
        with self._counting:
            self._events_shown += 1
        with self._lock:
            # Somebody may have asked for it the moment it was committed.
            return self._known.get(view.id) or self._open(records.Record(number, 1, view), [body])

    def get(self, run_id: str) -> EventLog | None:
        """The log of this run, from the journal if need be; None when there is no such run. Raises sqlite3.Error."""
        log = self._known.get(run_id)
        if log is not None:
            return log
        with self._lock:
            log = self._known.get(run_id)
            if log is None:
                record = self.journal.read(lambda db: records.load_run(db, run_id))
                log = self._open(record, []) if record is not None else None
            return log

    def peek(self, run_id: str) -> EventLog | None:
        """The log of this run if it is in memory; never reads the journal."""
        return self._known.get(run_id)

    def live(self) -> tuple[EventLog, ...]:
        """The logs in memory of runs that have not ended."""
        with self._lock:
            return tuple(self._live.values())

    def list(
        self,
        state: str | None = None,
        labels: Mapping[str, str] | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> tuple[Views, str | None]:
        """Runs, newest first, and the cursor of the next page (None at the end).

        Only those in ``state`` and with all of ``labels``. A page may hold fewer than ``limit`` although there is a
        next one. Raises ValueError for an unknown state, sqlite3.Error when the journal cannot be read.
        """
        if state is not None and state not in STATES:
            raise ValueError(f"there is no state {state!r}; there are {', '.join(sorted(STATES))}")
        # A run goes to and fro between these two; the index may be one event behind what is shown.
        states = () if state is None else tuple(ACTIVE) if state in ACTIVE else (state,)

        def query(connection: sqlite3.Connection) -> tuple[Sequence[str], Views]:
            ids = records.list_ids(connection, states, labels or {}, cursor, limit + 1)
            return ids, [view for run_id in ids[:limit] if (view := self._view_of(connection, run_id)) is not None]

        ids, views = self.journal.read(query)
        chosen = [view for view in views if state is None or view.state == state]
        return chosen, ids[limit - 1] if len(ids) > limit else None

    def unfinished(self) -> Views:
        """Every run that has not ended for good, oldest first. Raises sqlite3.Error when the journal cannot be read."""
        logs = [self.get(run_id) for run_id in self.journal.read(records.unfinished_ids)]
        return [log.view for log in logs if log is not None and not log.final]

    def started_with(self, name: str, value: str) -> Views:
        """Every run that was started with the parameter ``name`` = ``value``, oldest first. Raises sqlite3.Error.

        Looks at all runs there are.
        """
        logs = [self.get(run_id) for run_id in self.journal.read(lambda db: records.ids_with_param(db, name, value))]
        return [log.view for log in logs if log is not None]

    def last_ended(self) -> str | None:
        """The id of the run that ended last, None when none has. Raises sqlite3.Error."""
        return self.journal.read(records.last_ended_id)

    def ended_before(self, at: float, limit: int = 100) -> Sequence[str]:
        """Ids of at most ``limit`` runs that ended before ``at`` (seconds since the epoch), those first that did first.

        Raises sqlite3.Error when the journal cannot be read.
        """
        return self.journal.read(lambda db: records.ended_ids(db, rfc3339(at), limit))

    def delete(self, run_id: str, *, timeout: float = _TIMEOUT_S) -> bool:
        """Drop an ended run from the journal, a part at a time so that others can write; whether there was one.

        Raises ValueError for a run that has not ended, :class:`JournalUnavailable` after ``timeout`` seconds: then some
        of its events may be gone, and it can be deleted again.
        """
        log = self.get(run_id)
        if log is None:
            return False
        if not log.final:
            raise ValueError(f"run {run_id!r} has not ended")
        until = time.monotonic() + timeout
        try:
            log.drop_before(log.last_seq).result(timeout)
        except TimeoutError as error:
            raise JournalUnavailable(f"only a part of it was dropped within {timeout:g} s") from error
        self.journal.execute(lambda db: records.delete_run(db, log.number), max(0.0, until - time.monotonic()))
        log.forget()
        with self._lock:
            self._known.pop(run_id, None)
            self._ended.pop(run_id, None)
        return True

    def _view_of(self, connection: sqlite3.Connection, run_id: str) -> RunView | None:
        log = self._known.get(run_id)
        if log is not None:
            return log.view
        record = records.load_run(connection, run_id)
        return record.view if record is not None else None

    def _open(self, record: records.Record, events: Sequence[bytes]) -> EventLog:
        log = EventLog(
            self.journal,
            record,
            newest=events,
            ring=self._ring,
            ring_bytes=self._ring_bytes,
            keep=self._keep_events,
            on_shown=self._note,
        )
        self._known[log.run_id] = log
        if log.final:
            self._keep_ended(log)
        else:
            self._live[log.run_id] = log
        return log

    def _note(self, log: EventLog, before: RunView) -> None:
        """Events of ``log`` have been shown."""
        view = log.view
        ended = view.final and not before.final
        with self._counting:
            self._events_shown += view.last_seq - before.last_seq
            self._cost_usd += max(0.0, view.cost_usd - before.cost_usd)
            if ended:
                self._ended_as[view.state] += 1
        if ended:
            with self._lock:
                self._live.pop(log.run_id, None)
                self._keep_ended(log)

    def _keep_ended(self, log: EventLog) -> None:
        self._ended[log.run_id] = log
        while len(self._ended) > _ENDED_KEPT:
            self._ended.popitem(last=False)
