r"""A play: what the scripted endpoint says, as data.

A play is a TOML file (or the same as a dict). Each top-level array is one speaker's replies; ``[play]`` and
``[facts]`` are the only other tables::

    [play]
    title = "Greets somebody"
    gap = 0.02                                  # for every reply that does not say otherwise

    [facts.name]                                # {name} in a reply
    in = "prompts"                              # searched: prompt, prompts, system, or a tool's results
    pattern = 'My name is (\w+)'                 # its first group, of the newest match
    default = "stranger"

    [[coordinator]]
    when = { not = { called = "Read" } }
    text = "I shall look first."
    tools = [["Read", { file_path = "{workspace}/README.md" }]]

    [[coordinator]]
    text = "Hello {name}, this is what I read: {result}"

    [["judge/verdict"]]                         # a role whose prompt has the line `flower-turn: verdict`
    error = "overloaded"

**Who speaks** is recognised by the line ``flower-role: <role>``, in the system prompt or the first prompt. For
``worker/coder`` the speakers ``worker/coder``, ``worker`` and ``default`` are tried; a request without a role goes
to ``default``.

**Which reply.** The first one, in the order written, whose ``when`` holds. When none does, the replies without
``when`` count: the one for this turn (0 for the first reply of the session, 1 for the second …), and past the end
the last. Conditions, all of which must hold; regular expressions are searched with ``.`` matching newlines:

==========  =================================================================================================
turn        this many replies are in the history: a number or a list of them
request     this speaker has been asked this often before, in all sessions together: a number or a list
prompt      a regex found in the prompt being answered
prompts     a regex found in any prompt of the session
called      a tool, or a list of tools, called since that prompt
result      {tool = regex}: what the tool's last call since that prompt gave back
values      {name = regex}: what a placeholder stands for
not         {…}: none of these conditions holds
==========  =================================================================================================

**What it says.** ``text``, ``thinking``, ``tools = [[name, input], …]`` or raw ``content`` blocks; ``stop`` (the stop
reason), ``usage = {input_tokens = …}``, ``headers``. Seconds: ``delay`` before the first byte, ``gap`` between deltas.
Failures: ``error`` (a name from :data:`NAMED_ERRORS` or ``[status, type, message]``), ``sse_error = [type, message]``
after the stream has begun, ``cut = n`` closes the connection after n stream events, ``hang = "name"`` holds the last
delta until :meth:`RehearsalApp.release`.

**Placeholders**, in every string: ``{task}`` ``{prompt}`` ``{answer}`` ``{answers}`` ``{inbox}`` ``{result}`` (of the
last call since the prompt) ``{workspace}`` and the play's facts; ``{name!r}`` is the value as a Python literal,
``{name!line}`` on one line. Braces around anything else stay as they are.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flower_core.rehearsal import checks
from flower_core.rehearsal.checks import PlayError
from flower_core.rehearsal.conditions import When
from flower_core.rehearsal.conversation import Conversation

PLAYS_DIR = Path(__file__).parent / "plays"
DEFAULT_PLAY = "starter"

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
_PLAY_KEYS = ("title", "delay", "gap")
_REPLY_KEYS = (
    *("when", "text", "thinking", "tools", "content", "stop", "usage"),
    *("error", "headers", "delay", "gap", "hang", "cut", "sse_error"),
)
_FACT_KEYS = ("in", "pattern", "default")


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
    """A value read off the conversation: the first group of the newest match of ``pattern``, else ``default``."""

    source: str
    pattern: re.Pattern[str]
    default: str = ""

    def value(self, talk: Conversation) -> str:
        """What this fact is in ``talk``."""
        if self.source == "prompt":
            texts = [talk.prompt]
        elif self.source == "prompts":
            texts = talk.prompts
        elif self.source == "system":
            texts = [talk.system]
        else:
            texts = talk.results(self.source)
        found = [match for text in texts for match in self.pattern.finditer(text)]
        return (found[-1][1] if self.pattern.groups else found[-1][0]) or "" if found else self.default


@dataclass(frozen=True)
class Play:
    """A checked play. Immutable; one object serves any number of sessions at once."""

    speakers: Mapping[str, tuple[Reply, ...]]
    facts: Mapping[str, Fact] = field(default_factory=dict)
    title: str = ""

    @classmethod
    def load(cls, path_or_name: str | Path = DEFAULT_PLAY) -> Play:
        """Load a TOML file, or a shipped play by its name. Raises PlayError (a ValueError) or FileNotFoundError."""
        path = Path(path_or_name)
        if str(path_or_name) in shipped_plays():
            path = PLAYS_DIR / f"{path_or_name}.toml"
        elif not path.is_file():
            known = ", ".join(shipped_plays())
            raise FileNotFoundError(f"no play {str(path_or_name)!r}: neither a file nor one of: {known}")
        try:
            data = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise PlayError(str(path), f"is not TOML: {error}") from None
        return cls.from_dict(data)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Play:
        """Check and take over ``data``, which has the form of a play file. Raises PlayError, naming the key."""
        play = checks.table(data, "play")
        head = checks.table(play.get("play", {}), "play", _PLAY_KEYS)
        facts = checks.table(play.get("facts", {}), "facts")
        speakers = {name: replies for name, replies in play.items() if name not in ("play", "facts")}
        if not speakers:
            raise PlayError("play", "nobody speaks in it; give at least one speaker a list of replies")
        return cls(
            speakers={name: _replies(replies, name, head) for name, replies in speakers.items()},
            facts={name: _fact(fact, f"facts.{name}") for name, fact in facts.items()},
            title=checks.text(head.get("title", ""), "play.title"),
        )

    def speaker(self, talk: Conversation) -> str:
        """The name under which this play holds replies for ``talk``; the most exact one where it holds none."""
        names = list(talk.speakers())
        return next((name for name in names if name in self.speakers), names[0])

    def values(self, talk: Conversation) -> dict[str, str]:
        """Every placeholder's value in ``talk``."""
        return {**talk.values(), **{name: fact.value(talk) for name, fact in self.facts.items()}}

    def reply(self, talk: Conversation, request: int, values: Mapping[str, str]) -> Reply | None:
        """The reply for ``talk``, None when the play has none; ``request`` counts the speaker's requests from 0."""
        replies = self.speakers.get(self.speaker(talk), ())
        for reply in replies:
            if reply.when is not None and reply.when.holds(talk, request, values):
                return reply
        plain = [reply for reply in replies if reply.when is None]
        return plain[min(talk.turn, len(plain) - 1)] if plain else None


