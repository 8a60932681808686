"""A reply as plain data, so that it can be kept and sent again."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from flower_core.events import jsonable

JSON_TYPE = "application/json"


@dataclass(frozen=True)
class Reply:
    """Status, headers (without those every reply gets anyway) and body."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = (("Content-Type", JSON_TYPE),)

    def with_header(self, name: str, value: str) -> Reply:
        """The same reply with one more header."""
        return Reply(self.status, self.body, (*self.headers, (name, value)))


def json_reply(document: Any, status: int = 200, **headers: str) -> Reply:
    """``document`` as JSON, whatever odd strings or numbers are in it. ``headers`` by name, ``_`` for ``-``."""
    body = json.dumps(jsonable(document), ensure_ascii=False, allow_nan=False).encode()
    extra = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Reply(status, body, (("Content-Type", JSON_TYPE), *extra))
