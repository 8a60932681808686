"""Lists that come in parts: how many a client wants, and where it goes on."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from functools import partial

from flower_http.parsing import clamped

_LONGEST = 512


def limit_up_to(most: int) -> Callable[[str], int]:
    """A parser of whole numbers from 1; what is above ``most`` means ``most``."""
    return partial(clamped, low=1, high=most)


def seal_cursor(kind: str, place: str) -> str:
    """``place`` in a list of this ``kind``, in a form that says nothing and fits into a URL.

    ``place`` may hold what :func:`os.fsdecode` makes of bytes that are no UTF-8.
    """
    raw = f"{kind}:{place}".encode("utf-8", "surrogateescape")
    return base64.urlsafe_b64encode(raw).decode("ascii").rstrip("=")


def cursor_of(kind: str) -> Callable[[str], str]:
    """A parser of what :func:`seal_cursor` has made."""

    def parse(text: str) -> str:
        try:
            raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError) as error:
            raise ValueError("is not a cursor of this server") from error
        place = raw.decode("utf-8", "surrogateescape")
        if len(text) > _LONGEST or not place.startswith(f"{kind}:"):
            raise ValueError("is not a cursor of this server")
        return place.removeprefix(f"{kind}:")

    return parse
