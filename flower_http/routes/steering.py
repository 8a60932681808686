"""Telling a run something, and stopping what it does; each verb also at the root, where the run may be left out."""

from __future__ import annotations

from typing import Any

from flask import Blueprint

from flower_http.replies import Reply, json_reply
from flower_http.routes.view import idempotency, manager, view
from flower_http.routes.which import RUN, which_run
from flower_http.schemas import InterruptSchema, RootInterruptSchema, RootSaySchema, SaySchema

blueprint = Blueprint("steering", __name__)

_COST = "A subagent in flight is stopped at once and loses its half-done work; the session itself goes on."


def _say(run_id: str, body: dict[str, Any]) -> Reply:
    key, _ = idempotency()
    mail = manager().send(run_id, body["text"], key=key)
    return json_reply({"run": run_id, "id": mail.id, "amended": mail.amended}, 202)


def _inbox(run_id: str) -> Reply:
    return json_reply({"run": run_id, "mail": [mail.to_json() for mail in manager().inbox(run_id)]})


def _interrupt(run_id: str, body: dict[str, Any]) -> Reply:
    key, _ = idempotency()
    manager().interrupt(run_id, body.get("text", ""), key=key)
    return json_reply({"ok": True, "run": run_id, "note": _COST}, 202)


@view(blueprint, "POST", "/runs/<run_id>/inbox", scope="steer", body=SaySchema)
def say(run_id: str, body: dict[str, Any]) -> Reply:
    """Put a message into the inbox."""
    return _say(run_id, body)


@view(blueprint, "GET", "/runs/<run_id>/inbox", scope="read")
def inbox(run_id: str) -> Reply:
    """What was said."""
    return _inbox(run_id)


@view(blueprint, "POST", "/runs/<run_id>/interrupt", scope="steer", body=InterruptSchema)
def interrupt(run_id: str, body: dict[str, Any]) -> Reply:
    """Interrupt the agent."""
    return _interrupt(run_id, body)


@view(blueprint, "POST", "/inbox", scope="steer", body=RootSaySchema, query=(RUN,))
def root_say(body: dict[str, Any], query: dict[str, Any]) -> Reply:
    """Put a message into the inbox of the run meant."""
    return _say(which_run(query, body), body)


@view(blueprint, "GET", "/inbox", scope="read", query=(RUN,))
def root_inbox(query: dict[str, Any]) -> Reply:
    """What was said to the run meant."""
    return _inbox(which_run(query))


@view(blueprint, "POST", "/interrupt", scope="steer", body=RootInterruptSchema, query=(RUN,))
def root_interrupt(body: dict[str, Any], query: dict[str, Any]) -> Reply:
    """Interrupt the agent of the run meant."""
    return _interrupt(which_run(query, body), body)
