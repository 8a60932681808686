"""What a question comes to, what is shown of it, and what is written down."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from flower_core.events import Event
from flower_core.human import Ask, HumanChannel
from flower_core.texts import LANGUAGES, texts_for
from tests.core.people import Agents, Screen, waiting


def ask_alone(channel: HumanChannel, question: str, options: list[str] | None = None) -> Ask:
    """Ask where nobody will answer."""
    return asyncio.run(channel.ask(question, options))


def test_an_answer_reaches_the_call_that_waits() -> None:
    screen = Screen()
    channel = HumanChannel(on_event=screen, lang="en")
    with Agents() as agents:
        call = agents.start(channel.ask("Which colour?", ["red", "blue"]))
        [ask] = waiting(channel)
        assert (ask.id, ask.state, ask.options) == ("q1", "asked", ["red", "blue"])
        assert channel.answer("q1", "blue", by="ann")
        settled = call.result(5)
    assert (settled.state, settled.answer, settled.answered_by) == ("answered", "blue", "ann")
    assert channel.reply(settled) == "blue"
    assert channel.pending() == []
    assert channel.asks == [settled]
    assert screen.states("q1") == ["asked", "answered"]


def test_the_event_of_a_question_carries_what_the_contract_names() -> None:
    screen = Screen()
    channel = HumanChannel(on_event=screen, max_asks=3, timeout_s=60, lang="en")
    with Agents() as agents:
        call = agents.start(channel.ask("Why?", ["a"]))
        waiting(channel)
        channel.answer("q1", "so", by="ann")
        settled = call.result(5)
    asked, answered = screen.events
    assert (asked.kind, asked.text, answered.text) == ("ask", "Why?", "Why?")
    assert isinstance(asked.raw, Ask)
    assert asked.payload == {
        "id": "q1",
        "options": ["a"],
        "state": "asked",
        "answer": "",
        "remaining": 2,
        "asked_at": settled.asked_at,
        "timeout_s": 60,
        "expires_at": settled.asked_at + 60,
    }
    assert answered.payload == {**asked.payload, "state": "answered", "answer": "so", "answered_by": "ann"}


def test_without_a_limit_the_number_left_is_minus_one() -> None:
    assert ask_alone(HumanChannel(timeout_s=0), "?").event(-1).payload["remaining"] == -1
    screen = Screen()
    ask_alone(HumanChannel(on_event=screen, timeout_s=0), "?")
    assert screen.events[0].payload["remaining"] == -1


def test_a_declined_question_says_decide_yourself_and_passes_the_reason_on() -> None:
    channel = HumanChannel(lang="en")
    with Agents() as agents:
        call = agents.start(channel.ask("Tabs?"))
        waiting(channel)
        assert channel.decline("q1", "no time {now}")
        settled = call.result(5)
    assert (settled.state, settled.answer) == ("declined", "no time {now}")
    reply = channel.reply(settled)
    assert reply.startswith(texts_for("en")("human.declined"))
    assert "no time {now}" in reply


def test_a_question_nobody_answers_in_time_settles_as_timeout() -> None:
    screen = Screen()
    channel = HumanChannel(on_event=screen, timeout_s=0.02)
    settled = ask_alone(channel, "Anybody?")
    assert (settled.state, settled.answer) == ("timeout", "")
    assert screen.states("q1") == ["asked", "timeout"]
    assert not channel.answer("q1", "too late")
    assert channel.asks == [settled]


@pytest.mark.parametrize("timeout", [0, -1, 0.0])
def test_when_nobody_is_there_a_question_never_waits_and_is_never_shown_as_asked(timeout: float) -> None:
    shown: list[tuple[str, int]] = []
    channel = HumanChannel(timeout_s=timeout)
    channel.on_event = lambda event: shown.append((event.payload["state"], len(channel.pending())))
    assert ask_alone(channel, "Anybody?").state == "timeout"
    assert shown == [("timeout", 0)]


def test_a_quota_is_used_up_by_questions_that_were_put() -> None:
    screen = Screen()
    channel = HumanChannel(on_event=screen, max_asks=2, timeout_s=0.001)
    states = [ask_alone(channel, question).state for question in ("one", " ", "two", "three")]
    assert states == ["timeout", "invalid", "timeout", "over_budget"]
    assert screen.states("q4") == ["over_budget"]
    assert screen.events[0].payload["remaining"] == 1
    assert screen.events[-1].payload["remaining"] == 0


def test_a_quota_of_none_at_all_refuses_the_first_question() -> None:
    assert ask_alone(HumanChannel(max_asks=0), "May I?").state == "over_budget"


@pytest.mark.parametrize(
    ("question", "options"),
    [("", None), (" \n", None), (None, None), (7, None), ("Which?", "red"), ("Which?", [1]), ("Which?", ["red", " "])],
)
def test_what_is_no_question_is_invalid_and_nobody_is_asked(question: object, options: object) -> None:
    screen = Screen()
    channel = HumanChannel(on_event=screen, lang="en")
    settled = asyncio.run(channel.ask(question, options))  # type: ignore[arg-type]
    assert settled.state == "invalid"
    assert screen.states("q1") == ["invalid"]
    assert '"question"' in channel.reply(settled)


def test_ids_go_on_from_where_an_earlier_process_stopped() -> None:
    channel = HumanChannel(first_id=8, first_mail_id=4, timeout_s=0)
    assert [ask_alone(channel, "a").id, ask_alone(channel, "").id, ask_alone(channel, "b").id] == ["q8", "q9", "q10"]
    assert channel.send("hello").id == "m4"


def test_a_channel_that_goes_on_repeats_no_number_and_forgets_no_quota() -> None:
    channel = HumanChannel(lang="en", timeout_s=0, max_asks=3)
    channel.go_on(ask=5, mail=4, used=2)
    channel.go_on(ask=1, mail=1)
    asked = [asyncio.run(channel.ask(f"number {n}")) for n in range(2)]
    assert [(ask.id, ask.state) for ask in asked] == [("q5", "timeout"), ("q6", "over_budget")]
    assert channel.send("hello").id == "m4"


def test_a_question_left_open_keeps_its_id_when_the_same_words_are_asked_again() -> None:
    channel = HumanChannel(lang="en", timeout_s=0)
    channel.go_on(ask=8, mail=1)
    channel.expect("q3", "Which  colour?")
    asked = [asyncio.run(channel.ask(words)) for words in ("Which size?", "Which colour?\n", "Which colour?")]
    assert [ask.id for ask in asked] == ["q8", "q3", "q9"]


def test_what_is_expected_is_either_asked_again_or_withdrawn_once() -> None:
    channel = HumanChannel(lang="en", timeout_s=0)
    channel.expect("q1", "Which colour?")
    channel.expect("q2", "Which size?")
    assert asyncio.run(channel.ask("Which colour?")).id == "q1"
    assert [channel.withdraw(ask_id) for ask_id in ("q1", "q2", "q2", "q9")] == [False, True, False, False]


def test_waited_s_stands_still_once_the_question_is_settled() -> None:
    ask = Ask("q1", "?", asked_at=1000.0)
    assert ask.waited_s > 1e6
    assert Ask("q1", "?", asked_at=1000.0, state="answered", settled_at=1002.34).waited_s == 2.3
    assert Ask("q1", "?", asked_at=1000.0, state="answered", settled_at=990.0).waited_s == 0.0


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_three_fallbacks_tell_the_agent_the_same(lang: str) -> None:
    texts = texts_for(lang)
    tails = {texts(f"human.{key}").split("\n", 1)[1] for key in ("over_budget", "timeout", "declined")}
    assert len(tails) == 1
    assert texts("documents.brief.unknowns") in tails.pop()


def test_the_fallbacks_can_be_replaced() -> None:
    channel = HumanChannel(over_budget_text="OB", timeout_text="TO", declined_text="DE")
    replies = [channel.reply(Ask("q1", "?").settled(state)) for state in ("over_budget", "timeout", "declined")]
    assert replies == ["OB", "TO", "DE"]


def test_an_answer_without_words_is_not_handed_on_as_nothing() -> None:
    channel = HumanChannel(lang="en")
    assert channel.reply(Ask("q1", "?").settled("answered", "  ")) == texts_for("en")("human.empty_answer")


def test_an_unknown_or_settled_id_is_answered_with_false() -> None:
    settled: list[Ask] = []
    channel = HumanChannel(timeout_s=0, on_settle=settled.append)
    ask_alone(channel, "?")
    assert [channel.answer("q1", "x"), channel.answer("q9", "x"), channel.decline("q1")] == [False, False, False]
    assert settled == []


@pytest.mark.parametrize(
    ("wrong", "said"), [({"max_asks": -1}, "max_asks"), ({"timeout_s": float("nan")}, "timeout_s")]
)
def test_wrong_limits_are_refused_by_name(wrong: dict[str, float], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        HumanChannel(**wrong)  # type: ignore[arg-type]


def test_a_broken_screen_harms_nothing_and_is_noted_once() -> None:
    def broken(event: Event) -> None:
        raise RuntimeError("no screen")

    channel = HumanChannel(on_event=broken, timeout_s=0.001)
    assert ask_alone(channel, "a").state == "timeout"
    assert channel.send("hello").state == "queued"
    assert channel.ui_errors == ["RuntimeError: no screen"]


def test_every_question_and_outcome_is_logged_in_the_order_it_happened(tmp_path: Path) -> None:
    log = tmp_path / "notes" / "questions.md"
    channel = HumanChannel(log_path=log, lang="en")
    with Agents() as agents:
        call = agents.start(channel.ask("Which?\n## Goal", ["red", "blue"]))
        waiting(channel)
        assert "> ## Goal" in log.read_text()
        assert "answered" not in log.read_text()
        channel.answer("q1", "blue\nof course")
        call.result(5)
    ask_alone(channel, "")
    channel.send("faster")
    lines = log.read_text().splitlines()
    wanted = ["> Which?", "1. red", "2. blue", "> blue", "> of course", "> faster"]
    assert [line for line in lines if line in wanted] == wanted
    assert any(line.startswith("**q1 answered**") for line in lines)
    assert any(line.startswith("**q2 not put, invalid**") for line in lines)


def test_a_log_that_cannot_be_written_is_reported_and_nothing_stops(tmp_path: Path) -> None:
    channel = HumanChannel(log_path=tmp_path, timeout_s=0)
    assert ask_alone(channel, "a").state == "timeout"
    assert len(channel.ui_errors) == 1
    assert "IsADirectoryError" in channel.ui_errors[0]


def test_the_transcript_tells_everything_in_order() -> None:
    channel = HumanChannel(timeout_s=0, lang="en")
    ask_alone(channel, "first?")
    channel.send("second")
    ask_alone(channel, "third?")
    text = channel.transcript()
    assert text.index("> first?") < text.index("nobody answered") < text.index("> second") < text.index("> third?")


def test_payloads_are_json_whatever_was_typed() -> None:
    screen = Screen()
    channel = HumanChannel(on_event=screen)
    with Agents() as agents:
        call = agents.start(channel.ask("lone \ud800 surrogate", ["\ud801"]))
        waiting(channel)
        channel.answer("q1", "nul \0 and \udfff")
        call.result(5)
    for event in screen.events:
        json.dumps([event.text, event.payload], allow_nan=False).encode()
        event.text.encode()


def test_agents_are_told_nothing_the_api_would_refuse() -> None:
    """A lone half of a surrogate pair in a session would be in every request from then on."""
    channel = HumanChannel(lang="en")
    with Agents() as agents:
        calls = [agents.start(channel.ask(question)) for question in ("one \ud83d", "two")]
        waiting(channel, 2)
        first, second = channel.pending()
        assert channel.answer(first.id, "nul \0 and \udfff")
        assert channel.decline(second.id, "not \ud83d now")
        answered, declined = (call.result(5) for call in calls)
    assert (answered.question, channel.reply(answered)) == ("one ?", "nul \0 and ?")
    assert "not ? now" in channel.reply(declined)
    assert channel.redeliver(first.id)
    channel.send("said \ud83d")
    told = [mail.text for mail in channel.take_mail()]
    assert "one ?" in told[0]
    assert told[1] == "said ?"


def test_close_lets_every_waiting_call_go_as_declined() -> None:
    screen = Screen()
    channel = HumanChannel(on_event=screen)
    with Agents() as agents:
        calls = [agents.start(channel.ask(question)) for question in ("a", "b")]
        waiting(channel, 2)
        channel.close()
        assert [call.result(5).state for call in calls] == ["declined", "declined"]
        assert screen.states("q1") == screen.states("q2") == ["asked", "declined"]
        assert channel.mail == []
        again = agents.start(channel.ask("c"))
        waiting(channel)
        assert channel.answer("q3", "still here")
        assert again.result(5).answer == "still here"
