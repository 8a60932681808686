"""Asking about a run on the side: the run goes on, and never hears of it."""

from __future__ import annotations

from typing import Any

from flask import Blueprint

from flower_http.oracles import OracleQuestion
from flower_http.replies import Reply, json_reply
from flower_http.routes.view import idempotency, manager, view
from flower_http.schemas import OracleSchema

blueprint = Blueprint("oracle", __name__)


def _shown(run_id: str, question: OracleQuestion) -> dict[str, Any]:
    return {"run": run_id, **question.to_json()}


@view(blueprint, "POST", "/runs/<run_id>/oracle", scope="steer", body=OracleSchema)
def ask(run_id: str, body: dict[str, Any]) -> Reply:
    """Ask something about the run."""
    key, _ = idempotency()
    asked = manager().ask_oracle(run_id, body["question"], key=key)
    return json_reply(_shown(run_id, asked), 202, Location=f"/runs/{run_id}/oracle/{asked.id}")


@view(blueprint, "GET", "/runs/<run_id>/oracle/<question_id>", scope="read")
def answer(run_id: str, question_id: str) -> Reply:
    """What came of a question."""
    return json_reply(_shown(run_id, manager().oracle_answer(run_id, question_id)))
