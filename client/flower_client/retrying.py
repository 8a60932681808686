"""When to try an exchange again: whether that can help, and how long to wait before."""

from __future__ import annotations

import email.utils
import math
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass

from flower_client.errors import FlowerClientError, ProblemError, Unreachable

MAX_RETRY_AFTER_S = 60.0


@dataclass(frozen=True)
class Backoff:
    """Exponential backoff with full jitter: a random wait between 0 and ``min(cap_s, base_s * 2**n)`` seconds.

    Full jitter, so that a thousand clients of one restarted server do not come back in step.
    """

    base_s: float = 0.5
    cap_s: float = 30.0
    rng: random.Random = random.Random()  # noqa: RUF009, S311 - one shared source is enough, and it guards no secret

    def delay(self, failures: int) -> float:
        """Seconds to wait after the ``failures``-th failure in a row, counted from 1."""
        return self.rng.uniform(0, min(self.cap_s, self.base_s * 2 ** min(failures, 30)))


def may_succeed_later(error: FlowerClientError) -> bool:
    """Whether the very same request can succeed after a pause.

    So it is without a usable reply, with 408 and 429, and with a conflict that names a time (Retry-After).
    """
    if isinstance(error, ProblemError):
        return error.status in (408, 429) or (error.status == 409 and error.retry_after_s is not None)
    return isinstance(error, Unreachable)


def pause_after(error: FlowerClientError, failures: int, backoff: Backoff) -> float:
    """Seconds to wait before the next attempt: what the server asked for, else the backoff."""
    asked = getattr(error, "retry_after_s", None)
    return backoff.delay(failures) if asked is None else float(asked)


def retry_after_of(headers: Mapping[str, str]) -> float | None:
    """What Retry-After asks for, seconds or an HTTP date (RFC 9110), in seconds, at most 60; None when there is none.

    A date is held against the reply's own, since both are by the server's clock and ours may be wrong.
    """
    value = headers.get("Retry-After")
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        until, now = _moment(value), _moment(headers.get("Date", ""))
        if until is None:
            return None
        seconds = until - (time.time() if now is None else now)
    return None if math.isnan(seconds) else min(max(seconds, 0.0), MAX_RETRY_AFTER_S)


def _moment(date: str) -> float | None:
    """An HTTP date in seconds since 1970, None when it is none."""
    try:
        return email.utils.parsedate_to_datetime(date).timestamp()
    except (ValueError, OverflowError):
        return None
