from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from flower_core.agent import AgentSpec
from flower_core.documents import Brief
from flower_core.human import HumanChannel
from flower_core.workflow import BRIEF_KEY, MISSING_KEY, Step, Workflow, clarify_step
from flower_core.workflow.step import Context
from tests.core.scripted_runner import Call, Reply, ScriptedRunner

SPEC = AgentSpec(name="someone")
ANSWER = """
好的,问清楚了。
## 目标
做一个计数器
## 验收标准
运行后输出 3
## 边界
不做界面
## 未知与假设
假设只有一个用户
"""
WITHOUT_BOUNDS = ANSWER.replace("## 边界\n不做界面\n", "")
PASTED = "```python\nprint('a page of code nobody asked for')\n```\n"


class Case:
    """A clarifying step and a step behind it, on a scripted runner."""

    def __init__(self, tmp_path: Path, script: Mapping[str, str | Reply], **kwargs: Any) -> None:
        self.path = tmp_path / "notes" / "需求.md"
        self.channel = HumanChannel(timeout_s=0, amend_path=self.path)
        self.runner = ScriptedRunner(tmp_path, script)
        self.step = clarify_step(self.channel, brief_path=self.path, prompt="做一个计数器", **kwargs)
        after = Step("after", SPEC, lambda ctx: f"do:\n{ctx[self.step.name]}")
        self.flow = Workflow([self.step, after], channel=self.channel, continuous=False)

    def run(self) -> Context:
        return asyncio.run(self.flow.run(self.runner))


def test_a_complete_answer_is_frozen_and_handed_on(tmp_path: Path) -> None:
    case = Case(tmp_path, {"确认需求": ANSWER})
    ctx = case.run()
    assert case.runner.prompt_of("确认需求") == "做一个计数器"
    assert Brief.load(case.path).complete()
    assert ctx[BRIEF_KEY].goal == "做一个计数器"
    assert ctx["确认需求"] == ctx[BRIEF_KEY].prompt_block()
    assert "运行后输出 3" in case.runner.prompt_of("after")
    assert MISSING_KEY not in ctx


def test_only_the_sections_reach_the_next_step(tmp_path: Path) -> None:
    case = Case(tmp_path, {"确认需求": PASTED + ANSWER})
    case.run()
    assert "nobody asked for" not in case.runner.prompt_of("after")
    assert "问清楚了" not in case.runner.prompt_of("after")


def test_an_answer_with_a_section_missing_is_sent_back_by_name(tmp_path: Path) -> None:
    case = Case(tmp_path, {"确认需求": WITHOUT_BOUNDS, "确认需求#round2": ANSWER})
    ctx = case.run()
    again = case.runner.calls[1]
    assert (again.name, again.resume) == ("确认需求#round2", "s1")
    assert "边界" in again.prompt
    assert "验收标准" not in again.prompt
    assert ctx["after"] == "done"
    assert MISSING_KEY not in ctx


def test_the_missing_sections_stand_in_the_context_when_the_step_fails(tmp_path: Path) -> None:
    case = Case(tmp_path, {"确认需求": WITHOUT_BOUNDS}, retries=0)
    ctx = case.run()
    assert ctx[MISSING_KEY] == ["边界"]
    assert ctx["_failed_at"] == "确认需求"
    assert not case.path.exists()


def test_a_session_that_broke_off_is_told_to_carry_on_not_what_is_missing(tmp_path: Path) -> None:
    case = Case(tmp_path, {"确认需求": Reply("", ok=False), "确认需求#round2": ANSWER})
    ctx = case.run()
    assert "断了" in case.runner.prompt_of("确认需求#round2")
    assert ctx["after"] == "done"


def test_what_was_missing_before_is_not_held_against_a_session_that_broke_off_later(tmp_path: Path) -> None:
    script: dict[str, str | Reply] = {
        "确认需求": WITHOUT_BOUNDS,
        "确认需求#round2": Reply("", ok=False),
        "确认需求#round3": ANSWER,
    }
    case = Case(tmp_path, script)
    case.run()
    assert "断了" in case.runner.prompt_of("确认需求#round3")


