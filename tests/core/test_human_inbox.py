"""What a person says unprompted, and answers that came too late for their call."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from flower_core.documents import Brief
from flower_core.events import Event
from flower_core.human import HumanChannel, Mail
from tests.core.people import Agents, Screen, together, waiting
from tests.support import eventually

BRIEF = Brief(goal="a tool", accept="it runs", bounds="no web", unknowns="none known", lang="en")


def cut_off(channel: HumanChannel, question: str, answer: str) -> None:
    """Ask, answer, and cut the call off before it hears of the answer."""
    with Agents() as agents:
        task = agents.do(lambda: asyncio.ensure_future(channel.ask(question)))
        [ask] = waiting(channel)
        assert agents.do(lambda: (channel.answer(ask.id, answer), task.cancel())) == (True, True)
        eventually(task.cancelled)


def test_mail_is_handed_over_once_in_order() -> None:
    screen = Screen()
    channel = HumanChannel(on_event=screen)
    channel.send("one")
    channel.send("two")
    assert [(mail.id, mail.state) for mail in channel.pending_mail()] == [("m1", "queued"), ("m2", "queued")]
    assert [mail.text for mail in channel.take_mail()] == ["one", "two"]
    assert channel.take_mail() == channel.pending_mail() == []
    assert [mail.state for mail in channel.mail] == ["delivered", "delivered"]
    assert screen.states("m1") == screen.states("m2") == ["queued", "delivered"]


def test_the_event_of_a_mail_is_told_from_a_question_by_its_kind() -> None:
    screen = Screen()
    sent = HumanChannel(on_event=screen).send("hello")
    [event] = screen.events
    assert (event.kind, event.text) == ("ask", "hello")
    assert event.payload == {"kind": "mail", "id": "m1", "state": "queued", "at": sent.at, "amended": ""}


def test_what_is_said_stands_in_the_brief_under_a_dated_heading_and_nothing_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "brief.md"
    BRIEF.write(path)
    channel = HumanChannel(amend_path=path, lang="en")
    assert [channel.send(text).amended for text in ("count bytes too", "## Goal\nfaster")] == [str(path)] * 2
    assert channel.amend("by Friday", label="Said at a wake") == str(path)
    brief = Brief.load(path, lang="en")
    assert (brief.goal, brief.bounds) == ("a tool", "no web")
    positions = [brief.amendments.index(text) for text in ("count bytes too", "faster", "Said at a wake", "by Friday")]
    assert positions == sorted(positions)


def test_a_brief_that_cannot_be_written_is_reported_and_the_mail_still_arrives(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    channel = HumanChannel(amend_path=blocked / "brief.md")
    assert channel.send("hello").amended == ""
    assert [mail.text for mail in channel.take_mail()] == ["hello"]
    assert len(channel.ui_errors) == 1


@pytest.mark.parametrize("text", ["", " \n"])
def test_saying_nothing_is_refused(text: str, tmp_path: Path) -> None:
    channel = HumanChannel(amend_path=tmp_path / "brief.md")
    with pytest.raises(ValueError, match="send some text"):
        channel.send(text)
    assert channel.mail == []
    assert not (tmp_path / "brief.md").exists()


def test_many_people_and_many_takers_lose_and_double_nothing(tmp_path: Path) -> None:
    path = tmp_path / "brief.md"
    screen = Screen()
    channel = HumanChannel(on_event=screen, amend_path=path)
    taken: list[Mail] = []
    done = threading.Event()

    def take() -> None:
        while not done.is_set():
            taken.extend(channel.take_mail())

    def say(name: str) -> list[str]:
        return [channel.send(f"{name}{n}.").text for n in range(25)]

    takers = [threading.Thread(target=take) for _ in range(2)]
    for thread in takers:
        thread.start()
    said = together(*(lambda name=name: say(name) for name in "abcd"))
    done.set()
    for thread in takers:
        thread.join(5)
    taken.extend(channel.take_mail())
    assert sorted(mail.text for mail in taken) == sorted(text for texts in said for text in texts)
    assert all(screen.states(mail.id) == ["queued", "delivered"] for mail in channel.mail)
    text = path.read_text()
    assert all(text.count(mail.text) == 1 for mail in taken)


def test_mail_cannot_be_taken_before_it_has_been_shown() -> None:
    shown: list[str] = []
    entered, leave = threading.Event(), threading.Event()

    def slow(event: Event) -> None:
        entered.set()
        assert leave.wait(5)
        shown.append(event.payload["state"])

    channel = HumanChannel(on_event=slow)
    person = threading.Thread(target=channel.send, args=("hello",))
    person.start()
    assert entered.wait(5)
    assert channel.take_mail() == []
    leave.set()
    person.join(5)
    assert len(channel.take_mail()) == 1
    assert shown == ["queued", "delivered"]


def test_the_same_words_asked_again_are_answered_with_the_late_answer_at_once() -> None:
    screen = Screen()
    channel = HumanChannel(on_event=screen, max_asks=1)
    cut_off(channel, "Which  colour?", "blue")
    again = asyncio.run(channel.ask("Which colour?"))
    assert (again.id, again.state, again.answer, again.replayed) == ("q2", "answered", "blue", True)
    assert screen.states("q2") == ["answered"]
    assert screen.events[-2].payload["replayed"] is True
    assert screen.states("m1") == ["queued", "delivered"]
    assert channel.pending_mail() == []
    assert asyncio.run(channel.ask("Which colour?")).state == "over_budget"


def test_once_the_mail_has_told_the_answer_asking_again_asks_again() -> None:
    channel = HumanChannel()
    cut_off(channel, "Which colour?", "blue")
    assert len(channel.take_mail()) == 1
    with Agents() as agents:
        agents.start(channel.ask("Which colour?"))
        assert [ask.id for ask in waiting(channel)] == ["q2"]


def test_a_remembered_answer_is_given_once() -> None:
    channel = HumanChannel(timeout_s=0)
    channel.remember("Which colour?", "blue")
    first, second = (asyncio.run(channel.ask("Which colour?")) for _ in range(2))
    assert (first.answer, first.replayed, second.state) == ("blue", True, "timeout")


def test_an_answer_known_not_to_have_arrived_can_be_put_into_the_inbox_once() -> None:
    channel = HumanChannel(lang="en")
    with Agents() as agents:
        call = agents.start(channel.ask("Which?"))
        waiting(channel)
        assert not channel.redeliver("q1")
        channel.answer("q1", "blue")
        call.result(5)
    assert channel.mail == []
    assert [channel.redeliver("q1"), channel.redeliver("q1"), channel.redeliver("q7")] == [True, True, False]
    assert ["blue" in mail.text for mail in channel.mail] == [True]
