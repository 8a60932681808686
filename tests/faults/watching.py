"""Any number of watchers of one run, through any number of kills of its server, at any size.

One thread serves all of them, so that a thousand cost little; :func:`follow_through_kills` does the whole thing.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import resource
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.serving import FlowerServer
from tests.faults.streaming_flow import text_of

FLOW = f"stream={Path(__file__).with_name('streaming_flow.py')}:make"
_LIMIT, _WAIT_S = 1000, 20
#: How many of the last events are read once more after a break, and compared.
_OVERLAP = 40
_RETRY_S, _LOOK_S = 0.05, 0.005
_BUFFER = 1 << 20
#: What a process needs besides its connections.
_OTHER_FILES = 100


class Lost(Exception):
    """A watcher was shown something else than the next event."""


@dataclass(frozen=True)
class Followed:
    """How it went: ``breaks`` of connections and ``repeats`` (events read again and compared) over all watchers.

    ``endings`` are the distinct digests over everything a watcher was shown: one when all have seen the same.
    ``seconds`` is from the start of the run to the last watcher's last event, ``behind`` from the first watcher's.
    """

    watchers: int
    events: int
    breaks: int
    repeats: int
    endings: int
    seconds: float
    behind: float


class Watcher:
    """Follows a run by counting, over any number of connections."""

    def __init__(self, run: str, epoch: str) -> None:
        self._run = run
        self._epoch = epoch
        self._again = False
        self._digest = hashlib.sha256()
        self._recent: deque[dict[str, Any]] = deque(maxlen=_OVERLAP)
        self.after = 0
        self.numbers = 0
        self.breaks = 0
        self.repeats = 0
        self.ended = 0.0

    @property
    def ending(self) -> str:
        """A digest of everything it was shown."""
        return self._digest.hexdigest()

    async def follow(self, host: str, port: int) -> None:
        """Read to the end of the run. Raises Lost."""
        while not self.ended:
            try:
                await self._read_while_connected(host, port)
            except (OSError, asyncio.IncompleteReadError):
                self.breaks += not self._again
                self._again = True
                await asyncio.sleep(_RETRY_S)

    async def _read_while_connected(self, host: str, port: int) -> None:
        reader, writer = await asyncio.open_connection(host, port, limit=_BUFFER)
        try:
            while not self.ended:
                asked = max(0, self.after - _OVERLAP) if self._again else self.after
                target = f"/runs/{self._run}/events?after={asked}&limit={_LIMIT}&wait={_WAIT_S}&epoch={self._epoch}"
                writer.write(f"GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
                page = await _reply(reader)
                self._again = False
                self._take(asked, page)
                await asyncio.sleep(page["retry_after_ms"] / 1000)
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    def _take(self, asked: int, page: dict[str, Any]) -> None:
        events = page["events"]
        if (page["after"], page["next_after"], page["gap"]) != (asked, asked + len(events), None):
            raise Lost(f"asked after {asked}: {page['after']} to {page['next_after']} with {len(events)}")
        for event in events:
            if event["seq"] <= self.after:
                self._compare(event)
            else:
                self._count(event)
        if page["final"]:
            self.ended = time.monotonic()

    def _compare(self, event: dict[str, Any]) -> None:
        """It was shown before: then just so."""
        if event != self._recent[event["seq"] - self.after - 1]:
            raise Lost(f"event {event['seq']} has changed")
        self.repeats += 1

    def _count(self, event: dict[str, Any]) -> None:
        if event["seq"] != self.after + 1:
            raise Lost(f"event {event['seq']} after {self.after}")
        if event["kind"] == "text":
            self.numbers += 1
            if (event["payload"]["n"], event["text"]) != (self.numbers, text_of(self.numbers)):
                raise Lost(f"event {event['seq']} is {event['text'][:40]!r}, not number {self.numbers}")
            self._digest.update(event["at"].encode())  # all else of it is known
        else:
            self._digest.update(repr(event).encode())
        self.after = event["seq"]
        self._recent.append(event)


async def _reply(reader: asyncio.StreamReader) -> dict[str, Any]:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
    body = await reader.readexactly(length)
    if not head.startswith(b"http/1.1 200 "):
        raise Lost(body.decode())
    page: dict[str, Any] = json.loads(body)
    return page


def follow_through_kills(
    home: Path, *, watchers: int, events: int, rate: float, kills: int = 2, patience_s: float = 60.0
) -> Followed:
    """Have ``watchers`` follow a run of ``events`` at ``rate`` a second, whose server is killed ``kills`` times.

    The kills come when the fastest watcher has seen an equal part of the run each time; the server is started again at
    once. Everything lies below ``home``. Raises Lost, and TimeoutError after ``patience_s`` seconds.
    """
    _allow_files(watchers + _OTHER_FILES)
    with FlowerServer(home / "data", "--rehearse", "--flow", FLOW) as server:
        begun = time.monotonic()
        run = server.start_run(json.dumps({"url": server.url, "events": events, "rate": rate}), flow="stream")
        all_of_them = [Watcher(run["id"], run["epoch"]) for _ in range(watchers)]
        asyncio.run(_follow(server, all_of_them, events, kills, patience_s))
    if any(watcher.numbers != events for watcher in all_of_them):
        raise Lost(f"{sorted({watcher.numbers for watcher in all_of_them})} events instead of {events}")
    ends = [watcher.ended for watcher in all_of_them]
    return Followed(
        watchers=watchers,
        events=events,
        breaks=sum(watcher.breaks for watcher in all_of_them),
        repeats=sum(watcher.repeats for watcher in all_of_them),
        endings=len({watcher.ending for watcher in all_of_them}),
        seconds=max(ends) - begun,
        behind=max(ends) - min(ends),
    )


async def _follow(server: FlowerServer, watchers: list[Watcher], events: int, kills: int, patience_s: float) -> None:
    host, _, port = server.url.removeprefix("http://").rpartition(":")
    async with asyncio.timeout(patience_s), asyncio.TaskGroup() as group:
        for watcher in watchers:
            group.create_task(watcher.follow(host, int(port)))
        for number in range(1, kills + 1):
            part = events * number / (kills + 1)
            while max(watcher.numbers for watcher in watchers) < part:  # noqa: ASYNC110 - it is a thousand of them
                await asyncio.sleep(_LOOK_S)
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start_again)


def _allow_files(count: int) -> None:
    """Let this process open ``count`` files, as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
