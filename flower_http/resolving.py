"""Which run is meant where a verb at the root of the API names none."""

from __future__ import annotations

from flower_http.errors import Problem
from flower_http.log_book import LogBook

_RECENT = 200


def resolve(book: LogBook) -> str:
    """The one unfinished run; with none unfinished, the one that ended last.

    Raises Problem 404 when there is none, 409 ``which-run`` when several could be meant.
    """
    unfinished = [view.id for view in book.unfinished()]
    if len(unfinished) > 1:
        raise Problem(409, "which-run", "several runs are unfinished; name one with run=", runs=unfinished)
    if unfinished:
        return unfinished[0]
    ended, _ = book.list(limit=_RECENT)
    if not ended:
        raise Problem(404, "unknown-run", "there is no run yet; start one with POST /runs")
    return max(ended, key=lambda view: view.ended_at).id
