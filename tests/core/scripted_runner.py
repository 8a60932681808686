"""A runner that plays a script: what each named session says, whether it fails, what it costs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from flower_core.agent import AgentSpec
from flower_core.events import Event, EventSink
from flower_core.manifest import StepResult
from flower_core.workbench import Workbench


@dataclass(frozen=True)
class Call:
    """One session that was asked for."""

    name: str
    prompt: str
    resume: str | None
    fork: bool
    spec: AgentSpec


@dataclass(frozen=True)
class Reply:
    """What a session comes to. ``meanwhile`` happens while it runs; without ``session`` it never gets an id."""

    text: str = "done"
    ok: bool = True
    error: str = ""
    cost: float = 0.0
    session: bool = True
    meanwhile: Callable[[Call], None] | None = None
    hang: bool = False


@dataclass
class ScriptedRunner:
    """Answers by the name of the step; who is not in the script says "done"."""

    home: Path
    script: Mapping[str, str | Reply] = field(default_factory=dict)
    workbench: Workbench | None = None
    known_sessions: Iterable[str] = ()
    prefix: str = "s"

    def __post_init__(self) -> None:
        self.workspace = self.home / "workspace"
        self.run_dir = self.home / "runs"
        self.workspace.mkdir(parents=True, exist_ok=True)
        self.run_id = "r1"
        self.ui_errors: list[str] = []
        self.on_session: Callable[[str, str], None] | None = None
        self.calls: list[Call] = []
        self.results: list[StepResult] = []
        self.sessions = set(self.known_sessions)
        #: Set once a session hangs.
        self.hanging = asyncio.Event()

    @property
    def names(self) -> list[str]:
        """The sessions that were asked for, in order."""
        return [call.name for call in self.calls]

    def prompt_of(self, name: str) -> str:
        """What the session of that name was told; fails the test when it never ran or ran twice."""
        (call,) = [call for call in self.calls if call.name == name]
        return call.prompt

    async def run(
        self,
        spec: AgentSpec,
        prompt: str,
        *,
        step_name: str = "",
        resume: str | None = None,
        fork: bool = False,
        resume_at: str | None = None,
        on_event: EventSink | None = None,
    ) -> StepResult:
        call = Call(step_name, prompt, resume, fork, spec)
        self.calls.append(call)
        said = self.script.get(step_name, "done")
        reply = Reply(said) if isinstance(said, str) else said
        session = (resume if resume and not fork else f"{self.prefix}{len(self.calls)}") if reply.session else ""
        if session:
            self.sessions.add(session)
            if self.on_session is not None:
                self.on_session(step_name, session)
        await asyncio.sleep(0)
        if on_event is not None:
            on_event(Event("text", reply.text))
        if reply.meanwhile is not None:
            reply.meanwhile(call)
        if reply.hang:
            self.hanging.set()
            await asyncio.Event().wait()
        result = StepResult(
            step=step_name,
            session_id=session,
            ok=reply.ok,
            text=reply.text,
            error=reply.error,
            cost_usd=reply.cost,
            resumed=resume is not None,
        )
        self.results.append(result)
        return result

    def has_session(self, session_id: str) -> bool:
        return session_id in self.sessions

    def total_cost(self) -> float:
        return sum(result.cost_usd for result in self.results)
