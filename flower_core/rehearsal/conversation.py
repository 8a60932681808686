"""Reading a Messages API request: who is to speak next, what was asked, what has been done since.

Shapes are those the agent program really sends (claude-agent-sdk 0.2.189): ``messages`` holds ``system`` entries
between the user's and the assistant's, the first user message opens with ``<system-reminder>`` blocks, and after
an interrupt the program adds words of its own. None of these may be mistaken for somebody's prompt.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

ASK_TOOL = "mcp__human__ask"
INBOX_TOOL = "mcp__human__inbox"
#: What :meth:`Conversation.values` holds.
VALUE_NAMES = ("task", "prompt", "answer", "answers", "inbox", "result", "workspace")

_ROLE = re.compile(r"^[ \t]*flower-role:[ \t]*(\S+)[ \t]*$", re.MULTILINE)
_TURN = re.compile(r"^[ \t]*flower-turn:[ \t]*(\S+)[ \t]*$", re.MULTILINE)
_MARKS = re.compile(r"^[ \t]*flower-(?:role|turn):.*$\n?", re.MULTILINE)
_REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>\s*", re.DOTALL)
_INTERRUPTED = re.compile(r"\[Request interrupted by user[^\]]*\]")
_TASK = re.compile(r"<task>\s*(.*?)\s*</task>", re.DOTALL)
_WORKSPACE = re.compile(r"[Ww]orking directory: *(\S[^\r\n]*)")
#: What the agent program puts between an interrupt and the next prompt; nobody said it, so it is no turn.
_FILLER = "No response requested."


@dataclass(frozen=True)
class Call:
    """One tool call of the history with what came back; ``result`` is None while nothing has."""

    name: str
    input: Any
    position: int
    result: str | None = None
    is_error: bool = False


def text_of(content: Any) -> str:
    """The text of message content, which is a string or a list of blocks; text blocks are joined by newlines."""
    if isinstance(content, str):
        return content
    texts = (block.get("text", "") for block in blocks_of(content) if block.get("type") == "text")
    return "\n".join(str(text) for text in texts)


def blocks_of(content: Any) -> list[Mapping[str, Any]]:
    """The blocks of message content; none for a plain string."""
    if not isinstance(content, Sequence) or isinstance(content, str):
        return []
    return [block for block in content if isinstance(block, Mapping)]


class Conversation:
    """One request, read once. Immutable; properties are worked out on first use."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        self.body = body
        self.messages: list[Mapping[str, Any]] = [m for m in body.get("messages", []) if isinstance(m, Mapping)]

    @cached_property
    def system(self) -> str:
        """Everything said in the system's name: the system prompt, then the system entries among the messages."""
        entries = (text_of(m.get("content")) for m in self.messages if m.get("role") == "system")
        return "\n".join([text_of(self.body.get("system", "")), *entries])

    @cached_property
    def role(self) -> str:
        """The role named by the ``flower-role:`` line of the system prompt, else of the first prompt, else ""."""
        for text in (self.system, *self.prompts[:1]):
            if found := _ROLE.search(text):
                return found[1]
        return ""

    @cached_property
    def part(self) -> str:
        """What the newest ``flower-turn:`` line of the prompts says, such as ``goal`` or ``verdict``, else ""."""
        for text in reversed(self.prompts):
            if found := _TURN.search(text):
                return found[1]
        return ""

    def speakers(self) -> Iterator[str]:
        """Names under which a play may hold replies for this request, the most exact one first.

        For a judge asked for a verdict: ``judge/verdict``, ``judge``, ``default``.
        """
        name = self.role
        if name and self.part:
            yield f"{name}/{self.part}"
        while name:
            yield name
            name = name.rpartition("/")[0]
        yield "default"

    @cached_property
    def turn(self) -> int:
        """How many replies the history holds (since it was last compacted), counted from 0."""
        said = (m for m in self.messages if m.get("role") == "assistant")
        return sum(text_of(m.get("content")).strip() != _FILLER for m in said)

    @cached_property
    def _prompts(self) -> list[tuple[int, str]]:
        found = []
        for position, message in enumerate(self.messages):
            if message.get("role") == "user":
                text = _INTERRUPTED.sub("", _REMINDER.sub("", text_of(message.get("content")))).strip()
                if text:
                    found.append((position, text))
        return found

    @property
    def prompts(self) -> list[str]:
        """Everything the session was asked, oldest first; results of tools and the program's own notes left out."""
        return [text for _, text in self._prompts]

    @property
    def prompt(self) -> str:
        """The prompt being answered, "" when there is none."""
        return self._prompts[-1][1] if self._prompts else ""

    @cached_property
    def calls(self) -> list[Call]:
        """Every tool call of the history, oldest first."""
        results = {str(block.get("tool_use_id")): block for block in self._all_blocks("user", "tool_result")}
        found = []
        for position, message in enumerate(self.messages):
            for block in blocks_of(message.get("content")) if message.get("role") == "assistant" else []:
                if block.get("type") == "tool_use":
                    result = results.get(str(block.get("id")))
                    text = None if result is None else text_of(result.get("content", ""))
                    failed = bool(result and result.get("is_error"))
                    found.append(Call(str(block.get("name")), block.get("input"), position, text, failed))
        return found

    def _all_blocks(self, role: str, kind: str) -> Iterator[Mapping[str, Any]]:
        for message in self.messages:
            if message.get("role") == role:
                yield from (block for block in blocks_of(message.get("content")) if block.get("type") == kind)

    def recent(self, name: str = "") -> list[Call]:
        """The calls of tool ``name`` (of any tool when empty) since the prompt being answered, oldest first."""
        start = self._prompts[-1][0] if self._prompts else -1
        return [call for call in self.calls if call.position > start and name in ("", call.name)]

    def results(self, name: str) -> list[str]:
        """What tool ``name`` gave back in the whole session, failed calls left out, oldest first."""
        return [c.result for c in self.calls if c.name == name and c.result is not None and not c.is_error]

    @cached_property
    def workspace(self) -> str:
        """The working directory the request's environment names, "." when it names none."""
        found = _WORKSPACE.findall(self.system)
        return found[-1].strip() if found else "."

    @cached_property
    def task(self) -> str:
        """What the session was first asked for: what stands in ``<task>`` marks, else the whole first prompt."""
        for text in self.prompts:
            if found := _TASK.search(text):
                return found[1]
        return _MARKS.sub("", self.prompts[0]).strip() if self.prompts else ""

    def values(self) -> dict[str, str]:
        """What a reply may quote, by the name of its placeholder; exactly the names in VALUE_NAMES."""
        answers, mail, recent = self.results(ASK_TOOL), self.results(INBOX_TOOL), self.recent()
        return {
            "task": self.task,
            "prompt": self.prompt,
            "answer": answers[-1] if answers else "",
            "answers": "; ".join(answers),
            "inbox": mail[-1] if mail else "",
            "result": (recent[-1].result or "") if recent else "",
            "workspace": self.workspace,
        }
