"""A thousand waiting readers on four threads."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from pathlib import Path

from tests.http.event_tools import Wire, fetch, new_run, open_book, say, serving
from tests.support import eventually

READERS = 1000


def test_a_thousand_readers_wait_on_four_threads_and_all_get_the_event(tmp_path: Path) -> None:
    with open_book(tmp_path / "journal.db") as book, ExitStack() as stack:
        log = new_run(book)
        live = stack.enter_context(serving(book, threads=4))
        before = threading.active_count()
        wires = [stack.enter_context(Wire(live.server, timeout=30)) for _ in range(READERS)]
        for wire in wires:
            wire.send("/runs/r1/events?after=1&wait=25")
        eventually(lambda: live.parked == READERS, timeout=20)
        assert threading.active_count() == before

        started = time.monotonic()
        assert fetch(live.server, "/runs/r1/events").status == 200
        assert time.monotonic() - started < 10

        say(log, "news")
        for wire in wires:
            got = wire.reply().json
            assert (got["next_after"], got["events"][0]["text"]) == (2, "news")
        assert live.parked == 0
