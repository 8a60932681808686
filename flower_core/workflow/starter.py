"""The flow that needs no configuration: clarify, set a goal, work until a judge is satisfied."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flower_core.agent import AgentSpec
from flower_core.human import Ask, HumanChannel
from flower_core.roles import coordinator, integrator, worker
from flower_core.texts import DEFAULT_LANG, Texts, texts_for
from flower_core.workbench import Workbench, workbench_of
from flower_core.workflow import wake
from flower_core.workflow.clarify import clarify_step, current_brief
from flower_core.workflow.goal import goal_step
from flower_core.workflow.judge import with_goal
from flower_core.workflow.step import Context, Step
from flower_core.workflow.workflow import Workflow
from flower_core.worktrees import check_repository


def starter_flow(
    ask: str = "",
    *,
    workspace: Path | str = ".",
    run_dir: Path | str = "runs",
    new: bool = False,
    isolate: bool = False,
    clarify_only: bool = False,
    goal: bool = True,
    rounds: int = 3,
    judge_can_run: bool = False,
    max_asks: int | None = None,
    timeout_s: float | None = 1800.0,
    instructions: str = "",
    worker_prompt: str = "",
    brief_name: str | None = None,
    goal_name: str | None = None,
    log_name: str | None = None,
    lang: str = DEFAULT_LANG,
    model: str | None = None,
    budget_usd: float | None = None,
    resumed: bool = False,
    opening: str = "",
    cut_off: tuple[str, int] | None = None,
    channel: HumanChannel | None = None,
    workbench: Workbench | None = None,
    on_settle: Callable[[Ask], None] | None = None,
    first_id: int = 1,
    first_mail_id: int = 1,
) -> Workflow:
    """A workflow of three steps for the request ``ask``; its ``channel`` and ``workbench`` hang on it.

    Where an earlier run left a complete brief, ``ask`` is something said at a wake: it is appended to the
    brief, told to the work step, and the goal is derived anew. An empty ``ask`` wakes without a word. ``new``
    first moves brief, goal and lineage to ``notes/archive/<stamp>/``. ``resumed`` says that the same run goes on
    after its process died: ``ask`` is what it was started with, and is not said again.

    ``clarify_only`` and ``goal=False`` leave out the later steps and the judging. ``rounds`` (>= 1) is the total
    of rounds of work. ``judge_can_run`` lets the judge run commands. ``max_asks`` and ``timeout_s`` (seconds)
    are those of :class:`HumanChannel`, as are ``on_settle``, ``first_id`` and ``first_mail_id``; they are not
    used with a ``channel`` of your own, which should append what is said to the brief. ``instructions`` go to
    the coordinator, ``worker_prompt`` to its worker. The three names are files in the workbench's notes.
    ``budget_usd`` bounds the whole run; ``opening`` and ``cut_off`` are those of :class:`Workflow`.

    ``isolate`` has every worker work in a git worktree of its own, and adds one that merges their branches into the
    workspace, which must be the top of a git repository with a commit. The workbench moves to ``.flower-<name>`` beside
    the workspace, and stays there.

    Raises ValueError for an empty ``ask`` with nothing to wake, for ``rounds`` below 1, for ``isolate`` where the
    workspace is none for it, and as :class:`HumanChannel` and :class:`Workflow` do. Nothing has been changed on disk
    then.
    """
    texts = texts_for(lang)
    bench = workbench or workbench_of(workspace, isolate=isolate, lang=lang)
    places = wake.Places.of(bench, run_dir, lang, brief_name=brief_name, goal_name=goal_name, log_name=log_name)
    if isolate:
        check_repository(bench.workspace)
    if rounds < 1:
        raise ValueError(f"rounds is the total number of rounds, at least 1, not {rounds}")
    if not ask.strip() and (new or not wake.state_of(places.as_found()).anything):
        raise ValueError("there is nothing to wake here: say what is to be done")
    line = channel or HumanChannel(
        max_asks=max_asks,
        timeout_s=timeout_s,
        log_path=places.log,
        amend_path=places.brief,
        lang=lang,
        on_settle=on_settle,
        first_id=first_id,
        first_mail_id=first_mail_id,
    )
    afresh = new and not resumed
    waking = _Waking() if afresh else _waking(places.as_found(), ask, resumed=resumed)
    parts = _Parts(places, line, texts, model, waking, isolate)
    steps = [parts.clarify(ask)]
    if not clarify_only and goal:
        steps += [parts.goal(), parts.judged(parts.work(instructions, worker_prompt, goal), rounds, judge_can_run)]
    elif not clarify_only:
        steps.append(parts.work(instructions, worker_prompt, goal))
    flow = Workflow(
        steps,
        texts("workflow.starter.name"),
        channel=line,
        workbench=bench,
        budget_usd=budget_usd,
        opening=opening,
        cut_off=cut_off,
    )
    # Only now that nothing can be refused any more is anything changed on disk.
    bench.ensure()
    if afresh:
        wake.put_away(places)
    if waking.append:
        wake.say(places, waking.words)
    return flow


@dataclass(frozen=True)
class _Waking:
    """What a wake comes to.

    ``words`` is what was said at it, "" for nothing; ``append``: it must still be added to the brief.
    ``set_goal_anew``: although there is a goal.
    """

    words: str = ""
    append: bool = False
    set_goal_anew: bool = False


def _waking(places: wake.Places, ask: str, *, resumed: bool) -> _Waking:
    """What ``ask`` means where an earlier run may have left something. Changes nothing on disk."""
    before = wake.state_of(places)
    # A goal without its brief was derived from something that no longer holds.
    orphaned = before.goal and not before.brief
    words = ask.strip()
    if not words or not before.anything:
        return _Waking(set_goal_anew=orphaned)
    if not resumed:
        return _Waking(words, append=before.brief, set_goal_anew=before.brief or orphaned)
    # The run that died may have been a wake: then its words stand in the brief, and may not be in the goal yet.
    if before.brief and wake.was_said(places, words):
        return _Waking(words, set_goal_anew=wake.goal_is_older(places))
    return _Waking(set_goal_anew=orphaned)


@dataclass(frozen=True)
class _Parts:
    """Makes the steps."""

    places: wake.Places
    channel: HumanChannel
    texts: Texts
    model: str | None
    waking: _Waking
    isolate: bool

    def clarify(self, ask: str) -> Step:
        again = self.texts("workflow.clarify.resume")
        if self.waking.words:
            again = self.texts("workflow.clarify.resume_with", words=self.waking.words)
        return clarify_step(
            self.channel,
            brief_path=self.places.brief,
            prompt=ask.strip() or self.texts("workflow.clarify.nothing_known"),
            resume_prompt=again,
            lang=self.texts.lang,
            **self._model(),
        )

    def goal(self) -> Step:
        return goal_step(
            self.channel,
            goal_path=self.places.goal,
            brief_path=self.places.brief,
            always_set=self.waking.set_goal_anew,
            lang=self.texts.lang,
            **self._model(),
        )

    def work(self, instructions: str, worker_prompt: str, goal: bool) -> Step:
        again = self.texts("workflow.work.carry_on")
        if self.waking.words:
            again = self.texts("workflow.work.woken", words=self.waking.words, brief_path=self.places.brief)
        return Step(
            self.texts("workflow.steps.work"),
            self._coordinator(instructions, worker_prompt),
            lambda ctx: self._task(ctx, goal),
            resume_prompt=again,
        )

    def judged(self, step: Step, rounds: int, can_run: bool) -> Step:
        return with_goal(
            step,
            self.channel,
            goal_path=self.places.goal,
            brief_path=self.places.brief,
            rounds=rounds,
            can_run=can_run,
            lang=self.texts.lang,
            **self._model(),
        )

    def _coordinator(self, instructions: str, worker_prompt: str) -> AgentSpec:
        texts = self.texts
        prompt = worker_prompt or texts("workflow.work.worker_prompt")
        hands = {
            texts("workflow.agents.worker"): worker(
                texts("workflow.work.worker"), prompt, isolate=self.isolate, lang=texts.lang
            )
        }
        if self.isolate:
            hands[texts("workflow.agents.integrator")] = integrator(lang=texts.lang)
        return coordinator(
            texts("workflow.agents.coordinator"),
            instructions,
            hands,
            channel=self.channel,
            lang=texts.lang,
            **self._model(),
        )

    def _task(self, ctx: Context, goal: bool) -> str:
        # From the file: people may have added to the brief since it was frozen.
        _, brief = current_brief(ctx, self.texts.lang, self.places.brief)
        return self.texts(
            "workflow.work.prompt",
            brief="" if brief is None else brief.prompt_block(),
            brief_path=self.places.brief,
            log_path=self.places.log,
            goal=self.texts("workflow.work.goal", goal_path=self.places.goal) if goal else "",
        )

    def _model(self) -> dict[str, Any]:
        return {} if self.model is None else {"model": self.model}
