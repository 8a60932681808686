"""The scripted API over real sockets."""

from __future__ import annotations

import http.client
import io
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from flower_core.rehearsal import NAMED_ERRORS, Play, RehearsalApp, RehearsalServer
from flower_core.rehearsal.wire import pairing_error
from tests.support import eventually

USER = {"role": "user", "content": "Build it"}


def connect(server: RehearsalServer) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)


def post(server: RehearsalServer, body: Any, path: str = "/v1/messages?beta=true") -> tuple[int, dict[str, Any]]:
    """Status and JSON of one whole exchange."""
    with closing(connect(server)) as link:
        link.request("POST", path, body if isinstance(body, bytes) else json.dumps(body))
        response = link.getresponse()
        return response.status, json.loads(response.read())


def stream_events(raw: bytes) -> list[dict[str, Any]]:
    """The data of every server-sent event of ``raw``."""
    lines = raw.decode().splitlines()
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


def stream(server: RehearsalServer, *messages: Any) -> list[dict[str, Any]]:
    """Every event of one streamed reply."""
    with closing(connect(server)) as link:
        link.request("POST", "/v1/messages", json.dumps({"stream": True, "messages": list(messages)}))
        response = link.getresponse()
        assert response.getheader("Content-Type", "").startswith("text/event-stream")
        return stream_events(response.read())


def play(*replies: dict[str, Any]) -> dict[str, Any]:
    return {"default": list(replies)}


def test_a_plain_request_gets_a_whole_message_with_usage() -> None:
    reply = {"text": "hi", "tools": [["Read", {"file_path": "x"}]], "usage": {"input_tokens": 7, "output_tokens": 3}}
    with RehearsalServer(play(reply)) as server:
        status, message = post(server, {"model": "claude-x", "messages": [USER]})
    assert status == 200
    assert (message["role"], message["model"], message["stop_reason"]) == ("assistant", "claude-x", "tool_use")
    assert message["content"][0] == {"type": "text", "text": "hi"}
    assert message["content"][1]["id"].startswith("toolu_")
    assert message["usage"] == {
        "input_tokens": 7,
        "output_tokens": 3,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
    }


def test_usage_grows_with_the_conversation_where_the_play_names_none() -> None:
    with RehearsalServer(play({"text": "hi"})) as server:
        short, long = (post(server, {"messages": [{"role": "user", "content": "x" * n}]})[1] for n in (10, 4000))
    assert long["usage"]["input_tokens"] - short["usage"]["input_tokens"] > 900


def test_a_streamed_reply_adds_up_to_the_same_message() -> None:
    words = "A sentence that is longer than one delta of the stream. 你好"
    reply = {"thinking": "Hm.", "text": words, "tools": [["Read", {"file_path": "ä"}]], "stop": "max_tokens"}
    with RehearsalServer(play(reply)) as server:
        events = stream(server, USER)
    assert [event["type"] for event in (events[0], events[-2], events[-1])] == [
        "message_start",
        "message_delta",
        "message_stop",
    ]
    assert events[0]["message"]["content"] == []
    assert events[-2]["delta"]["stop_reason"] == "max_tokens"
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    assert "".join(delta.get("thinking", "") for delta in deltas) == "Hm."
    assert "".join(delta.get("text", "") for delta in deltas) == words
    assert json.loads("".join(delta.get("partial_json", "") for delta in deltas)) == {"file_path": "ä"}
    assert sum("text" in delta for delta in deltas) > 1


@pytest.mark.parametrize(("whole", "opening"), [(0, 0), (1, 1), (500, 1)])
def test_the_opening_of_a_stream_names_one_output_token_where_there_are_any(whole: int, opening: int) -> None:
    with RehearsalServer(play({"text": "hi", "usage": {"output_tokens": whole}})) as server:
        events = stream(server, USER)
    assert events[0]["message"]["usage"]["output_tokens"] == opening
    assert events[-2]["usage"]["output_tokens"] == whole


def test_words_that_are_no_unicode_text_are_played_all_the_same() -> None:
    with RehearsalServer(play({"text": "half of a pair: \ud83d"}), pace=0) as server:
        said = {"role": "user", "content": "x"}
        whole = post(server, {"messages": [said]})[1]
        pieces = [event["delta"].get("text", "") for event in stream(server, said) if "delta" in event]
    assert whole["content"][0]["text"] == "".join(pieces) == "half of a pair: \ud83d"


