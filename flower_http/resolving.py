"""Which run is meant where a request names none: a verb at the root of the API, or a start that is repeated."""

from __future__ import annotations

from flower_http.errors import Problem
from flower_http.log_book import LogBook
from flower_http.projection import RunView

#: Among the parameters of a run: which request started it.
REQUEST = "idempotency"


def resolve(book: LogBook) -> str:
    """The one unfinished run; with none unfinished, the one that ended last.

    Raises Problem 404 when there is none, 409 ``which-run`` when several could be meant.
    """
    unfinished = [view.id for view in book.unfinished()]
    if len(unfinished) > 1:
        raise Problem(409, "which-run", "several runs are unfinished; name one with run=", runs=unfinished)
    if unfinished:
        return unfinished[0]
    ended = book.last_ended()
    if ended is None:
        raise Problem(404, "unknown-run", "there is no run yet; start one with POST /runs")
    return ended


def started_with(book: LogBook, key: str) -> RunView | None:
    """The run that a request with this key started before the server went down, if it came that far."""
    return next(iter(book.started_with(REQUEST, key)), None)
