"""How a turn went wrong, from what the SDK says: may it be tried again, and what can a person do."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from typing import Any

import pytest
from claude_agent_sdk import (
    CLIConnectionError,
    CLIJSONDecodeError,
    CLINotFoundError,
    ProcessError,
    ResultMessage,
)

from flower_core.claude.errors import failure_of_exception, failure_of_result, was_interrupted
from flower_core.texts import LANGUAGES, texts_for

FINE = ResultMessage("success", 10, 5, False, 3, "session-1", result="All done", terminal_reason="completed")


def failed(**more: Any) -> ResultMessage:
    return replace(FINE, is_error=True, **more)


def test_a_good_result_is_no_failure() -> None:
    assert failure_of_result(FINE) is None


@pytest.mark.parametrize("reason", ["aborted_streaming", "aborted_tools"])
def test_an_interrupted_turn_is_told_by_its_reason_not_by_its_subtype(reason: str) -> None:
    assert was_interrupted(failed(subtype="error_during_execution", terminal_reason=reason, errors=["[ede] x"]))
    assert not was_interrupted(failed(subtype="error_during_execution", terminal_reason=None))


@pytest.mark.parametrize(
    ("error", "status", "kind", "advice"),
    [
        ("server_error", None, "transient", ""),
        ("server_error", 529, "transient", ""),
        ("server_error", 500, "transient", ""),
        ("rate_limit", 429, "transient", ""),
        ("authentication_failed", 401, "fatal", "advice_credentials"),
        ("authentication_failed", 403, "fatal", "advice_credentials"),
        ("model_not_found", 404, "fatal", "advice_model"),
        ("billing_error", 402, "fatal", "advice_billing"),
        ("billing_error", 400, "fatal", "advice_billing"),
        ("unknown", 400, "fatal", ""),
        ("unknown", 401, "fatal", "advice_credentials"),
        ("invalid_request", 413, "fatal", "advice_context"),
        ("a class of the future", None, "unknown", ""),
    ],
)
def test_an_api_failure_is_classified_though_its_subtype_says_success(
    error: str, status: int | None, kind: str, advice: str
) -> None:
    result = failed(terminal_reason="api_error", api_error_status=status)
    failure = failure_of_result(result, error, "API Error:\n  so it is")
    assert failure is not None
    assert (failure.kind, failure.advice) == (kind, advice)
    assert failure.text.startswith("API Error: so it is")
    assert status is None or str(status) in failure.text


@pytest.mark.parametrize(
    "result",
    [
        failed(terminal_reason="prompt_too_long", api_error_status=400),
        failed(terminal_reason="blocking_limit", result="Prompt is too long"),
        failed(terminal_reason="api_error", result="API Error: 400 prompt is too long: 210000 tokens > 200000 maximum"),
    ],
    ids=lambda result: result.terminal_reason,
)
def test_a_full_context_window_is_a_failure_of_its_own_kind(result: ResultMessage) -> None:
    failure = failure_of_result(result, "invalid_request")
    assert failure is not None
    assert (failure.kind, failure.recovery, failure.advice) == ("context", "fatal", "advice_context")


@pytest.mark.parametrize(
    ("subtype", "reason", "limit"),
    [
        ("error_max_turns", "max_turns", "max_turns"),
        ("error_max_budget_usd", "budget_exhausted", "max_budget_usd"),
        ("success", "budget_exhausted", "max_budget_usd"),
        ("error_max_turns", None, "max_turns"),
    ],
)
def test_a_limit_of_the_spec_is_named_and_not_tried_again(subtype: str, reason: str | None, limit: str) -> None:
    failure = failure_of_result(failed(subtype=subtype, terminal_reason=reason))
    assert failure is not None
    assert (failure.kind, failure.recovery, failure.advice) == ("limit", "fatal", f"advice_{limit}")
    assert failure.text == f"{limit} reached after 3 turns"


def test_a_terminal_reason_counts_where_there_is_no_error_class() -> None:
    failure = failure_of_result(failed(terminal_reason="image_error", result="Overloaded with images"))
    assert failure is not None
    assert failure.kind == "fatal"


@pytest.mark.parametrize(
    ("words", "waited", "pause"),
    [
        ("Request rejected (429)", 0.0, 0.0),
        ("Request rejected (429)", 2.5, 2.5),
        ("Request rejected (429) (retry-after: 3600 s)", 0.0, 3600.0),
        ("too many requests, Retry after 30 seconds", 45.0, 45.0),
        ("please retry afterwards", 0.0, 0.0),
    ],
)
def test_the_pause_the_endpoint_asks_for_is_known_as_far_as_it_can_be(words: str, waited: float, pause: float) -> None:
    result = failed(terminal_reason="api_error", api_error_status=429)
    failure = failure_of_result(result, "rate_limit", words, waited)
    assert failure is not None
    assert (failure.kind, failure.pause_s) == ("transient", pause)


def test_an_error_without_words_is_told_by_its_subtype() -> None:
    failure = failure_of_result(failed(subtype="error_during_execution", result=None, terminal_reason=None))
    assert failure is not None
    assert (failure.kind, failure.text) == ("unknown", "error_during_execution")


def not_started(number: int) -> CLIConnectionError:
    """What the SDK raises when the system refuses to start the program with that error number."""
    error = CLIConnectionError(f"Failed to start Claude Code: {os.strerror(number)}")
    error.__cause__ = OSError(number, os.strerror(number))
    return error


def broken_json() -> CLIJSONDecodeError:
    return CLIJSONDecodeError("{" * 10, json.JSONDecodeError("bad", "{", 1))


@pytest.mark.parametrize(
    ("error", "stderr", "kind"),
    [
        (ProcessError("Command failed", exit_code=143), "", "unknown"),
        (ProcessError("Command failed", exit_code=1), "No conversation found with session ID: x", "fatal"),
        (ProcessError("Command failed", exit_code=1), "cannot be used with root/sudo privileges", "fatal"),
        (CLIConnectionError("Working directory does not exist: /gone"), "", "fatal"),
        (CLINotFoundError("Claude Code not found"), "", "fatal"),
        (not_started(errno.E2BIG), "", "fatal"),
        (not_started(errno.ENOEXEC), "", "fatal"),
        (not_started(errno.ENOMEM), "", "unknown"),
        (broken_json(), "", "fatal"),
        (ConnectionError("the agent program ended without a result"), "", "unknown"),
        (TimeoutError("Control request timeout: initialize"), "", "transient"),
        (OSError("unauthorized"), "", "unknown"),
        (TypeError("'int' object is not iterable"), "", "fatal"),
        (UnicodeEncodeError("utf-8", "\ud83d", 0, 1, "surrogates not allowed"), "", "fatal"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_an_exception_of_the_sdk_is_classified(error: Exception, stderr: str, kind: str) -> None:
    assert failure_of_exception(error, stderr).kind == kind


def test_what_the_program_last_said_stands_in_the_failure_on_one_line() -> None:
    failure = failure_of_exception(ProcessError("Command failed", exit_code=1), "first\nlast words")
    assert failure.text.startswith("ProcessError: Command failed")
    assert failure.text.endswith("(first last words)")


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize(
    "what", ["credentials", "billing", "model", "endpoint", "context", "max_turns", "max_budget_usd"]
)
def test_every_advice_has_a_text(lang: str, what: str) -> None:
    assert texts_for(lang)(f"runtime.advice_{what}")
