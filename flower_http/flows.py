"""What a run can be made of: the starter flow, a single agent, or a flow the operator registered."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from flower_core.agent import READ_TOOLS, AgentSpec
from flower_core.events import Event, EventSink
from flower_core.human import HumanChannel
from flower_core.lineage import Lineage
from flower_core.manifest import StepResult
from flower_core.runtime import SESSIONS_FILE, Runtime
from flower_core.sessions import SqliteSessionStore
from flower_core.texts import texts_for
from flower_core.workbench import Workbench
from flower_core.workflow import VERDICT_KEY, Workflow, starter_flow, wake_state
from flower_core.worktrees import check_repository
from flower_http.errors import Problem, StartError, invalid_body
from flower_http.schemas import StartParams

StepSink = Callable[[Any, StepResult], None]
#: The least budget there is: the agent program stops at its first request.
_NEXT_TO_NOTHING_USD = 0.000001
ONCE_STEP = "once"


class Flow(Protocol):
    """What a run runs; a :class:`Workflow` is one."""

    channel: HumanChannel | None
    workbench: Workbench | None

    async def run(
        self, runtime: Runtime, *, on_event: EventSink | None = None, on_step: StepSink | None = None
    ) -> dict[str, Any]:
        """Run to the end; the context says how it went, as a workflow's does."""
        ...


@dataclass(frozen=True)
class FlowContext:
    """What a registered flow is told about the run it is made for.

    ``task`` is what is to be done, ``workspace`` where the agents work, ``run_dir`` where the books are, ``workbench``
    what the flow and its runtime share, ``params`` what was given as ``--param``, ``lang`` the language of the run, and
    ``request`` all that was asked for, checked.
    """

    task: str
    workspace: Path
    run_dir: Path
    workbench: Workbench
    params: Mapping[str, str] = field(default_factory=dict)
    lang: str = "en"
    request: StartParams = field(default_factory=StartParams)

    def channel(self, **options: Any) -> HumanChannel:
        """A channel for this run: in its language, with its limits; ``options`` as for HumanChannel."""
        ours = {"max_asks": self.request.max_asks, "timeout_s": self.request.timeout_s, "lang": self.lang}
        return HumanChannel(**{**ours, **options})


@dataclass(frozen=True)
class Links:
    """What ties a flow to its run: where its session is noted, and what a resumed run already knows."""

    session_file: Path
    resumed: bool = False
    opening: str = ""
    cut_off: tuple[str, int] | None = None
    spent_usd: float = 0.0

    def left_of(self, budget_usd: float | None) -> float | None:
        """What earlier processes of the run have left of its budget; next to nothing once it is gone."""
        return None if budget_usd is None else max(budget_usd - self.spent_usd, _NEXT_TO_NOTHING_USD)


@dataclass
class OnceFlow:
    """One agent, one prompt: no questions, no judge.

    ``session_file`` notes the session the moment it is known; a run that went down with its server goes on in it.
    """

    spec: AgentSpec
    prompt: str
    session_file: Path
    resume: str | None = None
    fork: bool = False
    opening: str = ""
    channel: HumanChannel | None = None
    workbench: Workbench | None = None

    async def run(
        self, runtime: Runtime, *, on_event: EventSink | None = None, on_step: StepSink | None = None
    ) -> dict[str, Any]:
        """Run the agent; the context is that of a workflow with a single step."""
        lineage = Lineage(self.session_file, runtime.workspace).load(runtime.has_session)
        runtime.on_session = lineage.set
        resume, fork, prompt = self.resume, self.fork, self.prompt
        begun = lineage.get(ONCE_STEP)
        if begun is not None:
            resume, fork, prompt = begun, False, texts_for(self.spec.lang)("runtime.continue")
        if on_event is not None:
            payload = {"index": 1, "total": 1, "resumed": resume is not None, "woke": False, "round": 1}
            on_event(Event("step", ONCE_STEP, payload=payload))
        prompt = "\n\n".join(filter(None, (self.opening, prompt)))
        result = await runtime.run(self.spec, prompt, step_name=ONCE_STEP, resume=resume, fork=fork, on_event=on_event)
        if on_step is not None:
            on_step(None, result)
        ended = {ONCE_STEP: result.text} if result.ok else {"_failed_at": ONCE_STEP}
        return {"_results": {ONCE_STEP: result}, **ended}


