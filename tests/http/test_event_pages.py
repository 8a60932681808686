from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from flower_http.event_log import EventLog
from flower_http.log_book import LogBook
from flower_http.pages import MAX_PAGE_BYTES, Ring
from tests.http.event_tools import finish, new_run, open_book, page, say


@pytest.fixture
def small(tmp_path: Path) -> Iterator[LogBook]:
    """A book whose runs keep five events in memory."""
    with open_book(tmp_path / "journal.db", ring=5) as opened:
        yield opened


def numbers(log: EventLog, after: int, limit: int = 100) -> list[int]:
    return [event["seq"] for event in page(log, after, limit)["events"]]


@pytest.mark.parametrize(("after", "limit"), [(0, 100), (0, 1), (3, 4), (14, 3), (15, 3), (16, 100), (19, 5), (20, 1)])
def test_events_come_from_memory_or_journal_without_a_seam(small: LogBook, after: int, limit: int) -> None:
    log = new_run(small)
    say(log, *"abcdefghijklmnopqrs")
    assert numbers(log, after, limit) == list(range(after + 1, min(after + limit, 20) + 1))


def test_an_event_is_the_same_bytes_from_memory_and_from_the_journal(tmp_path: Path) -> None:
    texts = ["plain", "\0\x1b[0m", "需求 😀", "half \ud83d"]
    with open_book(tmp_path / "journal.db") as book:
        log = new_run(book)
        say(log, *texts)
        finish(log)
        from_memory = log.page(0)
    with open_book(tmp_path / "journal.db") as book:
        again = book.get("r1")
        assert again is not None
        assert again.page(0) == from_memory


def test_the_ring_is_bounded_by_count() -> None:
    ring = Ring(3, 1000)
    ring.extend([b"1", b"2"])
    ring.extend([b"3", b"4", b"5"])
    assert (ring.first, ring.last, ring.size) == (3, 5, 3)
    assert ring.after(2, 9) == [b"3", b"4", b"5"]
    assert ring.after(3, 1) == [b"4"]
    assert ring.after(5, 9) == []
    assert ring.after(1, 9) is None


def test_the_ring_is_bounded_by_bytes_but_holds_at_least_one_event() -> None:
    ring = Ring(100, 10)
    ring.extend([b"aaaa", b"bbbb", b"cccc"])
    assert (ring.first, ring.size) == (2, 8)
    ring.extend([b"d" * 50])
    assert (ring.first, ring.last, ring.size) == (4, 4, 50)
    ring.extend([b"e"])
    assert (ring.first, ring.last, ring.size) == (5, 5, 1)


def test_a_ring_may_be_empty_after_a_restart() -> None:
    ring = Ring(10, 100, last=7)
    assert ring.first == 8
    assert ring.after(7, 5) == []
    assert ring.after(6, 5) is None


@pytest.mark.parametrize("ring", [2000, 1])
def test_a_page_is_about_a_mebibyte_at_most_and_at_least_one_event(tmp_path: Path, ring: int) -> None:
    with open_book(tmp_path / "journal.db", ring=ring) as book:
        log = new_run(book)
        say(log, *["x" * 200_000] * 12)
        bodies = []
        after = 0
        while after < log.last_seq:
            bodies.append(log.page(after, 1000))
            after = page(log, after, 1000)["next_after"]
        assert max(map(len, bodies)) < MAX_PAGE_BYTES + 1000
        assert [page(log, 0, 1000)["next_after"], len(bodies)] == [6, 3]
        assert numbers(log, 5, 1) == [6]


def test_limits_beyond_the_bounds_are_clamped(small: LogBook) -> None:
    log = new_run(small)
    say(log, *["x"] * 1200)
    assert len(numbers(log, 0, 5000)) == 1000
    assert len(numbers(log, 0, 0)) == 1


def test_readers_of_old_events_see_no_event_before_it_is_shown(small: LogBook) -> None:
    log = new_run(small)
    say(log, *"abcdefghi")
    got = page(log, 0)
    assert got["last_seq"] == got["next_after"] == 10
