"""Reading and rewriting the entries of a transcript.

Shapes as the agent program writes them (claude-agent-sdk 0.2.189): an entry of type ``assistant`` holds one content
block, and those of one reply share ``message.id``; an entry of type ``user`` holds a prompt or one ``tool_result``.
Every function takes entries of any other shape as they are, and none changes what it is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Entry = dict[str, Any]
Block = Mapping[str, Any]


@dataclass(frozen=True)
class Result:
    """A tool result: the entry it stands in, its block, and the call it answers (None when that is not there)."""

    entry: Entry
    block: Block
    call: Block | None

    @property
    def text(self) -> str:
        """What came back, as far as it is text."""
        content = self.block.get("content")
        if isinstance(content, str):
            return content
        return "\n".join(str(part.get("text", "")) for part in blocks_in(content) if part.get("type") == "text")

    @property
    def command(self) -> str | None:
        """The command, when it is Bash that was called."""
        call = self.call or {}
        found = call.get("input")
        command = found.get("command") if isinstance(found, Mapping) else None
        return command if call.get("name") == "Bash" and isinstance(command, str) else None

    @property
    def ran(self) -> bool:
        """Whether the call was neither refused nor interrupted."""
        return "toolDenialKind" not in self.entry

    @property
    def failed(self) -> bool:
        """Whether the call ran and came to a bad end."""
        return self.ran and self.block.get("is_error") is True


def results_of(entries: Iterable[Entry]) -> list[Result]:
    """Every tool result, oldest first."""
    calls: dict[str, Block] = {}
    found = []
    for entry in entries:
        for block in blocks_of(entry):
            if block.get("type") == "tool_use":
                calls[name_at(block, "id")] = block
            elif block.get("type") == "tool_result":
                found.append(Result(entry, block, calls.get(name_at(block, "tool_use_id"))))
    return found


def with_texts(entries: Iterable[Entry], texts: Iterable[tuple[Result, str]]) -> list[Entry]:
    """``entries`` with the text of each of these results replaced; what is no text in a result stays."""
    new = {id(result.block): text for result, text in texts}

    def block_of(block: Block) -> Block:
        return block if id(block) not in new else {**block, "content": _retold(block.get("content"), new[id(block)])}

    return [with_blocks(entry, [block_of(block) for block in blocks_of(entry)]) for entry in entries]


def with_blocks(entry: Entry, blocks: Sequence[Block]) -> Entry:
    """``entry`` with ``blocks`` for those of its message; itself if they are the very same."""
    before = blocks_of(entry)
    if len(blocks) == len(before) and all(new is old for new, old in zip(blocks, before, strict=True)):
        return entry
    return {**entry, "message": {**entry["message"], "content": list(blocks)}}


def name_at(where: Mapping[str, Any], key: str) -> str:
    """The id at ``key``, "" when there is none."""
    found = where.get(key)
    return found if isinstance(found, str) else ""


def blocks_of(entry: Entry) -> list[Block]:
    """The content blocks of the entry's message; none for a plain string, or where there is no message."""
    message = entry.get("message")
    return blocks_in(message.get("content")) if isinstance(message, Mapping) else []


def blocks_in(content: object) -> list[Block]:
    """The blocks of a list of blocks; none when ``content`` is anything else."""
    if not isinstance(content, list) or not all(isinstance(block, Mapping) for block in content):
        return []
    return list(content)


def _retold(content: object, text: str) -> object:
    others = [part for part in blocks_in(content) if part.get("type") != "text"]
    return [{"type": "text", "text": text}, *others] if others else text