def shipped_plays() -> list[str]:
    """Names of the plays that come with the package."""
    return sorted(path.stem for path in PLAYS_DIR.glob("*.toml"))


def _replies(data: Any, name: str, head: Mapping[str, Any]) -> tuple[Reply, ...]:
    replies = checks.array(data, name)
    if not replies:
        raise PlayError(name, "has no replies")
    return tuple(_reply(entry, f"{name}[{index}]", head) for index, entry in enumerate(replies))


def _reply(data: Any, where: str, head: Mapping[str, Any]) -> Reply:
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
        when=When.parse(entry["when"], f"{where}.when") if "when" in entry else None,
    )


def _blocks(entry: Mapping[str, Any], where: str) -> tuple[Mapping[str, Any], ...]:
    said = [key for key in ("text", "thinking", "tools") if key in entry]
    if "content" in entry:
        if said:
            raise PlayError(f"{where}.{said[0]}", "stands beside content, which already says everything")
        blocks = [checks.table(b, f"{where}.content[{i}]") for i, b in enumerate(checks.array(entry["content"], where))]
        return tuple(blocks)
    if not said and "error" not in entry and "sse_error" not in entry:
        raise PlayError(where, "says nothing; give it text, thinking, tools, content, error or sse_error")
    found: list[Mapping[str, Any]] = []
    if "thinking" in entry:
        thought = checks.text(entry["thinking"], f"{where}.thinking")
        found.append({"type": "thinking", "thinking": thought, "signature": "c2ln"})
    if "text" in entry:
        found.append({"type": "text", "text": checks.text(entry["text"], f"{where}.text")})
    for index, tool in enumerate(checks.array(entry.get("tools", []), f"{where}.tools")):
        name, given = checks.array(tool, f"{where}.tools[{index}]", 2)
        name = checks.text(name, f"{where}.tools[{index}][0]")
        found.append({"type": "tool_use", "name": name, "input": checks.table(given, f"{where}.tools[{index}][1]")})
    return tuple(found)


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


def _fact(data: Any, where: str) -> Fact:
    entry = checks.table(data, where, _FACT_KEYS)
    if "pattern" not in entry:
        raise PlayError(where, "needs a pattern")
    return Fact(
        source=checks.text(entry.get("in", "prompts"), f"{where}.in"),
        pattern=checks.regex(entry["pattern"], f"{where}.pattern"),
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
