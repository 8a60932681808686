from __future__ import annotations

import json
import random
import threading
from concurrent.futures import Future
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from flower_http.encode import MAX_EVENT_BYTES, complete, encode_event, rfc3339
from flower_http.errors import Problem
from flower_http.event_log import EventLog, LogClosed
from flower_http.journal import JournalUnavailable
from flower_http.log_book import LogBook
from tests.http.event_tools import disk_refusing, finish, new_run, open_book, page, say, strictly
from tests.support import eventually

# ---- what an event is


def test_an_event_has_its_fields_in_this_order_and_no_other(log: EventLog) -> None:
    log.append("tool_call", "ls", "Bash", {"id": "t1"}).result(5)
    event = page(log, 1)["events"][0]
    assert list(event) == ["seq", "at", "kind", "text", "tool", "payload"]
    assert (event["seq"], event["kind"], event["text"], event["tool"]) == (2, "tool_call", "ls", "Bash")
    assert event["payload"] == {"id": "t1"}


def test_times_are_utc_with_milliseconds_and_never_go_back(log: EventLog) -> None:
    say(log, *"abc")
    times = [event["at"] for event in page(log)["events"]]
    assert times == sorted(times)
    for at in times:
        assert len(at) == len("2026-01-31T12:00:00.250Z")
        assert datetime.fromisoformat(at).utcoffset() is not None
    assert rfc3339(1769860800.25) == "2026-01-31T12:00:00.250Z"


@pytest.mark.parametrize(
    ("given", "arrives"),
    [
        ("a\0b", "a\0b"),
        ("\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m"),
        ("half \ud83d of a pair", "half ? of a pair"),
        ("需求 \u2028 é 😀", "需求 \u2028 é 😀"),
        (2**53 - 1, 2**53 - 1),
        (2**53, str(2**53)),
        (-(10**40), str(-(10**40))),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        ({1: {None: True}}, {"1": {"None": True}}),
    ],
)
def test_whatever_a_tool_printed_arrives_as_valid_json(log: EventLog, given: Any, arrives: Any) -> None:
    text = given if isinstance(given, str) else "text"
    log.append("tool_result", text, payload={"value": given}).result(5)
    event = page(log, 1)["events"][0]
    assert event["payload"] == {"value": arrives}
    if isinstance(given, str):
        assert event["text"] == arrives


def test_nesting_without_end_is_cut(log: EventLog) -> None:
    deep: list[Any] = []
    for _ in range(500):
        deep = [deep]
    log.append("text", payload={"deep": deep}).result(5)
    assert page(log, 1)["events"][0]["payload"]["deep"]


BIG = MAX_EVENT_BYTES
TOO_LARGE: dict[str, tuple[str, dict[str, Any]]] = {
    "text": ("x" * (3 * BIG), {"id": "t1"}),
    "control characters": ("\0" * BIG, {"id": "t1"}),
    "wide characters": ("需" * BIG, {"id": "t1"}),
    "a payload string": ("short", {"id": "t1", "input": {"content": "y" * (2 * BIG)}}),
    "many strings": ("short", {"id": "t1", "lines": ["z" * 900] * 1000}),
    "many numbers": ("short", {"id": "t1", "numbers": list(range(200_000))}),
    "many keys": ("short", {"id": "t1", **{f"key{n}": n for n in range(100_000)}}),
    "a long key": ("short", {"id": "t1", "k" * (2 * BIG): 1}),
}


@pytest.mark.parametrize("what", TOO_LARGE)
def test_an_event_is_at_most_256_kib_and_says_that_it_was_cut(log: EventLog, what: str) -> None:
    text, payload = TOO_LARGE[what]
    log.append("tool_result", text, payload=payload).result(10)
    event = page(log, 1)["events"][0]
    fields, rest = encode_event("tool_result", text, payload=payload)
    assert len(complete(2**53 - 1, event["at"], rest)) <= MAX_EVENT_BYTES
    assert fields == {key: event[key] for key in ("kind", "text", "tool", "payload")}
    assert event["payload"]["truncated"] is True
    assert event["payload"]["id"] == "t1"
    assert text.startswith(event["text"].rstrip("…"))


def test_an_event_that_fits_is_not_touched(log: EventLog) -> None:
    text = "x" * (MAX_EVENT_BYTES - 1000)
    log.append("text", text, payload={"id": "t1"}).result(5)
    event = page(log, 1)["events"][0]
    assert event["text"] == text
    assert event["payload"] == {"id": "t1"}


# ---- numbers


