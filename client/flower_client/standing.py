"""The line that says from time to time how a run stands: step, round, context, cost and time."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta

from flower_client.models import Event, Run
from flower_client.render import duration
from flower_client.safe_text import one_line

#: Seconds from one line to the next; while nothing happens, twice as long each time, up to the second figure.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 60.0, 1800.0


class Standing:
    """When it is time for the line, and what it says.

    ``clock`` is monotonic, in seconds. The time of day here is never looked at: it may be wrong, or be set meanwhile.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._told_at = clock()
        self._pause_s = FIRST_PAUSE_S
        self._last_at = ""
        self._seen_at = clock()

    def see(self, event: Event) -> None:
        """Take in an event: something has happened, at the server's time."""
        if event.at:
            self._last_at, self._seen_at = event.at, self._clock()
        self._pause_s = FIRST_PAUSE_S

    def due(self) -> bool:
        """Whether it is time for the line. Having been asked for in time, the next one is due later."""
        now = self._clock()
        if now - self._told_at < self._pause_s:
            return False
        self._told_at = now
        self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)
        return True

    def line(self, run: Run) -> str:
        """How ``run`` stands, such as ``3/3 Work · round 2 · context 41k · $0.32 · 4 min 10 s``."""
        step = run.step
        place = f"{step.index}/{step.total} " if step.index and step.total else ""
        parts = [f"{place}{one_line(step.name, 60)}"] if step.name else [one_line(run.state, 20)]
        parts += [f"round {step.round}"] if step.round else []
        parts += [f"context {max(round(run.context / 1000), 1)}k"] if run.context else []
        return " · ".join([*parts, f"${run.cost_usd:.2f}", self._elapsed(run.started_at or run.created_at)])

    def _elapsed(self, start: str) -> str:
        """From ``start`` to now, by the server's clock as of the last event and by ours since then."""
        try:
            now = datetime.fromisoformat(self._last_at) + timedelta(seconds=self._clock() - self._seen_at)
        except (ValueError, OverflowError):
            return "time unknown"
        return duration(start, now.isoformat())
