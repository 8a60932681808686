"""The parts of a play, read from data: what is said, and the values it may quote. script.py documents the format."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from flower_core.rehearsal import checks
from flower_core.rehearsal.checks import PlayError
from flower_core.rehearsal.conditions import When
from flower_core.rehearsal.conversation import Conversation

#: Failures of the real API by name: HTTP status, error type, message.
NAMED_ERRORS: dict[str, tuple[int, str, str]] = {
    "invalid-request": (400, "invalid_request_error", "messages: field required"),
    "credit": (400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API."),
    "prompt-too-long": (400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
    "authentication": (401, "authentication_error", "invalid x-api-key"),
    "permission": (403, "permission_error", "Your API key does not have permission to use this resource."),
    "not-found": (404, "not_found_error", "model: no such model"),
    "too-large": (413, "request_too_large", "Request exceeds the maximum size"),
    "rate-limit": (429, "rate_limit_error", "This request would exceed your account's rate limit."),
    "server": (500, "api_error", "Internal server error"),
    "overloaded": (529, "overloaded_error", "Overloaded"),
}

_PLACEHOLDER = re.compile(r"\{([a-z_]+)(?:!(r|line))?\}")
_REPLY_KEYS = (
    *("when", "text", "thinking", "tools", "content", "stop", "usage"),
    *("error", "headers", "delay", "gap", "hang", "cut", "sse_error"),
)
_BLOCK_KEYS = {"text": "text", "thinking": "thinking", "tool_use": "name"}
_FACT_KEYS = ("in", "pattern", "join", "default")


@dataclass(frozen=True)
class Reply:
    """What is sent back for one request. ``blocks`` are content blocks as in the API, tool_use ids still missing."""

    blocks: tuple[Mapping[str, Any], ...] = ()
    stop: str = ""
    usage: Mapping[str, int] = field(default_factory=dict)
    error: tuple[int, str, str] | None = None
    sse_error: tuple[str, str] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    gap: float = 0.0
    hang: str = ""
    cut: int | None = None
    when: When | None = None

    def filled(self, values: Mapping[str, str]) -> list[dict[str, Any]]:
        """The content blocks with every placeholder replaced."""
        return [dict(_fill(block, values)) for block in self.blocks]


@dataclass(frozen=True)
class Fact:
    """A value read off the conversation; script's own text says how."""

    sources: tuple[str, ...]
    patterns: tuple[re.Pattern[str], ...]
    join: str | None = None
    default: str = ""

    def value(self, talk: Conversation) -> str:
        """What this fact is in ``talk``."""
        texts = [text for source in self.sources for text in _searched(source, talk)]
        found = [captured for text in texts for captured in self._matches(text)]
        if not found:
            return self.default
        return found[-1] if self.join is None else self.join.join(dict.fromkeys(found))

    def _matches(self, text: str) -> list[str]:
        found = [match for pattern in self.patterns for match in pattern.finditer(text)]
        return [_captured(match) for match in sorted(found, key=lambda match: match.start())]


def _searched(source: str, talk: Conversation) -> list[str]:
    if source == "prompt":
        return [talk.prompt]
    if source == "prompts":
        return talk.prompts
    return [talk.system] if source == "system" else talk.results(source)


def _captured(match: re.Match[str]) -> str:
    return next((group for group in match.groups() if group is not None), match[0])


def read_reply(data: Any, where: str, head: Mapping[str, Any], names: Collection[str]) -> Reply:
    """Check one entry of a speaker's list. Raises PlayError, naming the key.

    ``head`` is the play's own table, ``names`` are all placeholders there are.
    """
    entry = checks.table(data, where, _REPLY_KEYS)
    usage = checks.table(entry.get("usage", {}), f"{where}.usage")
    headers = checks.table(entry.get("headers", {}), f"{where}.headers")
    return Reply(
        blocks=_blocks(entry, where),
        stop=checks.text(entry.get("stop", ""), f"{where}.stop"),
        usage={key: checks.whole(value, f"{where}.usage.{key}") for key, value in usage.items()},
        error=_error(entry["error"], f"{where}.error") if "error" in entry else None,
        sse_error=_pair(entry["sse_error"], f"{where}.sse_error") if "sse_error" in entry else None,
        headers={key: checks.text(value, f"{where}.headers.{key}") for key, value in headers.items()},
        delay=checks.seconds(entry.get("delay", head.get("delay", 0)), f"{where}.delay"),
        gap=checks.seconds(entry.get("gap", head.get("gap", 0)), f"{where}.gap"),
        hang=checks.text(entry.get("hang", ""), f"{where}.hang"),
        cut=checks.whole(entry["cut"], f"{where}.cut") if "cut" in entry else None,
        when=When.parse(entry["when"], f"{where}.when", names) if "when" in entry else None,
    )


