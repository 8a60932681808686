"""When readers who found nothing should come again: soon while there is little to do, later the more there is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

#: Milliseconds between which the pause stays.
SHORTEST_MS: Final = 250
LONGEST_MS: Final = 10_000
#: Empty replies a second that a server can well afford besides its work; more readers than that share them.
EMPTY_REPLIES_PER_S: Final = 500.0
#: Requests waiting for a thread above which readers are asked to come less often.
_EASY_QUEUE: Final = 32
_WINDOW_S: Final = 1.0
#: After so many seconds without empty replies nobody is left whom the earlier pause was made for.
_FORGET_S: Final = 30.0


class Pacer:
    """Measures empty replies over a second, and sets the pause of the next second so that they come at a fixed rate.

    With few readers the pause is ``SHORTEST_MS``; with n readers that obey it grows towards
    n / ``EMPTY_REPLIES_PER_S`` seconds, at most doubling in a second, up to ``LONGEST_MS``. Requests that queue for a
    thread, as ``queued`` tells, make it grow likewise.
    """

    def __init__(self, queued: Callable[[], int] = lambda: 0, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.queued = queued
        self._clock = clock
        self._lock = threading.Lock()
        self._since = clock()
        self._count = 0
        self._pause_ms = float(SHORTEST_MS)

    def pause_ms(self) -> int:
        """What the reader of one more empty reply is told. From any thread."""
        with self._lock:
            now = self._clock()
            if now - self._since >= _WINDOW_S:
                self._adjust(now - self._since)
                self._since, self._count = now, 0
            self._count += 1
            return round(self._pause_ms)

    def _adjust(self, elapsed_s: float) -> None:
        if elapsed_s > _FORGET_S:
            self._pause_ms = SHORTEST_MS
        load = max(self._count / elapsed_s / EMPTY_REPLIES_PER_S, self.queued() / _EASY_QUEUE)
        self._pause_ms = min(max(self._pause_ms * min(max(load, 0.5), 2.0), SHORTEST_MS), LONGEST_MS)
