"""A real run manager over a real journal and engine, with flows that need no agent program."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flower_http.engine import Engine
from flower_http.errors import Problem
from flower_http.flow_registry import Flows
from flower_http.journal import BUFFER_BYTES, Journal
from flower_http.kit import Kit
from flower_http.log_book import LogBook
from flower_http.places import Places
from flower_http.projection import RunView
from flower_http.relay import Relay
from flower_http.runs import RunManager
from flower_http.schemas import StartParams
from tests.http.event_tools import Json, page
from tests.http.gated_flow import Scene, scene
from tests.http.scripted_oracle import ScriptedOracle
from tests.support import eventually

FLOWS = {
    name: f"tests.http.gated_flow:{attribute}"
    for name, attribute in {"gated": "make", "plain": "make_without_argument", "bad": "make_nonsense"}.items()
} | {"solo": "tests.http.gated_flow:SOLO"}


class RunWorld:
    """A manager and what it stands on, in ``home``. ``crash`` loses the process's memory, ``boot`` makes a new one."""

    def __init__(
        self,
        home: Path,
        *,
        flows: Flows | None = None,
        oracle: ScriptedOracle | None = None,
        relay: Relay | None = None,
        buffer_bytes: int = BUFFER_BYTES,
        **limits: Any,
    ) -> None:
        self.home = home
        self.flows = flows or Flows(FLOWS)
        self.oracle = oracle or ScriptedOracle()
        self.relay = relay
        self.buffer_bytes = buffer_bytes
        self.limits = {"max_runs": 2, "queue": 2, **limits}
        self.boot()

    def boot(self, *, resume: bool = True) -> None:
        """Start as a server would, over what is in ``home``."""
        self.journal = Journal(self.home / "journal.db", buffer_bytes=self.buffer_bytes)
        self.book = LogBook(self.journal)
        self.engine = Engine()
        self.engine.start()
        places = Places(self.home / "work", self.home / "data")
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.home), "ANTHROPIC_API_KEY": "none"}
        kit = Kit(self.flows, places, environ, self.relay, oracle=self.oracle)
        self.manager = RunManager(self.book, self.engine, kit, **self.limits)
        self.manager.start_up(resume=resume)

    def shut_down(self) -> None:
        """End in order."""
        self.manager.shut_down(5.0)
        self.journal.close()
        assert self.engine.stop(5.0)

    def crash(self) -> None:
        """End as a killed process does, as far as the disk can tell: nothing more is written."""
        self.journal.close(0.0)
        self.journal.close()  # what is being written at this moment, which a killed process would not go on with either
        self.manager.shut_down(5.0)
        self.engine.stop(5.0)

    def start(self, task: str = "wait", workspace: str | None = None, flow: str = "gated", **more: Any) -> RunView:
        """A new run."""
        return self.manager.start(StartParams(task=task, workspace=workspace, flow=flow, **more), by="me")

    def begun(self, workspace: str, task: str = "wait", **more: Any) -> tuple[RunView, Scene]:
        """A run in this workspace whose flow is at work."""
        here = scene(workspace)
        here.begun.clear()
        view = self.start(task, workspace, **more)
        assert here.begun.wait(10)
        eventually(lambda: self.manager.get(view.id).started_at, 10)  # on the disk, too: what a crash leaves is known
        return view, here

    def reaches(self, run_id: str, *states: str, timeout: float = 10.0) -> RunView:
        """The run once it is in one of ``states``."""

        def look() -> RunView | None:
            view = self.manager.get(run_id)
            return view if view.state in states else None

        found = eventually(look, timeout)
        assert found is not None
        return found

    def asks(self, run_id: str) -> None:
        """Wait until a question of this run waits."""
        eventually(lambda: self.manager.asks(run_id, "waiting"), 10)

    def events(self, run_id: str) -> list[Json]:
        """Every committed event of a run."""
        log = self.book.get(run_id)
        assert log is not None
        found: list[Json] = page(log, limit=1000)["events"]
        return found

    def say(self, run_id: str, text: str) -> None:
        """Have an event on its way into the log of a run."""
        log = self.book.get(run_id)
        assert log is not None
        log.append("text", text)

    def told(self, run_id: str) -> list[str]:
        """The texts of what the server itself said about a run, oldest first."""
        return [event["text"] for event in self.events(run_id) if event["kind"] == "system"]


def refused(act: Callable[[], object]) -> Problem:
    """The problem that ``act`` is refused with."""
    try:
        act()
    except Problem as problem:
        return problem
    raise AssertionError("it was not refused")