def test_numbers_are_dense_from_one_whoever_appends(log: EventLog) -> None:
    futures: list[Future[int]] = []

    def append() -> None:
        for _ in range(50):
            futures.append(log.append("text", "x"))

    threads = [threading.Thread(target=append) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sorted(future.result(10) for future in futures) == list(range(2, 402))
    assert [event["seq"] for event in page(log, 0, 1000)["events"]] == list(range(1, 402))


def test_the_first_event_is_the_creation_with_the_runs_row(log: EventLog) -> None:
    first = page(log)["events"][0]
    assert (first["seq"], first["kind"], first["text"]) == (1, "system", "run.created")
    assert first["payload"]["task"] == "count"


def test_a_client_proves_by_counting_that_it_lost_nothing(book: LogBook) -> None:
    log = new_run(book, "counted")
    rng = random.Random(7)  # noqa: S311 - test data
    done = threading.Event()

    def write() -> None:
        for number in range(400):
            log.append("text", "x" * rng.randrange(50), payload={"n": number})
        finish(log)
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    seen: list[int] = []
    after = 0
    while True:
        got = page(log, after, rng.randrange(1, 40))
        assert got["after"] == after
        assert got["next_after"] == after + len(got["events"])
        assert got["pending"] == got["last_seq"] - got["next_after"]
        seen += [event["seq"] for event in got["events"]]
        after = got["next_after"]
        if got["final"]:
            break
    writer.join(10)
    assert seen == list(range(1, 403))
    assert done.is_set()


# ---- shown means kept


def test_an_event_is_visible_only_once_it_is_kept(book: LogBook, log: EventLog, journal_path: Path) -> None:
    with disk_refusing(journal_path):
        future = log.append("system", "run.started")
        eventually(lambda: book.journal.failing_since)
        assert page(log)["last_seq"] == 1
        assert (log.last_seq, log.view.state) == (1, "queued")
        assert not future.done()
        assert not log.wait_flushed(0.05)
    assert future.result(10) == 2
    assert (log.last_seq, log.view.state) == (2, "running")
    assert log.wait_flushed(0)


def test_when_an_event_is_done_readers_see_it(log: EventLog) -> None:
    for number in range(2, 40):
        assert log.append("text", "x").result(5) == number
        assert page(log, number - 1)["events"][0]["seq"] == number


def test_the_buffer_for_a_failing_disk_refuses_and_leaves_no_hole(journal_path: Path) -> None:
    with open_book(journal_path, buffer_bytes=10_000) as book:
        log = new_run(book)
        with disk_refusing(journal_path):
            taken = 0
            with suppress(JournalUnavailable):
                while taken < 100:
                    log.append("text", "x" * 1000)
                    taken += 1
            assert 0 < taken < 10
            stopped = log.append("system", "run.interrupted", payload={"error": "the disk"})
        assert stopped.result(10) == taken + 2
        assert [event["seq"] for event in page(log)["events"]] == list(range(1, taken + 3))
        say(log, "the buffer is free again", *"x" * 8)


# ---- the end


def test_nothing_follows_the_end(log: EventLog) -> None:
    finish(log)
    with pytest.raises(LogClosed):
        log.append("text", "too late")
    assert page(log)["events"][-1]["text"] == "run.finished"


def test_final_is_said_only_on_the_page_that_holds_the_end(log: EventLog) -> None:
    say(log, *"abcd")
    finish(log, "failed")
    assert [page(log, after, 2)["final"] for after in (0, 2, 4, 6)] == [False, False, True, True]
    assert page(log, 0, 2)["state"] == "failed"


def test_the_final_state_is_never_seen_before_the_event_that_says_so(book: LogBook) -> None:
    for number in range(15):
        log = new_run(book, f"end{number:02}")
        early: list[str] = []
        stop = threading.Event()

        def watch(log: EventLog = log, stop: threading.Event = stop, early: list[str] = early) -> None:
            while not stop.is_set():
                if log.view.final:
                    early += [event["text"] for event in page(log)["events"][-1:]]
                    return

        watcher = threading.Thread(target=watch)
        watcher.start()
        say(log, "a")
        finish(log)
        watcher.join(5)
        stop.set()
        assert early == ["run.finished"]


def test_view_and_events_never_disagree(log: EventLog) -> None:
    stop = threading.Event()
    wrong: list[Any] = []

    def watch() -> None:
        while not stop.is_set():
            got = page(log, max(0, log.last_seq - 1), 1000)
            texts = [event["text"] for event in got["events"]]
            if texts and (texts[-1] == "q?") != (got["state"] == "waiting"):
                wrong.append(got)

    watcher = threading.Thread(target=watch)
    watcher.start()
    log.append("system", "run.started")
    for number in range(50):
        ask = {"id": f"q{number}", "state": "asked", "options": [], "remaining": -1}
        log.append("ask", "q?", payload=ask)
        log.append("ask", "a", payload={**ask, "state": "answered"}).result(5)
    stop.set()
    watcher.join(5)
    assert wrong == []


# ---- answers


ANSWER = {"id": "q1", "state": "answered", "answer": "yes", "answered_by": "bot"}


def test_an_answer_survives_a_restart(journal_path: Path) -> None:
    with open_book(journal_path) as book:
        new_run(book).conversation.settle_answer(ANSWER)
    with open_book(journal_path) as book:
        log = book.get("r1")
        assert log is not None
        assert log.conversation.answers() == {"q1": ANSWER}


def test_an_answer_that_could_not_be_kept_is_never_applied_later(log: EventLog, journal_path: Path) -> None:
    with disk_refusing(journal_path), pytest.raises(JournalUnavailable):
        log.conversation.settle_answer(ANSWER, timeout=0.3)
    say(log, "the disk is well again")
    assert log.conversation.answers() == {}
    log.conversation.settle_answer({**ANSWER, "answer": "no"})
    assert log.conversation.answers()["q1"]["answer"] == "no"


def test_answers_belong_to_their_run(book: LogBook, log: EventLog) -> None:
    log.conversation.settle_answer(ANSWER)
    assert new_run(book, "r2").conversation.answers() == {}


# ---- waiting readers


def test_a_waiter_is_woken_once_when_something_newer_is_kept(book: LogBook, log: EventLog, journal_path: Path) -> None:
    woken: list[int] = []
    with disk_refusing(journal_path):
        assert log.add_waiter(1, lambda: woken.append(log.last_seq)) is not None
        log.append("text", "a")
        eventually(lambda: book.journal.failing_since)
        assert woken == []
    eventually(lambda: woken)
    say(log, "b")
    assert woken == [2]


def test_nobody_waits_for_what_is_there_already_or_never_comes(log: EventLog) -> None:
    def never() -> None:
        raise AssertionError

    say(log, "a")
    assert log.add_waiter(1, never) is None
    assert log.add_waiter(5, never) is None
    finish(log)
    assert log.add_waiter(log.last_seq, never) is None


def test_a_waiter_that_left_is_not_woken(log: EventLog) -> None:
    woken: list[int] = []
    waiter = log.add_waiter(1, lambda: woken.append(1))
    assert waiter is not None
    log.remove_waiter(waiter)
    log.remove_waiter(waiter)
    say(log, "a")
    assert woken == []


# ---- cursors


def problem(log: EventLog, after: int, **how: Any) -> dict[str, Any]:
    with pytest.raises(Problem) as caught:
        log.page(after, **how)
    found: dict[str, Any] = strictly(caught.value.body())
    return found


def test_a_cursor_beyond_the_last_event_is_refused(log: EventLog) -> None:
    told = problem(log, 2)
    assert (told["status"], told["type"], told["last_seq"]) == (409, "cursor-ahead", 1)


def test_a_cursor_whose_events_were_dropped_is_told_what_is_lost(log: EventLog) -> None:
    say(log, *"abcdefgh")
    log.drop_before(6).result(5)
    assert page(log, 5)["first_seq"] == 6
    told = problem(log, 2)
    assert (told["status"], told["type"]) == (410, "cursor-expired")
    assert told["lost"] == {"from": 3, "to": 5, "count": 3}
    assert (told["resume_after"], told["first_seq"], told["last_seq"]) == (5, 6, 9)
    assert told["epoch"] == log.epoch


def test_a_gap_may_be_skipped_and_counting_still_proves_the_rest(log: EventLog) -> None:
    say(log, *"abcdefgh")
    log.drop_before(6).result(5)
    got = page(log, 2, 2, skip_gap=True)
    assert (got["after"], got["gap"]) == (2, {"from": 3, "to": 5})
    assert [event["seq"] for event in got["events"]] == [6, 7]
    assert got["next_after"] == got["gap"]["to"] + len(got["events"])
    assert got["pending"] == 2
    assert page(log, 5, skip_gap=True)["gap"] is None


def test_dropping_keeps_the_last_event_and_the_view(journal_path: Path) -> None:
    with open_book(journal_path) as book:
        log = new_run(book)
        log.append("system", "run.started")
        say(log, *"abc")
        log.drop_before(10_000).result(5)
        assert log.first_seq == log.last_seq == 5
        view = log.view
    with open_book(journal_path) as book:
        again = book.get("r1")
        assert again is not None
        assert again.view == view
        assert (again.first_seq, page(again, 4)["events"][0]["text"]) == (5, "c")


def test_a_page_says_exactly_this(log: EventLog) -> None:
    body = log.page(1, idle_ms=500)
    assert json.loads(body) == {
        "run": "r1",
        "epoch": log.epoch,
        "state": "queued",
        "after": 1,
        "events": [],
        "next_after": 1,
        "first_seq": 1,
        "last_seq": 1,
        "pending": 0,
        "final": False,
        "gap": None,
        "retry_after_ms": 500,
    }
    assert page(log, 0, idle_ms=500)["retry_after_ms"] == 0


def test_waiting_for_what_was_said_does_not_wait_for_what_is_said_meanwhile(tmp_path: Path) -> None:
    with open_book(tmp_path / "journal.db", linger_s=0.03) as book:
        log = new_run(book)
        talking = True

        def talk_on(_: object = None) -> None:
            # Runs in the commit of the event before: whenever one has been shown, another is on its way.
            if talking:
                book.journal.submit(lambda connection: log.append("text", "and another thing"), committed=talk_on)

        log.append("text", "first")
        talk_on()
        assert log.wait_flushed(5)
        assert log.last_seq < 20
        talking = False
