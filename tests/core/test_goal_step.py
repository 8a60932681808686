from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from flower_core.agent import AgentSpec
from flower_core.documents import Brief, Goal
from flower_core.events import Event
from flower_core.human import HumanChannel
from flower_core.workflow import GOAL_KEY, Step, Workflow, clarify_step, goal_step
from flower_core.workflow.step import Context
from tests.core.scripted_runner import Call, Reply, ScriptedRunner

SPEC = AgentSpec(name="someone")
BRIEF = Brief(goal="转成 html", accept="有 h1", bounds="不装依赖", unknowns="无")
ANSWER = """
## 目标
conv.py 能把 md 转成 html
## 判定清单
- 运行 `python conv.py a.md` 得到 a.html
- 截图看界面 [此环境无法验证:没有屏幕]
- 输出里有 <h1>
"""
VAGUE = "## 目标\nconv.py 能用\n"


class Case:
    """A goal-setting step behind a brief that stands already."""

    def __init__(self, tmp_path: Path, script: Mapping[str, str | Reply], **kwargs: Any) -> None:
        self.brief_path = tmp_path / "notes" / "需求.md"
        self.path = tmp_path / "notes" / "目标.md"
        BRIEF.write(self.brief_path)
        self.channel = HumanChannel(timeout_s=0)
        self.runner = ScriptedRunner(tmp_path, script)
        self.events: list[Event] = []
        self.step = goal_step(self.channel, goal_path=self.path, **kwargs)
        first = clarify_step(self.channel, brief_path=self.brief_path, prompt="p")
        self.flow = Workflow([first, self.step], continuous=False)

    def run(self) -> Context:
        return asyncio.run(self.flow.run(self.runner, on_event=self.events.append))


def test_the_goal_is_frozen_and_handed_on(tmp_path: Path) -> None:
    case = Case(tmp_path, {"设定目标": ANSWER})
    ctx = case.run()
    assert Goal.load(case.path).checks == ctx[GOAL_KEY].checks
    assert len(ctx[GOAL_KEY].checks) == 3
    assert ctx["设定目标"] == ctx[GOAL_KEY].to_markdown()


def test_the_judge_is_told_whose_turn_it_is_and_gets_brief_and_paths(tmp_path: Path) -> None:
    case = Case(tmp_path, {"设定目标": ANSWER})
    case.run()
    prompt = case.runner.prompt_of("设定目标")
    assert prompt.splitlines()[0] == "flower-turn: goal"
    assert "不装依赖" in prompt
    assert str(case.brief_path) in prompt
    assert str(case.path) in prompt


def test_what_was_added_to_the_brief_since_it_was_frozen_is_part_of_the_goal(tmp_path: Path) -> None:
    case = Case(tmp_path, {"设定目标": ANSWER})
    Brief.append_amendment(case.brief_path, "表格也要支持", label="补充")
    case.run()
    assert "表格也要支持" in case.runner.prompt_of("设定目标")


def test_what_was_added_while_an_earlier_step_ran_is_part_of_the_goal(tmp_path: Path) -> None:
    def add(call: Call) -> None:
        Brief.append_amendment(case.brief_path, "图片也要支持", label="补充")

    case = Case(tmp_path, {"设定目标": ANSWER, "between": Reply(meanwhile=add)})
    case.flow.steps.insert(1, Step("between", SPEC, "p"))
    case.run()
    assert "图片也要支持" in case.runner.prompt_of("设定目标")


def test_checks_that_cannot_pass_here_are_announced_at_once(tmp_path: Path) -> None:
    case = Case(tmp_path, {"设定目标": ANSWER})
    case.run()
    (warning,) = [event for event in case.events if event.kind == "task"]
    assert warning.payload == {
        "kind": "goal",
        "unverifiable": ["截图看界面 [此环境无法验证:没有屏幕]"],
        "total": 3,
        "path": str(case.path),
    }
    assert "没有屏幕" in warning.text


def test_without_such_checks_nothing_is_announced(tmp_path: Path) -> None:
    case = Case(tmp_path, {"设定目标": ANSWER.replace("[此环境无法验证:没有屏幕]", "")})
    case.run()
    assert [event for event in case.events if event.kind == "task"] == []


def test_a_goal_without_a_checklist_is_sent_back(tmp_path: Path) -> None:
    case = Case(tmp_path, {"设定目标": VAGUE, "设定目标#round2": ANSWER})
    ctx = case.run()
    assert case.runner.calls[1].resume == "s1"
    assert "判定清单" in case.runner.prompt_of("设定目标#round2")
    assert len(ctx[GOAL_KEY].checks) == 3


def test_a_goal_that_stays_incomplete_fails_the_step_and_is_not_frozen(tmp_path: Path) -> None:
    case = Case(tmp_path, {"设定目标": VAGUE}, retries=0)
    assert case.run()["_failed_at"] == "设定目标"
    assert not case.path.exists()


def test_a_session_that_broke_off_is_asked_for_the_goal_again(tmp_path: Path) -> None:
    case = Case(tmp_path, {"设定目标": Reply("", ok=False), "设定目标#round2": ANSWER})
    case.run()
    assert case.runner.prompt_of("设定目标#round2").startswith("flower-turn: goal\n")


def test_what_was_missing_before_is_not_held_against_a_session_that_broke_off_later(tmp_path: Path) -> None:
    script: dict[str, str | Reply] = {"设定目标": VAGUE, "设定目标#round2": Reply("", ok=False)}
    case = Case(tmp_path, {**script, "设定目标#round3": ANSWER})
    case.run()
    assert case.runner.prompt_of("设定目标#round3").startswith("flower-turn: goal\n")


def test_a_complete_goal_on_disk_skips_the_step_and_still_fills_the_context(tmp_path: Path) -> None:
    case = Case(tmp_path, {})
    Goal.parse(ANSWER).write(case.path)
    ctx = case.run()
    assert case.runner.names == []
    assert ctx[GOAL_KEY].statement == "conv.py 能把 md 转成 html"
    assert ctx["设定目标"] == ctx[GOAL_KEY].to_markdown()


def test_always_set_derives_the_goal_anew(tmp_path: Path) -> None:
    case = Case(tmp_path, {"设定目标": ANSWER}, always_set=True)
    Goal(statement="老目标", checks=["老的一条"]).write(case.path)
    assert case.run()[GOAL_KEY].statement == "conv.py 能把 md 转成 html"
    assert "老目标" not in case.path.read_text(encoding="utf-8")


def test_another_step_can_be_the_source_of_the_brief(tmp_path: Path) -> None:
    channel = HumanChannel(timeout_s=0)
    runner = ScriptedRunner(tmp_path, {"wish": "a red ball", "设定目标": ANSWER})
    goal = goal_step(channel, goal_path=tmp_path / "goal.md", brief_key="wish")
    asyncio.run(Workflow([Step("wish", SPEC, "p"), goal]).run(runner))
    assert "a red ball" in runner.prompt_of("设定目标")


def test_no_brief_at_all_is_an_error_that_says_what_is_missing(tmp_path: Path) -> None:
    goal = goal_step(HumanChannel(timeout_s=0), goal_path=tmp_path / "goal.md")
    with pytest.raises(ValueError, match="needs a brief"):
        asyncio.run(Workflow([goal]).run(ScriptedRunner(tmp_path)))


def test_in_english_the_step_has_its_english_name(tmp_path: Path) -> None:
    step = goal_step(HumanChannel(timeout_s=0, lang="en"), goal_path=tmp_path / "goal.md")
    assert step.name == "Set goal"
