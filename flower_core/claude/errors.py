"""What went wrong with a turn, in our own terms: whether another attempt can help, and what a person can do."""

from __future__ import annotations

import errno
import re
from dataclasses import dataclass
from typing import Any, Literal

from claude_agent_sdk import CLIJSONDecodeError, CLINotFoundError, ResultMessage

from flower_core.resilience import Failure as Recovery
from flower_core.resilience import classify

FailureKind = Literal["transient", "unknown", "fatal", "limit", "context", "unsettled"]

_CONTEXT_FULL = ("prompt_too_long", "blocking_limit")
_LIMITS = {
    "error_max_turns": "max_turns",
    "max_turns": "max_turns",
    "error_max_budget_usd": "max_budget_usd",
    "budget_exhausted": "max_budget_usd",
}
#: What a person can do, as a key of the texts, by the SDK's error class and by HTTP status.
_ADVICE: dict[str | int | None, str] = {
    "authentication_failed": "advice_credentials",
    "oauth_org_not_allowed": "advice_credentials",
    "billing_error": "advice_billing",
    "model_not_found": "advice_model",
    401: "advice_credentials",
    402: "advice_billing",
    403: "advice_credentials",
    404: "advice_model",
    413: "advice_context",
}
#: Mistakes of a program, not of the world around it: the next attempt would make them again.
_MISTAKES = (TypeError, ValueError, AttributeError, LookupError, AssertionError, NotImplementedError)
#: What the system says of a program, or of arguments, that it will not start the next time either.
_NEVER_STARTS = (errno.E2BIG, errno.ENOEXEC, errno.ENOENT, errno.ENOTDIR, errno.EACCES)
#: What the SDK and the agent program say of a session that cannot be opened this way, now or later.
_HOPELESS_TEXTS = ("No conversation found", "Working directory does not exist", "cannot be used with root")
#: How an endpoint, or our relay for it, says in words how long it is to be left alone.
_PAUSE = re.compile(r"\bretry[- ]after\W{1,3}(\d{1,9})(?:\s*s(?:econds)?)?\b", re.IGNORECASE)


@dataclass(frozen=True)
class Failure:
    """A turn that did not succeed.

    ``kind``: ``transient`` and ``unknown`` may be tried again, ``fatal`` may not; ``limit`` is a limit of the
    spec (turns, budget), ``context`` a full context window, ``unsettled`` a process that did not heed an interruption
    and was ended. ``text`` is one line for people, ``advice`` the key of a text of topic ``runtime`` that says what to
    do about it, "" when there is none. ``pause_s`` is how long the endpoint asks to be left alone, as far as is known.
    """

    kind: FailureKind
    text: str
    advice: str = ""
    pause_s: float = 0.0

    @property
    def recovery(self) -> Recovery:
        """Whether another attempt can succeed, in the words of :mod:`flower_core.resilience`."""
        return self.kind if self.kind in ("transient", "unknown") else "fatal"


def was_interrupted(result: ResultMessage) -> bool:
    """Whether the turn ended because somebody interrupted it; its subtype then looks like a failure but is none."""
    return (result.terminal_reason or "").startswith("aborted")


def failure_of_result(
    result: ResultMessage, api_error: str = "", words: str = "", pause_s: float = 0.0
) -> Failure | None:
    """What ``result`` says went wrong, None when nothing did.

    A failed API call arrives as subtype "success" with ``is_error``, so the subtype alone tells nothing.
    ``api_error`` is the error class of the synthetic message that came before, ``words`` its text, ``pause_s`` how
    long the agent program itself last waited before it asked again.
    """
    reason = result.terminal_reason or ""
    limit = _LIMITS.get(result.subtype) or _LIMITS.get(reason)
    if limit:
        text = f"{limit} reached after {result.num_turns} turns"
        return Failure("limit", text, f"advice_{limit}")
    text = _one_line(words or result.result or "; ".join(result.errors or []) or result.subtype)
    if result.api_error_status and str(result.api_error_status) not in text:
        text = f"{text} (HTTP {result.api_error_status})"
    if reason in _CONTEXT_FULL or (result.is_error and "prompt is too long" in text.lower()):
        return context_full(reason or "prompt_too_long")
    if not result.is_error:
        return None
    kind = classify(text, status=result.api_error_status, error=api_error, reason=reason)
    advice = _ADVICE.get(api_error) or _ADVICE.get(result.api_error_status) or ""
    asked = max([pause_s, *(float(match[1]) for match in _PAUSE.finditer(text))])
    return Failure(kind, text, advice if kind == "fatal" else "", pause_s=asked)


def context_full(why: str) -> Failure:
    """A session that is to have no further turn, because its context is full; ``why`` is for people."""
    return Failure("context", f"the context window is full ({why})", "advice_context")


def failure_of_exception(error: BaseException, stderr: str = "") -> Failure:
    """What an exception of the SDK means. ``stderr`` is what the agent program last said."""
    said = _one_line(stderr)[-400:]
    text = _one_line(f"{type(error).__name__}: {error}") + (f" ({said})" if said else "")
    if isinstance(error, (CLINotFoundError, CLIJSONDecodeError, *_MISTAKES)):
        return Failure("fatal", text)
    cause = error.__cause__
    never_starts = isinstance(cause, OSError) and cause.errno in _NEVER_STARTS
    if never_starts or isinstance(cause, _MISTAKES) or any(hopeless in text for hopeless in _HOPELESS_TEXTS):
        return Failure("fatal", text)
    # Its text is not the API's, so what reads as fatal in it proves nothing.
    return Failure("transient" if classify(text) == "transient" else "unknown", text)


def _one_line(value: Any) -> str:
    return " ".join(str(value).split())