@pytest.mark.parametrize("name", sorted(NAMED_ERRORS))
def test_errors_have_the_status_and_shape_of_the_api(name: str) -> None:
    reply = {"error": name, "headers": {"retry-after": "3"}}
    with RehearsalServer(play(reply)) as server, closing(connect(server)) as link:
        link.request("POST", "/v1/messages", json.dumps({"stream": True, "messages": [USER]}))
        response = link.getresponse()
        body = json.loads(response.read())
    status, error_type, message = NAMED_ERRORS[name]
    assert (response.status, response.getheader("retry-after")) == (status, "3")
    assert body["type"] == "error"
    assert body["error"] == {"type": error_type, "message": message}
    assert body["request_id"].startswith("req_")


def test_an_error_can_be_for_the_first_requests_only() -> None:
    with RehearsalServer(play({"when": {"request": [0, 1]}, "error": "overloaded"}, {"text": "hi"})) as server:
        assert [post(server, {"messages": [USER]})[0] for _ in range(3)] == [529, 529, 200]


def test_a_cut_stream_ends_without_its_end() -> None:
    with RehearsalServer(play({"text": "x" * 200, "cut": 4})) as server, closing(connect(server)) as link:
        link.request("POST", "/v1/messages", json.dumps({"stream": True, "messages": [USER]}))
        with pytest.raises(http.client.IncompleteRead) as caught:
            link.getresponse().read()
    kinds = [event["type"] for event in stream_events(caught.value.partial)]
    assert kinds == ["message_start", "content_block_start", "content_block_delta", "content_block_delta"]


def test_a_cut_without_a_stream_closes_the_connection_or_fails_the_request() -> None:
    with RehearsalServer(play({"text": "x", "cut": 0})) as server, pytest.raises((http.client.HTTPException, OSError)):
        post(server, {"messages": [USER]})


def test_an_error_may_come_after_the_stream_has_begun() -> None:
    with RehearsalServer(play({"sse_error": ["overloaded_error", "Overloaded"]})) as server:
        events = stream(server, USER)
        status, body = post(server, {"messages": [USER]})
    assert [event["type"] for event in events] == ["message_start", "error"]
    assert events[1]["error"] == body["error"] == {"type": "overloaded_error", "message": "Overloaded"}
    assert status == 529


def read_until(response: http.client.HTTPResponse, word: bytes) -> bytes:
    """What has arrived up to the line that holds ``word``."""
    seen = b""
    while word not in seen:
        line = response.readline()
        assert line, f"the stream ended before {word!r}: {seen!r}"
        seen += line
    return seen


def test_a_hanging_stream_shows_its_beginning_and_goes_on_when_released() -> None:
    with RehearsalServer(play({"text": "x" * 30, "hang": "door"})) as server, closing(connect(server)) as link:
        link.request("POST", "/v1/messages", json.dumps({"stream": True, "messages": [USER]}))
        response = link.getresponse()
        assert b"message_stop" not in read_until(response, b'"ping"')
        server.app.release("door")
        assert b"message_stop" in response.read()
        assert stream(server, USER)[-1]["type"] == "message_stop"


def test_closing_ends_what_hangs_or_is_delayed_and_frees_the_port() -> None:
    replies = ({"text": "x", "hang": "for ever"}, {"text": "y", "delay": 600})
    statuses: list[int] = []
    server = RehearsalServer(play(*replies)).start()

    def ask(*messages: Any) -> None:
        statuses.append(post(server, {"messages": list(messages)})[0])

    histories = ([USER], [USER, {"role": "assistant", "content": "x"}, USER])
    threads = [threading.Thread(target=ask, args=history) for history in histories]
    for thread in threads:
        thread.start()
    eventually(lambda: len(server.app.requests) == 2)
    server.close()
    server.close()
    for thread in threads:
        thread.join(5)
    assert statuses == [200, 200]
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", server.port)) != 0


def test_a_server_that_never_started_can_be_closed() -> None:
    server = RehearsalServer(play({"text": "x"}))
    server.close()
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", server.port)) != 0


def test_a_taken_port_is_an_error_of_its_own() -> None:
    with RehearsalServer() as server, pytest.raises(OSError, match="in use"):
        RehearsalServer(port=server.port)


def test_delays_follow_the_pace() -> None:
    with RehearsalServer(play({"text": "x" * 240, "delay": 0.2, "gap": 0.01})) as server:
        started = time.monotonic()
        stream(server, USER)
        assert time.monotonic() - started >= 0.2 + 10 * 0.01
    with RehearsalServer(play({"text": "x" * 240, "delay": 600, "gap": 600}), pace=0) as server:
        assert stream(server, USER)[-1]["type"] == "message_stop"


def test_only_the_one_loopback_address_is_listened_on() -> None:
    with RehearsalServer() as server, socket.socket() as probe:
        assert server.url == f"http://127.0.0.1:{server.port}"
        # A socket bound to every address would answer here too.
        assert probe.connect_ex(("127.0.0.2", server.port)) != 0


