"""Trying again: delays, what is worth it, and whether the network is there."""

from __future__ import annotations

import asyncio
import random
import socket
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest

from flower_core.resilience import Failure, Resilience, classify, endpoint, reachable


class Fixed:
    """A generator whose every number lies at the same point of the interval."""

    def __init__(self, at: float) -> None:
        self.at = at

    def uniform(self, a: float, b: float, /) -> float:
        return a + self.at * (b - a)


def test_the_delay_doubles_up_to_its_bound() -> None:
    middle = Fixed(0.5)
    assert [Resilience().delay(n, middle) for n in (1, 2, 3, 4, 5, 6, 7)] == [4, 8, 16, 32, 64, 120, 120]
    assert Resilience().delay(10**9, middle) == 120
    assert Resilience(base_delay=0.0).delay(3, middle) == 0


@pytest.mark.parametrize("n", [1, 3, 5, 6, 50])
def test_the_delay_is_spread_by_a_quarter_either_way(n: int) -> None:
    policy = Resilience()
    plain = policy.delay(n, Fixed(0.5))
    assert policy.delay(n, Fixed(0.0)) == pytest.approx(plain * 0.75)
    assert policy.delay(n, Fixed(1.0)) == pytest.approx(plain * 1.25)
    drawn = [policy.delay(n, random.Random(seed)) for seed in range(200)]  # noqa: S311 - no secret
    assert all(plain * 0.75 <= delay <= plain * 1.25 for delay in drawn)
    assert max(drawn) - min(drawn) > plain * 0.3
    assert plain * 0.75 <= policy.delay(n) <= plain * 1.25


def test_a_pause_the_endpoint_asks_for_is_never_undercut() -> None:
    assert Resilience().delay(1, Fixed(0.0), floor=60.0) == 60
    assert Resilience().delay(5, Fixed(0.0), floor=1.0) == 48


def test_failures_are_counted_from_one() -> None:
    with pytest.raises(ValueError, match="from 1"):
        Resilience().delay(0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_attempts", 0),
        ("max_attempts", True),
        ("max_attempts", 1.5),
        ("base_delay", -1.0),
        ("base_delay", 121.0),
        ("max_delay", float("nan")),
        ("max_delay", float("inf")),
        ("max_delay", 3.0),
        ("probe_timeout", 0.0),
        ("probe_interval", 0.0),
        ("probe_interval", True),
        ("max_offline_wait", -1.0),
    ],
)
def test_impossible_values_are_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        Resilience(**{name: value})


def test_the_policy_cannot_be_changed_only_varied() -> None:
    policy = Resilience()
    with pytest.raises(FrozenInstanceError):
        policy.max_attempts = 1  # type: ignore[misc]
    assert replace(policy, max_attempts=1).max_attempts == 1


def test_what_is_tried_again() -> None:
    policy = Resilience(max_attempts=3)
    assert [policy.retries("transient", attempt) for attempt in (1, 2, 3)] == [True, True, False]
    assert [policy.retries("unknown", attempt) for attempt in (1, 2, 3)] == [True, True, False]
    assert not policy.retries("fatal", 1)
    assert not replace(policy, retry_unknown=False).retries("unknown", 1)
    assert replace(policy, retry_unknown=False).retries("transient", 1)
    assert not replace(policy, enabled=False).retries("transient", 1)


# Classes and statuses as the agent SDK gives them (error, HTTP status).
MEASURED: list[tuple[str, int | None, Failure]] = [
    ("server_error", None, "transient"),
    ("server_error", 529, "transient"),
    ("server_error", 500, "transient"),
    ("rate_limit", 429, "transient"),
    ("overloaded", None, "transient"),
    ("authentication_failed", 401, "fatal"),
    ("authentication_failed", 403, "fatal"),
    ("model_not_found", 404, "fatal"),
    ("billing_error", 402, "fatal"),
    ("billing_error", 400, "fatal"),
    ("unknown", 400, "fatal"),
    ("invalid_request", 400, "fatal"),
    ("invalid_request", 413, "fatal"),
    ("invalid_request", None, "fatal"),
    ("error_max_turns", None, "fatal"),
    ("error_max_budget_usd", None, "fatal"),
    ("budget_exhausted", None, "fatal"),
    ("", 408, "transient"),
    ("", 503, "transient"),
    ("", 422, "fatal"),
    ("unknown", None, "unknown"),
    ("api_error", None, "unknown"),
    ("", 200, "unknown"),
    ("", None, "unknown"),
]


@pytest.mark.parametrize(("error", "status", "expected"), MEASURED)
def test_structured_errors_are_classified(error: str, status: int | None, expected: Failure) -> None:
    assert classify("", status=status, error=error) == expected
    assert classify("something happened", status=status, error=error) == expected


