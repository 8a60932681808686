"""The servers that are compared, each in a process of its own: ours, and bare waitress callables.

    python -m bench.servers flower FOLDER      everything a reader of events meets: tokens, journal, parking
    python -m bench.servers floor REPLIES      ready-made replies, by query string, out of a pickled dict
    python -m bench.servers blocking REPLIES   the same, but a reader who waits takes a thread

Each prints its port and then answers commands; waitress has the same settings in all of them.
"""

from __future__ import annotations

import logging
import os
import pickle
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, cast

from waitress import create_server

from bench import appending
from bench.measuring import obey, resident_mb
from bench.scene import EVENTS, READERS, RUN, TEXT, THREADS, TOKEN_FILE, Replies
from flower_http import logs, tokens
from flower_http.app import create_app
from flower_http.event_log import EventLog
from flower_http.journal import Journal
from flower_http.log_book import LogBook
from flower_http.parking import ParkingDispatcher
from flower_http.poll import EventsApp
from flower_http.server import make_server
from flower_http.settings import Settings


def payload(number: int) -> dict[str, Any]:
    """What a tool call carries."""
    return {
        "id": f"toolu_{number:08}",
        "context": 41_000 + number,
        "subagent": "coder",
        "parent_tool_use_id": "toolu_1",
    }


def flower(folder: Path) -> None:
    """The application as ``flower-server serve`` puts it together, less the runs; one run to append to."""
    (folder / TOKEN_FILE).write_text(tokens.add_token(folder / "tokens.json", "bench", "read"))
    logs.configure("text")
    book = LogBook(Journal(folder / "journal.db"))
    log = book.create({"id": RUN, "flow": "starter", "task": "bench"})
    settings = Settings(data_dir=folder, workspace_root=folder / "workspaces")
    events = cast(EventsApp, create_app(settings, book=book).wsgi_app)
    at_start = resident_mb()
    dispatcher = ParkingDispatcher(events)
    server = make_server(events, threads=THREADS, dispatcher=dispatcher)
    serving = threading.Thread(target=server.run, daemon=True)
    serving.start()
    obey(
        {
            **_common(at_start),
            "parked": lambda: dispatcher.parked,
            "fill": lambda: _fill(log),
            "append": lambda: _timed(lambda: log.append("text", TEXT).result()),
            "at-rate": lambda rate, seconds: appending.at_rate(log, float(rate), float(seconds)),
            "flat-out": lambda seconds: appending.flat_out(log, float(seconds)),
            "many": lambda count: appending.many(log, int(count)),
        },
        server.port,
    )
    server.close(1)
    serving.join()
    book.journal.close()


class Ready:
    """A WSGI callable that gives ready-made replies. A query with ``wait`` is held, in its thread, until news."""

    def __init__(self, replies: Replies) -> None:
        self._replies = replies
        self._news = threading.Condition()
        self.waiting = 0

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """The WSGI entry point."""
        query = environ["QUERY_STRING"]
        if "wait=" in query:
            with self._news:
                self.waiting += 1
                self._news.wait()
                self.waiting -= 1
        headers, body = self._replies[query]
        start_response("200 OK", headers)
        return [body]

    def publish(self) -> int:
        """Let everybody go."""
        with self._news:
            self._news.notify_all()
        return 0


def bare(replies: Replies, threads: int) -> None:
    """waitress as it comes, but for the settings without which it could not hold so many connections."""
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)  # a line for every request that is queued
    at_start, app = resident_mb(), Ready(replies)
    server = create_server(
        app,
        host="127.0.0.1",
        port=0,
        threads=threads,
        ident=None,
        asyncore_use_poll=True,
        connection_limit=2 * READERS,
        backlog=READERS,
        channel_request_lookahead=1,
    )
    threading.Thread(target=server.run, daemon=True).start()
    commands = {"parked": lambda: app.waiting, "append": lambda: _timed(app.publish)}
    obey({**_common(at_start), **commands}, server.effective_port)
    os._exit(0)  # its threads may still wait, and nothing here needs an orderly end


def _common(at_start: float) -> dict[str, Callable[[], float]]:
    return {"memory": resident_mb, "before": lambda: at_start, "cpu": time.process_time}


def _fill(log: EventLog) -> int:
    futures = [log.append("text", TEXT, payload=payload(number)) for number in range(EVENTS)]
    return futures[-1].result()


def _timed(append: Callable[[], int]) -> list[float]:
    """What ``append`` returns, and the clock before and after."""
    started = time.monotonic()
    return [append(), started, time.monotonic()]


def main(role: str, place: str) -> None:
    """Be the server ``role``."""
    if role == "flower":
        flower(Path(place))
        return
    replies = pickle.loads(Path(place).read_bytes())  # noqa: S301 - written by the benchmark itself
    bare(replies, THREADS if role == "floor" else READERS + THREADS)


if __name__ == "__main__":
    main(*sys.argv[1:])
