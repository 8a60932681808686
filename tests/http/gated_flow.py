"""A flow that needs no agent: what it does is its task, and a test opens its gates one by one.

It is registered with a server under test like any operator's flow, so everything around it is the real thing.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from flower_core import Event, HumanChannel
from flower_core.events import EventSink
from flower_core.workflow import Workflow
from flower_http.flows import FlowContext

_LOOK_S = 0.005


class Scene:
    """What the flows of one workspace do and wait for; found by the workspace's name."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.go = threading.Event()
        self.may_stop = threading.Event()
        self.may_stop.set()
        self.stopped = threading.Event()
        self.openings: list[str] = []
        self.told: list[str] = []
        self.channels: list[HumanChannel] = []
        #: Of a task ``ask``: wait for ``go`` first; do only that, and ask nothing.
        self.pause = False
        self.forget = False


SCENES: dict[str, Scene] = {}
_LOCK = threading.Lock()


def scene(name: str) -> Scene:
    """The scene of the workspace with this name."""
    with _LOCK:
        return SCENES.setdefault(name, Scene())


class Gated(Workflow):
    """Tasks: ``wait`` (for the gate ``go``), ``ask`` (one question), ``fail``, ``exit``, anything else ends at once."""

    async def run(self, runtime: Any, *, on_event: EventSink | None = None, on_step: Any = None) -> dict[str, Any]:
        """Do what the task says."""
        here = scene(runtime.workspace.name)
        here.openings.append(self.opening)
        task = self.context["task"]
        assert self.channel is not None
        here.channels.append(self.channel)
        if self.channel.on_event is None:
            self.channel.on_event = on_event
        if on_event is not None:
            on_event(Event("step", "Only", payload={"index": 1, "total": 1}))
        here.begun.set()
        try:
            await self._act(task, here)
        finally:
            # An agent takes its time to stop, too; a run is over only when it has.
            await _until(here.may_stop)
            here.stopped.set()
        return {"_results": {}}

    async def _act(self, task: str, here: Scene) -> None:
        if task == "fail":
            raise RuntimeError("it broke")
        if task == "exit":
            raise SystemExit(3)
        if task == "wait" or here.pause or here.forget:
            await _until(here.go)
        if task == "ask" and not here.forget:
            assert self.channel is not None
            ask = await self.channel.ask("Which one?", ["this", "that"])
            here.told.append(f"{ask.state}: {ask.answer}")


async def _until(gate: threading.Event) -> None:
    while not gate.is_set():  # noqa: ASYNC110 - it is opened from another thread
        await asyncio.sleep(_LOOK_S)


def make(context: FlowContext) -> Workflow:
    """The flow of one run."""
    return Gated([], context={"task": context.task}, channel=context.channel())


def make_without_argument() -> Workflow:
    """A flow that knows nothing of its run."""
    return Gated([], context={"task": ""}, channel=HumanChannel())


def make_nonsense() -> str:
    """Not a flow."""
    return "no workflow"


#: One object, which serves one run at a time.
SOLO = Gated([], context={"task": "ask"}, channel=HumanChannel(timeout_s=60))