@pytest.mark.parametrize(
    "text", ["Connection error.", "invalid api key", "credit balance is too low", "API Error: 503"]
)
def test_structured_errors_beat_the_text(text: str) -> None:
    assert classify(text, status=529) == "transient"
    assert classify(text, error="rate_limit") == "transient"
    assert classify(text, status=401) == "fatal"
    assert classify(text, error="invalid_request") == "fatal"


@pytest.mark.parametrize("reason", ["image_error", "prompt_too_long", "budget_exhausted", "max_turns"])
def test_a_terminal_reason_beats_the_text(reason: str) -> None:
    assert classify("Overloaded, try again", reason=reason) == "fatal"


def test_a_terminal_reason_that_says_nothing_leaves_it_to_the_rest() -> None:
    assert classify("", error="server_error", reason="api_error") == "transient"
    assert classify("Overloaded", reason="api_error") == "transient"


def test_among_structured_errors_fatal_comes_first() -> None:
    assert classify("", status=500, error="authentication_failed") == "fatal"
    assert classify("", status=400, error="server_error") == "fatal"


@pytest.mark.parametrize(
    "text",
    [
        "API Error: Connection error.",
        "API Error: Request timed out.",
        "API Error: 529 Overloaded",
        "API Error (500 Internal server error)",
        "connect ECONNREFUSED 127.0.0.1:1",
        "read ECONNRESET",
        "getaddrinfo ENOTFOUND api.example",
        "getaddrinfo EAI_AGAIN api.example",
        "[Errno -3] Temporary failure in name resolution",
        "socket hang up",
        "TypeError: fetch failed",
        "429 Too Many Requests",
        "rate_limit_error: This request would exceed your rate limit",
        '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}',
        "502 Bad Gateway",
        "HTTP 503",
        "stream ended before message_stop",
        "[Errno 32] Broken pipe",
        "Network is unreachable",
    ],
)
def test_passing_troubles_are_transient(text: str) -> None:
    assert classify(text) == "transient"
    assert classify(text.upper()) == "transient"


@pytest.mark.parametrize(
    "text",
    [
        "API Error: 401 Invalid API key",
        "Invalid API key · Please run /login",
        "authentication_error: invalid x-api-key",
        "OAuth token has expired",
        "Your credit balance is too low to access the API",
        "API Error: 403 forbidden",
        "API Error: 404 model: nope",
        "not_found_error: model: nope",
        "invalid_request_error: max_tokens: 0",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "API Error: 400 bad",
        "Claude Code not found at: /usr/bin/claude",
        "This account is disabled; try again later",
        "401 unauthorized: connection closed",
        "API Error: 401 after timeout",
    ],
)
def test_lasting_troubles_are_fatal_even_beside_a_passing_one(text: str) -> None:
    assert classify(text) == "fatal"
    assert classify(f"{text}\nconnection reset") == "fatal"


@pytest.mark.parametrize(
    "text", ["", "Command failed with exit code 1", "something went wrong", "line 500 of x.py", "took 401 ms"]
)
def test_the_rest_is_unknown(text: str) -> None:
    assert classify(text) == "unknown"


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({}, ("api.anthropic.com", 443)),
        ({"ANTHROPIC_BASE_URL": ""}, ("api.anthropic.com", 443)),
        ({"ANTHROPIC_BASE_URL": "http://127.0.0.1:8080/v1"}, ("127.0.0.1", 8080)),
        ({"ANTHROPIC_BASE_URL": "http://gateway"}, ("gateway", 80)),
        ({"ANTHROPIC_BASE_URL": "https://[::1]:9"}, ("::1", 9)),
        ({"HTTPS_PROXY": "http://proxy:3128"}, ("proxy", 3128)),
        ({"https_proxy": "proxy:3128"}, ("proxy", 3128)),
        ({"ALL_PROXY": "proxy:3128"}, ("proxy", 3128)),
        ({"all_proxy": "https://proxy"}, ("proxy", 443)),
        ({"HTTP_PROXY": "http://proxy:3128"}, ("proxy", 3128)),
        ({"HTTPS_PROXY": "http://a:1", "https_proxy": "http://b:2"}, ("b", 2)),
        ({"HTTPS_PROXY": "http://a:1", "https_proxy": ""}, ("a", 1)),
        ({"ANTHROPIC_BASE_URL": "http://x", "HTTP_PROXY": "http://a:1", "HTTPS_PROXY": "http://b:2"}, ("b", 2)),
        ({"HTTP_PROXY": "http://a:1", "all_proxy": "http://b:2"}, ("a", 1)),
        ({"ALL_PROXY": "socks5://proxy"}, ("api.anthropic.com", 443)),
        ({"ANTHROPIC_BASE_URL": "http://127.0.0.1:9", "HTTP_PROXY": "http://proxy:3128"}, ("proxy", 3128)),
    ],
)
def test_the_endpoint_is_what_the_first_connection_goes_to(env: dict[str, str], expected: tuple[str, int]) -> None:
    assert endpoint(env) == expected


