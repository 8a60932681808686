"""What went wrong with a turn, in our own terms: whether another attempt can help, and what a person can do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from claude_agent_sdk import (
    CLIJSONDecodeError,
    CLINotFoundError,
    ProcessError,
    ResultMessage,
)

from flower_core.resilience import classify

FailureKind = Literal["transient", "unknown", "fatal", "limit", "context"]

_CONTEXT_FULL = ("prompt_too_long", "blocking_limit")
_LIMITS = {"error_max_turns": "max_turns", "error_max_budget_usd": "max_budget_usd"}
_LIMIT_REASONS = {"max_turns": "max_turns", "budget_exhausted": "max_budget_usd"}


@dataclass(frozen=True)
class Failure:
    """A turn that did not succeed.

    ``kind``: ``transient`` and ``unknown`` may be tried again, ``fatal`` may not; ``limit`` is a limit of the
    spec (turns, budget), ``context`` a full context window. ``text`` is one line for people.
    """

    kind: FailureKind
    text: str
    status: int | None = None

    @property
    def exhausted_budget(self) -> bool:
        """Whether the budget ran out, after which the agent program must be cut, not waited for."""
        return self.kind == "limit" and self.text.startswith("max_budget_usd")


def was_interrupted(result: ResultMessage) -> bool:
    """Whether the turn ended because somebody interrupted it; its subtype then looks like a failure but is none."""
    return (result.terminal_reason or "").startswith("aborted")


def failure_of_result(result: ResultMessage, api_error: str = "", words: str = "") -> Failure | None:
    """What ``result`` says went wrong, None when nothing did.

    A failed API call arrives as subtype "success" with ``is_error``, so the subtype alone tells nothing.
    ``api_error`` is the error class of the synthetic message that came before, ``words`` its text.
    """
    reason = result.terminal_reason or ""
    limit = _LIMITS.get(result.subtype) or _LIMIT_REASONS.get(reason)
    if limit:
        return Failure("limit", f"{limit} reached after {result.num_turns} turns")
    text = _one_line(words or result.result or "; ".join(result.errors or []) or result.subtype)
    if reason in _CONTEXT_FULL or (result.is_error and "prompt is too long" in text.lower()):
        return Failure("context", f"the context window is full ({reason or 'prompt_too_long'})")
    if not result.is_error:
        return None
    kind = classify(text, status=result.api_error_status, error=api_error)
    return Failure(kind, text, result.api_error_status)


def failure_of_exception(error: BaseException, stderr: str = "") -> Failure:
    """What an exception of the SDK means. ``stderr`` is what the agent program last said."""
    said = _one_line(stderr)[-400:]
    text = _one_line(f"{type(error).__name__}: {error}") + (f" ({said})" if said else "")
    if isinstance(error, CLINotFoundError):
        return Failure("fatal", text)
    if isinstance(error, CLIJSONDecodeError):
        return Failure("fatal", text)
    if isinstance(error, ProcessError) and "No conversation found" in f"{error}{stderr}":
        return Failure("fatal", text)
    return Failure("unknown" if classify(text) == "fatal" else classify(text), text)


def _one_line(value: Any) -> str:
    return " ".join(str(value).split())
