"""Runs that ended long ago are deleted, as ``DELETE /runs/{id}`` deletes them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from flower_http.errors import Problem
from flower_http.journal import JournalUnavailable
from flower_http.log_book import LogBook

_DAY_S: Final = 86_400.0
_LOOK_EVERY_S: Final = 600.0
#: How many runs are looked up at a time.
AT_ONCE: Final = 100
_LOG = logging.getLogger(__name__)


class Retention:
    """Calls ``delete(run_id)`` for every run of ``book`` that ended more than ``days`` days ago (0 = at once).

    It looks every ``look_every_s`` seconds, on a thread of its own, from :meth:`start` to :meth:`stop`. A run that
    cannot be deleted is tried again the next time.
    """

    def __init__(
        self, book: LogBook, delete: Callable[[str], None], days: float, *, look_every_s: float = _LOOK_EVERY_S
    ) -> None:
        self._book = book
        self._delete = delete
        self._days = days
        self._look_every_s = look_every_s
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._go_round, name="flower-retention", daemon=True)

    def start(self) -> None:
        """Begin, with a first look at once."""
        self._thread.start()

    def stop(self, timeout: float = 0.0) -> None:
        """Delete nothing more; wait at most ``timeout`` seconds for what is being deleted."""
        self._end.set()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def _go_round(self) -> None:
        while True:
            try:
                self._look()
            except Exception:  # a disk may refuse for a while; next time it may be well
                _LOG.exception("looking for runs to delete failed, trying again later")
            if self._end.wait(self._look_every_s):
                return

    def _look(self) -> None:
        kept: set[str] = set()  # could not be deleted; those that ended after them are not to wait for that
        while True:
            ended = self._book.ended_before(time.time() - self._days * _DAY_S, AT_ONCE + len(kept))
            found = [run_id for run_id in ended if run_id not in kept]
            for run_id in found:
                if self._end.is_set() or not self._book.journal.healthy:  # a disk that refuses, refuses all of them
                    return
                if not self._try_to_delete(run_id):
                    kept.add(run_id)
            if not found:
                return

    def _try_to_delete(self, run_id: str) -> bool:
        try:
            self._delete(run_id)
        except (Problem, JournalUnavailable) as error:
            _LOG.warning("run %s ended long ago and could not be deleted: %s", run_id, error)
            return False
        except Exception:  # its books may be damaged; that must not keep the others
            _LOG.exception("run %s ended long ago and could not be deleted", run_id)
            return False
        _LOG.info("run %s was deleted: it ended more than %g day(s) ago", run_id, self._days)
        return True
