"""The one line that the log has about every reply, whichever part of the server made it."""

from __future__ import annotations

import logging
from typing import Final

_log: Final = logging.getLogger(__name__)
#: How much of a method and of a path, which clients make up, is repeated: here and to them; in characters.
MOST_METHOD, MOST_PATH = 20, 200


def log_reply(name: str, method: str, path: str, status: int, request_id: str) -> None:
    """Log a reply: the name of the token (never the token), and of the address only the path, without its query."""
    _log.info("%s %s %r %d %s", name, method[:MOST_METHOD], path[:MOST_PATH], status, request_id)
