"""One step of a workflow, as data, and what a workflow needs of the thing that runs agents."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, get_args

from flower_core.agent import AgentSpec
from flower_core.events import Event, EventSink, SafeSink
from flower_core.manifest import StepResult

if TYPE_CHECKING:
    from flower_core.workbench import Workbench

T = TypeVar("T")
#: What the steps of one run share. Keys that start with "_" belong to the framework.
Context = dict[str, Any]
OnFail = Literal["stop", "skip", "continue"]
Prompt = str | Callable[[Context], str]
Gate = Callable[[StepResult, Context], bool | Awaitable[bool]]
When = Callable[[Context], bool | Awaitable[bool]]
OnReject = Callable[[StepResult, Context], str | Awaitable[str]]
Reduce = Callable[[StepResult, Context], Any]
SessionSink = Callable[[str, str], None]

ON_FAIL: tuple[str, ...] = get_args(OnFail)


class Runner(Protocol):
    """What a workflow needs of :class:`~flower_core.runtime.Runtime`; tests bring a scripted one.

    ``on_session`` is called with (step name, session id) the moment an id is known; a workflow puts its own
    in front of it for the length of a run. ``ui_errors`` collects what front ends raised.
    """

    on_session: SessionSink | None

    @property
    def workspace(self) -> Path:
        """The agents' current directory."""
        ...

    @property
    def run_dir(self) -> Path:
        """Where the books are: sessions, manifest, lineage."""
        ...

    @property
    def workbench(self) -> Workbench | None:
        """The workbench whose index the agents see."""
        ...

    @property
    def run_id(self) -> str:
        """The name of this run in the manifest."""
        ...

    @property
    def ui_errors(self) -> list[str]:
        """What front ends raised, one line each."""
        ...

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
        """One session, or the continuation of one; failure is a result that is not ``ok``, never an exception."""
        ...

    def has_session(self, session_id: str, /) -> bool:
        """Whether that session is there to be resumed."""
        ...

    def total_cost(self) -> float:
        """US dollars spent by this runner so far."""
        ...


@dataclass(frozen=True)
class Step:
    """One declared step: who (``spec``) is told what (``prompt``), and when that counts as done.

    ``name`` is the key in the context, in the manifest and in the lineage; it must not start with "_".
    ``prompt`` and ``resume_prompt`` are texts, or functions of the context. ``resume_prompt`` is said instead
    of ``prompt`` when the step goes on in the session an earlier run left behind.
    ``resume_from`` names an earlier step whose session this one continues (a copy of it with ``fork``).
    ``retries`` is the number of further attempts, >= 0. ``when`` decides whether the step runs at all;
    ``gate`` whether what came out will do; ``on_reject`` what the rejected session is told next. These three
    may be ``async``. ``reduce`` makes what later steps see of the result; without it they see its text.
    ``on_fail``: ``stop`` ends the workflow, ``skip`` goes on without a value, ``continue`` with the raw text.
    ``files`` are the files the step freezes or is judged by: they must lie inside the workbench, if there is one.

    Raises ValueError for a name that is empty or starts with "_", an unknown ``on_fail``, negative
    ``retries``, and ``fork`` without ``resume_from``.
    """

    name: str
    spec: AgentSpec
    prompt: Prompt
    resume_from: str | None = None
    fork: bool = False
    retries: int = 0
    gate: Gate | None = None
    on_fail: OnFail = "stop"
    when: When | None = None
    on_reject: OnReject | None = None
    resume_prompt: Prompt | None = None
    reduce: Reduce | None = None
    files: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("a step needs a name")
        if self.name.startswith("_"):
            raise ValueError(f"step name {self.name!r}: names with a leading underscore belong to the framework")
        if self.on_fail not in ON_FAIL:
            raise ValueError(f"step {self.name!r}: unknown on_fail {self.on_fail!r}; use one of {', '.join(ON_FAIL)}")
        if self.retries < 0:
            raise ValueError(f"step {self.name!r}: retries must be 0 or more, not {self.retries}")
        if self.fork and self.resume_from is None:
            raise ValueError(f"step {self.name!r}: fork needs resume_from, the step whose session is copied")


def render(prompt: Prompt, ctx: Context) -> str:
    """``prompt`` as text: itself, or what it makes of the context."""
    return prompt if isinstance(prompt, str) else prompt(ctx)


async def settled(value: T | Awaitable[T]) -> T:
    """What a callback returned, awaited if it is awaitable: callbacks may be plain or ``async`` functions."""
    if isinstance(value, Awaitable):
        return await value
    return value


def emit(ctx: Context, event: Event) -> None:
    """Hand ``event`` to the sink of the run ``ctx`` belongs to, if there is one. Never raises."""
    runner: Runner | None = ctx.get("_runtime")
    SafeSink(ctx.get("_on_event"), [] if runner is None else runner.ui_errors)(event)
