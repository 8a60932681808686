"""The event log against a model of it that is too simple to be wrong: a list of events and the number of the first.

Every reader's counting proof must hold in every interleaving tried: of appending, dropping, closing, dying and reading.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import threading
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from flower_http.encode import dumps
from flower_http.errors import Problem
from flower_http.event_log import EventLog, LogClosed
from flower_http.journal import Journal
from flower_http.log_book import LogBook
from flower_http.pages import MAX_PAGE_BYTES
from tests.http.event_tools import Json, new_run, strictly

#: What tools print: lone surrogates, NUL, escapes, line separators, and everything else that Unicode has.
words = st.text(st.characters(), max_size=60) | st.sampled_from(["\ud800", "\x00", "\x1b[31m", "\u2028", "'\"\\"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
limits = st.sampled_from([1, 2, 3, 10, 100, 1000])


class Followed:
    """What a client holds that reads with ``page`` from ``after`` on, and the proof that it can count."""

    def __init__(self, log: EventLog, after: int, limit: int) -> None:
        self.log = log
        self.after = after
        self.limit = limit
        self.seen: dict[int, bytes] = {}
        self.lost: set[int] = set()

    def read(self) -> Json:
        """One page, checked as far as a client can check it."""
        body = self.log.page(self.after, self.limit, skip_gap=True)
        got: Json = strictly(body)
        assert got["after"] == self.after
        base = self.after if got["gap"] is None else got["gap"]["to"]
        if got["gap"] is not None:
            assert got["gap"]["from"] == self.after + 1 <= base == got["first_seq"] - 1
            self.lost.update(range(self.after + 1, base + 1))
        events = [dumps(event) for event in got["events"]]
        assert b'"events":[' + b",".join(events) + b"]" in body
        assert [event["seq"] for event in got["events"]] == list(range(base + 1, base + len(events) + 1))
        assert got["next_after"] == base + len(events)
        assert got["pending"] == got["last_seq"] - got["next_after"] >= 0
        assert events or not got["pending"]
        assert len(events) <= self.limit
        assert sum(map(len, events)) <= MAX_PAGE_BYTES or len(events) == 1
        ended = bool(got["events"]) and got["events"][-1]["text"] == "run.finished"
        assert not ended or (got["final"] and got["state"] == "succeeded")
        assert not got["final"] or got["pending"] == 0
        self.seen.update(zip(range(base + 1, base + len(events) + 1), events, strict=True))
        self.after = got["next_after"]
        return got

    def read_to(self, last: int) -> None:
        """Read until nothing up to number ``last`` is pending."""
        while self.after < last:
            self.read()


class EventLogMachine(RuleBasedStateMachine):
    """One run in a journal that is closed, killed and opened again. ``known`` is every event ever seen, as bytes."""

    @initialize(keep=st.sampled_from([None, None, 1, 8, 50]), ring=st.sampled_from([1, 5, 2000]))
    def begin(self, keep: int | None, ring: int) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="event-log-"))
        self.keep = keep
        self.lives = 0
        self.path = self.home / "0" / "journal.db"
        self.open(ring)
        self.log = new_run(self.book)
        self.epoch = self.log.epoch
        self.known: dict[int, bytes] = {}
        self.first = 1
        self.promised: list[Future[int]] = []

    def open(self, ring: int) -> None:
        self.journal = Journal(self.path, linger_s=0)
        self.book = LogBook(self.journal, ring, ring_bytes=400_000, keep_events=self.keep)

    def reopen(self, ring: int) -> None:
        """What is in the file goes on: in the same epoch, with the same bytes."""
        self.open(ring)
        log = self.book.get("r1")
        assert log is not None
        assert log.epoch == self.epoch
        self.log = log
        self.first = log.first_seq  # it may have been ahead in memory
        self.known = {seq: body for seq, body in self.known.items() if seq <= log.last_seq}

    def teardown(self) -> None:
        if hasattr(self, "home"):
            self.journal.close()
            shutil.rmtree(self.home)

    # ---- appending

    @precondition(lambda self: not self.log.final)
    @rule(
        kind=st.sampled_from(["text", "tool_result", "unheard-of"]), text=words, payload=st.dictionaries(words, values)
    )
    def append_anything(self, kind: str, text: str, payload: dict[str, Any]) -> None:
        seq = self.log.append(kind, text, payload=payload).result(10)
        assert seq == self.log.last_seq

    @precondition(lambda self: not self.log.final)
    @rule(count=st.integers(1, 60), size=st.sampled_from([0, 1000, 20_000]))
    def append_many_and_go_on(self, count: int, size: int) -> None:
        self.promised += [self.log.append("text", f"{number}" + "x" * size) for number in range(count)]

    @precondition(lambda self: not self.log.final)
    @rule(count=st.integers(1, 6))
    def append_huge(self, count: int) -> None:
        for future in [self.log.append("tool_result", "\x01é" * 200_000) for _ in range(count)]:
            future.result(10)

    @precondition(lambda self: not self.log.final and self.log.last_seq > 100)
    @rule()
    def finish(self) -> None:
        last = self.log.append("system", "run.finished", payload={"state": "succeeded"}).result(10)
        assert (self.log.last_seq, self.log.final) == (last, True)
        with pytest.raises(LogClosed):
            self.log.append("text", "after the end")

    # ---- losing

    @rule(share=st.floats(0, 1.2))
    def drop(self, share: float) -> None:
        self.flush()
        before = int(share * self.log.last_seq)
        self.log.drop_before(before).result(10)
        self.first = max(self.first, min(before, self.log.last_seq))
        if self.keep is None:
            assert self.log.first_seq == self.first

    @rule(ring=st.sampled_from([1, 5, 2000]))
    def restart(self, ring: int) -> None:
        last = self.log.last_seq
        self.journal.close()
        for future in self.promised:
            last = future.result(0)
        self.promised = []
        self.reopen(ring)
        assert self.log.last_seq == last

    @rule(ring=st.sampled_from([1, 5, 2000]))
    def die(self, ring: int) -> None:
        """The process is killed: what it leaves are its files as they are at some moment, in the middle of writing."""
        shown = self.log.last_seq
        self.lives += 1
        left = self.home / f"{self.lives}" / "journal.db"
        left.parent.mkdir()
        with closing(sqlite3.connect(self.path)) as reader:
            # A reader keeps the log from beginning anew, so that the copies, made one after the other, fit together.
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM runs").fetchone()
            for suffix in ("", "-wal"):
                shutil.copy(f"{self.path}{suffix}", f"{left}{suffix}")
        self.journal.close()
        self.path = left
        self.promised = []
        self.reopen(ring)
        assert self.log.last_seq >= shown

    # ---- reading

    @rule(share=st.floats(0, 1.1), limit=limits)
    def page_or_problem(self, share: float, limit: int) -> None:
        self.flush()
        last, first = self.log.last_seq, self.log.first_seq
        after = int(share * last)
        expected = (409, "cursor-ahead") if after > last else (410, "cursor-expired") if after < first - 1 else None
        if expected is None:
            reader = Followed(self.log, after, limit)
            assert reader.read()["gap"] is None
            self.remember(reader.seen)
            return
        with pytest.raises(Problem) as caught:
            self.log.page(after, limit)
        told = strictly(caught.value.body())
        assert (told["status"], told["type"]) == expected
        assert (told["epoch"], told["first_seq"], told["last_seq"]) == (self.epoch, first, last)
        if after < first - 1:
            assert told["lost"] == {"from": after + 1, "to": first - 1, "count": first - 1 - after}
            assert told["resume_after"] == first - 1

    @precondition(lambda self: not self.log.final)
    @rule(limit=limits, count=st.integers(1, 40), drop=st.booleans())
    def read_while_others_write(self, limit: int, count: int, drop: bool) -> None:
        """Some read all there is while there is more and more, and while what they read next may be dropped."""
        self.flush()
        last = self.log.last_seq + 3 * count
        readers = [Followed(self.log, 0, limit), Followed(self.log, 0, 7), Followed(self.log, self.log.last_seq, 1)]
        failed: list[BaseException] = []

        def follow(reader: Followed) -> None:
            try:
                reader.read_to(last)
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=follow, args=(reader,)) for reader in readers]
        for thread in threads:
            thread.start()
        for _ in range(3):
            futures = [self.log.append("text", "more") for _ in range(count)]
            futures[-1].result(10)
            if drop:
                self.first = max(self.first, self.log.last_seq - count // 2)
                self.log.drop_before(self.first).result(10)
        for thread in threads:
            thread.join(20)
            assert not thread.is_alive()
        for error in failed:
            raise error
        for reader in readers:
            start = min(reader.seen.keys() | reader.lost)
            assert sorted(reader.seen.keys() | reader.lost) == list(range(start, last + 1))
            assert not reader.seen.keys() & reader.lost
            self.remember(reader.seen)

    @precondition(lambda self: not self.log.final)
    @rule()
    def wait_and_be_woken_once(self) -> None:
        self.flush()
        calls: list[int] = []
        assert self.log.add_waiter(self.log.last_seq - 1, lambda: calls.append(0)) is None
        assert self.log.add_waiter(self.log.last_seq, lambda: calls.append(1)) is not None
        self.log.append("text", "news").result(10)
        self.log.append("text", "more news").result(10)
        assert calls == [1]

    # ---- what always holds

    @invariant()
    def whatever_is_shown_can_be_counted_and_never_changes(self) -> None:
        log = self.log
        reader = Followed(log, 0, 1000)
        last = log.last_seq
        reader.read_to(last)
        self.remember(reader.seen)
        if self.keep is None:
            assert reader.lost == set(range(1, self.first))
        else:
            self.flush()
            assert log.last_seq - log.first_seq + 1 >= min(self.keep, log.last_seq - self.first + 1)

    def remember(self, seen: dict[int, bytes]) -> None:
        for seq, body in seen.items():
            assert self.known.setdefault(seq, body) == body

    def flush(self) -> None:
        """Wait for what was promised; each got the number that comes next."""
        numbers = [future.result(10) for future in self.promised]
        assert numbers == list(range(self.log.last_seq - len(numbers) + 1, self.log.last_seq + 1)) or not numbers
        self.promised = []


TestEventLogAgainstItsModel = EventLogMachine.TestCase
TestEventLogAgainstItsModel.settings = settings(
    max_examples=15,
    stateful_step_count=20,
    derandomize=True,  # the same on every machine and in every run
    database=None,
    phases=[Phase.generate],  # to make a failure shorter takes minutes; add Phase.shrink where there are some
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
