from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from flower_core.agent import AgentSpec
from flower_core.documents import Brief, Goal
from flower_core.errors import StepAbort
from flower_core.events import Event
from flower_core.human import Ask, HumanChannel
from flower_core.manifest import StepResult
from flower_core.workflow import GOAL_KEY, ROUND_KEY, VERDICT_KEY, Step, Workflow, clarify_step, with_goal
from flower_core.workflow.step import Context
from tests.core.scripted_runner import Call, Reply, ScriptedRunner

SPEC = AgentSpec(name="someone")
BRIEF = Brief(goal="转成 html", accept="有 h1", bounds="不装依赖", unknowns="无")
ACHIEVED = "## 结论\n达成\n## 理由\n都看到了\n## 未通过\n无"
NOT_YET = "## 结论\n未达成\n## 理由\n列表没转\n## 未通过\n- 列表被转成 ul"
UNREACHABLE = "## 结论\n无法达成\n## 理由\n缺少屏幕\n## 未通过\n- 截图"
ACCEPT, CHANGE, WRONG = "接受这个结果，就这样往下走", "修改目标", "你判断错了，继续做"
Script = Mapping[str, str | Reply]


class Case:
    """A guarded step called 干活 behind a frozen brief and goal, and a person who gives ``answers`` in turn."""

    def __init__(
        self, tmp_path: Path, script: Script, answers: tuple[str, ...] = (), channel: Any = None, **kwargs: Any
    ) -> None:
        self.brief_path = tmp_path / "notes" / "需求.md"
        self.goal_path = tmp_path / "notes" / "目标.md"
        BRIEF.write(self.brief_path)
        Goal(statement="能转", checks=["有 h1", "截图"]).write(self.goal_path)
        options: dict[str, Any] = {"timeout_s": 60 if answers else 0, **(channel or {})}
        self.channel = HumanChannel(amend_path=self.brief_path, **options)
        self.answers = list(answers)
        self.events: list[Event] = []
        self.asked: list[Ask] = []
        self.runner = ScriptedRunner(tmp_path, script)
        self.work = kwargs.pop("work", Step("干活", SPEC, "do it"))
        self.guarded = with_goal(self.work, self.channel, goal_path=self.goal_path, **kwargs)
        first = clarify_step(self.channel, brief_path=self.brief_path, prompt="p")
        self.flow = Workflow([first, self.guarded], channel=self.channel, continuous=False)

    def run(self) -> Context:
        return asyncio.run(self._run())

    async def _run(self) -> Context:
        person = asyncio.create_task(self._answer())
        try:
            return await self.flow.run(self.runner, on_event=self.events.append)
        finally:
            person.cancel()

    async def _answer(self) -> None:
        while self.answers:
            ask = await self.channel.next_ask()
            assert ask is not None
            self.asked.append(ask)
            self.channel.answer(ask.id, self.answers.pop(0))

    @property
    def verdicts(self) -> list[dict[str, Any]]:
        return [event.payload for event in self.events if event.payload.get("kind") == "verdict"]


def test_an_achieved_goal_passes_after_one_judge_in_a_session_of_its_own(tmp_path: Path) -> None:
    case = Case(tmp_path, {"干活": "built", "干活·判定#1": ACHIEVED})
    ctx = case.run()
    assert [(call.name, call.resume) for call in case.runner.calls] == [("干活", None), ("干活·判定#1", None)]
    assert ctx["干活"] == "built"
    assert ctx[VERDICT_KEY].ok
    assert ctx[ROUND_KEY] == 1


def test_not_yet_sends_the_same_session_back_with_what_is_missing(tmp_path: Path) -> None:
    case = Case(tmp_path, {"干活·判定#1": NOT_YET, "干活·判定#2": ACHIEVED})
    ctx = case.run()
    assert [(call.name, call.resume) for call in case.runner.calls] == [
        ("干活", None),
        ("干活·判定#1", None),
        ("干活#round2", "s1"),
        ("干活·判定#2", None),
    ]
    assert "列表没转" in case.runner.prompt_of("干活#round2")
    assert "列表被转成 ul" in case.runner.prompt_of("干活#round2")
    assert ctx[ROUND_KEY] == 2


@pytest.mark.parametrize("said", ["看起来挺好的。", "", "结论:也许吧"])
def test_an_unclear_verdict_is_never_a_pass(tmp_path: Path, said: str) -> None:
    case = Case(tmp_path, {"干活·判定#1": said, "干活·判定#2": ACHIEVED})
    ctx = case.run()
    assert case.verdicts[0]["state"] == ""
    assert case.runner.names[2] == "干活#round2"
    assert case.runner.prompt_of("干活#round2")
    assert ctx["干活"] == "done"


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_rounds_is_the_total_number_of_rounds_of_work(tmp_path: Path, rounds: int) -> None:
    script = {f"干活·判定#{number}": NOT_YET for number in range(1, 9)}
    case = Case(tmp_path, script, rounds=rounds)
    ctx = case.run()
    assert len([name for name in case.runner.names if "判定" in name]) == rounds
    assert len([name for name in case.runner.names if "判定" not in name]) == rounds
    assert ctx["_failed_at"] == "干活"
    assert ctx[ROUND_KEY] == rounds


