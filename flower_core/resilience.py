"""When to try again after a failure, how long to wait, and whether the network is there at all."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import math
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol
from urllib.parse import urlsplit

Failure = Literal["transient", "fatal", "unknown"]

DEFAULT_BASE_URL = "https://api.anthropic.com"
_PORTS = {"http": 80, "https": 443}
#: Where the agent program looks for a proxy, in this order and whatever the scheme of the endpoint. This, and what is
#: said of NO_PROXY below, was measured with agent program 2.1.332.
_PROXY_NAMES = ("https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")
#: It takes an address without a scheme from all of them but these.
_WHOLE_URL_NAMES = ("http_proxy", "HTTP_PROXY")
_JITTER = 0.25
#: 2 to this power is beyond any delay worth waiting; more would overflow a float.
_MAX_DOUBLINGS = 64

# The agent SDK's own error classes, as measured with claude-agent-sdk 0.2.189; "unknown" among them decides nothing.
_FATAL_ERRORS = frozenset(
    {
        "authentication_failed",
        "oauth_org_not_allowed",
        "billing_error",
        "invalid_request",
        "model_not_found",
        "max_output_tokens",
        "prompt_too_long",
        "image_error",
        "error_max_turns",
        "error_max_budget_usd",
        "max_turns",
        "budget_exhausted",
    }
)
_TRANSIENT_ERRORS = frozenset({"server_error", "rate_limit", "overloaded", "timeout", "connection_error"})
#: Client errors that a later attempt may not meet: request timeout, conflict, too early, too many requests.
_PASSING_CLIENT_STATUSES = frozenset({408, 409, 425, 429})

_FATAL_TEXT = re.compile(
    r"invalid (?:x-)?api[ -]key|api[ -]key (?:is )?(?:missing|invalid|not found)|authentication[_ ](?:error|failed)"
    r"|failed to authenticate|unauthorized|permission_error|forbidden|please run /login|not logged in"
    r"|token (?:has )?(?:expired|been revoked)|credit balance|billing|payment required"
    r"|insufficient (?:quota|funds|credit)"
    r"|account (?:is |has been )?(?:disabled|suspended)|model[_ ]not[_ ]found|not_found_error"
    r"|invalid_request_error|request_too_large|prompt is too long|error_max_(?:turns|budget)|budget (?:is )?exhausted"
    r"|(?:claude code|agent program|executable) (?:was )?not found|no such file or directory: '?\S*claude",
    re.IGNORECASE,
)
_TRANSIENT_TEXT = re.compile(
    r"overloaded|rate[ _-]?limit|too many requests|timed? ?out|timeout|deadline exceeded"
    r"|connection (?:error|refused|reset|aborted|closed|lost|failed)|(?:dis|re)connect|broken pipe|socket hang up"
    r"|fetch failed|network|unreachable|\bdns\b|name resolution|name or service not known|getaddrinfo"
    r"|\bE(?:CONN(?:REFUSED|RESET|ABORTED)|TIMEDOUT|PIPE|NOTFOUND|AI_AGAIN|HOSTUNREACH|NETUNREACH|NETDOWN)\b"
    r"|internal server error|server_error|api_error|bad gateway|service unavailable|gateway time-?out"
    r"|temporar(?:y|ily)|try again|stream (?:ended|closed|was cut|interrupted)|incomplete (?:read|chunked|message)"
    r"|premature(?:ly)? clos",
    re.IGNORECASE,
)
_STATUS_IN_TEXT = re.compile(
    r"\b(?:api error|http(?:/[\d.]+)?|status(?: code)?|error code)\s*[:=]?\s*\(?(\d{3})\b", re.IGNORECASE
)


class Uniform(Protocol):
    """The one method of a random number generator used here; the module :mod:`random` has it."""

    def uniform(self, a: float, b: float, /) -> float:
        """A number between ``a`` and ``b``."""


@dataclass(frozen=True)
class Resilience:
    """The policy of trying again.

    ``max_attempts`` counts the first attempt too. Times are seconds. ``base_delay`` doubles from failure to failure
    up to ``max_delay``; ``probe_timeout`` bounds one look whether the endpoint is reachable, ``probe_interval`` lies
    between two looks. ``max_offline_wait`` bounds the waiting for the network in a row, and the longest pause the
    endpoint may ask for (Retry-After); beyond it the step fails.
    ``retry_unknown`` also tries again after failures nobody can classify. Raises ValueError for impossible values.
    """

    enabled: bool = True
    max_attempts: int = 6
    base_delay: float = 4.0
    max_delay: float = 120.0
    probe_timeout: float = 5.0
    probe_interval: float = 15.0
    max_offline_wait: float = 3600.0
    retry_unknown: bool = True

    def __post_init__(self) -> None:
        if isinstance(self.max_attempts, bool) or not isinstance(self.max_attempts, int) or self.max_attempts < 1:
            raise ValueError(f"max_attempts must be a whole number from 1, not {self.max_attempts!r}")
        for name, lowest in _LOWEST.items():
            value: float = getattr(self, name)
            if isinstance(value, bool) or not math.isfinite(value) or value < lowest:
                raise ValueError(f"{name} must be a finite number of seconds from {lowest}, not {value!r}")
        if self.max_delay < self.base_delay:
            raise ValueError(f"max_delay ({self.max_delay}) must not be below base_delay ({self.base_delay})")

    def delay(self, n: int, rng: Uniform = random, *, floor: float = 0.0) -> float:
        """Seconds to wait after failure ``n`` (from 1): doubled each time, bounded, then spread by ±25 %.

        The spread keeps many runs that failed together from coming back together. ``floor`` is what the endpoint asked
        for, in seconds; it is never undercut.
        """
        if n < 1:
            raise ValueError(f"failures are counted from 1, not {n}")
        plain = min(self.base_delay * 2.0 ** min(n - 1, _MAX_DOUBLINGS), self.max_delay)
        return max(plain * rng.uniform(1 - _JITTER, 1 + _JITTER), floor)

    def retries(self, failure: Failure, attempt: int) -> bool:
        """Whether to try again after ``attempt`` (from 1) ended in ``failure``."""
        worth_it = failure == "transient" or (failure == "unknown" and self.retry_unknown)
        return self.enabled and worth_it and attempt < self.max_attempts


_LOWEST = {"base_delay": 0.0, "max_delay": 0.0, "probe_timeout": 0.01, "probe_interval": 0.01, "max_offline_wait": 0.0}


def classify(text: str, *, status: int | None = None, error: str = "", reason: str = "") -> Failure:
    """Whether a later attempt can succeed where this one failed.

    ``status`` is the HTTP status, ``error`` the SDK's error class or result subtype and ``reason`` its terminal
    reason, where there is one; they beat ``text``. What says fatal beats what says transient.
    """
    structured = {_by_error(error), _by_error(reason), _by_status(status)}
    for failure in _SEVEREST_FIRST:
        if failure in structured:
            return failure
    in_text = {_by_status(int(match[1])) for match in _STATUS_IN_TEXT.finditer(text)}
    if "fatal" in in_text or _FATAL_TEXT.search(text):
        return "fatal"
    return "transient" if "transient" in in_text or _TRANSIENT_TEXT.search(text) else "unknown"


_SEVEREST_FIRST: tuple[Failure, ...] = ("fatal", "transient")


def _by_error(error: str) -> Failure:
    if error in _FATAL_ERRORS:
        return "fatal"
    return "transient" if error in _TRANSIENT_ERRORS else "unknown"


def _by_status(status: int | None) -> Failure:
    if status is None or not 400 <= status < 600:
        return "unknown"
    return "transient" if status >= 500 or status in _PASSING_CLIENT_STATUSES else "fatal"


def endpoint(env: Mapping[str, str]) -> tuple[str, int]:
    """Host and port that must be reachable for the model to be: that of ANTHROPIC_BASE_URL, or the proxy before it.

    ``env`` is the environment the agent program gets. Raises ValueError for an address that is no http(s) URL, and for
    a proxy the agent program cannot use.
    """
    url = env.get("ANTHROPIC_BASE_URL", "").strip() or DEFAULT_BASE_URL
    model = _host_and_port(url, "ANTHROPIC_BASE_URL")
    proxy = _proxy(env)
    bypass = env.get("no_proxy") or env.get("NO_PROXY") or ""
    return model if proxy is None or _bypassed(*model, bypass) else proxy


async def reachable(host: str, port: int, timeout: float) -> bool:  # noqa: ASYNC109 - part of the policy, in seconds
    """Whether ``host`` resolves and accepts a TCP connection on ``port`` within ``timeout`` seconds. Sends nothing."""
    try:
        async with asyncio.timeout(timeout):
            _, writer = await asyncio.open_connection(host, port)
    except (
        OSError,
        UnicodeError,
        OverflowError,
    ):  # TimeoutError is an OSError; the others are impossible names and ports
        return False
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return True


def _proxy(env: Mapping[str, str]) -> tuple[str, int] | None:
    name = next((name for name in _PROXY_NAMES if env.get(name)), None)
    if name is None:
        return None
    given = env[name]
    if name.lower() == "all_proxy" and given.lower().startswith("socks"):
        return None  # passed over, while it is an error elsewhere
    whole = given if "://" in given or name in _WHOLE_URL_NAMES else f"http://{given}"
    return _host_and_port(whole, name)


def _bypassed(host: str, port: int, no_proxy: str) -> bool:
    """Whether ``no_proxy`` takes ``host`` past the proxy: hosts, domains, address ranges, ``host:port``, or ``*``."""
    return any(_names(entry, host, port) for entry in re.split(r"[,\s]+", no_proxy.lower()) if entry)


def _names(entry: str, host: str, port: int) -> bool:
    with contextlib.suppress(ValueError):  # one of both is no address
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry.strip("[]"), strict=False)
    name, colon, only = entry.rpartition(":")
    if colon and only.isdecimal():
        return int(only) == port and name.strip("[]") == host
    domain = entry.removeprefix("*").removeprefix(".")
    return entry == "*" or host == domain or (bool(domain) and host.endswith(f".{domain}"))


def _host_and_port(given: str, what: str) -> tuple[str, int]:
    try:
        url = urlsplit(given)
        host, port = url.hostname, url.port or _PORTS[url.scheme]
    except (ValueError, KeyError):
        host, port = None, 0
    if not host or url.scheme not in _PORTS:
        shown = re.sub(r"^([a-z0-9+.-]+://)?.*@", r"\1…@", given, flags=re.IGNORECASE)  # a password is in no message
        raise ValueError(f"{what} must be a URL like https://host:port, not {shown!r}")
    return host, port
