from __future__ import annotations

import pytest

from flower_http.errors import Problem
from flower_http.query import EventsQuery, parse_query


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", EventsQuery()),
        ("after=0", EventsQuery()),
        ("after=12&limit=7&wait=25", EventsQuery(after=12, limit=7, wait=25.0)),
        ("after=9007199254740991", EventsQuery(after=2**53 - 1)),
        ("after=9999999999999999", EventsQuery(after=9999999999999999)),
        ("limit=1000", EventsQuery(limit=1000)),
        ("limit=1001", EventsQuery(limit=1000)),
        ("limit=9999999999999999", EventsQuery(limit=1000)),
        (f"limit={'9' * 6000}&wait={'9' * 6000}", EventsQuery(limit=1000, wait=25.0)),
        ("wait=26", EventsQuery(wait=25.0)),
        ("wait=9999999999999999", EventsQuery(wait=25.0)),
        ("wait=0.25", EventsQuery(wait=0.25)),
        ("tail=50", EventsQuery(tail=50)),
        ("tail=0&wait=5", EventsQuery(tail=0, wait=5.0)),
        ("epoch=abc&on_gap=skip", EventsQuery(epoch="abc", skip_gap=True)),
        ("%61fter=3", EventsQuery(after=3)),
    ],
)
def test_a_query_is_read(query: str, expected: EventsQuery) -> None:
    assert parse_query(query, root=False) == expected


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("after=", "after"),
        ("after=-1", "after"),
        ("after=%2B1", "after"),
        ("after=+1", "after"),
        ("after=01", "after"),
        ("after=00", "after"),
        ("after=1_000", "after"),
        ("after=1.0", "after"),
        ("after=1e3", "after"),
        ("after=0x1", "after"),
        ("after=1%20", "after"),
        ("after=1%0A", "after"),
        ("after=%EF%BC%91%EF%BC%92", "after"),
        ("after=%D9%A1", "after"),
        ("after=12345678901234567", "after"),
        ("after=true", "after"),
        ("after=1&after=1", "after"),
        ("limit=0", "limit"),
        ("limit=-5", "limit"),
        ("limit=x", "limit"),
        ("wait=-1", "wait"),
        ("wait=.5", "wait"),
        ("wait=1e1", "wait"),
        ("wait=nan", "wait"),
        ("wait=inf", "wait"),
        ("wait=0.1234", "wait"),
        ("tail=x", "tail"),
        ("tail=1&after=1", "tail"),
        ("epoch=", "epoch"),
        ("epoch=" + "e" * 65, "epoch"),
        ("on_gap=fail", "on_gap"),
        ("on_gap=", "on_gap"),
        ("run=r1", "run"),
        ("After=1", "After"),
        ("aftr=1", "aftr"),
        ("token=secret", "token"),
        ("=1", ""),
        ("&".join("after=1" for _ in range(50)), ""),
    ],
)
def test_what_is_wrong_is_refused_by_name(query: str, name: str) -> None:
    with pytest.raises(Problem) as caught:
        parse_query(query, root=False)
    assert (caught.value.status, caught.value.slug) == (400, "bad-parameter")
    assert caught.value.extra["parameter"] == name
    assert repr(name) in caught.value.detail


def test_the_root_verb_takes_a_run() -> None:
    assert parse_query("run=r9&after=1", root=True) == EventsQuery(after=1, run="r9")
    with pytest.raises(Problem, match="run"):
        parse_query("run=r9&run=r9", root=True)
