"""What the servers and those who measure them agree on."""

from __future__ import annotations

EVENTS, THREADS, READERS = 1000, 4, 1000
RUN = "r1"
#: A sentence, as agents say many.
TEXT = "The tests pass; two of them were flaky because of a shared temporary directory. " * 3
#: What our server writes the token into.
TOKEN_FILE = "token.txt"  # noqa: S105

Replies = dict[str, tuple[list[tuple[str, str]], bytes]]