def _blocks(entry: Mapping[str, Any], where: str) -> tuple[Mapping[str, Any], ...]:
    said = [key for key in ("text", "thinking", "tools") if key in entry]
    if "content" in entry:
        if said:
            raise PlayError(f"{where}.{said[0]}", "stands beside content, which already says everything")
        content = checks.array(entry["content"], f"{where}.content")
        return tuple(_content_block(block, f"{where}.content[{index}]") for index, block in enumerate(content))
    if not said and "error" not in entry and "sse_error" not in entry:
        raise PlayError(where, "says nothing; give it text, thinking, tools, content, error or sse_error")
    found: list[Mapping[str, Any]] = []
    if "thinking" in entry:
        thought = checks.text(entry["thinking"], f"{where}.thinking")
        found.append({"type": "thinking", "thinking": thought, "signature": "c2ln"})
    if "text" in entry:
        found.append({"type": "text", "text": checks.text(entry["text"], f"{where}.text")})
    for index, tool in enumerate(checks.array(entry.get("tools", []), f"{where}.tools")):
        found.append(_tool_use(tool, f"{where}.tools[{index}]"))
    return tuple(found)


def _content_block(value: Any, where: str) -> Mapping[str, Any]:
    block = checks.table(value, where)
    needed = _BLOCK_KEYS.get(checks.text(block.get("type"), f"{where}.type"))
    if needed is None:
        raise PlayError(f"{where}.type", f"must be one of {', '.join(_BLOCK_KEYS)}, not {block['type']!r}")
    if needed not in block:
        raise PlayError(f"{where}.{needed}", "is missing")
    return block


def _tool_use(value: Any, where: str) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        tool = checks.table(value, where, ("name", "input"))
        name, given = tool.get("name"), tool.get("input", {})
    else:
        name, given = checks.array(value, where, 2)
    return {
        "type": "tool_use",
        "name": checks.text(name, f"{where}.name"),
        "input": checks.table(given, f"{where}.input"),
    }


def _error(value: Any, where: str) -> tuple[int, str, str]:
    if isinstance(value, str):
        if value not in NAMED_ERRORS:
            raise PlayError(where, f"no error is named {value!r}; there are: {', '.join(NAMED_ERRORS)}")
        return NAMED_ERRORS[value]
    status, error_type, message = checks.array(value, where, 3)
    if checks.whole(status, f"{where}[0]", 400) > 599:
        raise PlayError(f"{where}[0]", f"must be an HTTP status from 400 to 599, not {status}")
    return status, checks.text(error_type, f"{where}[1]"), checks.text(message, f"{where}[2]")


def _pair(value: Any, where: str) -> tuple[str, str]:
    first, second = checks.array(value, where, 2)
    return checks.text(first, f"{where}[0]"), checks.text(second, f"{where}[1]")


def read_fact(data: Any, where: str) -> Fact:
    """Check one entry of the facts. Raises PlayError, naming the key."""
    entry = checks.table(data, where, _FACT_KEYS)
    if "pattern" not in entry:
        raise PlayError(where, "needs a pattern")
    patterns = checks.names(entry["pattern"], f"{where}.pattern")
    return Fact(
        sources=checks.names(entry.get("in", "prompts"), f"{where}.in"),
        patterns=tuple(checks.regex(pattern, f"{where}.pattern") for pattern in patterns),
        join=checks.text(entry["join"], f"{where}.join") if "join" in entry else None,
        default=checks.text(entry.get("default", ""), f"{where}.default"),
    )


def _fill(value: Any, values: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return _PLACEHOLDER.sub(lambda found: _shown(found, values), value)
    if isinstance(value, Mapping):
        return {key: _fill(item, values) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_fill(item, values) for item in value]
    return value


def _shown(found: re.Match[str], values: Mapping[str, str]) -> str:
    if found[1] not in values:
        return found[0]
    value = values[found[1]]
    if found[2] == "r":
        return repr(value)
    return " ".join(value.split()) if found[2] == "line" else value