def test_no_round_at_all_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Case(tmp_path, {}, rounds=0)


def test_work_that_failed_is_not_judged_and_told_to_carry_on(tmp_path: Path) -> None:
    script: Script = {"干活": Reply("half", ok=False, error="500"), "干活·判定#2": ACHIEVED}
    case = Case(tmp_path, script)
    ctx = case.run()
    assert case.runner.names == ["干活", "干活#round2", "干活·判定#2"]
    assert case.runner.calls[1].resume == "s1"
    assert "没有正常结束" in case.runner.calls[1].prompt
    assert ctx["干活"] == "done"


def test_the_judge_is_told_its_turn_the_files_and_the_workspace_but_not_the_history(tmp_path: Path) -> None:
    case = Case(tmp_path, {"干活": "I tried very hard", "干活·判定#1": ACHIEVED})
    case.run()
    prompt = case.runner.prompt_of("干活·判定#1")
    assert prompt.splitlines()[0] == "flower-turn: verdict"
    assert str(case.goal_path) in prompt
    assert str(case.brief_path) in prompt
    assert str(case.runner.workspace) in prompt
    assert "I tried very hard" not in prompt


def test_what_is_said_while_the_work_is_going_on_is_part_of_what_is_judged(tmp_path: Path) -> None:
    def say(call: Call) -> None:
        case.channel.send("表格也要")

    case = Case(tmp_path, {"干活": Reply(meanwhile=say), "干活·判定#1": ACHIEVED})
    case.run()
    assert "表格也要" in case.runner.prompt_of("干活·判定#1")


def test_without_amendments_the_judge_is_told_of_none(tmp_path: Path) -> None:
    case = Case(tmp_path, {"干活·判定#1": ACHIEVED})
    case.run()
    assert "补充" not in case.runner.prompt_of("干活·判定#1")


def test_a_goal_edited_by_hand_is_what_the_judge_is_given(tmp_path: Path) -> None:
    def edit(call: Call) -> None:
        Goal(statement="能转", checks=["只看 h1"]).write(case.goal_path)

    case = Case(tmp_path, {"干活": Reply(meanwhile=edit), "干活·判定#1": ACHIEVED})
    case.run()
    assert "只看 h1" in case.runner.prompt_of("干活·判定#1")


def test_every_verdict_is_an_event_and_every_judge_a_step_event(tmp_path: Path) -> None:
    case = Case(tmp_path, {"干活·判定#1": NOT_YET, "干活·判定#2": ACHIEVED})
    case.run()
    assert case.verdicts == [
        {
            "kind": "verdict",
            "step": "干活",
            "round": 1,
            "state": "not_yet",
            "reason": "列表没转",
            "failed": ["列表被转成 ul"],
        },
        {"kind": "verdict", "step": "干活", "round": 2, "state": "achieved", "reason": "都看到了", "failed": []},
    ]
    steps = [
        (event.text, event.payload["index"], event.payload["round"]) for event in case.events if event.kind == "step"
    ]
    assert steps == [("干活", 2, 1), ("干活·判定#1", 2, 1), ("干活#round2", 2, 2), ("干活·判定#2", 2, 2)]


@pytest.mark.parametrize("answer", [ACCEPT, "1", f" {ACCEPT} ", "接受这个结果,就这样往下走。"])
def test_an_unreachable_goal_can_be_accepted(tmp_path: Path, answer: str) -> None:
    case = Case(tmp_path, {"干活·判定#1": UNREACHABLE}, (answer,))
    ctx = case.run()
    assert "缺少屏幕" in case.asked[0].question
    assert case.asked[0].options == [ACCEPT, CHANGE, WRONG]
    assert ctx["干活"] == "done"
    assert "_failed_at" not in ctx
    assert ctx[VERDICT_KEY].state == "unreachable"
    assert ctx["_goal_accepted"] == "缺少屏幕"


def test_words_against_a_verdict_reach_the_next_judge_even_if_the_disk_refuses_them(tmp_path: Path) -> None:
    case = Case(tmp_path, {"干活·判定#1": UNREACHABLE, "干活·判定#2": ACHIEVED}, ("用虚拟屏幕就行",))
    lock = case.brief_path.with_name(f".{case.brief_path.name}.lock")
    lock.unlink()
    lock.mkdir()  # nothing can be appended to the brief any more
    ctx = case.run()
    assert "_failed_at" not in ctx
    assert "用虚拟屏幕就行" in case.runner.prompt_of("干活·判定#2")
    assert Brief.load(case.brief_path).amendments == ""
    assert len(case.channel.ui_errors) == 1