def test_anything_else_is_not_found() -> None:
    with RehearsalServer() as server, closing(connect(server)) as link:
        for method, path in (("HEAD", "/"), ("GET", "/v1/messages"), ("POST", "/v1/complete"), ("PUT", "/api/hello")):
            link.request(method, path)
            response = link.getresponse()
            body = response.read()
            assert response.status == 404
            assert method == "HEAD" or json.loads(body)["error"]["type"] == "not_found_error"


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b'{"messages": "x"}', b"\xff", b"[" * 100_000])
def test_a_broken_body_is_an_invalid_request(body: bytes) -> None:
    with RehearsalServer() as server:
        status, answer = post(server, body)
    assert (status, answer["error"]["type"]) == (400, "invalid_request_error")


def test_tokens_are_counted_roughly() -> None:
    with RehearsalServer() as server:
        status, body = post(server, {"messages": [USER]}, "/v1/messages/count_tokens?beta=true")
    assert status == 200
    assert 5 < body["input_tokens"] < 30


def test_a_request_the_play_has_nothing_for_says_so() -> None:
    with RehearsalServer({"judge": [{"text": "x"}]}) as server:
        status, body = post(server, {"system": "flower-role: clarify", "messages": [USER]})
        assert server.app.requests[0].rejected == body["error"]["message"]
    assert status == 400
    assert "no reply for 'clarify'" in body["error"]["message"]


def test_requests_are_kept_with_who_spoke_and_without_headers() -> None:
    app = RehearsalApp(Play.from_dict({"judge": [{"text": "x"}], "default": [{"text": "y"}]}), keep=2)
    for system in ("", "", "flower-role: judge"):
        body = json.dumps({"system": system, "messages": [USER]}).encode()
        list(app(environ(body, HTTP_X_API_KEY="secret", HTTP_X_CLAUDE_CODE_SESSION_ID="s1"), lambda *_: None))
    assert [(r.speaker, r.turn, r.count, r.session) for r in app.requests] == [
        ("default", 0, 1, "s1"),
        ("judge", 0, 0, "s1"),
    ]
    assert "secret" not in repr([vars(request) for request in app.requests])
    assert app.requests[1].talk.role == "judge"


def environ(body: bytes, **more: str) -> dict[str, Any]:
    return {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": "/v1/messages",
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.input": io.BytesIO(body),
        **more,
    }


def test_unpaired_tool_calls_are_refused_unless_that_is_switched_off() -> None:
    unpaired = {
        "messages": [USER, {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "X"}]}, USER]
    }
    with RehearsalServer() as server:
        status, body = post(server, unpaired)
    assert (status, body["error"]["type"]) == (400, "invalid_request_error")
    assert "t1" in body["error"]["message"]
    with RehearsalServer(pairing=False) as server:
        assert post(server, unpaired)[0] == 200


def use(*ids: str) -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "tool_use", "id": i, "name": "X", "input": {}} for i in ids]}


def results(*ids: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": i, "content": ""} for i in ids]}


@pytest.mark.parametrize(
    ("messages", "complaint"),
    [
        ([USER], ""),
        ([USER, use("a"), results("a")], ""),
        ([USER, use("a", "b"), results("b", "a"), use("c"), results("c")], ""),
        ([USER, use("a"), {"role": "system", "content": "date"}, results("a")], ""),
        ([USER, use("a")], "messages.1: `tool_use` ids were found without"),
        ([USER, use("a"), USER], "messages.1: `tool_use` ids were found without"),
        ([USER, use("a", "b"), results("a")], "messages.1: `tool_use` ids were found without"),
        ([USER, results("a")], "messages.1.content: unexpected `tool_use_id`"),
        ([USER, use("a"), results("a", "b")], "messages.2.content: unexpected `tool_use_id`"),
        ([USER, use("a"), results("a"), results("a")], "messages.3.content: unexpected `tool_use_id`"),
    ],
)
def test_pairing(messages: list[dict[str, Any]], complaint: str) -> None:
    found = pairing_error(messages)
    assert found.startswith(complaint)
    assert bool(found) == bool(complaint)


def test_more_requests_than_threads_are_all_answered() -> None:
    with RehearsalServer(play({"text": "x", "delay": 0.02}), threads=4) as server:
        answered: list[int] = []
        threads = [
            threading.Thread(target=lambda: answered.append(post(server, {"messages": [USER]})[0])) for _ in range(24)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
    assert answered == [200] * 24


@pytest.fixture(autouse=True)
def _no_threads_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    eventually(lambda: {t for t in threading.enumerate() if t.is_alive()} <= before)
