"""The cursor loop against a real server that misbehaves: nothing is lost, or the loss is told."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from flower_client import BadReply, FlowerClient, Loss, NotAllowed, Notice, Refused, Unreachable, Watch

from tests.client.scripted_run import ScriptedRun
from tests.client.scripted_server import Fault, ScriptedServer, cut, edited, hang_up, html, refusal
from tests.support import eventually

TEXTS = [f"line {number}" for number in range(1, 8)]
#: A page with nothing in it, although there is something to read: what a server that is going down may send.
EMPTY: dict[str, Any] = {"events": [], "next_after": 0, "pending": 9, "final": False}


def finished(run: ScriptedRun) -> ScriptedRun:
    """The run with seven lines said and done: nine events in all."""
    run.say(*TEXTS)
    run.finish()
    return run


def seqs(watch: Watch) -> list[int]:
    return [event.seq for event in watch]


def test_yields_every_event_once_and_ends_with_the_run(client: FlowerClient, run: ScriptedRun) -> None:
    finished(run)
    watch = client.watch("r1", limit=2)
    events = list(watch)
    assert [event.seq for event in events] == list(range(1, 10))
    assert [event.text for event in events if event.kind == "text"] == TEXTS
    assert (watch.final, watch.state, watch.cursor, watch.losses) == (True, "succeeded", 9, [])


def test_starts_after_the_given_event_or_with_the_last_ones(client: FlowerClient, run: ScriptedRun) -> None:
    finished(run)
    assert seqs(client.watch("r1", after=7)) == [8, 9]
    assert seqs(client.watch("r1", tail=3)) == [7, 8, 9]


def test_long_polls_so_that_an_event_arrives_when_it_happens(
    client: FlowerClient, server: ScriptedServer, run: ScriptedRun, sleeps: list[float]
) -> None:
    watch = client.watch("r1")
    assert next(watch).text == "run.created"
    arrived: list[str] = []
    reader = threading.Thread(target=lambda: arrived.extend(event.text for event in watch))
    reader.start()
    eventually(lambda: len(server.asked_for("events")) == 2)
    assert server.seen[-1].query["wait"] == "25"
    run.finish()
    reader.join(5)
    assert arrived == ["run.finished"]
    assert sleeps == []


def test_the_cursor_is_the_last_event_handed_out_even_within_a_page(client: FlowerClient, run: ScriptedRun) -> None:
    finished(run)
    watch = client.watch("r1")
    next(watch)
    assert (next(watch).seq, watch.cursor, watch.final) == (2, 2, False)
    assert seqs(client.watch("r1", after=watch.cursor, epoch=watch.epoch)) == [3, 4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize(
    "fault",
    [html(502), html(200), html(404), refusal(503, "not-ready"), hang_up, cut(0), cut(40)],
    ids=["html 502", "html 200", "html 404", "problem 503", "hang-up", "no body", "half a body"],
)
def test_reads_again_after_a_reply_that_is_none(
    client: FlowerClient, server: ScriptedServer, run: ScriptedRun, sleeps: list[float], fault: Fault
) -> None:
    finished(run)
    notices: list[Notice] = []
    watch = client.watch("r1", limit=4, on_notice=notices.append)
    assert [next(watch).seq for _ in range(4)] == [1, 2, 3, 4]
    server.faults.extend([fault, fault, fault])
    assert seqs(watch) == [5, 6, 7, 8, 9]
    assert watch.losses == []
    assert [notice.kind for notice in notices] == ["outage", "back"]
    assert len(sleeps) == 3


def test_of_an_outage_every_reason_is_told_once_and_of_the_next_one_anew(
    client: FlowerClient, server: ScriptedServer, run: ScriptedRun
) -> None:
    run.say("one", "two")
    notices: list[Notice] = []
    watch = client.watch("r1", limit=1, on_notice=notices.append)
    assert next(watch).seq == 1
    server.faults.extend([hang_up, html(502), html(502), hang_up, html(502)])
    assert next(watch).seq == 2
    server.faults.extend([html(502), html(502)])
    assert next(watch).seq == 3
    assert [notice.kind for notice in notices] == ["outage", "outage", "back", "outage", "back"]
    assert notices[0].text != notices[1].text == notices[3].text


def test_the_backoff_is_full_jitter_up_to_thirty_seconds(
    client: FlowerClient, server: ScriptedServer, run: ScriptedRun, sleeps: list[float]
) -> None:
    finished(run)
    server.faults.extend([html()] * 200)
    assert len(seqs(client.watch("r1"))) == 9
    assert len(sleeps) == 200
    assert all(0 <= pause <= min(30, 0.5 * 2**number) for number, pause in enumerate(sleeps, 1))
    late = sleeps[10:]
    assert max(late) > 20
    assert min(late) < 10


@pytest.mark.parametrize(("header", "pause"), [("7", 7.0), ("3600", 60.0), ("0", 0.0)])
def test_retry_after_is_obeyed_up_to_a_minute(
    client: FlowerClient, server: ScriptedServer, run: ScriptedRun, sleeps: list[float], header: str, pause: float
) -> None:
    finished(run)
    server.faults.extend([refusal(429, "slow-down", header), refusal(503, "not-ready", header)])
    assert len(seqs(client.watch("r1"))) == 9
    assert sleeps == [pause, pause]


def test_a_pause_the_server_asks_for_in_a_page_is_made(
    client: FlowerClient, server: ScriptedServer, run: ScriptedRun, sleeps: list[float]
) -> None:
    def full(page: dict[str, Any]) -> None:
        page.update(EMPTY, retry_after_ms=1500)

    finished(run)
    server.faults.append(edited(full))
    assert len(seqs(client.watch("r1"))) == 9
    assert sleeps == [1.5]


def test_empty_replies_that_come_at_once_do_not_make_it_loop_hot(
    client: FlowerClient, server: ScriptedServer, run: ScriptedRun, sleeps: list[float]
) -> None:
    finished(run)
    server.faults.extend([edited(lambda page: page.update(EMPTY))] * 5)
    assert len(seqs(client.watch("r1"))) == 9
    assert len(sleeps) == 5
    assert all(0 <= pause <= 0.5 * 2**number for number, pause in enumerate(sleeps, 1))
    assert not any(seen.query["after"] != "0" for seen in server.asked_for("events"))


def test_survives_a_restart_on_the_same_port(server: ScriptedServer, run: ScriptedRun) -> None:
    run.say("before")
    notices: list[Notice] = []
    back = threading.Event()
    with FlowerClient(server.url, sleep=lambda seconds: back.wait(5)) as patient:
        watch = patient.watch("r1", on_notice=notices.append)
        assert [next(watch).text for _ in range(2)] == ["run.created", "before"]
        rest: list[str] = []
        reader = threading.Thread(target=lambda: rest.extend(event.text for event in watch))
        reader.start()
        eventually(lambda: len(server.asked_for("events")) == 2)
        server.stop()
        eventually(lambda: notices)
        run.say("while it was down")
        run.finish()
        server.start()
        back.set()
        reader.join(5)
    assert rest == ["while it was down", "run.finished"]
    assert watch.losses == []
    assert [notice.kind for notice in notices][-1] == "back"


def test_expired_events_are_skipped_and_the_loss_is_remembered(
    client: FlowerClient, server: ScriptedServer, run: ScriptedRun
) -> None:
    finished(run)
    run.forget_before(6)
    notices: list[Notice] = []
    watch = client.watch("r1", on_notice=notices.append, limit=3)
    assert seqs(watch) == [6, 7, 8, 9]
    assert [seen.query.get("on_gap") for seen in server.seen] == [None, "skip", None]
    assert watch.losses == [Loss("cursor-expired", 1, 5)]
    assert watch.losses[0].count == 5
    assert [(notice.kind, notice.text) for notice in notices] == [("loss", "events 1 to 5 are lost (cursor-expired)")]


def test_a_new_epoch_is_read_from_its_beginning_and_told(client: FlowerClient, run: ScriptedRun) -> None:
    run.say("old")
    watch = client.watch("r1")
    assert [next(watch).text for _ in range(2)] == ["run.created", "old"]
    run.lose_journal()
    run.say("new")
    run.finish()
    assert [event.text for event in watch] == ["new", "run.finished"]
    assert watch.losses == [Loss("epoch-changed", 3, None)]
    assert watch.epoch == "e1'"


def test_a_server_that_shows_less_than_before_is_told_as_a_loss(client: FlowerClient, run: ScriptedRun) -> None:
    run.say("one", "two")
    watch = client.watch("r1")
    assert [next(watch).seq for _ in range(3)] == [1, 2, 3]
    run.events = run.events[:1]
    run.say("other")
    run.events = run.events[:1]
    run.finish()
    assert [event.text for event in client.watch("r1", after=1)] == ["run.finished"]
    assert [event.text for event in watch] == []
    assert watch.losses == [Loss("cursor-ahead", 3, 3)]


def test_a_cursor_beyond_the_end_is_refused_when_it_is_the_callers_own(client: FlowerClient, run: ScriptedRun) -> None:
    with pytest.raises(Refused) as refused:
        next(client.watch("r1", after=50))
    assert refused.value.slug == "cursor-ahead"


MISCOUNTS = {
    "an event missing": lambda page: page["events"].pop(1),
    "an event twice": lambda page: page["events"].insert(1, page["events"][0]),
    "a wrong next_after": lambda page: page.update(next_after=page["next_after"] + 1),
    "another run's": lambda page: page.update(run="r2"),
    "final with events pending": lambda page: page.update(final=True, pending=3),
    "a gap that does not join": lambda page: page.update(gap={"from": 7, "to": 9}),
    "no seq": lambda page: page["events"][0].pop("seq"),
    "true for a number": lambda page: page.update(pending=True),
}


@pytest.mark.parametrize("fault", MISCOUNTS.values(), ids=MISCOUNTS.keys())
def test_a_page_that_does_not_add_up_is_read_again(
    client: FlowerClient, server: ScriptedServer, run: ScriptedRun, fault: Any
) -> None:
    finished(run)
    server.faults.append(edited(fault))
    watch = client.watch("r1")
    assert seqs(watch) == list(range(1, 10))
    assert watch.losses == []


def test_events_missing_even_when_read_again_are_a_loss_and_the_watch_goes_on(
    client: FlowerClient, server: ScriptedServer, run: ScriptedRun
) -> None:
    def hole(page: dict[str, Any]) -> None:
        del page["events"][2:4]

    finished(run)
    server.faults.extend([edited(hole), edited(hole)])
    watch = client.watch("r1")
    assert seqs(watch) == [1, 2, 5, 6, 7, 8, 9]
    assert watch.losses == [Loss("miscounted", 3, 4)]


def test_a_page_out_of_a_cache_brings_nothing_twice(
    client: FlowerClient, server: ScriptedServer, run: ScriptedRun
) -> None:
    finished(run)
    old = run.page({"limit": "3"})
    watch = client.watch("r1", limit=3)
    assert [next(watch).seq for _ in range(3)] == [1, 2, 3]
    server.faults.extend([edited(lambda page: page.update(old))] * 3)
    assert seqs(watch) == [4, 5, 6, 7, 8, 9]
    assert watch.losses == []


def test_unknown_kinds_and_members_pass_through(client: FlowerClient, run: ScriptedRun) -> None:
    run.append("hologram", "shimmer", {"new": [1]})
    run.finish()
    assert [(event.kind, event.payload) for event in client.watch("r1")][1] == ("hologram", {"new": [1]})


def test_gives_up_only_after_the_time_it_was_given(server: ScriptedServer, run: ScriptedRun) -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    server.stop()
    with FlowerClient(server.url, sleep=sleep, clock=lambda: now[0]) as client, pytest.raises(Unreachable):
        next(client.watch("r1", give_up_after_s=300))
    assert 270 <= now[0] <= 300


def test_a_revoked_token_and_an_unknown_run_end_it_at_once(
    client: FlowerClient, server: ScriptedServer, run: ScriptedRun, sleeps: list[float]
) -> None:
    with pytest.raises(Refused):
        next(client.watch("r9"))
    server.token = "secret"
    with pytest.raises(NotAllowed):
        next(client.watch("r1"))
    assert sleeps == []


def test_a_server_that_answers_nothing_but_nonsense_is_a_bad_reply(
    client: FlowerClient, server: ScriptedServer, run: ScriptedRun
) -> None:
    server.faults.extend([html(200)] * 4)
    with pytest.raises(BadReply):
        client.run("r1")


def test_without_following_it_stops_at_the_newest_event(client: FlowerClient, run: ScriptedRun) -> None:
    run.say(*TEXTS)
    watch = client.watch("r1", follow=False, limit=3, wait_s=0)
    assert seqs(watch) == list(range(1, 9))
    assert not watch.final


def test_stop_ends_it_from_another_thread(client: FlowerClient, server: ScriptedServer, run: ScriptedRun) -> None:
    watch = client.watch("r1")
    done = threading.Thread(target=lambda: list(watch))
    done.start()
    eventually(lambda: len(server.asked_for("events")) == 2)
    watch.stop()
    run.say("something, so that the request ends")
    done.join(5)
    assert not done.is_alive()
