from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from flower_core.documents import Brief, Goal, Handoff, frozen_handoffs
from flower_core.human import HumanChannel
from flower_core.workflow import Workflow, starter_flow, wake_state
from flower_core.workflow.step import Context
from tests.core.scripted_runner import Call, Reply, ScriptedRunner
from tests.repositories import repository

BRIEF = Brief(goal="做一个计数器", accept="输出 3", bounds="不做界面", unknowns="只有一个用户")
GOAL = Goal(statement="有一个计数器", checks=["运行输出 3"])
ACHIEVED = "## 结论\n达成\n## 理由\n看到了 3"
SCRIPT: Mapping[str, str | Reply] = {
    "确认需求": BRIEF.to_markdown(),
    "设定目标": GOAL.to_markdown(),
    "干活·判定#1": ACHIEVED,
}


class Place:
    """One workspace with its books, in which several processes run one after the other."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.workspace = home / "workspace"
        self.workspace.mkdir()
        self.notes = self.workspace / ".flower" / "notes"
        self.brief, self.goal = self.notes / "需求.md", self.notes / "目标.md"
        self.sessions: set[str] = set()
        self.processes = 0
        self.runner = ScriptedRunner(home)

    def flow(self, ask: str = "", **kwargs: Any) -> Workflow:
        kwargs.setdefault("timeout_s", 0)
        return starter_flow(ask, workspace=self.workspace, run_dir=self.home / "runs", **kwargs)

    def run(self, flow: Workflow, script: Mapping[str, str | Reply] = SCRIPT) -> Context:
        self.processes += 1
        self.runner = ScriptedRunner(
            self.home,
            script,
            workbench=flow.workbench,
            known_sessions=self.sessions,
            prefix=f"p{self.processes}-",
        )
        ctx = asyncio.run(flow.run(self.runner))
        self.sessions |= self.runner.sessions
        return ctx

    def snapshot(self) -> dict[str, tuple[int, bytes]]:
        files = [path for path in self.home.rglob("*") if path.is_file()]
        return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_the_three_steps_run_with_the_judge_behind_them(place: Place) -> None:
    ctx = place.run(place.flow("做一个计数器"))
    assert place.runner.names == ["确认需求", "设定目标", "干活", "干活·判定#1"]
    assert place.runner.prompt_of("确认需求") == "做一个计数器"
    assert "_failed_at" not in ctx
    assert ctx["干活"] == "done"
    assert Brief.load(place.brief).complete()
    assert Goal.load(place.goal).complete()


def test_the_coordinator_is_told_the_brief_and_where_everything_is(place: Place) -> None:
    place.run(place.flow("做一个计数器"))
    prompt = place.runner.prompt_of("干活")
    assert "不做界面" in prompt
    for path in (place.brief, place.goal, place.notes / "问答记录.md"):
        assert str(path) in prompt


def test_goal_false_leaves_out_the_goal_and_the_judging(place: Place) -> None:
    place.run(place.flow("做一个计数器", goal=False))
    assert place.runner.names == ["确认需求", "干活"]
    assert "目标.md" not in place.runner.prompt_of("干活")


def test_clarify_only_leaves_the_first_step(place: Place) -> None:
    place.run(place.flow("做一个计数器", clarify_only=True))
    assert place.runner.names == ["确认需求"]


def test_channel_and_workbench_are_wired(place: Place) -> None:
    flow = place.flow("x", max_asks=4, timeout_s=7.0, first_id=5, first_mail_id=3)
    assert flow.channel is not None
    assert flow.workbench is not None
    assert (flow.channel.max_asks, flow.channel.timeout_s) == (4, 7.0)
    assert flow.workbench.root == place.workspace / ".flower"
    assert flow.workbench.index_path.is_file()
    mail = flow.channel.send("别忘了导出")
    assert (mail.id, mail.amended) == ("m3", str(place.brief))
    assert "别忘了导出" in place.brief.read_text(encoding="utf-8")
    assert "别忘了导出" in (place.notes / "问答记录.md").read_text(encoding="utf-8")


def test_the_default_timeout_is_half_an_hour(place: Place) -> None:
    flow = starter_flow("x", workspace=place.workspace, run_dir=place.home / "runs")
    assert flow.channel is not None
    assert flow.channel.timeout_s == 1800.0
    assert flow.channel.max_asks is None


def test_a_channel_of_your_own_is_used(place: Place) -> None:
    channel = HumanChannel(timeout_s=0)
    assert place.flow("x", channel=channel).channel is channel


def test_the_words_for_agents_reach_them(place: Place) -> None:
    flow = place.flow(
        "x", instructions="Tabs, never spaces.", worker_prompt="You know Fortran.", model="opus", judge_can_run=True
    )
    place.run(flow)
    specs = {call.name: call.spec for call in place.runner.calls}
    assert "Tabs, never spaces." in specs["干活"].instructions
    assert specs["干活"].agents is not None
    assert "You know Fortran." in specs["干活"].agents["coder"].prompt
    assert {spec.model for spec in specs.values()} == {"opus"}
    assert "Bash" in specs["干活·判定#1"].allowed_tools
    assert "Bash" not in specs["设定目标"].allowed_tools


def test_names_of_files_can_be_chosen(place: Place) -> None:
    place.run(place.flow("x", brief_name="b.md", goal_name="g.md", log_name="q.md"))
    assert (place.notes / "b.md").is_file()
    assert (place.notes / "g.md").is_file()
    assert "q.md" in place.runner.prompt_of("干活")


def test_in_english_steps_and_files_have_english_names(place: Place) -> None:
    script = {
        "Clarify": "## Goal\na\n## Acceptance criteria\nb\n## Boundaries\nc\n## Unknowns and assumptions\nd",
        "Set goal": "## Goal\na\n## Checklist\n- b",
        "Work·verdict#1": "## Conclusion\nachieved\n## Reason\nseen",
    }
    ctx = place.run(place.flow("count", lang="en"), script)
    assert place.runner.names == ["Clarify", "Set goal", "Work", "Work·verdict#1"]
    assert "_failed_at" not in ctx
    assert (place.notes / "brief.md").is_file()
    assert (place.notes / "goal.md").is_file()
    assert {call.spec.lang for call in place.runner.calls} == {"en"}


def test_rounds_is_the_total(place: Place) -> None:
    not_yet = "## 结论\n未达成\n## 理由\n没有"
    script = {**SCRIPT, "干活·判定#1": not_yet, "干活·判定#2": not_yet, "干活·判定#3": ACHIEVED}
    ctx = place.run(place.flow("x", rounds=2), script)
    assert place.runner.names[-1] == "干活·判定#2"
    assert ctx["_failed_at"] == "干活"


def test_a_budget_bounds_the_whole_run(place: Place) -> None:
    script = {**SCRIPT, "确认需求": Reply(BRIEF.to_markdown(), cost=0.3)}
    place.run(place.flow("x", budget_usd=0.5), script)
    assert place.runner.calls[1].spec.max_budget_usd == pytest.approx(0.2)


# -- what is refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("ask", ["", "  \n"])
def test_an_empty_ask_with_nothing_to_wake_is_refused_and_makes_nothing(place: Place, ask: str) -> None:
    with pytest.raises(ValueError, match="nothing to wake"):
        place.flow(ask)
    assert list(place.workspace.iterdir()) == []


def test_new_with_an_empty_ask_is_refused_and_moves_nothing(place: Place) -> None:
    place.run(place.flow("做一个计数器"))
    before = place.snapshot()
    with pytest.raises(ValueError, match="nothing to wake"):
        place.flow("", new=True)
    assert place.snapshot() == before


def test_isolate_outside_a_repository_is_refused(place: Place) -> None:
    with pytest.raises(ValueError, match="needs a git repository"):
        place.flow("x", isolate=True)


def test_isolate_in_a_repository_without_a_commit_is_refused_and_makes_nothing(place: Place) -> None:
    repository(place.workspace, commit=False)
    with pytest.raises(ValueError, match="needs a commit"):
        place.flow("x", isolate=True)
    assert {path.name for path in place.home.iterdir()} == {"workspace"}


def test_isolate_gives_the_workers_trees_of_their_own_and_adds_an_integrator(place: Place) -> None:
    repository(place.workspace)
    flow = place.flow("做一个计数器", isolate=True)
    assert flow.workbench is not None
    assert flow.workbench.root == place.home / ".flower-workspace"
    ctx = place.run(flow)
    assert "_failed_at" not in ctx
    spec = {call.name: call.spec for call in place.runner.calls}["干活"]
    assert spec.agents is not None
    assert {name: hand.isolate for name, hand in spec.agents.items()} == {"coder": True, "integrator": False}
    assert "integrator" in spec.instructions
    assert str(place.home / ".flower-workspace/notes/需求.md") in place.runner.prompt_of("干活")
    assert {path.name for path in place.workspace.iterdir()} == {".git", "README"}


def test_without_isolate_nobody_hears_of_worktrees(place: Place) -> None:
    place.run(place.flow("做一个计数器"))
    spec = {call.name: call.spec for call in place.runner.calls}["干活"]
    assert spec.agents is not None
    assert list(spec.agents) == ["coder"]
    assert "worktree" not in spec.instructions + spec.agents["coder"].prompt


def test_a_workspace_goes_on_where_it_was_when_it_is_isolated_and_afterwards(place: Place) -> None:
    repository(place.workspace)
    place.run(place.flow("做一个计数器"))
    place.run(place.flow("还要能清零", isolate=True))
    assert place.runner.names == ["设定目标", "干活", "干活·判定#1"]
    moved = place.home / ".flower-workspace" / "notes"
    assert "还要能清零" in Brief.load(moved / "需求.md").amendments
    assert not place.notes.exists()
    place.run(place.flow(""))
    assert place.runner.names == ["干活", "干活·判定#1"]
    assert wake_state(place.workspace, place.home / "runs").goal


def test_a_start_with_isolate_that_is_refused_moves_nothing(place: Place) -> None:
    repository(place.workspace)
    place.run(place.flow("做一个计数器"))
    before = place.snapshot()
    for wrong in ({"rounds": 0}, {"budget_usd": 0}, {"max_asks": -1}):
        with pytest.raises(ValueError, match=r"rounds|budget_usd|max_asks"):
            place.flow("x", isolate=True, **wrong)
    assert place.snapshot() == before


@pytest.mark.parametrize(
    "wrong", [{"budget_usd": 0}, {"brief_name": "../../elsewhere.md"}, {"max_asks": -1}, {"timeout_s": float("nan")}]
)
@pytest.mark.parametrize("new", [True, False])
def test_a_refused_start_changes_nothing_on_disk(place: Place, wrong: dict[str, Any], new: bool) -> None:
    place.run(place.flow("做一个计数器"))
    before = place.snapshot()
    with pytest.raises(ValueError, match=r"budget_usd|outside the workbench|max_asks|timeout_s"):
        place.flow("再加一个按钮", new=new, **wrong)
    assert place.snapshot() == before


def test_no_round_at_all_is_refused(place: Place) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        place.flow("x", rounds=0)


# -- waking -------------------------------------------------------------------------------------------------


def test_saying_nothing_at_a_wake_adds_nothing_and_goes_on_where_it_stopped(place: Place) -> None:
    place.run(place.flow("做一个计数器"))
    brief, goal = place.brief.read_bytes(), place.goal.read_bytes()
    place.run(place.flow(""))
    assert [(call.name, call.resume) for call in place.runner.calls] == [("干活", "p1-3"), ("干活·判定#1", None)]
    assert (place.brief.read_bytes(), place.goal.read_bytes()) == (brief, goal)
    assert "又说了" not in place.runner.prompt_of("干活")


def test_words_at_a_wake_reach_brief_goal_work_and_judge(place: Place) -> None:
    place.run(place.flow("做一个计数器"))
    place.run(place.flow("还要能清零"))
    assert place.runner.names == ["设定目标", "干活", "干活·判定#1"]
    assert "还要能清零" in Brief.load(place.brief).amendments
    for name in place.runner.names:
        assert "还要能清零" in place.runner.prompt_of(name), name
    assert place.runner.calls[1].resume == "p1-3"


def test_words_at_a_wake_reach_the_work_step_without_a_session_too(place: Place) -> None:
    BRIEF.write(place.brief)
    place.run(place.flow("还要能清零"))
    assert place.runner.names == ["设定目标", "干活", "干活·判定#1"]
    assert place.runner.calls[1].resume is None
    assert "还要能清零" in place.runner.prompt_of("干活")


def test_the_goal_is_derived_anew_in_the_file_when_something_was_said(place: Place) -> None:
    place.run(place.flow("做一个计数器"))
    place.run(place.flow("还要能清零"), {**SCRIPT, "设定目标": "## 目标\n能清零\n## 判定清单\n- 清零后输出 0"})
    assert Goal.load(place.goal).checks == ["清零后输出 0"]


def test_a_clarification_that_broke_off_goes_on_and_hears_what_was_said(place: Place) -> None:
    place.run(place.flow("做一个计数器"), {"确认需求": Reply("问到一半", ok=False), "确认需求#round2": "?"})
    place.run(place.flow("用 Rust 写"))
    first = place.runner.calls[0]
    assert (first.name, first.resume) == ("确认需求", "p1-1")
    assert "用 Rust 写" in first.prompt
    assert Brief.load(place.brief).amendments == ""


def test_new_puts_everything_away_first(place: Place) -> None:
    place.run(place.flow("做一个计数器"))
    for _ in range(2):
        Handoff(doing="计数", next="清零", scene="无").freeze(place.notes, "干活")
    place.run(place.flow("做一个计时器", new=True))
    assert [call.resume for call in place.runner.calls] == [None] * 4
    (stamped,) = (place.notes / "archive").iterdir()
    handoffs = ["handoff-干活-1.md", "handoff-干活.md"]
    assert sorted(path.name for path in stamped.iterdir()) == [*handoffs, "lineage.json", "目标.md", "需求.md"]
    assert frozen_handoffs(place.notes) == []
    assert place.runner.names == ["确认需求", "设定目标", "干活", "干活·判定#1"]


def test_new_where_nothing_was_is_just_a_start(place: Place) -> None:
    place.run(place.flow("做一个计数器", new=True))
    assert place.runner.names[0] == "确认需求"


def test_a_brief_taken_away_by_hand_takes_the_goal_with_it(place: Place) -> None:
    place.run(place.flow("做一个计数器"))
    place.brief.unlink()
    place.run(place.flow("做一个计时器"))
    assert place.runner.names == ["确认需求", "设定目标", "干活", "干活·判定#1"]


def test_a_clarification_woken_without_a_word_sets_the_goal_anew_when_the_brief_is_gone(place: Place) -> None:
    place.run(place.flow("做一个计数器"))
    place.brief.unlink()
    place.run(place.flow(""))
    assert place.runner.names == ["确认需求", "设定目标", "干活", "干活·判定#1"]
    assert place.runner.calls[0].resume == "p1-1"


def test_a_resumed_run_puts_nothing_away_again(place: Place) -> None:
    place.run(place.flow("做一个计数器", new=True))
    place.run(place.flow("做一个计数器", new=True, resumed=True))
    assert place.runner.names == ["干活", "干活·判定#1"]
    assert not (place.notes / "archive").exists()


def test_a_resumed_run_does_not_take_its_own_task_for_new_words(place: Place) -> None:
    place.run(place.flow("做一个计数器"))
    before = place.brief.read_bytes()
    place.run(place.flow("做一个计数器", resumed=True))
    assert place.brief.read_bytes() == before
    assert place.runner.names == ["干活", "干活·判定#1"]


def test_a_resumed_run_that_had_got_nowhere_starts_with_its_task(place: Place) -> None:
    place.run(place.flow("做一个计数器", resumed=True))
    assert place.runner.prompt_of("确认需求") == "做一个计数器"


def test_a_resumed_wake_still_sets_the_goal_it_had_not_got_to(place: Place) -> None:
    place.run(place.flow("做一个计数器"))
    os.utime(place.goal, (1, 1))
    place.flow("还要能清零")  # and the process dies before its first step
    place.run(place.flow("还要能清零", resumed=True))
    assert place.runner.names == ["设定目标", "干活", "干活·判定#1"]
    assert place.brief.read_text(encoding="utf-8").count("还要能清零") == 1
    assert "还要能清零" in place.runner.prompt_of("干活")


def test_what_is_said_mid_run_reaches_the_judge(place: Place) -> None:
    flow = place.flow("做一个计数器")
    channel = flow.channel
    assert channel is not None

    def say(call: Call) -> None:
        channel.send("顺便报告总字节数")

    place.run(flow, {**SCRIPT, "干活": Reply(meanwhile=say)})
    assert "顺便报告总字节数" in place.runner.prompt_of("干活·判定#1")
    assert "顺便报告总字节数" in Brief.load(place.brief).amendments


def test_what_is_said_while_clarifying_reaches_goal_and_work(place: Place) -> None:
    flow = place.flow("做一个计数器")
    channel = flow.channel
    assert channel is not None

    def say(call: Call) -> None:
        channel.send("用两种颜色")

    place.run(flow, {**SCRIPT, "确认需求": Reply(BRIEF.to_markdown(), meanwhile=say)})
    for name in ("设定目标", "干活", "干活·判定#1"):
        assert "用两种颜色" in place.runner.prompt_of(name), name


def test_mail_before_the_brief_is_nothing_to_skip_the_questions_for(place: Place) -> None:
    flow = place.flow("做一个计数器")
    assert flow.channel is not None
    flow.channel.send("用两种颜色")
    place.run(flow)
    assert place.runner.names[0] == "确认需求"
    assert "用两种颜色" in Brief.load(place.brief).amendments


# -- looking without touching -------------------------------------------------------------------------------


def test_wake_state_of_an_untouched_workspace_is_nothing_and_makes_nothing(place: Place) -> None:
    state = wake_state(place.workspace, place.home / "runs")
    assert not state.anything
    assert (state.brief, state.goal, state.sessions) == (False, False, {})
    assert list(place.workspace.iterdir()) == []


def test_wake_state_says_what_is_there_and_changes_nothing(place: Place) -> None:
    place.run(place.flow("做一个计数器"))
    before = place.snapshot()
    state = wake_state(place.workspace, place.home / "runs")
    assert state.anything
    assert (state.brief, state.goal) == (True, True)
    assert state.sessions == {"确认需求": "p1-1", "设定目标": "p1-2", "干活": "p1-3"}
    assert place.snapshot() == before


def test_wake_state_of_another_workspace_ignores_the_lineage(place: Place) -> None:
    place.run(place.flow("做一个计数器"))
    (place.home / "other").mkdir()
    assert not wake_state(place.home / "other", place.home / "runs").anything
