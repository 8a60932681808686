"""What every reply carries, whichever part of the server makes it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from random import getrandbits
from typing import Any

REQUEST_ID = "X-Request-Id"
#: On every reply: what a run says is for the one who asked, and for now. Agents write what they like: a browser that
#: is led to it must not take it for a page of this server, run it, frame it, or hand it to another site.
ALWAYS: tuple[tuple[str, str], ...] = (
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
    ("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; sandbox"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)

_ENVIRON_KEY = "flower.request_id"
_USABLE_ID = re.compile(r"[\x21-\x7e]{1,128}", re.ASCII)


def request_id(environ: Mapping[str, Any] | dict[str, Any]) -> str:
    """The id of this request: the client's X-Request-Id when it is 1 to 128 printable ASCII characters, else a new one.

    The same WSGI ``environ`` always gives the same id.
    """
    known = environ.get(_ENVIRON_KEY)
    if isinstance(known, str):
        return known
    sent = environ.get("HTTP_X_REQUEST_ID", "")
    # Not a secret, only unlike all others.
    chosen = sent if sent and _USABLE_ID.fullmatch(sent) else f"{getrandbits(128):032x}"
    if isinstance(environ, dict):
        environ[_ENVIRON_KEY] = chosen
    return chosen
