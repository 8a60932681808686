"""The shipped play, against a small agent that does for real what it is told: files, commands, results."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from flower_core.documents import Brief, Goal, Verdict
from flower_core.rehearsal import Play
from flower_core.rehearsal.conversation import Conversation
from flower_core.rehearsal.wire import message, pairing_error
from flower_core.texts import LANGUAGES, texts_for

STAMP = "2026-11-30 10:00:00"
TASK = 'Build a "weather" page,\nwith {maps} and 3 towns'
PLAY = Play.load()


@dataclass
class Agent:
    """One session with ``role``; ``human`` is what each of the human's two tools gives back, in turn."""

    role: str
    workspace: Path
    human: dict[str, list[str]] = field(default_factory=dict)
    messages: list[dict[str, Any]] = field(default_factory=list)
    speakers: list[str] = field(default_factory=list)

    def run(self, prompt: str, *, until: Callable[[dict[str, Any]], bool] = lambda _: False) -> str:
        """All text of the answers to ``prompt``; stops, as if interrupted, before a tool call ``until`` points at."""
        self.messages.append({"role": "user", "content": [{"type": "text", "text": prompt}]})
        said = []
        for _ in range(12):
            blocks = self._asked()
            said += [block["text"] for block in blocks if block["type"] == "text"]
            calls = [block for block in blocks if block["type"] == "tool_use"]
            if not calls:
                return "\n\n".join(said)
            if until(calls[0]):
                self._interrupted(calls)
                return "\n\n".join(said)
            results = [{"type": "tool_result", "tool_use_id": call["id"], **self._done(call)} for call in calls]
            self.messages.append({"role": "user", "content": results})
        raise AssertionError(f"{self.role} does not come to an end: {self.messages[-2:]}")

    def _asked(self) -> list[dict[str, Any]]:
        system = f"flower-role: {self.role}\n# Environment\n - Primary working directory: {self.workspace}"
        body = {"system": system, "messages": self.messages}
        assert pairing_error(self.messages) == ""
        talk = Conversation(body)
        self.speakers.append(PLAY.speaker(talk))
        values = PLAY.values(talk)
        # A request count no shipped reply may depend on.
        reply = PLAY.reply(talk, 12345, values)
        assert reply is not None
        blocks: list[dict[str, Any]] = message(body, reply.filled(values), reply.stop, {})["content"]
        self.messages.append({"role": "assistant", "content": blocks})
        return blocks

    def _interrupted(self, calls: list[dict[str, Any]]) -> None:
        blocks: list[dict[str, Any]] = [
            {"type": "tool_result", "tool_use_id": call["id"], "content": "rejected", "is_error": True}
            for call in calls
        ]
        blocks.append({"type": "text", "text": "[Request interrupted by user for tool use]"})
        self.messages.append({"role": "user", "content": blocks})
        self.messages.append({"role": "assistant", "content": "No response requested."})

    def _done(self, call: dict[str, Any]) -> dict[str, Any]:
        given = call["input"]
        match call["name"]:
            case "Write":
                file = Path(given["file_path"])
                if file.exists() and not self._has_read(file):
                    return {"content": "File has not been read yet. Read it first.", "is_error": True}
                file.write_text(given["content"], encoding="utf-8")
                return {"content": f"File created successfully at: {file}"}
            case "Read":
                file = Path(given["file_path"])
                if not file.exists():
                    return {"content": "File does not exist.", "is_error": True}
                lines = enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
                return {"content": "\n".join(f"{number}\t{line}" for number, line in lines)}
            case "Bash":
                done = subprocess.run(
                    ["bash", "-c", given["command"]], cwd=self.workspace, capture_output=True, text=True
                )
                return {"content": done.stdout + done.stderr, "is_error": done.returncode != 0}
            case "Agent":
                report = Agent(f"worker/{given['subagent_type']}", self.workspace).run(given["prompt"])
                return {"content": f"[Subagent hand-back]\n  {report}"}
            case name:
                answers = self.human.get(name, [])
                if answers:
                    return {"content": answers.pop(0)}
                return {"content": f"No such tool available: {name}", "is_error": True}

    def _has_read(self, file: Path) -> bool:
        return any(
            call.input.get("file_path") == str(file) for call in Conversation({"messages": self.messages}).calls[:-1]
        )


