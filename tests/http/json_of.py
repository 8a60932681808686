from __future__ import annotations

from typing import Any

from werkzeug.test import TestResponse


def json_of(reply: TestResponse) -> Any:
    """The body of ``reply``, which must be JSON and say so."""
    assert reply.mimetype in ("application/json", "application/problem+json"), reply.headers["Content-Type"]
    return reply.json
