from __future__ import annotations

from typing import Any

import pytest
from flask.testing import FlaskClient

from flower_http.views import AskView
from tests.http.json_of import json_of
from tests.http.memory_manager import NOW, MemoryManager


def start(client: FlaskClient, **body: Any) -> str:
    reply = client.post("/runs", json={"task": "paint the fence", **body})
    assert reply.status_code == 201, reply.text
    run_id: str = json_of(reply)["id"]
    return run_id


def ask(manager: MemoryManager, run_id: str, ask_id: str = "q1") -> None:
    asks = (*manager.runs[run_id].asks, AskView(ask_id, "Which colour?", ("red", "blue"), asked_at=NOW))
    manager.put(run_id, asks=asks, state="waiting", asks_waiting=1)


def test_starting_a_run_says_where_it_is(client: FlaskClient) -> None:
    reply = client.post("/runs", json={"task": "paint"})
    assert reply.status_code == 201
    assert reply.headers["Location"] == f"/runs/{json_of(reply)['id']}"
    assert client.get(reply.headers["Location"]).json == reply.json


def test_a_run_without_a_language_gets_the_servers(client: FlaskClient, manager: MemoryManager) -> None:
    start(client)
    start(client, lang="zh")
    assert [params.lang for params, _ in manager.started] == ["en", "zh"]


def test_a_form_starts_a_run_too(client: FlaskClient, manager: MemoryManager) -> None:
    reply = client.post("/runs", data={"task": "Zäune streichen", "flow": "once"})
    assert reply.status_code == 201
    assert (manager.started[0][0].task, manager.started[0][0].flow) == ("Zäune streichen", "once")


def test_pages_of_runs_cover_all_of_them_newest_first(client: FlaskClient) -> None:
    ids = [start(client) for _ in range(5)]
    seen: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = json_of(client.get("/runs", query_string={"limit": "2", **({"cursor": cursor} if cursor else {})}))
        seen += [run["id"] for run in page["runs"]]
        cursor = page["next_cursor"]
        assert cursor is None or not any(run_id in cursor for run_id in ids), "a cursor is opaque"
    assert seen == ids[::-1]


def test_runs_can_be_chosen_by_state_and_label(client: FlaskClient) -> None:
    mine, other = start(client, labels={"team": "a=b"}), start(client, labels={"team": "c"})
    client.post(f"/runs/{other}/cancel")
    by_label = json_of(client.get("/runs?label=team%3Da%3Db"))
    by_state = json_of(client.get("/runs?state=cancelled"))
    assert [run["id"] for run in by_label["runs"]] == [mine]
    assert [run["id"] for run in by_state["runs"]] == [other]


@pytest.mark.parametrize("root", [True, False])
def test_a_question_is_answered_once_and_by_option(client: FlaskClient, manager: MemoryManager, root: bool) -> None:
    run_id = start(client)
    ask(manager, run_id)
    at = "" if root else f"/runs/{run_id}"
    waiting = json_of(client.get(f"{at}/asks"))
    assert [one["id"] for one in waiting["asks"]] == ["q1"]
    first = json_of(client.post(f"{at}/answer", json={"ask_id": "q1", "option": 2}))
    assert (first["ok"], first["ask"]["answer"], first["replayed"]) == (True, "blue", False)
    again = json_of(client.post(f"{at}/answer", json={"ask_id": "q1", "text": "blue"}))
    assert again["replayed"] is True
    late = client.post(f"{at}/answer", json={"ask_id": "q1", "text": "red"})
    assert late.status_code == 409
    assert (json_of(late)["type"], json_of(late)["ok"], json_of(late)["ask"]["answered_by"]) == (
        "ask-settled",
        False,
        "local",
    )
    left = json_of(client.get(f"{at}/asks"))
    every = json_of(client.get(f"{at}/asks?state=all"))
    assert (len(left["asks"]), len(every["asks"])) == (0, 1)


def test_curl_style_forms_answer_and_decline(client: FlaskClient, manager: MemoryManager) -> None:
    run_id = start(client)
    ask(manager, run_id)
    ask(manager, run_id, "q2")
    assert client.post("/answer", data="ask_id=q1&text=yes+please%21", content_type=FORM).status_code == 200
    assert client.post("/decline", data=f"ask_id=q2&run={run_id}", content_type=FORM).status_code == 200
    assert [one.answer for one in manager.runs[run_id].asks] == ["yes please!", ""]


FORM = "application/x-www-form-urlencoded"


def test_what_is_said_shows_up_in_the_inbox(client: FlaskClient) -> None:
    run_id = start(client)
    reply = client.post(f"/runs/{run_id}/inbox", json={"text": "leave the gate"})
    assert (reply.status_code, reply.json) == (202, {"run": run_id, "id": "m1", "amended": ""})
    inbox = json_of(client.get("/inbox"))
    assert [(mail["text"], mail["state"]) for mail in inbox["mail"]] == [("leave the gate", "queued")]