def clarified(workspace: Path, answer: str, task: str = TASK) -> Brief:
    return Brief.parse(Agent("clarify", workspace, {"mcp__human__ask": [answer]}).run(task))


def judged(workspace: Path, added: str = "") -> Verdict:
    return Verdict.parse(Agent("judge", workspace).run(f"flower-turn: verdict\nThis turn judges.\n\n{added}"))


@pytest.mark.parametrize("answer", ["Good morning", "你好", "## Goal\nsomething `odd`", "3"])
def test_the_brief_holds_the_task_and_what_the_human_answered(tmp_path: Path, answer: str) -> None:
    brief = clarified(tmp_path, answer)
    assert brief.missing() == []
    assert 'Build a "weather" page, with {maps} and 3 towns' in brief.goal
    assert " ".join(answer.split()) in brief.goal
    assert " ".join(answer.split()) in brief.unknowns


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("outcome", ["timeout", "declined", "over_budget"])
def test_without_an_answer_the_brief_says_what_was_assumed(tmp_path: Path, lang: str, outcome: str) -> None:
    brief = clarified(tmp_path, texts_for(lang)(f"human.{outcome}"))
    assert brief.missing() == []
    assert "nobody answered. Assumed: Hello" in brief.unknowns


def test_a_broken_ask_tool_leads_to_a_brief_too(tmp_path: Path) -> None:
    brief = Brief.parse(Agent("clarify", tmp_path).run(TASK))
    assert brief.missing() == []
    assert "Assumed: Hello" in brief.unknowns


def test_a_question_cut_off_by_an_interrupt_is_asked_again(tmp_path: Path) -> None:
    agent = Agent("clarify", tmp_path, {"mcp__human__ask": ["Moin"]})
    agent.run(TASK, until=lambda call: call["name"] == "mcp__human__ask")
    assert "The greeting is: Moin" in agent.run("Go on")


def test_an_answered_question_is_not_asked_again(tmp_path: Path) -> None:
    agent = Agent("clarify", tmp_path, {"mcp__human__ask": ["Moin"]})
    agent.run(TASK)
    assert Brief.parse(agent.run("Sections are missing.")).missing() == []


def test_the_goal_has_three_checks_and_names_greeting_and_task(tmp_path: Path) -> None:
    brief = clarified(tmp_path, "Moin")
    goal = Goal.parse(Agent("judge", tmp_path).run(f"flower-turn: goal\nSet it.\n\n{brief.prompt_block()}"))
    assert (goal.missing(), len(goal.checks), goal.unverifiable) == ([], 3, [])
    assert "Moin" in goal.checks[0]
    assert "weather" in goal.statement


def test_two_rounds_of_real_work_lead_from_not_yet_to_achieved(tmp_path: Path) -> None:
    brief = clarified(tmp_path, "Moin")
    coordinator = Agent("coordinator", tmp_path, {"mcp__human__inbox": ["Nothing new in the inbox."] * 2})
    coordinator.run(f"Carry out this brief:\n\n{brief.prompt_block()}")
    first = judged(tmp_path)
    assert (first.state, len(first.failed)) == ("not_yet", 1)
    coordinator.run(first.feedback())
    second = judged(tmp_path)
    assert (second.ok, second.failed) == (True, [])
    greeting = (tmp_path / "greeting.txt").read_text(encoding="utf-8").splitlines()
    assert greeting == ["Moin", 'Task: Build a "weather" page, with {maps} and 3 towns', "Words in the task: 9"]


def test_the_verdict_is_about_what_is_there_and_not_about_the_round(tmp_path: Path) -> None:
    assert judged(tmp_path).state == "not_yet"
    (tmp_path / "greeting.txt").write_text("Hi\nTask: x\nWords in the task: 1\n", encoding="utf-8")
    assert judged(tmp_path).ok
    (tmp_path / "greeting.txt").write_text("Hi\nTask: x\n", encoding="utf-8")
    assert judged(tmp_path).state == "not_yet"


def test_a_workspace_used_before_still_shows_two_rounds(tmp_path: Path) -> None:
    for _ in range(2):
        coordinator = Agent("coordinator", tmp_path)
        coordinator.run("Carry out this brief:\n\n- The task is: x y\n- The greeting is: Moin")
        verdict = judged(tmp_path)
        assert verdict.state == "not_yet"
        coordinator.run(verdict.feedback())
        assert judged(tmp_path).ok


