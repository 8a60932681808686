"""Which run a verb at the root means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flower_http.errors import invalid_body
from flower_http.routes.view import Param, about, check_run_id, manager

#: The parameter that names a run; in the query of any root verb, or in the body of a POST.
RUN = Param("run", str)


def which_run(query: Mapping[str, Any], body: Mapping[str, Any] | None = None) -> str:
    """The id of the run named in ``query`` or ``body``, else of the one that is meant without a name.

    Raises Problem 422 when both name one, 404 for an unknown one, 409 when several could be meant.
    """
    in_query, in_body = query.get("run"), (body or {}).get("run")
    if in_query is not None and in_body is not None:
        raise invalid_body({"run": ["stands in the query as well; give it once"]})
    named = in_body if in_query is None else in_query
    if named is not None:
        check_run_id(named)
    run_id = manager().resolve(named)
    about(run_id)
    return run_id
