"""A small real HTTP server that speaks the contract about scripted runs, and can be made to fail in the usual ways."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import zlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.client.scripted_run import AT, FINAL, Json, Problem, ScriptedRun


@dataclass
class Seen:
    """One request as it arrived."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Json


@dataclass
class Answer:
    """What goes out: status, body, headers. ``cut`` sends that many bytes of the body and hangs up."""

    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None

    @classmethod
    def of(cls, data: Any, status: int = 200, kind: str = "application/json", **headers: str) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return cls(status, json.dumps(data).encode(), {"Content-Type": kind, **named})


Fault = Callable[[Answer], Answer | None]


def html(status: int = 502) -> Fault:
    """A proxy's page in place of the reply."""
    return lambda answer: Answer(status, b"<html>Bad gateway</html>", {"Content-Type": "text/html"})


def refusal(status: int, slug: str, retry_after: str = "") -> Fault:
    """A problem document in place of the reply."""
    headers = {"Retry-After": retry_after} if retry_after else {}
    document = {"type": slug, "title": slug, "status": status, "detail": f"{slug}, says the test"}
    return lambda answer: Answer.of(document, status, "application/problem+json", **headers)


def hang_up(answer: Answer) -> Answer | None:
    """The connection ends without a reply; the request has been carried out."""
    return None


def cut(size: int) -> Fault:
    """The connection ends after ``size`` bytes of the body."""

    def fault(answer: Answer) -> Answer:
        return replace(answer, cut=size)

    return fault


def edited(change: Callable[[Json], Any]) -> Fault:
    """The reply after ``change`` has been at its JSON."""

    def fault(answer: Answer) -> Answer:
        data = json.loads(answer.body)
        change(data)
        return replace(answer, body=json.dumps(data).encode())

    return fault


class ScriptedServer:
    """Serves ``runs`` on a loopback port, which stays the same over :meth:`stop` and :meth:`start`."""

    def __init__(self, token: str = "") -> None:
        self.runs: dict[str, ScriptedRun] = {}
        self.token = token
        self.scopes = {"read", "steer", "start"}
        self.seen: list[Seen] = []
        self.faults: deque[Fault] = deque()
        self.replies: dict[str, Answer] = {}
        self.port = 0
        self._http: _Server | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def add(self, run: ScriptedRun) -> ScriptedRun:
        self.runs[run.id] = run
        return run

    def start(self) -> None:
        self._http = _Server(("127.0.0.1", self.port), self)
        self.port = self._http.server_address[1]
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        """Go down as a killed server does: every connection ends."""
        if self._http:
            self._http.shutdown()
            self._http.hang_up()
            self._http.server_close()
            self._http = None

    def asked_for(self, part: str, method: str = "") -> list[Seen]:
        """The requests whose path contains ``part``."""
        return [seen for seen in self.seen if part in seen.path and method in ("", seen.method)]

    def handle(self, seen: Seen) -> Answer | None:
        self.seen.append(seen)
        key = seen.headers.get("idempotency-key", "")
        try:
            self._check_token(seen)
            if key and key in self.replies:
                stored = self.replies[key]
                answer = replace(stored, headers={**stored.headers, "Idempotent-Replayed": "true"})
            else:
                answer = self._route(seen)
                if key:
                    self.replies[key] = answer
        except Problem as problem:
            answer = Answer.of(problem.document, problem.status, "application/problem+json")
        return self.faults.popleft()(answer) if self.faults else answer

    def _check_token(self, seen: Seen) -> None:
        if not self.token or seen.path == "/healthz":
            return
        if seen.headers.get("authorization") != f"Bearer {self.token}":
            raise Problem(401, "unauthorized", "a token is needed")
        last = seen.path.rsplit("/", 1)[-1]
        scope = "read" if seen.method == "GET" else "start" if last in ("runs", "resume") else "steer"
        if scope not in self.scopes:
            raise Problem(403, "forbidden", f"this needs scope {scope}")

    def _route(self, seen: Seen) -> Answer:
        match [seen.method, *seen.path.strip("/").split("/")]:
            case ["GET", ""]:
                return Answer.of({"name": "flower", "version": "0.1.0"})
            case ["GET", "healthz" | "readyz"]:
                return Answer.of({"ok": True})
            case ["GET", "runs"]:
                runs = [run.to_json() for run in reversed(self.runs.values())]
                return Answer.of({"runs": runs, "next_cursor": None})
            case ["POST", "runs"]:
                return self._begin(seen.body)
            case ["GET", "runs", run_id]:
                return Answer.of(self._run(run_id).to_json())
            case ["DELETE", "runs", run_id]:
                return self._delete(self._run(run_id))
            case ["GET", "runs", run_id, "documents" | "files" as kind, *names]:
                return _stored(self._run(run_id), kind, unquote("/".join(names)), seen)
            case ["GET", "runs", run_id, "oracle", question_id]:
                return Answer.of(self._run(run_id).oracle_answer(question_id))
            case [method, "runs", run_id, verb]:
                return self._verb(method, self._run(run_id), verb, seen)
        raise Problem(404, "not-found")

    def _begin(self, body: Json) -> Answer:
        if "isolate" in body:
            words = ["isolate needs a git repository"]
            raise Problem(422, "invalid-body", "isolate is wrong", errors={"isolate": words})
        run = self.add(ScriptedRun(f"r{len(self.runs) + 1}", body.get("task", "")))
        return Answer.of(run.to_json(), 201)

    def _run(self, run_id: str) -> ScriptedRun:
        if run_id not in self.runs:
            raise Problem(404, "unknown-run", f"there is no run {run_id}")
        return self.runs[run_id]

    def _delete(self, run: ScriptedRun) -> Answer:
        if run.state not in FINAL:
            raise Problem(409, "not-ended", f"the run is {run.state}; cancel it first")
        del self.runs[run.id]
        return Answer(204, b"")

    def _verb(self, method: str, run: ScriptedRun, verb: str, seen: Seen) -> Answer:
        if method == "POST":
            return self._act(run, verb, seen.body)
        match verb:
            case "events":
                return Answer.of(run.page(seen.query))
            case "asks":
                everything = seen.query.get("state") == "all"
                return Answer.of({"asks": [ask for ask in run.asks.values() if everything or ask["state"] == "asked"]})
            case "steps":
                return Answer.of({"steps": [{"step": "Work", "ok": True, "cost_usd": 0.5, "session_id": "s1"}]})
            case "inbox":
                return Answer.of({"mail": [{"text": text} for text in run.mail]})
        raise Problem(404, "not-found")

    def _act(self, run: ScriptedRun, verb: str, body: Json) -> Answer:
        match verb:
            case "answer":
                options = run.asks.get(body["ask_id"], {}).get("options", [])
                text = body["text"] if "text" in body else options[body["option"] - 1]
                return Answer.of(run.settle(body["ask_id"], "answered", text, "tester"))
            case "decline":
                return Answer.of(run.settle(body["ask_id"], "declined", body.get("reason", ""), "tester"))
            case "inbox":
                return Answer.of(run.post(body["text"]), 202)
            case "oracle":
                return Answer.of(run.ask_oracle(body["question"]), 202)
            case "interrupt":
                return Answer.of(run.interrupt(body.get("text", "")), 202)
            case "cancel":
                run.finish("cancelled")
                return Answer.of(run.to_json())
            case "resume":
                run.resume()
                return Answer.of(run.to_json())
        raise Problem(404, "not-found")


