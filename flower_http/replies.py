"""A reply as plain data, so that it can be kept and sent again."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from io import RawIOBase
from typing import Any

from flower_core.events import jsonable

JSON_TYPE = "application/json"


@dataclass(frozen=True)
class Reply:
    """Status, headers (without those every reply gets anyway) and body; ``run`` is the run it tells about, if any."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = (("Content-Type", JSON_TYPE),)
    run: str = ""

    def with_header(self, name: str, value: str) -> Reply:
        """The same reply with one more header."""
        return replace(self, headers=(*self.headers, (name, value)))

    def about(self, run_id: str) -> Reply:
        """The same reply, as one about this run."""
        return replace(self, run=run_id)


@dataclass(frozen=True)
class FileReply:
    """A reply to GET whose body is sent from an open file as fast as the client takes it, and closed then."""

    status: int
    body: RawIOBase
    headers: tuple[tuple[str, str], ...]


def json_reply(document: Any, status: int = 200, **headers: str) -> Reply:
    """``document`` as JSON, whatever odd strings or numbers are in it. ``headers`` by name, ``_`` for ``-``."""
    body = json.dumps(jsonable(document), ensure_ascii=False, allow_nan=False).encode()
    extra = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Reply(status, body, (("Content-Type", JSON_TYPE), *extra))
