"""Questions of a run and their answers; each verb also at the root, where the run may be left out."""

from __future__ import annotations

from typing import Any

from flask import Blueprint

from flower_http.manager_api import AskFilter
from flower_http.parsing import one_of
from flower_http.replies import Reply, json_reply
from flower_http.routes.view import Param, caller, manager, view
from flower_http.routes.which import RUN, which_run
from flower_http.schemas import AnswerSchema, DeclineSchema, RootAnswerSchema, RootDeclineSchema

blueprint = Blueprint("asks", __name__)

_STATE = Param("state", one_of(("waiting", "all")), "waiting")


def _asks(run_id: str, state: AskFilter) -> Reply:
    return json_reply({"run": run_id, "asks": [ask.to_json() for ask in manager().asks(run_id, state)]})


def _answer(run_id: str, body: dict[str, Any]) -> Reply:
    ask, replayed = manager().answer(
        run_id, body["ask_id"], text=body.get("text"), option=body.get("option"), by=caller()
    )
    return json_reply({"ok": True, "run": run_id, "ask": ask.to_json(), "replayed": replayed})


def _decline(run_id: str, body: dict[str, Any]) -> Reply:
    ask, replayed = manager().decline(run_id, body["ask_id"], reason=body.get("reason", ""), by=caller())
    return json_reply({"ok": True, "run": run_id, "ask": ask.to_json(), "replayed": replayed})


@view(blueprint, "GET", "/runs/<run_id>/asks", scope="read", query=(_STATE,))
def asks(run_id: str, query: dict[str, Any]) -> Reply:
    """The questions of a run."""
    return _asks(run_id, query["state"])


@view(blueprint, "POST", "/runs/<run_id>/answer", scope="steer", body=AnswerSchema)
def answer(run_id: str, body: dict[str, Any]) -> Reply:
    """Answer a question."""
    return _answer(run_id, body)


@view(blueprint, "POST", "/runs/<run_id>/decline", scope="steer", body=DeclineSchema)
def decline(run_id: str, body: dict[str, Any]) -> Reply:
    """Decline a question."""
    return _decline(run_id, body)


@view(blueprint, "GET", "/asks", scope="read", query=(_STATE, RUN))
def root_asks(query: dict[str, Any]) -> Reply:
    """The questions of the run meant."""
    return _asks(which_run(query), query["state"])


@view(blueprint, "POST", "/answer", scope="steer", body=RootAnswerSchema, query=(RUN,))
def root_answer(body: dict[str, Any], query: dict[str, Any]) -> Reply:
    """Answer a question of the run meant."""
    return _answer(which_run(query, body), body)


@view(blueprint, "POST", "/decline", scope="steer", body=RootDeclineSchema, query=(RUN,))
def root_decline(body: dict[str, Any], query: dict[str, Any]) -> Reply:
    """Decline a question of the run meant."""
    return _decline(which_run(query, body), body)
