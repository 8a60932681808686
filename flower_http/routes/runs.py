"""Starting runs and looking at them."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from flask import Blueprint

from flower_http.errors import bad_parameter, invalid_body
from flower_http.manager_api import RUN_STATES
from flower_http.paging import cursor_of, limit_up_to, seal_cursor
from flower_http.parsing import one_of
from flower_http.replies import Reply, json_reply
from flower_http.routes.view import Param, about, caller, idempotency, manager, services, view
from flower_http.schemas import (
    LABEL_NAME,
    LONGEST_LABEL,
    LONGEST_LABEL_NAME,
    EmptySchema,
    StartParams,
    StartSchema,
)

blueprint = Blueprint("runs", __name__)

_MOST_RUNS = 200
_LABEL_NAME = re.compile(LABEL_NAME, re.ASCII)


def _label(text: str) -> dict[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not _LABEL_NAME.fullmatch(name):
        raise ValueError("must be NAME=VALUE")
    if len(name) > LONGEST_LABEL_NAME or len(value) > LONGEST_LABEL:
        raise ValueError(f"has more than {LONGEST_LABEL_NAME} characters in its name, or {LONGEST_LABEL} in its value")
    return {name: value}


@view(blueprint, "POST", "/runs", scope="start", body=StartSchema)
def start(body: StartParams) -> Reply:
    """Start a run."""
    settings = services().settings
    key, again = idempotency()
    if body.permission_mode == "bypassPermissions" and not settings.allow_bypass:
        raise invalid_body({"permission_mode": ["bypassPermissions is off on this server (--allow-bypass)"]})
    run = manager().start(replace(body, lang=body.lang or settings.lang), by=caller(), key=key, again=again)
    about(run.id)
    return json_reply(run.to_json(), 201, Location=f"/runs/{run.id}")


@view(
    blueprint,
    "GET",
    "/runs",
    scope="read",
    query=(
        Param("state", one_of(RUN_STATES)),
        Param("label", _label, {}),
        Param("limit", limit_up_to(_MOST_RUNS), 50),
        Param("cursor", cursor_of("runs")),
    ),
)
def index(query: dict[str, Any]) -> Reply:
    """The runs, newest first."""
    try:
        runs, following = manager().list(
            state=query["state"], labels=query["label"], limit=query["limit"], cursor=query["cursor"]
        )
    except ValueError as error:
        raise bad_parameter("cursor", "is not a cursor of this server") from error
    next_cursor = None if following is None else seal_cursor("runs", following)
    return json_reply({"runs": [run.to_json() for run in runs], "next_cursor": next_cursor})


@view(blueprint, "GET", "/runs/<run_id>", scope="read")
def show(run_id: str) -> Reply:
    """One run."""
    return json_reply(manager().get(run_id).to_json())


@view(blueprint, "DELETE", "/runs/<run_id>", scope="start")
def delete(run_id: str) -> Reply:
    """Forget a run that has ended."""
    manager().delete(run_id)
    services().keys.bury(run_id)
    return Reply(204, b"", ())


@view(blueprint, "GET", "/runs/<run_id>/steps", scope="read")
def steps(run_id: str) -> Reply:
    """What each step took."""
    return json_reply({"steps": list(manager().steps(run_id))})


@view(blueprint, "POST", "/runs/<run_id>/cancel", scope="steer", body=EmptySchema)
def cancel(run_id: str, body: dict[str, Any]) -> Reply:
    """End a run."""
    return json_reply(manager().cancel(run_id).to_json())


@view(blueprint, "POST", "/runs/<run_id>/resume", scope="start", body=EmptySchema)
def resume(run_id: str, body: dict[str, Any]) -> Reply:
    """Let an interrupted run go on."""
    return json_reply(manager().resume(run_id).to_json())
