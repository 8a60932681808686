"""A Messages API written by somebody else: the standard library, and nothing of flower's.

All it knows of flower are two lines: ``flower-role: <role>`` in a system prompt and ``flower-turn: goal`` (or
``verdict``) in a prompt. It plays one small job: a question, a brief, a goal, one file written, one verdict. Where a
model would think it looks at how often it has spoken in a session. ``problems`` collects what a real model's end
would have refused.
"""

from __future__ import annotations

import itertools
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

KEY = "sk-some-other-key"
FILE = "made.txt"
_IDS = itertools.count(1)


class OtherEndpoint(ThreadingHTTPServer):
    """Serves on a free loopback port while used as a context manager."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.problems: list[str] = []
        self.roles: list[str] = []
        self._thread = threading.Thread(target=self.serve_forever)

    @property
    def url(self) -> str:
        """What goes into ANTHROPIC_BASE_URL."""
        return f"http://127.0.0.1:{self.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: OtherEndpoint
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Answer a message request, streaming where that is asked for."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers.get("x-api-key") != KEY:
            self.server.problems.append(f"the key was {self.headers.get('x-api-key')!r}")
        if self.path.startswith("/v1/messages/count_tokens"):
            return self._send("application/json", json.dumps({"input_tokens": 100}).encode())
        if not self.path.startswith("/v1/messages"):
            self.server.problems.append(f"asked for {self.path}")
        role = _role(body)
        self.server.roles.append(role)
        message = _message(_blocks(role, body))
        if body.get("stream"):
            return self._send("text/event-stream", b"".join(_events(message)))
        return self._send("application/json", json.dumps(message).encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Keep the test's output readable."""

    def _send(self, kind: str, data: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _texts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    found = []
    for block in content or ():
        if block.get("type") == "text":
            found.append(block["text"])
        elif block.get("type") == "tool_result":
            found += _texts(block.get("content"))
    return found


def _role(body: dict[str, Any]) -> str:
    prompts = [text for message in body["messages"] if message["role"] == "user" for text in _texts(message["content"])]
    everything = "\n".join([*_texts(body.get("system")), *prompts])
    found = re.search(r"^flower-role: (\S+)", everything, re.MULTILINE)
    turn = re.findall(r"^flower-turn: (\S+)", "\n".join(prompts), re.MULTILINE)
    role = found[1] if found else "nobody"
    return f"{role} {turn[-1]}" if role == "judge" and turn else role


def _blocks(role: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    spoken = sum(message["role"] == "assistant" for message in body["messages"])
    heard = " ".join(_texts(body["messages"][-1]["content"])).strip()
    if role == "clarify":
        return [_call("mcp__human__ask", question="What shall it say?")] if not spoken else [_text(_brief(heard))]
    if role == "judge goal":
        return [_text(f"## Goal\nA file is made\n\n## Checklist\n- {FILE} exists")]
    if role == "coordinator":
        task = {"description": "make it", "prompt": f"Make {FILE}", "subagent_type": "coder"}
        return [_call("Agent", **task)] if not spoken else [_text(f"The coder says: {heard}")]
    if role.startswith("worker/"):
        return [_call("Bash", command=f"echo made by hand > {FILE}")] if not spoken else [_text(f"{FILE} is there")]
    if role == "judge verdict":
        return [_call("Glob", pattern=FILE)] if not spoken else [_text(_verdict(heard))]
    return [_text("Who is asking?")]


def _brief(answer: str) -> str:
    return f"## Goal\nMake a file. It was said: {answer}\n\n## Acceptance criteria\n- {FILE} exists\n\n" + (
        "## Boundaries\nNothing else\n\n## Unknowns and assumptions\nNone"
    )


def _verdict(seen: str) -> str:
    state, failed = ("achieved", "none") if seen.endswith(FILE) else ("not yet", f"- {FILE} exists")
    return f"## Conclusion\n{state}\n\n## Reason\nI looked and found: {seen}\n\n## Not passed\n{failed}"


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _call(name: str, **arguments: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_other{next(_IDS):06d}", "name": name, "input": arguments}


def _message(blocks: list[dict[str, Any]]) -> dict[str, Any]:
    calls = any(block["type"] == "tool_use" for block in blocks)
    return {
        "id": f"msg_other{next(_IDS):06d}",
        "type": "message",
        "role": "assistant",
        "model": "some-other-model",
        "content": blocks,
        "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 100, "output_tokens": 10},
    }


def _events(message: dict[str, Any]) -> list[bytes]:
    start = {**message, "content": [], "stop_reason": None}
    found = [_event("message_start", message=start)]
    for index, block in enumerate(message["content"]):
        empty: dict[str, Any]
        if block["type"] == "text":
            empty, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            empty = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        found.append(_event("content_block_start", index=index, content_block=empty))
        found.append(_event("content_block_delta", index=index, delta=delta))
        found.append(_event("content_block_stop", index=index))
    ending = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    found.append(_event("message_delta", delta=ending, usage={"output_tokens": 10}))
    return [*found, _event("message_stop")]


def _event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()