@pytest.mark.parametrize(
    ("no_proxy", "past"),
    [
        ("a, .anthropic.com", True),
        ("*.anthropic.com", True),
        ("anthropic.com", True),
        ("API.Anthropic.com", True),
        ("other api.anthropic.com", True),
        ("api.anthropic.com:443", True),
        ("*", True),
        ("a, *", True),
        ("thropic.com", False),
        ("api.anthropic.com:80", False),
        ("api.anthropic.com.example", False),
        (".", False),
        ("10.0.0.0/8", False),
        ("", False),
    ],
)
def test_what_no_proxy_names_is_reached_directly(no_proxy: str, past: bool) -> None:
    model, proxy = ("api.anthropic.com", 443), ("proxy", 3128)
    assert endpoint({"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": no_proxy}) == (model if past else proxy)


@pytest.mark.parametrize(
    ("host", "no_proxy", "past"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "127.0.0.0/8", True),
        ("127.0.0.1", "10.0.0.0/8", False),
        ("[::1]", "::1", True),
        ("[::1]", "[::1]:9", True),
        ("[::1]", "[::1]:8", False),
        ("[::1]", "127.0.0.1", False),
        ("localhost", "localhost", True),
    ],
)
def test_addresses_may_be_named_by_range(host: str, no_proxy: str, past: bool) -> None:
    env = {"ANTHROPIC_BASE_URL": f"http://{host}:9", "HTTP_PROXY": "http://proxy:3128", "NO_PROXY": no_proxy}
    assert endpoint(env) == ((host.strip("[]"), 9) if past else ("proxy", 3128))


def test_of_two_lists_of_exceptions_the_one_in_small_letters_counts() -> None:
    env = {"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "api.anthropic.com"}
    assert endpoint({**env, "no_proxy": "a"}) == ("proxy", 3128)
    assert endpoint({**env, "no_proxy": ""}) == ("api.anthropic.com", 443)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HTTPS_PROXY", "socks5://proxy:1080"),
        ("HTTP_PROXY", "proxy:3128"),
        ("http_proxy", "ftp://proxy"),
        ("ALL_PROXY", "http://"),
    ],
)
def test_a_proxy_the_agent_program_cannot_use_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be a URL"):
        endpoint({name: value, "NO_PROXY": "*"})


@pytest.mark.parametrize(
    "value", ["ann:pa/ss@wd@proxy:3128", "ftp://ann:pa/ss@wd@proxy", "socks5://ann:pa/ss@wd@proxy"]
)
def test_the_password_in_a_refused_address_is_not_shown(value: str) -> None:
    with pytest.raises(ValueError, match="…@proxy") as refused:
        endpoint({"HTTP_PROXY": value})
    assert "pa/ss" not in str(refused.value)
    assert "wd" not in str(refused.value)


@pytest.mark.parametrize("url", ["gateway:80", "ftp://x", "http://", "https://x:99999", "https://x:y", "nonsense"])
def test_an_address_that_is_no_url_is_refused_by_name(url: str) -> None:
    with pytest.raises(ValueError, match="ANTHROPIC_BASE_URL"):
        endpoint({"ANTHROPIC_BASE_URL": url})


def test_a_listening_port_is_reachable_and_a_closed_one_is_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert asyncio.run(reachable("127.0.0.1", port, 5.0))
        assert asyncio.run(reachable("localhost", port, 5.0))
    assert not asyncio.run(reachable("127.0.0.1", port, 5.0))


@pytest.mark.parametrize(
    ("host", "port"), [("", 1), ("a" * 300, 80), ("no-such-host.invalid", 80), ("127.0.0.1", 2**40), ("a..b", 80)]
)
def test_what_cannot_be_resolved_is_not_reachable(host: str, port: int) -> None:
    assert not asyncio.run(reachable(host, port, 5.0))


def test_a_silent_port_is_given_up_in_time() -> None:
    # A full backlog: the kernel answers no further connection attempts, so that only the timeout ends the wait.
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        address = server.getsockname()
        waiting = [socket.socket() for _ in range(8)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(address)

        async def timed() -> tuple[bool, float]:
            loop = asyncio.get_running_loop()
            started = loop.time()
            found = await reachable(address[0], address[1], 0.2)
            return found, loop.time() - started

        found, took = asyncio.run(timed())
        for one in waiting:
            one.close()
    assert not found
    assert took < 3
