"""Single requests: what is sent, what is repeated, and what each refusal becomes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from email.utils import formatdate
from importlib.metadata import version
from pathlib import Path

import pytest
from flower_client import BadReply, ConfigError, FlowerClient, NotAllowed, Refused, Unreachable
from flower_client.retrying import retry_after_of

from tests.client.scripted_run import ScriptedRun
from tests.client.scripted_server import ScriptedServer, cut, hang_up, html, refusal


def test_start_sends_only_what_was_given(client: FlowerClient, server: ScriptedServer) -> None:
    run = client.start("bake", goal=False, max_asks=0, labels={"a": "b"}, rounds=None)
    assert (run.id, run.task) == ("r1", "bake")
    assert server.seen[-1].body == {"task": "bake", "goal": False, "max_asks": 0, "labels": {"a": "b"}}


@pytest.mark.parametrize("fault", [hang_up, html(502), cut(10)], ids=["hang-up", "html", "half a body"])
def test_a_start_whose_reply_was_lost_is_repeated_and_starts_one_run(
    client: FlowerClient, server: ScriptedServer, fault: object
) -> None:
    server.faults.extend([fault, fault])  # type: ignore[list-item]
    assert client.start("bake").id == "r1"
    keys = {seen.headers["idempotency-key"] for seen in server.asked_for("/runs", "POST")}
    assert len(server.asked_for("/runs", "POST")) == 3
    assert len(keys) == len(server.runs) == 1


def test_a_number_that_json_does_not_have_is_refused_and_not_sent(client: FlowerClient, server: ScriptedServer) -> None:
    with pytest.raises(ConfigError, match="finite"):
        client.start("bake", timeout_s=float("nan"))
    assert server.seen == []


@pytest.mark.parametrize("url", ["http://a..b", f"http://{'a' * 300}.example"])
def test_an_address_that_can_be_no_name_of_a_machine_is_refused(url: str) -> None:
    with FlowerClient(url) as client, pytest.raises(ConfigError, match="label"):
        client.runs()


@pytest.mark.parametrize("key", ["ключ", "a\nb", " a", "a\x7f"])
def test_an_idempotency_key_that_no_header_can_hold_is_refused(
    client: FlowerClient, server: ScriptedServer, key: str
) -> None:
    with pytest.raises(ConfigError, match="printable ASCII"):
        client.start("bake", idempotency_key=key)
    assert server.seen == []


def test_a_proxy_that_is_no_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("http_proxy", "http://"), ("no_proxy", "")):  # requests looks at these first
        monkeypatch.setenv(name, value)
    with FlowerClient("http://flower.invalid") as client, pytest.raises(ConfigError, match="proxy"):
        client.runs()


def test_every_request_says_which_client_it_comes_from(client: FlowerClient, server: ScriptedServer) -> None:
    client.runs()
    assert server.seen[-1].headers["user-agent"] == f"flower-client/{version('flower-client')}"


def test_two_starts_have_two_keys_and_a_given_key_is_used(client: FlowerClient, server: ScriptedServer) -> None:
    client.start("one")
    client.start("two")
    assert client.start("three", idempotency_key="mine").id == client.start("three", idempotency_key="mine").id
    keys = [seen.headers["idempotency-key"] for seen in server.seen]
    assert len(server.runs) == 3
    assert (keys[0] != keys[1], keys[2:]) == (True, ["mine", "mine"])


def test_an_answer_whose_reply_was_lost_is_repeated_and_given_once(
    client: FlowerClient, server: ScriptedServer, run: ScriptedRun
) -> None:
    run.ask("q1", "Rye?", ["yes", "no"])
    server.faults.append(hang_up)
    settled = client.answer("r1", "q1", option=2)
    assert (settled.ask.state, settled.ask.answer, settled.replayed) == ("answered", "no", True)
    assert server.seen[-1].body == {"ask_id": "q1", "option": 2}


def test_a_settled_question_is_refused_with_how_it_was_settled(client: FlowerClient, run: ScriptedRun) -> None:
    run.ask("q1", "Rye?")
    client.answer("r1", "q1", "yes")
    with pytest.raises(Refused) as refused:
        client.decline("r1", "q1")
    assert (refused.value.slug, refused.value.status) == ("ask-settled", 409)
    assert refused.value.document["ask"]["answer"] == "yes"


def test_an_answer_is_either_a_text_or_an_option(client: FlowerClient, server: ScriptedServer) -> None:
    for text, option in ((None, None), ("yes", 1)):
        with pytest.raises(ConfigError):
            client.answer("r1", "q1", text, option=option)
    assert server.seen == []


def test_steering_and_looking(client: FlowerClient, run: ScriptedRun) -> None:
    assert client.say("r1", "more salt")["id"] == "m1"
    assert client.inbox("r1")["mail"] == [{"text": "more salt"}]
    client.interrupt("r1", "stop")
    assert run.interrupts == ["stop"]
    assert client.steps("r1")[0]["session_id"] == "s1"
    run.ask("q1", "Rye?")
    run.settle("q1", "declined")
    assert client.asks("r1") == []
    assert [ask.state for ask in client.asks("r1", state="all")] == ["declined"]
    run.state = "interrupted"
    assert client.resume("r1").state == "running"
    assert client.cancel("r1").state == "cancelled"
    assert [listed.id for listed in client.runs().runs] == ["r1"]


@pytest.mark.parametrize(
    ("status", "slug", "expected"),
    [
        (401, "unauthorized", NotAllowed),
        (403, "forbidden", NotAllowed),
        (404, "unknown-run", Refused),
        (409, "workspace-busy", Refused),
        (422, "invalid-body", Refused),
        (500, "internal-error", Unreachable),
        (503, "journal-unavailable", Unreachable),
    ],
)
def test_each_refusal_has_its_class(
    client: FlowerClient, server: ScriptedServer, status: int, slug: str, expected: type[Exception]
) -> None:
    server.faults.extend([refusal(status, slug)] * 4)
    with pytest.raises(expected) as raised:
        client.runs()
    assert type(raised.value) is expected
    assert f"{slug}, says the test" in str(raised.value)


def test_only_what_may_help_is_tried_again(client: FlowerClient, server: ScriptedServer, sleeps: list[float]) -> None:
    server.faults.append(refusal(404, "unknown-run"))
    with pytest.raises(Refused):
        client.run("r1")
    assert (len(server.seen), sleeps) == (1, [])
    server.faults.extend([refusal(429, "queue-full", "9"), refusal(409, "idempotency-running", "2")])
    assert client.start("bake").id == "r1"
    assert sleeps == [9.0, 2.0]


def test_a_refused_field_is_named(client: FlowerClient) -> None:
    with pytest.raises(Refused, match=r"isolate: isolate needs a git repository"):
        client.start("bake", isolate=True)


def test_a_redirect_is_not_followed_so_the_token_goes_nowhere_else(server: ScriptedServer) -> None:
    server.faults.append(lambda answer: type(answer)(302, b"", {"Location": "http://elsewhere.example/"}))
    with FlowerClient(server.url, "secret", attempts=1) as client, pytest.raises(BadReply, match="elsewhere"):
        client.runs()


def test_a_refused_connection_certainly_did_nothing_and_a_lost_reply_maybe_did(server: ScriptedServer) -> None:
    with FlowerClient(server.url, attempts=1) as client:
        server.faults.append(hang_up)
        with pytest.raises(Unreachable) as lost:
            client.start("bake")
        server.stop()
        with pytest.raises(Unreachable, match="Connection refused") as refused:
            client.start("bake")
    assert (lost.value.maybe_done, refused.value.maybe_done) == (True, False)


def test_the_token_is_sent_and_netrc_is_not(
    server: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login somebody password else\n")
    monkeypatch.setenv("NETRC", str(netrc))
    with FlowerClient(server.url, " secret\n") as client:
        client.runs()
    with FlowerClient(server.url) as client:
        client.runs()
    assert [seen.headers.get("authorization") for seen in server.seen] == ["Bearer secret", None]


def test_a_proxy_from_the_environment_is_not_asked_for_this_machine(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with FlowerClient(server.url, attempts=1) as client:
        assert client.runs().runs == ()


@pytest.mark.parametrize("token", ["se cret", "sec\nret", "sécret", "sec\x00ret"])
def test_a_token_that_cannot_be_one_is_refused_without_showing_it(token: str) -> None:
    with pytest.raises(ConfigError) as refused:
        FlowerClient(token=token)
    assert token not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:8420", "ftp://x", "http://", "http://a:b@host", "http://h:99999", "http://h?x=1"]
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ConfigError):
        FlowerClient(url)


@pytest.mark.parametrize("run_id", ["", ".", ".."])
def test_a_run_id_that_would_be_another_path_is_refused(client: FlowerClient, run_id: str) -> None:
    with pytest.raises(ConfigError):
        client.run(run_id)


def test_a_run_id_is_one_path_segment(client: FlowerClient, server: ScriptedServer) -> None:
    with pytest.raises(Refused):
        client.run("../asks?x=1")
    assert server.seen[-1].path == "/runs/..%2Fasks%3Fx%3D1"


def test_retry_after_in_all_its_forms() -> None:
    forms = {"soon": None, "nan": None, "-3": 0, "inf": 60, "7": 7, "": None, "Thu, 99 Foo 2030": None}
    assert {value: retry_after_of({"Retry-After": value}) for value in forms} == forms
    assert retry_after_of({}) is None


@pytest.mark.parametrize("offset", [0, 86400, -86400], ids=["right", "a day ahead", "a day behind"])
def test_a_date_to_retry_at_is_by_the_servers_clock_whatever_ours_says(offset: float) -> None:
    now = time.time() + offset
    then = formatdate(now + 30, usegmt=True)
    assert retry_after_of({"Retry-After": then, "Date": formatdate(now, usegmt=True)}) == 30
    if not offset:
        assert 25 <= (retry_after_of({"Retry-After": then}) or 0) <= 30


def test_every_post_carries_a_key_of_its_own_that_stays_over_repetitions(
    client: FlowerClient, server: ScriptedServer, run: ScriptedRun
) -> None:
    run.ask("q1", "Rye?")
    run.ask("q2", "Salt?")
    run.state = "interrupted"
    calls: list[Callable[[], object]] = [
        lambda: client.resume("r1"),
        lambda: client.start("bake"),
        lambda: client.once("what?"),
        lambda: client.say("r1", "hello"),
        lambda: client.answer("r1", "q1", "yes"),
        lambda: client.decline("r1", "q2"),
        lambda: client.interrupt("r1", "stop"),
        lambda: client.cancel("r1"),
    ]
    keys = []
    for call in calls:
        server.seen.clear()
        server.faults.extend([hang_up, html(502)])
        call()
        assert [seen.method for seen in server.seen] == ["POST"] * 3
        keys.append({seen.headers["idempotency-key"] for seen in server.seen})
    assert all(len(each) == 1 for each in keys)
    assert len(set.union(*keys)) == len(calls)
    assert (run.mail, run.interrupts) == (["hello"], ["stop"])


def test_a_silent_server_is_given_up_after_the_timeout_and_a_held_read_is_not(
    server: ScriptedServer, run: ScriptedRun
) -> None:
    given_up = threading.Event()
    with FlowerClient(server.url, attempts=1, timeout_s=0.3) as client:
        server.faults.append(lambda answer: None if given_up.wait(30) else answer)
        with pytest.raises(Unreachable, match="no answer in time"):
            client.runs()
        given_up.set()
        assert client.events("r1", after=1, wait=0.8).events == ()
