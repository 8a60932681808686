"""What a flow is, what it is told about its run, and what it says of itself once it has ended.

Whoever writes a flow needs :class:`FlowContext`, :func:`takes` and :class:`BadParam`; docs/writing-a-workflow.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from flower_core.events import EventSink
from flower_core.human import HumanChannel
from flower_core.manifest import StepResult
from flower_core.runtime import Runtime
from flower_core.workbench import Workbench
from flower_core.workflow import VERDICT_KEY
from flower_http.schemas import StartParams

Maker = TypeVar("Maker", bound=Callable[..., Any])
ReadParams = Callable[[Mapping[str, str]], object]
StepSink = Callable[[Any, StepResult], None]
#: The least budget there is: the agent program stops at its first request.
_NEXT_TO_NOTHING_USD = 0.000001
#: Where :func:`takes` leaves its note, on the function that makes the flow.
_READ = "flower_read_params"


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


class BadParam(ValueError):
    """A parameter that a flow does not take, or not with this value: its ``name``, and ``why``, for the client."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name}: {why}")
        self.name = name
        self.why = why


def takes(read: ReadParams) -> Callable[[Maker], Maker]:
    """Have ``read`` look at the parameters of every run this function is to make a flow for, before there is a run.

    ``read`` gets what :attr:`FlowContext.params` will be and raises :class:`BadParam`, or another ValueError when it is
    not about one parameter: the request is refused with 422, and these words. What it returns is for the flow's own
    use. It should do nothing else, for nothing of the run is there yet.
    """

    def note(make: Maker) -> Maker:
        setattr(make, _READ, read)
        return make

    return note


def reader_of(make: object) -> ReadParams | None:
    """What :func:`takes` was told about ``make``, None where nothing was."""
    found: ReadParams | None = getattr(make, _READ, None)
    return found


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