@pytest.mark.parametrize(
    "answer",
    [f"{ACCEPT}（但先补上截图）", f"不{ACCEPT}", f"{ACCEPT}?", "0", "4", pytest.param("9" * 5000, id="5000 digits")],
)
def test_an_option_with_anything_added_is_no_option(tmp_path: Path, answer: str) -> None:
    case = Case(tmp_path, {"干活·判定#1": UNREACHABLE, "干活·判定#2": ACHIEVED}, (answer,))
    ctx = case.run()
    assert "_goal_accepted" not in ctx
    assert answer in case.runner.prompt_of("干活#round2")


def test_an_unreachable_goal_can_be_changed(tmp_path: Path) -> None:
    case = Case(tmp_path, {"干活·判定#1": UNREACHABLE, "干活·判定#2": ACHIEVED}, (CHANGE, "不要截图了"))
    ctx = case.run()
    assert len(case.asked) == 2
    goal = case.goal_path.read_text(encoding="utf-8")
    assert "能转" in goal
    assert "不要截图了" in goal
    assert "不要截图了" in ctx[GOAL_KEY].to_markdown()
    assert (case.runner.calls[2].name, case.runner.calls[2].resume) == ("干活#round2", "s1")
    assert "不要截图了" in case.runner.calls[2].prompt
    assert "不要截图了" in case.runner.prompt_of("干活·判定#2")
    # A goal derived anew at a later wake starts from the brief.
    assert "不要截图了" in Brief.load(case.brief_path).amendments


@pytest.mark.parametrize("answer", [WRONG, "3", "３", ""])
def test_a_verdict_can_be_called_wrong_and_the_next_judge_hears_of_it(tmp_path: Path, answer: str) -> None:
    case = Case(tmp_path, {"干活·判定#1": UNREACHABLE, "干活·判定#2": ACHIEVED}, (answer,))
    ctx = case.run()
    assert case.runner.calls[2].name == "干活#round2"
    assert WRONG in case.runner.calls[2].prompt
    assert WRONG in case.runner.prompt_of("干活·判定#2")
    assert ctx["干活"] == "done"


def test_free_text_counts_as_judged_wrong_in_the_persons_own_words(tmp_path: Path) -> None:
    case = Case(tmp_path, {"干活·判定#1": UNREACHABLE, "干活·判定#2": ACHIEVED}, ("用虚拟屏幕就行",))
    case.run()
    assert "用虚拟屏幕就行" in case.runner.prompt_of("干活#round2")
    assert case.runner.prompt_of("干活·判定#2").count("用虚拟屏幕就行") == 1
    assert "用虚拟屏幕就行" in Brief.load(case.brief_path).amendments


def test_the_next_judge_hears_of_it_even_where_no_brief_is_known(tmp_path: Path) -> None:
    case = Case(tmp_path, {"干活·判定#1": UNREACHABLE, "干活·判定#2": ACHIEVED}, ("用虚拟屏幕就行",))
    case.flow = Workflow([case.guarded], channel=case.channel, continuous=False)
    case.run()
    assert "用虚拟屏幕就行" in case.runner.prompt_of("干活·判定#2")


def test_carrying_on_needs_a_round_to_be_left(tmp_path: Path) -> None:
    case = Case(tmp_path, {"干活·判定#1": UNREACHABLE}, (WRONG,), rounds=1)
    ctx = case.run()
    assert "还可以再干 0 轮" in case.asked[0].question
    assert case.runner.names == ["干活", "干活·判定#1"]
    assert ctx["_failed_at"] == "干活"
    assert "_aborted" not in ctx


@pytest.mark.parametrize("channel", [{"timeout_s": 0}, {"max_asks": 0, "timeout_s": 60}])
def test_when_nobody_answers_the_run_stops_instead_of_burning_rounds(tmp_path: Path, channel: dict[str, Any]) -> None:
    case = Case(tmp_path, {"干活·判定#1": UNREACHABLE}, channel=channel)
    ctx = case.run()
    assert case.runner.names == ["干活", "干活·判定#1"]
    assert "缺少屏幕" in ctx["_aborted"]
    assert ctx["_failed_at"] == "干活"
    assert "干活" not in ctx


def test_a_declined_question_stops_the_run_too(tmp_path: Path) -> None:
    case = Case(tmp_path, {"干活·判定#1": UNREACHABLE}, channel={"timeout_s": 60})

    async def run() -> Context:
        task = asyncio.create_task(case.flow.run(case.runner))
        ask = await case.channel.next_ask()
        assert ask is not None
        case.channel.decline(ask.id, "later")
        return await task

    assert asyncio.run(run())["_failed_at"] == "干活"


