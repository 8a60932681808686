"""What feeds a watch: its options, the things that can happen, and the thread that reads the events."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Literal

from flower_client.api import FlowerClient
from flower_client.errors import FlowerClientError
from flower_client.keyboard import InputClosed, Line
from flower_client.models import Page
from flower_client.oracle import OracleAnswer
from flower_client.poll import Notice, Watch
from flower_client.transport import Sleep

OnAsk = Literal["prompt", "wait", "decline", "first"]


@dataclass(frozen=True)
class Ended:
    """The reader of events has ended, by itself or with an error."""

    error: Exception | None = None


@dataclass(frozen=True)
class CtrlC:
    """Ctrl-C was pressed."""


Item = Page | Notice | Line | InputClosed | Ended | CtrlC | OracleAnswer | FlowerClientError


@dataclass(frozen=True)
class Options:
    """How to watch. ``tail`` beats ``after``; ``keyboard`` is the file descriptor of standard input, or None."""

    after: int = 0
    tail: int | None = None
    on_ask: OnAsk = "wait"
    exit_on_ask: bool = False
    as_json: bool = False
    keyboard: int | None = None
    give_up_after_s: float | None = None


class Feed:
    """Reads the events of a run on a thread of its own, with a client of its own."""

    def __init__(
        self, make_client: Callable[[Sleep], FlowerClient], run_id: str, options: Options, queue: SimpleQueue[Item]
    ) -> None:
        self._stopping = threading.Event()
        self._queue = queue
        self._client = make_client(self._stopping.wait)  # pauses end at once when the watch does
        self.watch: Watch = self._client.watch(
            run_id,
            options.after,
            tail=options.tail,
            give_up_after_s=options.give_up_after_s,
            on_notice=queue.put,
        )
        self._thread = threading.Thread(target=self._run, name="flower-events", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self) -> None:
        """End once the request in flight has its reply; does not wait for it."""
        self.watch.stop()
        self._stopping.set()

    def _run(self) -> None:
        error: Exception | None = None
        try:
            for page in self.watch.pages():
                self._queue.put(page)
        except Exception as failure:  # handed to the main thread, which raises it
            error = failure
        finally:
            self._client.close()
            self._queue.put(Ended(error))