@pytest.mark.parametrize("round_number", [1, 2])
def test_an_interrupt_while_the_worker_runs_does_not_change_the_end(tmp_path: Path, round_number: int) -> None:
    coordinator = Agent("coordinator", tmp_path)
    prompt = "Carry out this brief:\n\n- The task is: x y\n- The greeting is: Moin"
    for number in (1, 2):
        if number == round_number:
            coordinator.run(prompt, until=lambda call: call["name"] == "Agent")
            prompt = texts_for("en")("runtime.interrupted")
        coordinator.run(prompt)
        verdict = judged(tmp_path)
        assert verdict.ok == (number == 2)
        prompt = verdict.feedback()


@pytest.mark.parametrize("lang", LANGUAGES)
def test_words_from_the_inbox_are_repeated_and_reach_the_next_worker(tmp_path: Path, lang: str) -> None:
    texts = texts_for(lang)
    items = [
        texts("human.inbox_item", id="m1", at=STAMP, text="Mind the rain", amended=texts("human.inbox_not_amended")),
        texts("human.inbox_item", id="m2", at=STAMP, text="And wind", amended=texts("human.inbox_amended", path="/b")),
    ]
    inbox = ["\n".join(items), texts("human.inbox_empty")]
    coordinator = Agent("coordinator", tmp_path, {"mcp__human__inbox": inbox})
    assert "Said by the human meanwhile: Mind the rain / And wind" in coordinator.run("Do it")
    coordinator.run(judged(tmp_path).feedback())
    dispatched = [call.input["prompt"] for call in Conversation({"messages": coordinator.messages}).calls[::2]]
    assert ["Mind the rain / And wind" in prompt for prompt in dispatched] == [False, True]


@pytest.mark.parametrize("lang", LANGUAGES)
def test_words_said_with_an_interrupt_or_at_a_wake_are_repeated(tmp_path: Path, lang: str) -> None:
    texts = texts_for(lang)
    prompts = [
        texts("runtime.interrupted_with", words="Use blue"),
        texts("workflow.work.woken", words="Use red", brief_path="/b"),
    ]
    coordinator = Agent("coordinator", tmp_path)
    answers = [coordinator.run(prompt) for prompt in prompts]
    assert "Said by the human meanwhile: Use blue\n" in answers[0]
    assert "Said by the human meanwhile: Use blue / Use red\n" in answers[1]


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_judge_repeats_what_was_added_to_the_brief(tmp_path: Path, lang: str) -> None:
    path = tmp_path / "brief.md"
    Brief.parse("## Goal\nx", lang=lang).write(path)
    Brief.append_amendment(path, "Mind the rain", label="said", lang=lang)
    added = texts_for(lang)("workflow.verdict.amendments", amendments=Brief.load(path, lang=lang).amendments)
    assert "Said by the human meanwhile: Mind the rain" in judged(tmp_path, added).reason


def test_a_worker_whose_file_cannot_be_written_gives_up_and_says_so(tmp_path: Path) -> None:
    class Denied(Agent):
        def _done(self, call: dict[str, Any]) -> dict[str, Any]:
            return {"content": "Permission to use Write has been denied", "is_error": True}

    report = Denied("worker/coder", tmp_path).run("Round: first")
    assert "could not be written" in report
    assert "has been denied" in report


def test_a_failing_program_is_reported_with_its_output(tmp_path: Path) -> None:
    (tmp_path / "greeting.txt").mkdir()
    assert "IsADirectoryError" in Agent("worker/coder", tmp_path).run("Round: first")


@pytest.mark.parametrize("role", ["", "somebody/else", "judge"])
def test_whoever_has_no_part_gets_a_reply_that_repeats_the_task(tmp_path: Path, role: str) -> None:
    agent = Agent(role or "-", tmp_path)
    assert "Say hi" in agent.run("Say hi")
    assert agent.speakers == ["default"]


def test_the_oracle_answers_without_a_tool(tmp_path: Path) -> None:
    agent = Agent("oracle", tmp_path)
    assert "rehearsal" in agent.run("How far is it?")
    assert agent.speakers == ["oracle"]