def test_an_interrupt_needs_no_body_and_says_what_it_costs(client: FlaskClient, manager: MemoryManager) -> None:
    run_id = start(client)
    reply = client.post(f"/runs/{run_id}/interrupt")
    assert reply.status_code == 202
    assert "subagent" in json_of(reply)["note"]
    assert client.post("/interrupt", json={"text": "not there"}).status_code == 202
    assert manager.interrupts == [(run_id, ""), (run_id, "not there")]


def test_cancelling_twice_is_the_same_as_once(client: FlaskClient) -> None:
    run_id = start(client)
    first, second = client.post(f"/runs/{run_id}/cancel"), client.post(f"/runs/{run_id}/cancel")
    assert (first.status_code, second.status_code) == (200, 200)
    assert first.json == second.json


def test_an_interrupted_run_can_be_resumed(client: FlaskClient, manager: MemoryManager) -> None:
    run_id = start(client)
    manager.put(run_id, state="interrupted")
    assert json_of(client.post(f"/runs/{run_id}/resume"))["state"] == "queued"


def test_the_steps_of_a_run_are_its_manifest_rows(client: FlaskClient) -> None:
    rows = json_of(client.get(f"/runs/{start(client)}/steps"))
    assert [row["step"] for row in rows["steps"]] == ["Clarify"]


def test_a_root_verb_takes_its_run_from_query_or_body_but_not_both(client: FlaskClient) -> None:
    first, second = start(client), start(client)
    assert json_of(client.post("/inbox", json={"text": "a"}))["type"] == "which-run"
    assert json_of(client.post(f"/inbox?run={first}", json={"text": "a"}))["run"] == first
    assert json_of(client.post("/inbox", json={"text": "a", "run": second}))["run"] == second
    twice = client.post(f"/inbox?run={first}", json={"text": "a", "run": second})
    assert twice.status_code == 422
    assert list(json_of(twice)["errors"]) == ["run"]


@pytest.mark.parametrize("bad", ["..", "a" * 65, "-x", "x%00", "x%0a", "%e2%82%ac", ".hidden"])
def test_what_cannot_be_a_run_id_is_never_looked_up(client: FlaskClient, manager: MemoryManager, bad: str) -> None:
    def touched(run_id: str) -> None:
        raise AssertionError(f"looked up {run_id!r}")

    manager.get = touched  # type: ignore[assignment, method-assign]
    manager.resolve = touched  # type: ignore[assignment, method-assign]
    reply = client.get(f"/runs/{bad}")
    assert (reply.status_code, json_of(reply)["type"]) == (404, "unknown-run")
    assert json_of(client.get(f"/asks?run={bad}"))["type"] == "unknown-run"


def test_the_root_names_itself_and_links_that_exist(client: FlaskClient) -> None:
    start(client)
    root = json_of(client.get("/"))
    assert root["name"] == "flower"
    for name, link in root["links"].items():
        assert name == "events" or client.get(link).status_code == 200


def test_healthz_needs_nothing_and_readyz_gives_reasons(client: FlaskClient, manager: MemoryManager) -> None:
    assert client.get("/healthz").json == {"ok": True}
    assert client.get("/readyz").status_code == 200
    manager.reasons = ["the journal cannot be written"]
    reply = client.get("/readyz")
    assert (reply.status_code, json_of(reply)["reasons"]) == (503, manager.reasons)


def test_the_contract_is_served_as_shipped(client: FlaskClient) -> None:
    reply = client.get("/openapi.yaml")
    assert reply.headers["Content-Type"] == "application/yaml"
    assert reply.data.startswith(b"openapi: 3.1")


@pytest.mark.parametrize(("sent", "kept"), [("abc-1", True), ("a" * 129, False), ("tab\there", False), ("é", False)])
def test_a_usable_request_id_is_echoed_and_any_other_replaced(client: FlaskClient, sent: str, kept: bool) -> None:
    echoed = client.get("/healthz", headers={"X-Request-Id": sent}).headers["X-Request-Id"]
    assert (echoed == sent) is kept
    assert echoed.isprintable()
    assert len(echoed) <= 128


def test_no_reply_may_be_stored_by_anyone(client: FlaskClient) -> None:
    for path in ("/", "/runs", "/nowhere", "/runs/unknown"):
        assert client.get(path).headers["Cache-Control"] == "no-store"


def test_odd_strings_of_a_run_arrive_as_valid_json(client: FlaskClient, manager: MemoryManager) -> None:
    run_id = start(client)
    manager.put(run_id, result="\0 \ud800 \x1b[31m", verdict={"state": "achieved", "reason": "\udfff", "failed": []})
    assert json_of(client.get(f"/runs/{run_id}"))["result"] == "\0 ? \x1b[31m"