def test_a_complete_brief_on_disk_skips_the_step_and_still_fills_the_context(tmp_path: Path) -> None:
    case = Case(tmp_path, {})
    Brief.parse(ANSWER).write(case.path)
    ctx = case.run()
    assert case.runner.names == ["after"]
    assert ctx[BRIEF_KEY].bounds == "不做界面"
    assert "不做界面" in case.runner.prompt_of("after")


def test_an_incomplete_brief_on_disk_does_not_skip_the_step(tmp_path: Path) -> None:
    case = Case(tmp_path, {"确认需求": ANSWER})
    Brief.parse(WITHOUT_BOUNDS).write(case.path)
    case.run()
    assert case.runner.names == ["确认需求", "after"]


def test_always_ask_asks_again_and_keeps_what_people_added(tmp_path: Path) -> None:
    case = Case(tmp_path, {"确认需求": ANSWER.replace("计数器", "计时器")}, always_ask=True)
    Brief.parse(ANSWER).write(case.path)
    Brief.append_amendment(case.path, "还要支持暂停", label="补充")
    ctx = case.run()
    assert ctx[BRIEF_KEY].goal == "做一个计时器"
    assert "还要支持暂停" in Brief.load(case.path).amendments
    assert "还要支持暂停" in case.runner.prompt_of("after")


def test_what_is_said_while_questions_are_asked_survives_the_freeze_and_is_handed_on(tmp_path: Path) -> None:
    def say(call: Call) -> None:
        case.channel.send("界面也要")

    case = Case(tmp_path, {"确认需求": Reply(ANSWER, meanwhile=say)})
    ctx = case.run()
    assert "界面也要" in Brief.load(case.path).amendments
    assert "界面也要" in ctx[BRIEF_KEY].amendments
    assert "界面也要" in case.runner.prompt_of("after")


def test_a_file_that_holds_only_what_people_said_is_no_complete_brief(tmp_path: Path) -> None:
    case = Case(tmp_path, {"确认需求": ANSWER})
    case.channel.send("目标: 别忘了导出\n验收标准: x\n边界: y\n未知与假设: z")
    case.run()
    assert case.runner.names == ["确认需求", "after"]
    assert "别忘了导出" in Brief.load(case.path).amendments
    assert Brief.load(case.path).goal == "做一个计数器"


def test_a_clarification_taken_up_again_does_not_start_over(tmp_path: Path) -> None:
    case = Case(tmp_path, {"确认需求": Reply("", ok=False)}, retries=0)
    case.flow.continuous = True
    case.run()
    case.run()
    assert [call.resume for call in case.runner.calls] == [None, "s1"]
    assert case.runner.calls[1].prompt != "做一个计数器"
    assert "不要从头" in case.runner.calls[1].prompt


def test_names_and_words_follow_the_language_of_the_channel(tmp_path: Path) -> None:
    channel = HumanChannel(timeout_s=0, lang="en")
    step = clarify_step(channel, brief_path=tmp_path / "brief.md", prompt="p")
    assert step.name == "Clarify"
    assert step.spec.lang == "en"


def test_a_spec_of_your_own_is_used_as_it_is(tmp_path: Path) -> None:
    case = Case(tmp_path, {"ask": ANSWER}, spec=SPEC, name="ask", on_fail="skip")
    case.run()
    assert case.runner.calls[0].spec is SPEC
    assert case.step.on_fail == "skip"


def test_instructions_and_further_words_go_to_the_clarifier(tmp_path: Path) -> None:
    case = Case(tmp_path, {}, instructions="Ask about units.", max_turns=7)
    assert "Ask about units." in case.step.spec.instructions
    assert case.step.spec.max_turns == 7
    assert HumanChannel.tool_name in case.step.spec.allowed_tools


def test_an_unknown_word_for_the_clarifier_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        Case(tmp_path, {}, colour="red")
