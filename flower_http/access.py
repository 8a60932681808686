"""The one line that the log has about every reply, whichever part of the server made it."""

from __future__ import annotations

import logging
from typing import Final

_log: Final = logging.getLogger(__name__)
#: Most characters of a method and of a path that are repeated.
_MOST_METHOD, _MOST_PATH = 20, 200


def log_reply(name: str, method: str, path: str, status: int, request_id: str) -> None:
    """Log a reply: the name of the token (never the token), and of the address only the path, without its query."""
    _log.info("%s %s %r %d %s", name, method[:_MOST_METHOD], path[:_MOST_PATH], status, request_id)