def test_to_change_the_goal_without_saying_into_what_stops_the_run(tmp_path: Path) -> None:
    case = Case(tmp_path, {"干活·判定#1": UNREACHABLE}, (CHANGE,), channel={"max_asks": 1})
    before = case.goal_path.read_text(encoding="utf-8")
    ctx = case.run()
    assert "缺少屏幕" in ctx["_aborted"]
    assert case.goal_path.read_text(encoding="utf-8") == before


def test_without_a_runtime_there_is_no_pass(tmp_path: Path) -> None:
    gate = Case(tmp_path, {}).guarded.gate
    assert gate is not None

    async def judge() -> None:
        verdict = gate(StepResult("干活", ok=True), {})
        assert not isinstance(verdict, bool)
        await verdict

    with pytest.raises(StepAbort, match="_runtime"):
        asyncio.run(judge())


def test_a_judge_that_fails_stops_the_run_and_is_no_pass(tmp_path: Path) -> None:
    case = Case(tmp_path, {"干活·判定#1": Reply(ACHIEVED, ok=False, error="401 from the API")})
    ctx = case.run()
    assert "401 from the API" in ctx["_aborted"]
    assert ctx["_failed_at"] == "干活"
    assert VERDICT_KEY not in ctx


def test_no_money_left_for_the_judge_is_no_pass(tmp_path: Path) -> None:
    case = Case(tmp_path, {"干活": Reply(cost=2.0), "干活·判定#1": ACHIEVED})
    case.flow.budget_usd = 1.0
    ctx = case.run()
    assert case.runner.names == ["干活"]
    assert ctx["_failed_at"] == "干活"


def test_hard_conditions_come_first_and_cost_no_judge(tmp_path: Path) -> None:
    work = Step(
        "干活",
        SPEC,
        "do it",
        gate=lambda result, ctx: result.step == "干活#round2",
        on_reject=lambda result, ctx: "a.html is not there",
    )
    case = Case(tmp_path, {"干活·判定#2": ACHIEVED}, work=work)
    ctx = case.run()
    assert case.runner.names == ["干活", "干活#round2", "干活·判定#2"]
    assert case.runner.prompt_of("干活#round2") == "a.html is not there"
    assert ctx["干活"] == "done"


def test_the_words_of_an_old_verdict_are_not_said_again_after_another_rejection(tmp_path: Path) -> None:
    work = Step("干活", SPEC, "do it", gate=lambda result, ctx: result.step != "干活#round2")
    case = Case(tmp_path, {"干活·判定#1": NOT_YET, "干活·判定#3": ACHIEVED}, work=work)
    case.run()
    assert case.runner.names == ["干活", "干活·判定#1", "干活#round2", "干活#retry2", "干活·判定#3"]
    assert case.runner.prompt_of("干活#retry2") == "do it"


def test_the_step_given_is_left_as_it_was(tmp_path: Path) -> None:
    case = Case(tmp_path, {})
    assert case.work.gate is None
    assert case.work.retries == 0
    assert (case.guarded.name, case.guarded.spec, case.guarded.prompt) == ("干活", SPEC, "do it")
    assert case.guarded.retries == 2


def test_two_guarded_steps_count_their_rounds_apart(tmp_path: Path) -> None:
    case = Case(tmp_path, {"干活·判定#1": NOT_YET, "干活·判定#2": ACHIEVED, "more·判定#1": ACHIEVED})
    more = with_goal(Step("more", SPEC, "p"), case.channel, goal_path=case.goal_path)
    case.flow = Workflow([case.guarded, more], continuous=False)
    ctx = case.run()
    assert case.runner.names[-1] == "more·判定#1"
    assert ctx[ROUND_KEY] == 1


def test_the_judge_may_run_commands_only_when_told_so(tmp_path: Path) -> None:
    script = {"干活·判定#1": ACHIEVED}
    may, may_not = Case(tmp_path / "1", script, can_run=True), Case(tmp_path / "2", script)
    may.run()
    may_not.run()
    assert "Bash" in may.runner.calls[1].spec.allowed_tools
    assert "Bash" not in may_not.runner.calls[1].spec.allowed_tools


def test_in_english_the_judge_has_its_english_name(tmp_path: Path) -> None:
    channel = HumanChannel(timeout_s=0, lang="en")
    runner = ScriptedRunner(tmp_path, {"Work·verdict#1": "## Conclusion\nachieved\n## Reason\nseen"})
    step = with_goal(Step("Work", SPEC, "p"), channel, goal_path=tmp_path / "goal.md")
    ctx = asyncio.run(Workflow([step]).run(runner))
    assert runner.names == ["Work", "Work·verdict#1"]
    assert ctx["Work"] == "done"
