"""What becomes of the runs while the disk does not take what must be kept: stopped after a while, and resumed."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import Final

from flower_http.jobs import UNWRITTEN, Job
from flower_http.journal import Journal
from flower_http.slots import Slots

#: How long the disk may refuse before the runs are stopped; they go on when it is well again. Seconds.
SICK_S: Final = 60.0
_LOOK_EVERY_S: Final = 1.0
_LOG = logging.getLogger(__name__)


class DiskWatch:
    """Watches ``journal`` on a thread of its own, from :meth:`start` to :meth:`stop`.

    When it has refused for ``sick_s`` seconds, whatever runs is stopped as interrupted and nothing begins. When it is
    well again, ``go_on(run_id)`` is called for each of those until it returns True: it goes on, or never will.
    """

    def __init__(
        self, journal: Journal, slots: Slots[Job], go_on: Callable[[str], bool], *, sick_s: float = SICK_S
    ) -> None:
        self._journal = journal
        self._slots = slots
        self._go_on = go_on
        self._sick_s = sick_s
        self._stopped: set[str] = set()
        self._told: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="flower-disk-watch", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def told(self, run_id: str) -> None:
        """A run has stopped of itself because its events could not be kept; it goes on with the others."""
        self._told.put(run_id)

    def stop(self) -> None:
        """Watch no more."""
        self._end.set()

    def _watch(self) -> None:
        while not self._end.wait(_LOOK_EVERY_S):
            try:
                self._look()
            except Exception:  # a disk just well again may fail once more; without a watch nothing would ever begin
                _LOG.exception("looking after the disk failed, trying again")

    def _goes_on(self, run_id: str) -> bool:
        job = self._slots.find(run_id)
        # A person may have been quicker: then the run waits in the queue, and for nothing but the end of the hold.
        return (job is not None and not job.started) or self._go_on(run_id)

    def _look(self) -> None:
        while not self._told.empty():
            self._stopped.add(self._told.get())
        since = self._journal.failing_since
        if since is None:
            self._stopped = {run_id for run_id in self._stopped if not self._goes_on(run_id)}
            self._slots.hold(bool(self._stopped))
            return
        if time.monotonic() - since > self._sick_s:
            self._slots.hold(True)
            for job in self._slots.running():
                self._stopped.add(job.run_id)
                job.end("interrupted", UNWRITTEN)
