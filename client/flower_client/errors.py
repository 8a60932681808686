"""Every exception of flower_client.

::

    FlowerClientError
    ├── ConfigError      2  wrong settings or arguments; nothing was sent
    ├── Unreachable      3  no usable reply: nobody answers, a timeout, a server in trouble
    │   └── BadReply     3  something answered, but not with what the contract says (a proxy's HTML, half a page)
    └── ProblemError        the server says no, with a problem document
        ├── NotAllowed   4  401 or 403: no token, a wrong one, or one with too small a scope
        └── Refused      5  any other 4xx: what was asked for cannot be done; ``slug`` says why

The number is ``exit_code``: what the command ends with. (0, 1, 6 and 7 tell how a run went, and are no errors.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar


class FlowerClientError(Exception):
    """Base of everything this package raises on purpose.

    ``hint`` says what to do about it, in one sentence, or is empty. ``exit_code`` is what the command ends with.
    """

    exit_code: ClassVar[int]

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint

    @property
    def advice(self) -> str:
        """What is wrong and what to do about it, as sentences."""
        message = str(self)
        return f"{message.rstrip('.')}. {self.hint}".rstrip() if self.hint else message


class ConfigError(FlowerClientError):
    """A setting or an argument is wrong. Nothing has been sent."""

    exit_code = 2


class Unreachable(FlowerClientError):
    """There was no usable reply. The same request may well succeed later.

    ``retry_after_s`` is how long the server asked to be left alone (already bounded to 60 s), or None.
    ``status`` is the HTTP status when there was one, else 0. ``maybe_done`` is whether the server may have carried out
    the request all the same; False means that it never got there.
    """

    exit_code = 3

    def __init__(self, message: str, *, hint: str = "", status: int = 0, retry_after_s: float | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.retry_after_s = retry_after_s
        self.maybe_done = True


class BadReply(Unreachable):
    """Something answered, but the answer is not what the contract promises."""


class ProblemError(FlowerClientError):
    """The server refused with a problem document (RFC 9457).

    ``slug`` is the document's type, the only member to decide by. ``document`` is all of it.
    ``retry_after_s`` as in :class:`Unreachable`. ``maybe_done`` is whether an earlier attempt, whose reply was lost,
    may have been carried out: then the refusal may be of what has been done already.
    """

    def __init__(
        self, status: int, document: Mapping[str, Any], *, hint: str = "", retry_after_s: float | None = None
    ) -> None:
        self.status = status
        self.document = dict(document)
        self.slug = str(document.get("type") or "about:blank")
        self.detail = str(document.get("detail") or document.get("title") or f"HTTP {status}")
        self.retry_after_s = retry_after_s
        self.maybe_done = False
        super().__init__(self.detail + _fields(document.get("errors")), hint=hint)


class NotAllowed(ProblemError):
    """401 or 403."""

    exit_code = 4


class Refused(ProblemError):
    """Any other 4xx that comes with a problem document."""

    exit_code = 5


def _fields(errors: Any) -> str:
    """The per-field messages of a 422 as one clause: `` (rounds: must be at least 1)``."""
    if not isinstance(errors, Mapping) or not errors:
        return ""
    parts = []
    for name, messages in errors.items():
        words = messages if isinstance(messages, list) else [messages]
        parts.append(f"{name}: {'; '.join(str(word) for word in words)}")
    return f" ({', '.join(parts)})"
