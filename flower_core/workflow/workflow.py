"""A chain of steps: runs them in order, hands on what they made, stops where one fails."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from flower_core.events import Event, EventSink, SafeSink, note
from flower_core.lineage import FILE_NAME, Lineage
from flower_core.manifest import StepResult
from flower_core.workflow.attempts import Attempt, Outcome, first_attempt, run_attempts
from flower_core.workflow.budget import BUDGET_KEY, open_budget
from flower_core.workflow.step import Context, Runner, Step, render, settled

if TYPE_CHECKING:
    from flower_core.human import HumanChannel
    from flower_core.workbench import Workbench

StepSink = Callable[[Step, StepResult], None]


@dataclass
class Workflow:
    """Steps in order, with what they share.

    ``context`` is what every run starts from (a copy of it, so one object can run again and again).
    ``channel`` is the way to ask people; for the length of a run it reports to the same event sink, unless it
    has one of its own. ``workbench`` must be the one the runtime uses. ``continuous`` lets every step go on in
    the session that a step of the same name had in an earlier run in this workspace. ``budget_usd`` (> 0)
    bounds the cost of one run in US dollars, repeated attempts and judges included. ``opening`` is put in
    front of the first prompt of a run: what happened while nobody was running. ``cut_off`` names the step and
    the round (from 1) in which this very run was when its process died: rounds are counted on from there.

    Raises ValueError for two steps of one name, for a file of a step outside the workbench, and for a budget
    that is not above 0.
    """

    steps: list[Step]
    name: str = ""
    context: Context = field(default_factory=dict)
    channel: HumanChannel | None = None
    workbench: Workbench | None = None
    continuous: bool = True
    budget_usd: float | None = None
    opening: str = ""
    cut_off: tuple[str, int] | None = None

    def __post_init__(self) -> None:
        names = [step.name for step in self.steps]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"step names must differ, these stand twice: {', '.join(twice)}")
        if self.budget_usd is not None and self.budget_usd <= 0:
            raise ValueError(f"budget_usd must be above 0, not {self.budget_usd}; leave it None for no limit")
        if self.workbench is not None:
            self._check_files(self.workbench)

    async def run(
        self,
        runtime: Runner,
        *,
        on_event: EventSink | None = None,
        on_step: StepSink | None = None,
    ) -> Context:
        """Run the steps on ``runtime`` and return the context they left.

        ``ctx["_failed_at"]`` names the step that stopped the run; without that key the run went through.
        ``on_step(step, result)`` is called once for every step that ran, failed ones included. What
        ``on_event`` and ``on_step`` raise is noted in ``runtime.ui_errors``.

        Raises ValueError when the runtime has another workbench than this workflow, when a file of a step
        lies outside it, and when ``resume_from`` names a step that has no session.
        """
        self._check(runtime)
        run = _Run(self, runtime, on_event, on_step)
        with self._listening(on_event), run.recording():
            for index, step in enumerate(self.steps, 1):
                if not await run.step(index, step):
                    break
        return run.ctx

    def _check(self, runtime: Runner) -> None:
        if self.workbench is not None:
            theirs = runtime.workbench
            if theirs is None or theirs.root.resolve() != self.workbench.root.resolve():
                raise ValueError(
                    f"the workflow's workbench is {self.workbench.root}, the runtime's is "
                    f"{theirs.root if theirs else 'missing'}; make the runtime with workbench=workflow.workbench"
                )
        elif runtime.workbench is not None:
            self._check_files(runtime.workbench)
        earlier: set[str] = set()
        for step in self.steps:
            if step.resume_from is not None and step.resume_from not in earlier:
                raise ValueError(f"step {step.name!r} continues {step.resume_from!r}, which is no step before it")
            earlier.add(step.name)

    def _check_files(self, workbench: Workbench) -> None:
        root = workbench.root.resolve()
        for step in self.steps:
            for path in step.files:
                if not Path(path).resolve().is_relative_to(root):
                    raise ValueError(
                        f"step {step.name!r} keeps {path}, which is outside the workbench {root}: "
                        "the agents would be shown an index without it"
                    )

    @contextlib.contextmanager
    def _listening(self, on_event: EventSink | None) -> Iterator[None]:
        channel = self.channel
        if channel is None or on_event is None or channel.on_event is not None:
            yield
            return
        channel.on_event = on_event
        try:
            yield
        finally:
            channel.on_event = None


class _Run:
    """One pass through a workflow: its context, its lineage, and who is told what."""

    def __init__(
        self, workflow: Workflow, runner: Runner, on_event: EventSink | None, on_step: StepSink | None
    ) -> None:
        self._workflow = workflow
        self._runner = runner
        self._on_step = on_step
        self._opening = workflow.opening
        self._emit = SafeSink(on_event, runner.ui_errors)
        self._names = {step.name for step in workflow.steps}
        self._lineage = self._load_lineage() if workflow.continuous else None
        #: Whether this run takes up what an earlier one left; one that only goes on was woken by nobody.
        woke = self._lineage is not None and bool(self._lineage.steps) and workflow.cut_off is None
        self.ctx: Context = {
            **workflow.context,
            "_runtime": runner,
            "_on_event": on_event,
            "_sessions": {},
            "_results": {},
            "_lineage": self._lineage,
            "_woke": woke,
            BUDGET_KEY: open_budget(workflow.budget_usd, runner),
        }
        if woke:
            self._write(lambda lineage: lineage.mark_woke())

    async def step(self, index: int, step: Step) -> bool:
        """Run one step and write down what came of it. False when the workflow ends here."""
        if step.when is not None and not await settled(step.when(self.ctx)):
            return True
        self.ctx["_step"] = {"name": step.name, "index": index, "total": len(self._workflow.steps)}
        outcome = await run_attempts(step, self._runner, self.ctx, self._first(step), self._announce)
        go_on = self._keep(step, outcome)
        if self._on_step is not None:
            try:
                self._on_step(step, outcome.result)
            except Exception as error:  # a progress bar must not end the run
                note(error, self._runner.ui_errors)
        return go_on

    def _first(self, step: Step) -> Attempt:
        session = self._lineage.get(step.name) if self._lineage is not None and step.resume_from is None else None
        if session is None:
            attempt = first_attempt(step, self.ctx)
        else:
            words = step.prompt if step.resume_prompt is None else step.resume_prompt
            attempt = Attempt(1, step.name, render(words, self.ctx), session)
            cut_off = self._workflow.cut_off
            if cut_off is not None and cut_off[0] == step.name and cut_off[1] > 1:
                attempt = replace(attempt, number=cut_off[1], name=f"{step.name}#round{cut_off[1]}")
        if self._opening:
            attempt = replace(attempt, prompt=f"{self._opening}\n\n{attempt.prompt}")
            self._opening = ""
        return attempt

    def _announce(self, attempt: Attempt) -> None:
        place = self.ctx["_step"]
        place["round"] = attempt.number
        payload = {
            "index": place["index"],
            "total": place["total"],
            "resumed": attempt.resume is not None,
            "woke": self.ctx["_woke"],
            "round": attempt.number,
        }
        self._emit(Event("step", attempt.name, payload=payload))

    def _keep(self, step: Step, outcome: Outcome) -> bool:
        result = outcome.result
        self.ctx["_results"][step.name] = result
        if result.session_id:
            self.ctx["_sessions"][step.name] = result.session_id
            self._remember(step.name, result.session_id)
        if outcome.passed:
            self.ctx[step.name] = step.reduce(result, self.ctx) if step.reduce is not None else result.text
            return True
        if step.on_fail == "stop":
            self.ctx["_failed_at"] = step.name
        elif step.on_fail == "continue":
            self.ctx[step.name] = result.text
        return step.on_fail != "stop"

    def _load_lineage(self) -> Lineage:
        lineage = Lineage(self._runner.run_dir / FILE_NAME, self._runner.workspace)
        return lineage.load(self._runner.has_session)

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Note the session of every step the moment it is known, for as long as the run lasts."""
        before = self._runner.on_session

        def known(name: str, session_id: str) -> None:
            # A further round is held in the step's own session, so when that hands over the step has moved, too.
            step = name.rpartition("#round")[0] or name
            if step in self._names:
                self._remember(step, session_id)
            if before is not None:
                before(name, session_id)

        self._runner.on_session = known
        try:
            yield
        finally:
            self._runner.on_session = before

    def _remember(self, name: str, session_id: str) -> None:
        self._write(lambda lineage: lineage.set(name, session_id))

    def _write(self, change: Callable[[Lineage], None]) -> None:
        if self._lineage is None:
            return
        try:
            change(self._lineage)
        except OSError as error:  # a full disk costs the continuity, not the run
            note(error, self._runner.ui_errors)
