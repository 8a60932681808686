"""Following a run: the cursor loop that reconnects, and proves by counting that it lost nothing.

A page that does not add up (half of one, or an old one out of a cache) is read again; reading is free. If it still
does not, or if the server itself says that events are gone, the loss is remembered, told, and the watch goes on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from flower_client.counting import Loss, fault, salvage
from flower_client.errors import BadReply, FlowerClientError, ProblemError, Refused, Unreachable
from flower_client.models import Event, Page
from flower_client.retrying import Backoff, may_succeed_later, pause_after
from flower_client.transport import Sleep

#: Longest pause, in seconds, that a reply may ask for with retry_after_ms.
MAX_PAUSE_S = 60.0
#: How often in a row the cursor may be set anew before the server's refusal is passed on.
MAX_MENDS = 3

#: Takes the query of the events endpoint, makes one attempt and returns the page.
PageSource = Callable[[dict[str, Any]], Page]


@dataclass(frozen=True)
class Notice:
    """Something about the watch itself: an ``outage`` and its end (``back``), or a ``loss``.

    Of an outage every reason is told once, however many attempts it takes. ``delay_s`` is how long, in seconds, the
    watch pauses before the next one.
    """

    kind: Literal["outage", "back", "loss"]
    text: str
    delay_s: float = 0.0


class Watch(Iterator[Event]):
    """An iterator over the events of one run; made by :meth:`FlowerClient.watch`.

    ``cursor`` is the seq of the last event handed out, ``epoch`` the journal it counts in: keep both to go on later.
    ``state`` is the run's state as of the last page, ``final`` whether the run has ended and everything has been
    handed out, ``losses`` what was lost. Iterating raises NotAllowed, Refused, or, only with a limit, Unreachable.
    """

    def __init__(
        self,
        source: PageSource,
        *,
        run_id: str = "",
        after: int = 0,
        tail: int | None = None,
        epoch: str = "",
        follow: bool = True,
        limit: int | None = None,
        wait_s: float = 25.0,
        give_up_after_s: float | None = None,
        on_notice: Callable[[Notice], None] | None = None,
        backoff: Backoff | None = None,
        sleep: Sleep = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.run_id = run_id
        self.cursor = after
        self.epoch = epoch
        self.state = ""
        self.final = False
        self.losses: list[Loss] = []
        self._source = source
        self._tail = tail
        self._follow = follow
        self._limit = limit
        self._wait_s = wait_s
        self._give_up_after_s = give_up_after_s
        self._notify = on_notice or (lambda notice: None)
        self._backoff = backoff or Backoff()
        self._sleep = sleep
        self._clock = clock
        self._stopped = threading.Event()
        self._contact = self._recovered = self._skip_gap = False
        self._failures = self._miscounts = self._mends = self._idle = 0
        self._failing_since = 0.0
        self._told: set[str] = set()  # the reasons of the outage that goes on
        self._events = self._flatten()

    def __next__(self) -> Event:
        return next(self._events)

    def stop(self) -> None:
        """End the iteration once the request in flight has its reply. From any thread."""
        self._stopped.set()

    def pages(self) -> Iterator[Page]:
        """The same as iterating, page by page, the empty ones of a quiet time included."""
        while not self._stopped.is_set():
            started = self._clock()
            page = self._next_page()
            if page is None:
                return
            took_s = self._clock() - started
            yield page
            if page.final or (page.pending == 0 and not self._follow):
                return
            self._breathe(page, took_s)

    def _flatten(self) -> Iterator[Event]:
        for page in self.pages():
            self.final = False
            for event in page.events:
                self.cursor = event.seq
                yield event
            self.cursor, self.final = page.next_after, page.final

    def _next_page(self) -> Page | None:
        """The next page that adds up. Waits out every outage; None when stopped."""
        while not self._stopped.is_set():
            try:
                page = self._counted(self._source(self._query()))
            except (Unreachable, ProblemError) as error:
                if not (isinstance(error, Refused) and self._mend(error)):
                    self._outage(error)
                continue
            if page is not None:
                self._accept(page)
                return page
        return None

    def _query(self) -> dict[str, Any]:
        if self._tail is not None:
            return {"tail": self._tail}  # what is there now; waiting comes after it
        # After an outage the first reply is to come at once, so that the watcher learns that all is well again.
        wait_s = 0 if self._failures else self._wait_s
        query = {"after": self.cursor, "wait": wait_s, "epoch": self.epoch, "limit": self._limit}
        return {**query, "on_gap": "skip"} if self._skip_gap else query

    def _counted(self, page: Page) -> Page | None:
        """``page`` if it adds up, else what can be saved of it.

        Raises BadReply when reading it again may help. None when the page is of another epoch.
        """
        if self.epoch and page.epoch and page.epoch != self.epoch:
            self._mends += 1
            if self._mends > MAX_MENDS:
                raise BadReply("replies of several epochs in turn")
            self._new_epoch(page.epoch)
            return None
        base = page.after if self._tail is not None else self.cursor
        wrong = fault(page, base, self.run_id)
        if not wrong:
            if page.gap:
                self._lose(Loss("cursor-expired", page.gap.first, page.gap.last))
            return page
        self._miscounts += 1
        whole, losses = salvage(page, base)
        if self._miscounts == 1 or whole.next_after == base or page.run != (self.run_id or page.run):
            raise BadReply(f"a page of events that does not add up: {wrong}")
        for loss in losses:
            self._lose(loss)
        return whole

    def _accept(self, page: Page) -> None:
        self._recovered = self._failures > 0
        if self._recovered:
            self._notify(Notice("back", "the server answers again"))
        self.cursor, self.state, self.final = page.next_after, page.state, page.final
        self.epoch = page.epoch or self.epoch
        self._tail = None
        self._skip_gap = False
        self._contact = True
        self._told.clear()
        self._failures = self._miscounts = self._mends = 0

    def _mend(self, error: Refused) -> bool:
        """Set the cursor anew when that is what the server refuses; False when it is something else."""
        mended = self._mends < MAX_MENDS
        if mended and error.slug == "cursor-expired" and not self._skip_gap:
            self._skip_gap = True
        elif mended and error.slug == "epoch-changed":
            self._new_epoch(str(error.document.get("epoch") or ""))
        elif mended and error.slug == "cursor-ahead" and self._contact:
            # It shows less than it has shown already. (Whoever starts beyond the end just has a wrong cursor.)
            last_seq = error.document.get("last_seq")
            known = last_seq if isinstance(last_seq, int) and 0 <= last_seq < self.cursor else 0
            self._lose(Loss("cursor-ahead", known + 1, self.cursor))
            self.cursor = known
        else:
            return False
        self._mends += 1
        return True

    def _new_epoch(self, epoch: str) -> None:
        self._lose(Loss("epoch-changed", self.cursor + 1, None))
        self.cursor, self.epoch, self._skip_gap = 0, epoch, False

    def _lose(self, loss: Loss) -> None:
        self.losses.append(loss)
        more = "; starting over with the server's new journal" if loss.reason == "epoch-changed" else ""
        self._notify(Notice("loss", f"{loss}{more}"))

    def _outage(self, error: FlowerClientError) -> None:
        """Wait before the next attempt. Raises ``error`` when there is to be none."""
        if not may_succeed_later(error):
            raise error
        now = self._clock()
        self._failures += 1
        if self._failures == 1:
            self._failing_since = now
        pause = pause_after(error, self._failures, self._backoff)
        limit = self._give_up_after_s
        if limit is not None and now + pause - self._failing_since > limit:
            raise error
        if str(error) not in self._told:
            self._told.add(str(error))
            self._notify(Notice("outage", str(error), pause))
        self._sleep(pause)

    def _breathe(self, page: Page, took_s: float) -> None:
        """Never loop hot: obey the server's pause, and make one where empty replies come back at once."""
        if page.retry_after_ms:
            self._sleep(min(page.retry_after_ms / 1000, MAX_PAUSE_S))
        if page.events or self._recovered or took_s >= min(1.0, self._wait_s / 2):
            self._idle = 0
        elif not page.retry_after_ms:
            self._idle += 1
            self._sleep(self._backoff.delay(self._idle))
