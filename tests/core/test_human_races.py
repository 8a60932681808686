"""Whatever happens at the same time as an answer: nothing a person has said is lost, and everybody is told the same."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
import threading
import time
from collections import Counter
from functools import partial

import pytest

from flower_core.events import Event
from flower_core.human import Ask, HumanChannel
from flower_core.human_questions import Questions, Waiting
from tests.core.people import Agents, Screen, together, waiting
from tests.support import eventually, in_thread


class Desk:
    """An ``on_settle`` that takes its time: it says when it was called and goes on, or fails, when it is told to."""

    def __init__(self, error: Exception | None = None) -> None:
        self.called = threading.Event()
        self.go_on = threading.Event()
        self.error = error
        self.seen: list[Ask] = []

    def __call__(self, ask: Ask) -> None:
        self.seen.append(ask)
        self.called.set()
        assert self.go_on.wait(5)
        if self.error is not None:
            raise self.error


def test_of_two_answers_at_once_exactly_one_wins_and_is_what_the_agent_hears() -> None:
    channel = HumanChannel()
    with Agents() as agents:
        for _ in range(100):
            call = agents.start(channel.ask("?"))
            [ask] = waiting(channel)
            answers = [partial(channel.answer, ask.id, text) for text in ("a", "b")]
            won = together(*answers, partial(channel.decline, ask.id, "c"))
            assert sum(won) == 1
            assert call.result(5).answer == "abc"[won.index(True)]


def test_an_answer_at_the_moment_of_the_timeout_has_one_outcome() -> None:
    screen = Screen()
    channel = HumanChannel(timeout_s=0.005, on_event=screen)
    outcomes: Counter[str] = Counter()
    with Agents() as agents:
        for number in range(1, 101):
            call = agents.start(channel.ask("?"))
            passed = agents.after(0.002 + 0.0001 * (number % 60))
            passed.wait(5)
            taken = channel.answer(f"q{number}", "yes")
            settled = call.result(5)
            assert (settled.state, settled.answer) == (("answered", "yes") if taken else ("timeout", ""))
            eventually(lambda wanted=f"q{number}": len(screen.states(wanted)) == 2)  # type: ignore[misc]
            assert screen.states(f"q{number}") == ["asked", settled.state]
            outcomes[settled.state] += 1
    assert set(outcomes) == {"answered", "timeout"}
    assert channel.mail == []


def test_an_answer_being_kept_when_time_runs_out_still_counts() -> None:
    desk = Desk()
    channel = HumanChannel(timeout_s=0.02, on_settle=desk)
    with Agents() as agents:
        call = agents.start(channel.ask("?"))
        waiting(channel)
        answering = in_thread(partial(channel.answer, "q1", "yes", by="ann"))
        assert desk.called.wait(5)
        assert agents.after(0.05).wait(5)
        assert not call.done()
        assert not channel.answer("q1", "no")
        desk.go_on.set()
        assert answering.result(5) is True
        assert (call.result(5).state, call.result(5).answer) == ("answered", "yes")
    assert [(ask.state, ask.answer, ask.answered_by) for ask in desk.seen] == [("answered", "yes", "ann")]


def test_an_answer_that_could_not_be_kept_after_time_ran_out_is_a_timeout() -> None:
    desk, screen = Desk(OSError("disk full")), Screen()
    channel = HumanChannel(timeout_s=0.02, on_settle=desk, on_event=screen)
    with Agents() as agents:
        call = agents.start(channel.ask("?"))
        waiting(channel)
        answering = in_thread(partial(channel.answer, "q1", "yes"))
        assert desk.called.wait(5)
        assert agents.after(0.05).wait(5)
        desk.go_on.set()
        with pytest.raises(OSError, match="disk full"):
            answering.result(5)
        assert (call.result(5).state, call.result(5).answer) == ("timeout", "")
    assert screen.states("q1") == ["asked", "timeout"]


def test_an_answer_that_could_not_be_kept_leaves_the_question_waiting() -> None:
    desk, screen = Desk(OSError("disk full")), Screen()
    desk.go_on.set()
    channel = HumanChannel(on_settle=desk, on_event=screen)
    with Agents() as agents:
        call = agents.start(channel.ask("?"))
        waiting(channel)
        with pytest.raises(OSError, match="disk full"):
            channel.answer("q1", "yes")
        assert [ask.state for ask in channel.pending()] == ["asked"]
        desk.error = None
        assert channel.answer("q1", "yes again")
        assert call.result(5).answer == "yes again"
    assert screen.states("q1") == ["asked", "answered"]


def test_an_answer_being_kept_when_its_call_is_cut_off_reaches_the_agent_by_mail() -> None:
    desk, screen = Desk(), Screen()
    channel = HumanChannel(on_settle=desk, on_event=screen, lang="en")
    with Agents() as agents:
        call = agents.start(channel.ask("Which {colour}?"))
        waiting(channel)
        answering = in_thread(partial(channel.answer, "q1", "blue {x}"))
        assert desk.called.wait(5)
        call.cancel()
        eventually(lambda: channel.pending() == [])
        assert channel.mail == []
        desk.go_on.set()
        assert answering.result(5) is True
    assert channel.asks[0].state == "answered"
    assert screen.states("q1") == ["asked", "answered"]
    [mail] = channel.pending_mail()
    assert "Which {colour}?" in mail.text
    assert "blue {x}" in mail.text
    assert screen.states("m1") == ["queued"]


def test_an_answer_that_could_not_be_kept_after_its_call_was_cut_off_is_declined() -> None:
    desk, screen = Desk(OSError("disk full")), Screen()
    channel = HumanChannel(on_settle=desk, on_event=screen)
    with Agents() as agents:
        call = agents.start(channel.ask("?"))
        waiting(channel)
        answering = in_thread(partial(channel.answer, "q1", "yes"))
        assert desk.called.wait(5)
        call.cancel()
        eventually(lambda: channel.pending() == [])
        desk.go_on.set()
        with pytest.raises(OSError, match="disk full"):
            answering.result(5)
    assert (channel.asks[0].state, channel.asks[0].answer) == ("declined", "")
    assert screen.states("q1") == ["asked", "declined"]
    assert channel.mail == []


@pytest.mark.parametrize("cancel_first", [False, True])
def test_an_answer_and_a_cancellation_before_the_call_can_wake_are_both_honoured(cancel_first: bool) -> None:
    channel = HumanChannel()
    with Agents() as agents:
        task = agents.do(lambda: asyncio.ensure_future(channel.ask("?")))
        waiting(channel)

        def both() -> bool:
            if cancel_first:
                task.cancel()
            taken = channel.answer("q1", "kept")
            task.cancel()
            return taken

        assert agents.do(both) is True
        eventually(task.cancelled)
    assert channel.asks[0].state == "answered"
    assert ["kept" in mail.text for mail in channel.mail] == [True]


def test_the_reason_of_a_declined_question_is_not_lost_either() -> None:
    channel = HumanChannel(lang="en")
    with Agents() as agents:
        task = agents.do(lambda: asyncio.ensure_future(channel.ask("?")))
        waiting(channel)
        agents.do(lambda: (channel.decline("q1", "use the old one"), task.cancel()))
        eventually(task.cancelled)
    assert ["use the old one" in mail.text for mail in channel.mail] == [True]


def test_a_question_whose_call_is_cut_off_is_declined_at_once() -> None:
    screen = Screen()
    channel = HumanChannel(on_event=screen)
    with Agents() as agents:
        call = agents.start(channel.ask("?"))
        waiting(channel)
        call.cancel()
        eventually(lambda: screen.states("q1") == ["asked", "declined"])
        assert channel.pending() == []
        assert not channel.answer("q1", "late")
    assert channel.mail == []


def test_an_answer_after_the_loop_was_closed_under_the_call_goes_into_the_inbox() -> None:
    channel = HumanChannel()
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda _loop, _context: None)  # "task was destroyed but it is pending" is the point
    task = loop.create_task(channel.ask("?"))
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    assert channel.answer("q1", "kept") is True
    assert channel.asks[0].state == "answered"
    del task
    gc.collect()
    assert ["kept" in mail.text for mail in channel.mail] == [True]


def test_an_answer_while_the_loop_stands_still_is_there_when_it_goes_on() -> None:
    channel = HumanChannel()
    loop = asyncio.new_event_loop()
    with contextlib.closing(loop):
        task = loop.create_task(channel.ask("?"))
        loop.run_until_complete(asyncio.sleep(0))
        assert channel.answer("q1", "early") is True
        assert not task.done()
        assert loop.run_until_complete(task).answer == "early"
    assert channel.mail == []


def test_questions_of_several_loops_each_get_their_own_answer() -> None:
    channel = HumanChannel()
    with Agents() as one, Agents() as two, Agents() as three:
        calls = {str(n): (one, two, three)[n % 3].start(channel.ask(str(n))) for n in range(30)}
        asks = waiting(channel, 30)
        assert all(together(*(partial(channel.answer, ask.id, f"to {ask.question}") for ask in asks)))
        assert all(call.result(5).answer == f"to {question}" for question, call in calls.items())
    assert len({ask.id for ask in channel.asks}) == 30


def test_a_quota_holds_against_questions_at_once() -> None:
    channel = HumanChannel(max_asks=5)
    with Agents() as one, Agents() as two:
        calls = [agents.start(channel.ask("?")) for agents in (one, two) for _ in range(10)]
        eventually(lambda: sum(call.done() for call in calls) == 15)
        assert len(waiting(channel, 5)) == 5
        assert {call.result(0).state for call in calls if call.done()} == {"over_budget"}
        channel.close()


def test_the_outcome_is_never_shown_before_the_question() -> None:
    shown: list[str] = []
    entered, leave = threading.Event(), threading.Event()

    def slow(event: Event) -> None:
        if event.payload["state"] == "asked":
            entered.set()
            assert leave.wait(5)
        shown.append(event.payload["state"])

    channel = HumanChannel(on_event=slow)
    with Agents() as agents:
        call = agents.start(channel.ask("?"))
        assert entered.wait(5)
        answering = in_thread(partial(channel.answer, "q1", "quick"))
        eventually(lambda: channel.asks[0].state == "answered")
        with pytest.raises(TimeoutError):
            answering.result(0.2)
        assert shown == []
        leave.set()
        assert answering.result(5) is True
        assert shown == ["asked", "answered"]  # so it has been handed to the sink when answer() returns
        assert call.result(5).answer == "quick"


def test_a_sink_may_answer_from_inside_the_question_event() -> None:
    shown: list[str] = []
    channel = HumanChannel()

    def eager(event: Event) -> None:
        shown.append(event.payload["state"])
        if event.payload["state"] == "asked":
            assert channel.answer(event.payload["id"], "at once")

    channel.on_event = eager
    begun = time.monotonic()
    assert asyncio.run(channel.ask("?")).answer == "at once"
    assert time.monotonic() - begun < 1.5  # it does not wait for itself
    assert shown == ["asked", "answered"]


def test_a_sink_that_waits_for_the_answering_thread_does_not_hang_the_run() -> None:
    channel = HumanChannel()

    def stubborn(event: Event) -> None:
        if event.payload["state"] == "asked":
            in_thread(partial(channel.answer, "q1", "yes")).result(10)

    channel.on_event = stubborn
    assert asyncio.run(channel.ask("?")).answer == "yes"
    assert channel.ui_errors == []


def test_on_settle_may_use_the_channel() -> None:
    seen: list[tuple[list[str], str]] = []
    channel = HumanChannel()
    channel.on_settle = lambda ask: seen.append(([a.id for a in channel.pending()], channel.send("by the way").id))
    with Agents() as agents:
        call = agents.start(channel.ask("?"))
        waiting(channel)
        assert channel.answer("q1", "yes")
        assert call.result(5).answer == "yes"
    assert seen == [(["q1"], "m1")]


def test_on_settle_hears_of_people_only() -> None:
    seen: list[str] = []
    channel = HumanChannel(on_settle=lambda ask: seen.append(ask.state), timeout_s=0.01, max_asks=3)
    with Agents() as agents:
        assert agents.start(channel.ask("timeout")).result(5).state == "timeout"
        channel.timeout_s = None
        agents.start(channel.ask("closed"))
        waiting(channel)
        channel.close()
        agents.start(channel.ask("declined"))
        waiting(channel)
        channel.decline("q3", "no")
        assert agents.start(channel.ask("too many")).result(5).state == "over_budget"
    assert seen == ["declined"]


def test_a_claim_given_back_after_the_time_was_up_cannot_be_taken_by_another_answer() -> None:
    questions = Questions()
    loop = asyncio.new_event_loop()
    with contextlib.closing(loop):
        waiting_call = questions.admit(Ask("", "?"), None, loop)
        assert isinstance(waiting_call, Waiting)
        assert questions.claim("q1") is waiting_call
        assert questions.claim_to_end(waiting_call, "timeout") == "claimed"
        assert questions.give_back(waiting_call) == "timeout"
        assert questions.claim("q1") is None


def test_a_question_settled_before_it_is_announced_is_still_announced_as_one_that_waits() -> None:
    questions = Questions()
    with contextlib.closing(asyncio.new_event_loop()) as loop:
        waiting_call = questions.admit(Ask("", "?"), None, loop)
        assert isinstance(waiting_call, Waiting)
        assert questions.claim("q1") is waiting_call
        assert questions.settle(waiting_call, waiting_call.ask.settled("answered", "yes"))
        assert (waiting_call.asked.state, waiting_call.ask.state) == ("asked", "answered")


def test_closing_while_an_answer_is_being_kept_lets_the_answer_win() -> None:
    desk = Desk()
    channel = HumanChannel(on_settle=desk)
    with Agents() as agents:
        call = agents.start(channel.ask("?"))
        waiting(channel)
        answering = in_thread(partial(channel.answer, "q1", "yes"))
        assert desk.called.wait(5)
        channel.close()
        desk.go_on.set()
        assert answering.result(5) is True
        assert call.result(5).answer == "yes"


def test_closing_while_an_answer_cannot_be_kept_leaves_nothing_waiting() -> None:
    desk = Desk(OSError("disk full"))
    channel = HumanChannel(on_settle=desk)
    with Agents() as agents:
        call = agents.start(channel.ask("?"))
        waiting(channel)
        answering = in_thread(partial(channel.answer, "q1", "yes"))
        assert desk.called.wait(5)
        channel.close()
        desk.go_on.set()
        with pytest.raises(OSError, match="disk full"):
            answering.result(5)
        assert call.result(5).state == "declined"


def test_under_everything_at_once_each_accepted_answer_arrives_exactly_once() -> None:
    screen = Screen()
    dice = random.Random(4)  # noqa: S311 - a reproducible test, not a secret
    channel = HumanChannel(on_event=screen, timeout_s=0.01)
    accepted: dict[str, str] = {}
    heard: dict[str, Ask] = {}

    async def agent(number: int, patience: float | None) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                ask = await channel.ask(f"question {number}")
                heard[ask.id] = ask

    def person(name: str, seed: int) -> None:
        luck = random.Random(seed)  # noqa: S311
        while not done.is_set():
            for ask in channel.pending():
                text = f"{name} says {ask.id}!"
                act = channel.decline if luck.random() < 0.2 else channel.answer
                if not ask.question.endswith("0") and luck.random() < 0.3 and act(ask.id, text):
                    accepted[ask.id] = text
            done.wait(0.001)

    done = threading.Event()
    people = [threading.Thread(target=person, args=(f"p{n}", n)) for n in range(3)]
    for thread in people:
        thread.start()
    with Agents() as one, Agents() as two:
        for batch in range(15):
            calls = [
                (one, two)[n % 2].start(agent(batch * 20 + n, dice.choice([None, 0.0, 0.002, 0.004, 0.008])))
                for n in range(20)
            ]
            for call in calls:
                call.result(10)
    done.set()
    for thread in people:
        thread.join(5)

    assert len(channel.asks) == 300
    mails = [mail.text for mail in channel.mail]
    for ask in channel.asks:
        told = int(ask.id in heard) + sum(accepted.get(ask.id, "\0") in text for text in mails)
        assert ask.answer == accepted.get(ask.id, ""), ask
        assert told == 1 if ask.id in accepted else told <= 1, ask
        assert heard.get(ask.id, ask) == ask
        assert screen.states(ask.id) == ["asked", ask.state]
    assert {ask.state for ask in channel.asks} == {"answered", "declined", "timeout"}
