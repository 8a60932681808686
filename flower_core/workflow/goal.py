"""The step that turns the brief into a goal with a checklist, and freezes it before work begins."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flower_core.agent import AgentSpec
from flower_core.documents import Goal
from flower_core.events import Event
from flower_core.manifest import StepResult
from flower_core.roles import judge
from flower_core.texts import Texts, texts_for
from flower_core.workflow.clarify import current_brief
from flower_core.workflow.step import Context, OnFail, Step, emit

if TYPE_CHECKING:
    from flower_core.human import HumanChannel

#: The :class:`~flower_core.documents.Goal` of this run.
GOAL_KEY = "_goal"
#: The display names of the sections that were missing; only there while some are.
GOAL_MISSING_KEY = "_goal_missing"


def goal_step(
    channel: HumanChannel,
    *,
    goal_path: Path | str,
    brief_key: str | None = None,
    name: str | None = None,
    spec: AgentSpec | None = None,
    instructions: str = "",
    always_set: bool = False,
    on_fail: OnFail = "stop",
    retries: int = 2,
    brief_path: Path | str | None = None,
    lang: str | None = None,
    **spec_kw: Any,
) -> Step:
    """A step that sets the goal and freezes it at ``goal_path``.

    It reads the brief from its file (``brief_path``, or where the clarifying step keeps it), else from
    ``ctx[brief_key]``. With a complete goal on disk the step is skipped and hands on what stands there, unless
    ``always_set``. When checks are marked as not verifiable here, a ``task`` event says so at once: payload
    kind "goal", unverifiable (those checks), total (number of checks), path.

    ``spec`` replaces the judge altogether; otherwise ``instructions`` and ``spec_kw`` go to
    :func:`flower_core.roles.judge`. ``name`` and ``brief_key`` default to the step names of ``lang``,
    which is the channel's own unless given.
    Raises ValueError as :class:`Step` does, and at run time when there is no brief at all.
    """
    texts = texts_for(lang or channel.lang)
    setting = _GoalSetting(
        name or texts("workflow.steps.goal"),
        Path(goal_path),
        None if brief_path is None else Path(brief_path),
        brief_key or texts("workflow.steps.clarify"),
        always_set,
        texts,
    )
    if spec is None:
        spec = judge(texts("workflow.agents.judge"), channel, instructions=instructions, lang=texts.lang, **spec_kw)
    return Step(
        setting.name,
        spec,
        setting.prompt,
        retries=retries,
        gate=setting.gate,
        on_fail=on_fail,
        when=setting.when,
        on_reject=setting.on_reject,
        reduce=setting.reduce,
        files=tuple(path for path in (setting.path, setting.brief_path) if path is not None),
    )


@dataclass(frozen=True)
class _GoalSetting:
    """The callbacks of one goal-setting step."""

    name: str
    path: Path
    brief_path: Path | None
    brief_key: str
    always_set: bool
    texts: Texts

    def prompt(self, ctx: Context) -> str:
        where, brief = current_brief(ctx, self.texts.lang, self.brief_path)
        text = ctx.get(self.brief_key, "") if brief is None else brief.prompt_block()
        if not text:
            raise ValueError(f"step {self.name!r} needs a brief: no file {where}, no ctx[{self.brief_key!r}]")
        return self.texts(
            "workflow.goal.prompt",
            brief_path=where or self.texts("workflow.brief.no_file"),
            brief=text,
            goal_path=self.path,
        )

    def when(self, ctx: Context) -> bool:
        goal = None if self.always_set else load_goal(self.path, self.texts.lang)
        if goal is None or not goal.complete():
            return True
        ctx[GOAL_KEY] = goal
        ctx[self.name] = goal.to_markdown()
        return False

    def gate(self, result: StepResult, ctx: Context) -> bool:
        goal = Goal.parse(result.text, lang=self.texts.lang)
        missing = goal.missing()
        if missing:
            ctx[GOAL_MISSING_KEY] = missing
            return False
        ctx.pop(GOAL_MISSING_KEY, None)
        goal.write(self.path)
        ctx[GOAL_KEY] = goal
        if goal.unverifiable:
            emit(ctx, self._warning(goal))
        return True

    def on_reject(self, result: StepResult, ctx: Context) -> str:
        missing = ctx.get(GOAL_MISSING_KEY) if result.ok else None
        if not missing:
            return self.prompt(ctx)
        return self.texts("workflow.goal.missing", sections=self.texts("workflow.list.comma").join(missing))

    def reduce(self, result: StepResult, ctx: Context) -> str:
        goal: Goal = ctx[GOAL_KEY]
        return goal.to_markdown()

    def _warning(self, goal: Goal) -> Event:
        # Such a check cannot pass whatever is done: saying so now is free, finding it out by judging is not.
        checks = list(goal.unverifiable)
        text = self.texts(
            "workflow.goal.unverifiable",
            total=len(goal.checks),
            count=len(checks),
            path=self.path,
            checks="\n".join(f"· {check}" for check in checks),
        )
        payload = {"kind": "goal", "unverifiable": checks, "total": len(goal.checks), "path": str(self.path)}
        return Event("task", text, payload=payload)


def load_goal(path: Path, lang: str) -> Goal | None:
    """The goal at ``path``, complete or not; None when there is no such file."""
    try:
        return Goal.load(path, lang=lang)
    except FileNotFoundError:
        return None
