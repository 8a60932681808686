"""Errors as the wire sees them: RFC 9457 problem documents with stable types.

::

    Exception
    ├── Problem            anything a client is told; raised anywhere below a view, rendered by the app and by poll.py
    └── StartError         the server cannot start; one clear line, exit code 2
        └── SettingsError  a flag or a FLOWER_* variable holds something impossible

Clients key on ``type`` alone, a stable slug. Every slug there is stands in :data:`CATALOGUE`, and in openapi.yaml.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from flower_core.events import jsonable

CONTENT_TYPE = "application/problem+json"
#: How much of a field's name is repeated to a client, in characters.
_MOST_NAME = 80

#: Every error a client can meet: slug → (status, title). The title says what the slug means and never varies.
CATALOGUE: Mapping[str, tuple[int, str]] = {
    "bad-request": (400, "The request is not valid HTTP"),
    "bad-json": (400, "The body is not what its content type says"),
    "bad-parameter": (400, "A query parameter is unknown, repeated or out of range"),
    "bad-idempotency-key": (400, "The Idempotency-Key is empty, too long or not printable"),
    "unauthorized": (401, "A valid bearer token is needed"),
    "scope-too-small": (403, "The token does not reach this far"),
    "host-not-allowed": (403, "Without a token only loopback host names are served"),
    "cross-origin": (403, "Without a token, requests from web pages are refused"),
    "not-found": (404, "There is nothing at this address"),
    "unknown-run": (404, "There is no run with this id"),
    "unknown-ask": (404, "The run has no question with this id"),
    "unknown-question": (404, "Nobody asked the oracle a question with this id about the run"),
    "unknown-document": (404, "The run has no such document, or none yet"),
    "unknown-file": (404, "The workspace has no file at this path that may be read"),
    "method-not-allowed": (405, "This address does not take that method"),
    "request-timeout": (408, "The request did not arrive in time"),
    "workspace-busy": (409, "Another run works in this workspace, above it or below it"),
    "flow-busy": (409, "This flow serves one run at a time"),
    "ask-settled": (409, "The question no longer waits"),
    "not-running": (409, "The run is not running"),
    "not-interrupted": (409, "Only an interrupted run can be resumed"),
    "not-ended": (409, "Only a run that has ended can be deleted"),
    "which-run": (409, "Several runs are unfinished; name one"),
    "idempotency-in-progress": (409, "The first request with this Idempotency-Key is still being served"),
    "cursor-ahead": (409, "The cursor is beyond the last event"),
    "epoch-changed": (410, "The journal is not the one this cursor belongs to"),
    "cursor-expired": (410, "Events after this cursor have been dropped"),
    "precondition-failed": (412, "The file is not the one the request is about"),
    "body-too-large": (413, "The body is too large"),
    "unsupported-media-type": (415, "The body is neither JSON nor a form"),
    "range-not-satisfiable": (416, "The file has no such bytes"),
    "invalid-body": (422, "A field of the body is unknown, missing or out of range"),
    "unknown-flow": (422, "No flow of this name was registered when the server started"),
    "idempotency-mismatch": (422, "The Idempotency-Key was used with another body"),
    "queue-full": (429, "As many runs wait as may wait"),
    "oracle-busy": (429, "The oracle is busy with another question"),
    "internal-error": (500, "The server failed"),
    "journal-unavailable": (503, "The disk does not take what must be kept"),
    "not-ready": (503, "The server cannot take this now"),
    "overloaded": (503, "The server has more to do than it can"),
}


class StartError(Exception):
    """The server cannot start. The message is one line that says why and what to do about it."""


class SettingsError(StartError):
    """A setting holds something impossible. The message names the flag and the variable."""


class Problem(Exception):
    """A request that ends in an error document.

    ``slug`` is the stable type, ``status`` the HTTP status, ``detail`` says what was wrong and what to do,
    ``headers`` go onto the reply, ``extra`` become further members of the document.
    """

    def __init__(
        self,
        status: int,
        slug: str,
        detail: str,
        *,
        title: str = "",
        headers: Mapping[str, str] | None = None,
        **extra: Any,
    ) -> None:
        super().__init__(f"{status} {slug}: {detail}")
        self.status = status
        self.slug = slug
        self.detail = detail
        self.title = title or CATALOGUE.get(slug, (status, HTTPStatus(status).phrase))[1]
        self.headers = dict(headers or {})
        self.extra = extra

    def document(self) -> dict[str, Any]:
        """The members of the problem document."""
        return {"type": self.slug, "title": self.title, "status": self.status, "detail": self.detail, **self.extra}

    def body(self) -> bytes:
        """The document, encoded. What a client sent may be quoted in it, so it is made encodable first."""
        return json.dumps(jsonable(self.document()), ensure_ascii=False, allow_nan=False).encode()


def unknown_run(run_id: str) -> Problem:
    """404 for a run id that is malformed or leads nowhere; the two are not told apart."""
    return Problem(404, "unknown-run", f"there is no run {run_id[:80]!r}; GET /runs lists those there are")


def bad_parameter(name: str, message: str) -> Problem:
    """400 for a query parameter, naming it."""
    return Problem(400, "bad-parameter", f"query parameter {name[:80]!r}: {message}", parameter=name[:80])


def unavailable(detail: str) -> Problem:
    """503 for what the disk does not take just now, with the time after which to try again."""
    return Problem(503, "journal-unavailable", detail, headers={"Retry-After": "5"})


def invalid_body(errors: Mapping[str, Any]) -> Problem:
    """422 for a body; ``errors`` maps each field to a list of messages.

    The names may be what a client made up; of long ones only the beginning is repeated.
    """
    told = {str(name)[:_MOST_NAME]: messages for name, messages in errors.items()}
    return Problem(422, "invalid-body", f"the body was refused because of: {', '.join(told)}", errors=told)