def _stored(run: ScriptedRun, kind: str, name: str, seen: Seen) -> Answer:
    """A document or a file of a run, or the list of them; a file also in part."""
    if kind == "documents" and not name:
        documents = [{"name": each, "title": each, "size": len(text)} for each, text in run.documents.items()]
        return Answer.of({"run": run.id, "documents": documents})
    if kind == "documents" and name in run.documents:
        return Answer(200, run.documents[name].encode(), {"Content-Type": "text/markdown; charset=utf-8"})
    if kind == "files" and name in run.files:
        body = run.files[name]
        headers = {"Content-Type": "application/octet-stream", "ETag": f'"{zlib.crc32(body)}"'}
        wanted = seen.headers.get("range", "")
        if wanted and seen.headers.get("if-range") == headers["ETag"]:
            return Answer(206, body[int(wanted.removeprefix("bytes=").rstrip("-")) :], headers)
        return Answer(200, body, headers)
    below = sorted(each.removeprefix(f"{name}/") for each in run.files if not name or each.startswith(f"{name}/"))
    if kind == "files" and (below or not name):
        entries = [{"name": each, "type": "file", "size": 1, "modified": AT} for each in below]
        size = int(seen.query.get("limit", "2"))
        first = int(seen.query.get("cursor", "0"))
        cursor = str(first + size) if len(entries) > first + size else None
        page = entries[first : first + size]
        return Answer.of({"run": run.id, "path": name, "entries": page, "next_cursor": cursor})
    raise Problem(404, f"unknown-{kind.removesuffix('s')}")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], script: ScriptedServer) -> None:
        self.script = script
        self.connections: set[socket.socket] = set()
        super().__init__(address, _Handler)

    def hang_up(self) -> None:
        for connection in list(self.connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that is gone is no error."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.server.connections.add(self.connection)

    def finish(self) -> None:
        self.server.connections.discard(self.connection)
        with contextlib.suppress(OSError):
            super().finish()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the base class's
        pass

    def do_GET(self) -> None:
        self._serve({})

    def do_DELETE(self) -> None:
        self._serve({})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._serve(json.loads(body) if body else {})

    def _serve(self, body: Json) -> None:
        parts = urlsplit(self.path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        seen = Seen(self.command, parts.path, dict(parse_qsl(parts.query)), headers, body)
        answer = self.server.script.handle(seen)
        if answer is None:
            self.close_connection = True
            return
        self.send_response(answer.status)
        for name, value in {**answer.headers, "Content-Length": str(len(answer.body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer.body if answer.cut is None else answer.body[: answer.cut])
        self.close_connection = answer.cut is not None