class Flows:
    """The flows of one server: the two built in, and ``registered`` names with their import targets.

    A target is ``module:attr`` or ``file.py:attr``. Raises StartError for one that cannot be loaded.
    """

    def __init__(self, registered: Mapping[str, str]) -> None:
        self._registered = {name: _load(name, target) for name, target in registered.items()}

    def check(self, context: FlowContext) -> None:
        """Refuse what cannot be run, before anything is kept of it. Raises Problem 422."""
        params = context.request
        if params.isolate:
            _check_isolation(context.workspace)
        if params.flow == "starter":
            self._check_starter(context)
        elif params.flow == ONCE_STEP:
            self._check_once(context)
        elif params.flow not in self._registered:
            names = ", ".join(["starter", "once", *self._registered])
            raise Problem(422, "unknown-flow", f"there is no flow {params.flow!r}; there are: {names}")

    def make(self, context: FlowContext, links: Links) -> Flow:
        """The flow of one run. Raises what the flow's own maker raises."""
        name = context.request.flow
        if name == "starter":
            return _starter(context, links)
        if name == ONCE_STEP:
            return _once(context, links)
        flow = self._custom(name, context)
        # A copy: a ready object must not tell its next run what was said to this one.
        return replace(flow, opening=links.opening, cut_off=links.cut_off) if links.opening or links.cut_off else flow

    def alone(self, name: str) -> str:
        """``name`` if that flow is one object, which serves one run at a time; else ""."""
        return name if isinstance(self._registered.get(name), Workflow) else ""

    @staticmethod
    def _check_starter(context: FlowContext) -> None:
        params = context.request
        if params.task.strip():
            return
        state = wake_state(context.workspace, context.run_dir, workbench=context.workbench, lang=context.lang)
        if params.new or not state.anything:
            raise invalid_body({"task": ["must say what is to be done: there is nothing to wake in this workspace"]})

    @staticmethod
    def _check_once(context: FlowContext) -> None:
        params = context.request
        if not params.task.strip():
            raise invalid_body({"task": ["must say what is to be done"]})
        if params.resume is not None and not _has_session(context.run_dir / SESSIONS_FILE, params.resume):
            # The agent program would say so, too, but only after every attempt at what cannot succeed.
            raise invalid_body({"resume": ["there is no such session in this workspace; name the one it was held in"]})

    def _custom(self, name: str, context: FlowContext) -> Workflow:
        target = self._registered[name]
        if isinstance(target, Workflow):
            return target
        made = target(context) if _takes_argument(target) else target()
        if not isinstance(made, Workflow):
            raise TypeError(f"flow {name!r} made a {type(made).__name__}, not a Workflow")
        return made


def _check_isolation(workspace: Path) -> None:
    try:
        check_repository(workspace)
    except (OSError, ValueError) as error:
        raise invalid_body({"isolate": [str(error)]}) from error


def _starter(context: FlowContext, links: Links) -> Flow:
    params = context.request
    return starter_flow(
        params.task,
        workspace=context.workspace,
        run_dir=context.run_dir,
        new=params.new,
        isolate=params.isolate,
        clarify_only=params.clarify_only,
        goal=params.goal,
        rounds=params.rounds,
        judge_can_run=params.judge_can_run,
        max_asks=params.max_asks,
        timeout_s=params.timeout_s,
        instructions=params.instructions,
        lang=context.lang,
        model=params.model,
        budget_usd=links.left_of(params.budget_usd),
        workbench=context.workbench,
        resumed=links.resumed,
        opening=links.opening,
        cut_off=links.cut_off,
    )


def _once(context: FlowContext, links: Links) -> Flow:
    params = context.request
    spec = AgentSpec(
        ONCE_STEP,
        params.instructions,
        allowed_tools=READ_TOOLS if params.tools is None else params.tools,
        model=params.model,
        max_budget_usd=links.left_of(params.budget_usd),
        permission_mode=params.permission_mode or "dontAsk",  # type: ignore[arg-type]  # one of the modes, by schema
        workbench=False,
        lang=context.lang,
    )
    return OnceFlow(
        spec, params.task, links.session_file, resume=params.resume, fork=params.fork, opening=links.opening
    )


def _has_session(path: Path, session_id: str) -> bool:
    if not path.exists():  # opening it would make it
        return False
    store = SqliteSessionStore(path)
    try:
        return store.has_session(session_id)
    finally:
        store.close()


def _load(name: str, target: str) -> Any:
    place, _, attribute = target.rpartition(":")
    try:
        module = _load_file(name, Path(place)) if place.endswith(".py") else importlib.import_module(place)
        found = getattr(module, attribute)
    except (Exception, SystemExit) as error:  # a script without a main guard may end the program
        raise StartError(f"--flow {name}={target}: {type(error).__name__}: {error}") from error
    if not isinstance(found, Workflow) and not callable(found):
        raise StartError(f"--flow {name}={target}: is a {type(found).__name__}, neither a Workflow nor callable")
    return found


def _load_file(name: str, path: Path) -> Any:
    module_name = f"flower_flow_{name.replace('-', '_')}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # dataclasses and pickling look a class's module up there
    spec.loader.exec_module(module)
    return module


def _takes_argument(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind(object())
    except TypeError:
        return False
    return True


def outcome(ctx: Mapping[str, Any]) -> dict[str, Any]:
    """What a finished flow says of itself, as the payload of ``run.finished``."""
    results: dict[str, StepResult] = ctx.get("_results", {})
    failed_at = ctx.get("_failed_at")
    last = list(results.values())[-1] if results else None
    finish: dict[str, Any] = {
        "state": "failed" if failed_at else "succeeded",
        "result": last.text if last is not None else "",
    }
    if failed_at:
        failing = results.get(failed_at)
        finish["failed_at"] = failed_at
        finish["error"] = failing.error if failing is not None else ""
    if ctx.get("_aborted"):
        finish["aborted"] = str(ctx["_aborted"])
    verdict = ctx.get(VERDICT_KEY)
    if verdict is not None:
        finish["verdict"] = {"state": verdict.state, "reason": verdict.reason, "failed": list(verdict.failed)}
    return finish
