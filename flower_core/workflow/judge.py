"""Whether the work is done is not for the worker to say: rounds of work, each judged in a session of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flower_core.agent import AgentSpec
from flower_core.documents import Goal, Verdict
from flower_core.errors import StepAbort
from flower_core.events import Event
from flower_core.manifest import StepResult
from flower_core.roles import judge
from flower_core.texts import Texts, texts_for
from flower_core.workflow.budget import capped
from flower_core.workflow.clarify import current_brief
from flower_core.workflow.goal import GOAL_KEY, load_goal
from flower_core.workflow.step import Context, Runner, Step, emit, settled
from flower_core.workflow.unreachable import SAID_KEY, Decision, ask_what_now

if TYPE_CHECKING:
    from flower_core.human import HumanChannel

#: The last :class:`~flower_core.documents.Verdict`.
VERDICT_KEY = "_verdict"
#: How many rounds of work have been run, the one being judged included.
ROUND_KEY = "_goal_rounds"
_WORDS_KEY = "_goal_feedback"


def with_goal(
    step: Step,
    channel: HumanChannel,
    *,
    goal_path: Path | str,
    spec: AgentSpec | None = None,
    rounds: int = 3,
    instructions: str = "",
    can_run: bool = False,
    name: str | None = None,
    brief_path: Path | str | None = None,
    lang: str | None = None,
    **spec_kw: Any,
) -> Step:
    """``step`` in a loop of at most ``rounds`` (>= 1, the total) rounds of work, each judged by the goal.

    The judge runs in a new session named "<name>#N" (``name`` defaults to "<step>·判定" in zh). Achieved
    passes. Not yet, or no clear conclusion, sends the step back with what is missing. Unreachable asks a
    person: accept, change the goal, or carry on; when nobody answers the step is given up. A gate that
    ``step`` already has is asked first, so hard conditions cost no judge.

    Every verdict is a ``task`` event: payload kind "verdict", step, round, state, reason, failed.

    ``spec`` replaces the judge; otherwise ``instructions``, ``can_run`` (whether it may run commands) and
    ``spec_kw`` go to :func:`flower_core.roles.judge`. The brief is read from ``brief_path``, or where the
    clarifying step keeps it. Raises ValueError for ``rounds`` below 1.
    """
    if rounds < 1:
        raise ValueError(f"rounds is the total number of rounds, at least 1, not {rounds}")
    texts = texts_for(lang or channel.lang)
    if spec is None:
        agent = texts("workflow.agents.judge")
        spec = judge(agent, channel, can_run=can_run, instructions=instructions, lang=texts.lang, **spec_kw)
    guard = _Guard(
        step,
        channel,
        Path(goal_path),
        None if brief_path is None else Path(brief_path),
        spec,
        rounds,
        name or texts("workflow.steps.verdict", step=step.name),
        texts,
    )
    return replace(
        step,
        gate=guard.gate,
        on_reject=guard.on_reject,
        retries=rounds - 1,
        files=(*step.files, *(path for path in (guard.goal_path, guard.brief_path) if path is not None)),
    )


@dataclass(frozen=True)
class _Guard:
    """The gate of a guarded step, and what it tells the work that it sends back."""

    step: Step
    channel: HumanChannel
    goal_path: Path
    brief_path: Path | None
    spec: AgentSpec
    rounds: int
    name: str
    texts: Texts

    async def gate(self, result: StepResult, ctx: Context) -> bool:
        """Judge one round. Raises StepAbort where neither a pass nor another round is right."""
        ctx.pop(_WORDS_KEY, None)
        if self.step.gate is not None and not await settled(self.step.gate(result, ctx)):
            if self.step.on_reject is not None:
                ctx[_WORDS_KEY] = await settled(self.step.on_reject(result, ctx))
            return False
        runner: Runner | None = ctx.get("_runtime")
        if runner is None:
            raise StepAbort(self.texts("workflow.abort.no_runtime"))
        number = ctx[ROUND_KEY] = self._round(ctx)
        verdict = await self._judge(runner, ctx, number)
        ctx[VERDICT_KEY] = verdict
        emit(ctx, self._event(verdict, number))
        if verdict.ok:
            return True
        if verdict.state == "unreachable":
            return self._follow(await self._what_now(verdict, ctx, number), ctx)
        ctx[_WORDS_KEY] = verdict.feedback()
        return False

    def on_reject(self, result: StepResult, ctx: Context) -> str:
        """What the session that did the work is told next."""
        if not result.ok:
            return self.texts("workflow.work.broke_off")
        words: str = ctx.get(_WORDS_KEY, "")
        return words

    def _round(self, ctx: Context) -> int:
        # The workflow counts attempts; a gate called by anything else counts its own.
        place = ctx.get("_step", {})
        counted: int = place["round"] if place.get("name") == self.step.name else ctx.get(ROUND_KEY, 0) + 1
        return counted

    async def _judge(self, runner: Runner, ctx: Context, number: int) -> Verdict:
        spec = capped(self.spec, ctx)
        if spec is None:
            raise StepAbort(self._failed(self.texts("workflow.budget.used_up")))
        name = f"{self.name}#{number}"
        place = ctx.get("_step", {"index": 1, "total": 1})
        payload = {"index": place["index"], "total": place["total"], "resumed": False, "round": number}
        emit(ctx, Event("step", name, payload={**payload, "woke": bool(ctx.get("_woke"))}))
        result = await runner.run(spec, self._prompt(runner, ctx), step_name=name, on_event=ctx.get("_on_event"))
        if not result.ok:
            # Another round of work would cost as much and know as little.
            raise StepAbort(self._failed(result.error))
        return Verdict.parse(result.text, lang=self.texts.lang)

    def _failed(self, error: str) -> str:
        return self.texts("workflow.abort.judge_failed", error=error)

    def _prompt(self, runner: Runner, ctx: Context) -> str:
        """What the judge is told: where everything stands, and what was said meanwhile. Not how often it was tried."""
        texts = self.texts
        where, brief = current_brief(ctx, texts.lang, self.brief_path)
        amendments = "" if brief is None else brief.amendments.strip()
        goal: Goal | None = load_goal(self.goal_path, texts.lang) or ctx.get(GOAL_KEY)
        said = "\n\n".join(words for words in ctx.get(SAID_KEY, []) if words not in amendments)
        blocks = (
            texts("workflow.verdict.goal", goal=goal.prompt_block()) if goal is not None else "",
            texts("workflow.verdict.amendments", amendments=amendments) if amendments else "",
            texts("workflow.verdict.said", said=said) if said else "",
        )
        return texts(
            "workflow.verdict.prompt",
            workspace=runner.workspace,
            goal_path=self.goal_path,
            brief_path=where or texts("workflow.brief.no_file"),
            documents="\n\n".join(filter(None, blocks)),
        )

    async def _what_now(self, verdict: Verdict, ctx: Context, number: int) -> Decision:
        return await ask_what_now(
            self.channel,
            ctx,
            self.texts,
            reason=verdict.reason,
            goal_path=self.goal_path,
            brief_path=current_brief(ctx, self.texts.lang, self.brief_path)[0],
            left=self.rounds - number,
        )

    def _follow(self, decision: Decision, ctx: Context) -> bool:
        ctx[_WORDS_KEY] = decision.words
        return decision.accepted

    def _event(self, verdict: Verdict, number: int) -> Event:
        state = self.texts(f"workflow.verdict.{verdict.state or 'unclear'}")
        text = self.texts("workflow.verdict.event", number=number, state=state, reason=verdict.reason).strip()
        payload = {
            "kind": "verdict",
            "step": self.step.name,
            "round": number,
            "state": verdict.state,
            "reason": verdict.reason,
            "failed": list(verdict.failed),
        }
        return Event("task", text, payload=payload)
