"""Writes transcripts in the shape the agent program gives them, for tests of what is made of them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Entry = dict[str, Any]
#: How a call may end: three ways to run, two ways to be refused, three to be stopped; "open" has no result.
Ending = Literal["good", "failed", "raw", "rule", "config", "interrupted", "cancelled", "died", "open"]
ENDINGS: tuple[Ending, ...] = ("good", "failed", "raw", "rule", "config", "interrupted", "cancelled", "died", "open")
DENIED: tuple[Ending, ...] = ("rule", "config")
STOPPED: tuple[Ending, ...] = ("interrupted", "cancelled")
#: What the agent program writes for a call that was interrupted.
REJECTED = "The user doesn't want to proceed with this tool use. The tool use was rejected."

_MARKS: dict[Ending, dict[str, Any]] = {
    "rule": {"toolDenialKind": "permission-rule", "permissionDecision": {"decision": "reject", "source": "hook"}},
    "config": {"toolDenialKind": "user-rejected", "permissionDecision": {"decision": "reject", "source": "config"}},
    "interrupted": {"toolDenialKind": "user-rejected", "toolUseResult": "User rejected tool use"},
    "cancelled": {"toolDenialKind": "cancelled"},
    "died": {"toolDenialKind": "interrupted"},
}


def persisted(path: str, preview: str) -> str:
    """What the model is given for an output above 30,000 characters that lies whole at ``path``."""
    return f"<persisted-output>\nOutput too large (39.1KB). Full output saved to: {path}\n\nPreview:\n{preview}"


@dataclass(frozen=True)
class Call:
    """A call to be written: Bash with ``command``, its ``ending``, what comes back, and whether a hook adds words."""

    command: str = "make"
    ending: Ending = "good"
    text: str = "fine"
    blocks: bool = False
    hooked: bool = False


@dataclass
class Author:
    """Writes ``entries``, each the child of the one before, results the children of their calls."""

    entries: list[Entry] = field(default_factory=list)
    agent: str = ""
    _numbers: itertools.count[int] = field(default_factory=itertools.count)
    _last: str | None = None

    def prompt(self, text: str = "Go") -> None:
        """A person's words, with what the agent program puts around them."""
        self._bare("queue-operation", operation="enqueue", content=text)
        self._entry("user", message={"role": "user", "content": text})
        self._entry("attachment", attachment={"type": "date"})

    def reply(self, *calls: Call, thought: bool = False, text: str = "", order: Sequence[int] = ()) -> None:
        """One reply, a block per entry, and the results of its calls in ``order`` (else that of the calls)."""
        reply = f"msg_{next(self._numbers)}"
        if thought:
            self._block(reply, {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"})
        if text or not calls:
            self._block(reply, {"type": "text", "text": text or "Done."})
        made = []
        for call in calls:
            name = f"toolu_{next(self._numbers)}"
            block = {"type": "tool_use", "id": name, "name": "Bash", "input": {"command": call.command}}
            made.append((call, name, self._block(reply, block)))
        for index in order or range(len(made)):
            self._result(*made[index])
        self._bare("last-prompt", lastPrompt="Go", leafUuid=self._last)

    def api_error(self) -> None:
        """A synthetic message about a failure of the API."""
        content = [{"type": "text", "text": "API Error: 500"}]
        message = {"role": "assistant", "id": f"x{next(self._numbers)}", "model": "<synthetic>", "content": content}
        self._entry("assistant", message=message, isApiErrorMessage=True, error="server_error")

    def compaction(self, preserved: int) -> None:
        """A boundary that preserves the last ``preserved`` entries, and the summary."""
        uuids = [entry["uuid"] for entry in self.entries if "uuid" in entry][-preserved:] if preserved else []
        about: dict[str, Any] = {"trigger": "auto", "preservedMessages": {"anchorUuid": "?", "uuids": uuids}}
        before, self._last = self._last, None
        self._entry("system", subtype="compact_boundary", logicalParentUuid=before, compactMetadata=about)
        self._entry("user", message={"role": "user", "content": "In short: …"}, isCompactSummary=True)

    def _block(self, reply: str, block: dict[str, Any]) -> str:
        message = {"role": "assistant", "id": reply, "model": "claude", "content": [block]}
        return self._entry("assistant", message=message)

    def _result(self, call: Call, name: str, parent: str) -> None:
        if call.hooked:
            told = {"type": "hook_additional_context", "content": ["…"], "toolUseID": name}
            self._entry("attachment", attachment=told)
        if call.ending == "open":
            return
        text = REJECTED if call.ending in STOPPED else call.text
        content: Any = [{"type": "text", "text": text}] if call.blocks else text
        block = {"type": "tool_result", "tool_use_id": name, "content": content}
        if call.ending not in ("good", "raw"):
            block["is_error"] = True
        self._last = parent
        marks = {"sourceToolAssistantUUID": parent, "toolUseResult": {"stdout": call.text}}
        message = {"role": "user", "content": [block]}
        self._entry("user", message=message, **{**marks, **_MARKS.get(call.ending, {})})

    def _entry(self, kind: str, **more: Any) -> str:
        uuid = f"u{next(self._numbers)}"
        side = {"isSidechain": True, "agentId": self.agent} if self.agent else {"isSidechain": False}
        self.entries.append({"type": kind, "uuid": uuid, "parentUuid": self._last, **side, **more})
        self._last = uuid
        return uuid

    def _bare(self, kind: str, **more: Any) -> None:
        self.entries.append({"type": kind, **more})
