"""The Messages API on the wire: message objects, stream events, errors, and the check that tool calls are paired.

Source of the shapes: Anthropic's public API reference ("Messages", "Streaming messages", "Errors").
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flower_core.rehearsal.conversation import blocks_of

_DELTA_CHARS = 24


def pairing_error(messages: Sequence[Mapping[str, Any]]) -> str:
    """The real API's complaint about a tool_use without its tool_result or the other way round, "" if none."""
    open_ids: set[str] = set()
    for index, message in enumerate(messages):
        if message.get("role") == "system":
            continue
        blocks = blocks_of(message.get("content"))
        results = [str(block.get("tool_use_id")) for block in blocks if block.get("type") == "tool_result"]
        for tool_id in results:
            if tool_id not in open_ids:
                return (
                    f"messages.{index}.content: unexpected `tool_use_id` found in `tool_result` blocks: {tool_id}. "
                    "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
                )
        if unanswered := sorted(open_ids - set(results)):
            return _unanswered(index - 1, unanswered)
        open_ids = {str(block.get("id")) for block in blocks if block.get("type") == "tool_use"}
    return _unanswered(len(messages) - 1, sorted(open_ids)) if open_ids else ""


def _unanswered(index: int, ids: list[str]) -> str:
    return (
        f"messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after: "
        f"{', '.join(ids)}. Each `tool_use` block must have a corresponding `tool_result` block in the next message."
    )


def tokens(value: Any) -> int:
    """Roughly the tokens of ``value``, at four characters of JSON to a token; at least 1."""
    return max(1, len(json.dumps(value, ensure_ascii=False)) // 4)


def message(
    body: Mapping[str, Any], blocks: list[dict[str, Any]], stop: str, usage: Mapping[str, int]
) -> dict[str, Any]:
    """The whole reply to ``body``; gives each tool call its id and fills in stop reason and usage where not given."""
    for block in blocks:
        if block.get("type") == "tool_use":
            block.setdefault("id", f"toolu_{uuid.uuid4().hex[:24]}")
    calls_tool = any(block.get("type") == "tool_use" for block in blocks)
    return {
        "id": f"msg_{uuid.uuid4().hex[:24]}",
        "type": "message",
        "role": "assistant",
        "model": body.get("model", "rehearsal"),
        "content": blocks,
        "stop_reason": stop or ("tool_use" if calls_tool else "end_turn"),
        "stop_sequence": None,
        "usage": {
            "input_tokens": tokens(body.get("messages", [])),
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": tokens(blocks),
            **usage,
        },
    }


def error_body(error_type: str, text: str) -> dict[str, Any]:
    """The body of an API error."""
    return {
        "type": "error",
        "error": {"type": error_type, "message": text},
        "request_id": f"req_{uuid.uuid4().hex[:24]}",
    }


def sse(kind: str, **data: Any) -> bytes:
    """One server-sent event."""
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n".encode()


def opening(whole: Mapping[str, Any]) -> bytes:
    """The event a stream of ``whole`` starts with.

    Output tokens are a placeholder here, as in the real API: 1, or 0 when the whole has none. The agent program pays
    for it when the stream gets no further.
    """
    usage = {**whole["usage"], "output_tokens": min(1, whole["usage"]["output_tokens"])}
    return sse("message_start", message={**whole, "content": [], "stop_reason": None, "usage": usage})


def closing(whole: Mapping[str, Any]) -> list[bytes]:
    """The events a stream of ``whole`` ends with."""
    delta = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    return [sse("message_delta", delta=delta, usage=whole["usage"]), sse("message_stop")]


def block_events(index: int, block: Mapping[str, Any]) -> Iterator[tuple[bytes, bool]]:
    """The stream events of one content block, each with whether it is a delta."""
    empty, deltas = _deltas(block)
    yield sse("content_block_start", index=index, content_block=empty), False
    for delta in deltas:
        yield sse("content_block_delta", index=index, delta=delta), True
    yield sse("content_block_stop", index=index), False


def _deltas(block: Mapping[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    if block["type"] == "text":
        return {**block, "text": ""}, [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"])]
    if block["type"] == "thinking":
        thoughts = [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(block["thinking"])]
        signed = {"type": "signature_delta", "signature": block.get("signature", "")}
        return {"type": "thinking", "thinking": "", "signature": ""}, [*thoughts, signed]
    given = json.dumps(block.get("input", {}), ensure_ascii=False)
    return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": given}]


def _pieces(text: str) -> list[str]:
    return [text[start : start + _DELTA_CHARS] for start in range(0, len(text), _DELTA_CHARS)] or [""]
