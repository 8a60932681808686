"""The two flows every server has: the starter flow, and a single agent."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flower_core.agent import READ_TOOLS, AgentSpec
from flower_core.events import Event, EventSink
from flower_core.human import HumanChannel
from flower_core.lineage import Lineage
from flower_core.runtime import SESSIONS_FILE, Runtime
from flower_core.sessions import SqliteSessionStore
from flower_core.texts import texts_for
from flower_core.workbench import Workbench
from flower_core.workflow import starter_flow, wake_state
from flower_http.errors import invalid_body
from flower_http.flows import Flow, FlowContext, Links, StepSink

ONCE_STEP = "once"


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


def check_starter(context: FlowContext) -> None:
    """Raise Problem 422 for a starter flow without a task where there is nothing to wake."""
    params = context.request
    if params.task.strip():
        return
    state = wake_state(context.workspace, context.run_dir, workbench=context.workbench, lang=context.lang)
    if params.new or not state.anything:
        raise invalid_body({"task": ["must say what is to be done: there is nothing to wake in this workspace"]})


def check_once(context: FlowContext) -> None:
    """Raise Problem 422 without a task, and for a session to resume that is not there, or cannot be read."""
    params = context.request
    if not params.task.strip():
        raise invalid_body({"task": ["must say what is to be done"]})
    if params.resume is None:
        return
    try:
        known = _has_session(context.run_dir / SESSIONS_FILE, params.resume)
    except (OSError, sqlite3.Error) as error:
        raise invalid_body({"resume": [f"the sessions of this workspace cannot be read: {error}"]}) from error
    if not known:
        # The agent program would say so, too, but only after every attempt at what cannot succeed.
        raise invalid_body({"resume": ["there is no such session in this workspace; name the one it was held in"]})


def starter(context: FlowContext, links: Links) -> Flow:
    """The starter flow of one run."""
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


def once(context: FlowContext, links: Links) -> Flow:
    """The single agent of one run."""
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
