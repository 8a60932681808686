"""What every end-to-end test stands on: the real agent program, a scripted model, a runtime between them."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from flower_core import AgentSpec, Event, Resilience, Runtime
from flower_core.rehearsal import Play, RehearsalServer, Request

T = TypeVar("T")

#: Long enough for a busy machine; nothing here ever waits that long when it works.
PATIENCE_S = 30.0
#: The agent program's own retries would only make a failing turn slow here.
QUICK = {"CLAUDE_CODE_MAX_RETRIES": "0", "CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK": "1"}
#: Retries without the waiting.
BRISK = Resilience(base_delay=0.05, max_delay=0.1, probe_interval=0.1, probe_timeout=2.0, max_attempts=4)
#: A command that would not end by itself for minutes; a plain sleep is refused by the agent program.
LONG_COMMAND = "echo started > started.txt; python3 -c 'import time; time.sleep(600)'"


def agent(*tools: str, **more: Any) -> AgentSpec:
    """A plain agent with ``tools``, played by the speaker ``agent``."""
    env = {**QUICK, **more.pop("env", {})}
    given: dict[str, Any] = {"name": "Agent", "instructions": "flower-role: agent", "lang": "en", **more}
    return AgentSpec(allowed_tools=tools, env=env, **given)


@dataclass
class Screen:
    """A sink that keeps every event and lets a test wait for one."""

    events: list[Event] = field(default_factory=list)
    _waiting: list[tuple[Callable[[Event], bool], asyncio.Event]] = field(default_factory=list)

    def __call__(self, event: Event) -> None:
        self.events.append(event)
        for wanted, seen in self._waiting:
            if wanted(event):
                seen.set()

    def kinds(self) -> list[str]:
        """The kinds of all events, oldest first."""
        return [event.kind for event in self.events]

    def of(self, kind: str) -> list[Event]:
        """The events of one kind, oldest first."""
        return [event for event in self.events if event.kind == kind]

    def results_of(self, tool: str) -> list[Event]:
        """The results of every call of ``tool``, in the order they came."""
        calls = {event.payload["id"] for event in self.of("tool_call") if event.tool == tool}
        return [event for event in self.of("tool_result") if event.payload["tool_use_id"] in calls]

    async def shows(self, kind: str, tool: str = "") -> None:
        """Wait for an event of ``kind`` (and of ``tool``), past ones included."""

        def wanted(event: Event) -> bool:
            return event.kind == kind and tool in ("", event.tool)

        seen = asyncio.Event()
        self._waiting.append((wanted, seen))
        if any(wanted(event) for event in self.events):
            return
        await asyncio.wait_for(seen.wait(), PATIENCE_S)


@dataclass
class Stage:
    """A scripted model on loopback and a home directory; :meth:`runtime` makes what a test drives."""

    server: RehearsalServer
    home: Path
    _runtimes: list[Runtime] = field(default_factory=list)

    @property
    def workspace(self) -> Path:
        """Where the agents work."""
        return self.home / "space"

    @property
    def requests(self) -> list[Request]:
        """Everything the model was asked, oldest first."""
        return self.server.app.requests

    def environ(self, **more: str) -> dict[str, str]:
        """The environment a service would have."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "ANTHROPIC_BASE_URL": self.server.url,
            "ANTHROPIC_API_KEY": "rehearsal",
            **more,
        }

    def runtime(self, *, environ: Mapping[str, str] | None = None, **more: Any) -> Runtime:
        """A runtime in this stage's workspace, closed when the test ends."""
        given: dict[str, Any] = {"run_dir": self.home / "books", "resilience": BRISK, "lang": "en", **more}
        made = Runtime(workspace=self.workspace, environ=environ or self.environ(), **given)
        self._runtimes.append(made)
        return made

    def replay(self, play: Mapping[str, Any]) -> None:
        """Let the model follow another script from here on."""
        self.server.app.play = Play.from_dict(play)

    def close(self) -> None:
        """Close the runtimes, then the model's end."""
        for runtime in self._runtimes:
            runtime.close()
        self.server.close()

    def agent_processes(self) -> list[int]:
        """The agent programs that work in this stage's workspace now."""
        return processes_in(self.workspace)


def processes_in(workspace: Path) -> list[int]:
    """The ids of all processes but this one whose current directory is ``workspace`` (Linux)."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):
                if Path(os.readlink(entry / "cwd")) == workspace:
                    found.append(int(entry.name))
    return found


def parent_of(process: int) -> int:
    """The id of the process that started ``process``, 0 when that is gone (Linux)."""
    with suppress(OSError):
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def play(work: Coroutine[Any, Any, T]) -> T:
    """The result of ``work``, which has to come within two of our patiences."""

    async def bounded() -> T:
        return await asyncio.wait_for(work, 2 * PATIENCE_S)

    return asyncio.run(bounded())


async def until(condition: Callable[[], T]) -> T:
    """The first true value of ``condition()``, looked at between whatever else the loop does."""
    deadline = asyncio.get_running_loop().time() + PATIENCE_S
    while not (value := condition()):
        if asyncio.get_running_loop().time() > deadline:
            raise AssertionError(f"not true within {PATIENCE_S} s: {condition!r} gave {value!r}")
        await asyncio.sleep(0.01)
    return value


def from_a_thread(action: Callable[[], T]) -> T:
    """The result of ``action`` called on a thread of its own, as a front end would."""
    box: list[T] = []
    thread = threading.Thread(target=lambda: box.append(action()))
    thread.start()
    thread.join(PATIENCE_S)
    return box[0]
