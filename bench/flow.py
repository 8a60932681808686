"""The starter flow on the rehearsal, against the same calls made with the bare SDK.

    python -m bench.flow

A run of the flow is recorded: which sessions it opens, with which options and prompts. The peer opens the same ones,
one after the other, against the same scripted endpoint, with the same options less what is ours: hooks, session store
and launcher; it keeps no books, writes no documents and shows no events. Both must make the same number of requests, or
nothing is compared.

As a child process it takes ``flow`` and ``bare``; each gives the seconds it took, the requests it made, the processor
time it and its agent programs took, and the seconds of each of its sessions.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, ResultMessage

from bench.measuring import Child, Goal, Report, Row, child, obey
from flower_core import AgentSpec, Runtime, StepResult, Workbench, starter_flow
from flower_core.claude.options import Opening, Surroundings, build_options
from flower_core.rehearsal import RehearsalServer

_TASK = "A page that greets the world"
_GOAL = Goal("≤", 1.1)
_FLOOR = "the same sessions, bare SDK"


@dataclass(frozen=True)
class Call:
    """One session, or the continuation of the one that call number ``resume`` was."""

    spec: AgentSpec
    prompt: str
    resume: int | None


class Recorder(Runtime):
    """A runtime that remembers the sessions it opens, and the seconds each took."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.made: list[Call] = []
        self.seconds: list[float] = []
        self._sessions: list[str] = []

    async def run(self, spec: AgentSpec, prompt: str, *, resume: str | None = None, **how: Any) -> StepResult:
        """As any runtime does."""
        started = time.perf_counter()
        result = await super().run(spec, prompt, resume=resume, **how)
        self.seconds.append(time.perf_counter() - started)
        self.made.append(Call(spec, prompt, None if resume is None else self._sessions.index(resume)))
        self._sessions.append(result.session_id)
        return result


class Stage:
    """The endpoint, and a home for each run."""

    def __init__(self, home: Path, endpoint: RehearsalServer) -> None:
        self._home, self._endpoint = home, endpoint
        self._runs = 0
        self._calls: list[Call] = []

    def flow(self) -> list[float]:
        """The flow as a program of one's own would run it; nobody answers its question."""
        home, workspace, seen = self._fresh()
        before, started = _processor_time(), time.perf_counter()
        flow = starter_flow(_TASK, workspace=workspace, run_dir=home / "runs", timeout_s=0, lang="en")
        runtime = Recorder(
            workspace=workspace, run_dir=home / "runs", workbench=flow.workbench, environ=self._environ(home), lang="en"
        )
        ctx = asyncio.run(flow.run(runtime))
        runtime.close()
        took = time.perf_counter() - started
        if "_failed_at" in ctx:
            raise SystemExit(f"the flow failed at {ctx['_failed_at']}: {ctx.get('_error')}")
        self._calls = runtime.made
        return [took, len(self._endpoint.app.requests) - seen, _processor_time() - before, *runtime.seconds]

    def bare(self) -> list[float]:
        """The sessions of the last flow again, with the SDK alone."""
        home, workspace, seen = self._fresh()
        around = Surroundings(
            workspace=workspace,
            config_dir=home / "config",
            launcher=home,
            environ=self._environ(home),
            store=None,
            workbench=Workbench(workspace, lang="en").ensure(),
        )
        before, started = _processor_time(), time.perf_counter()
        seconds = asyncio.run(_converse(self._calls, around))
        took = time.perf_counter() - started
        return [took, len(self._endpoint.app.requests) - seen, _processor_time() - before, *seconds]

    def _fresh(self) -> tuple[Path, Path, int]:
        self._runs += 1
        home = self._home / f"run-{self._runs}"
        (home / "space").mkdir(parents=True)
        return home, home / "space", len(self._endpoint.app.requests)

    def _environ(self, home: Path) -> Mapping[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "ANTHROPIC_BASE_URL": self._endpoint.url,
            "ANTHROPIC_API_KEY": "rehearsal",
        }


def _processor_time() -> float:
    """Seconds of this process and of the children that have ended."""
    return sum(os.times()[:4])


async def _converse(calls: list[Call], around: Surroundings) -> list[float]:
    sessions: list[str] = []
    seconds: list[float] = []
    for call in calls:
        started = time.perf_counter()
        opening = Opening(resume=None if call.resume is None else sessions[call.resume])
        options = _without_ours(build_options(call.spec, around, opening), around.config_dir)
        async with ClaudeSDKClient(options) as client:
            await client.query(call.prompt)
            async for message in client.receive_response():
                if isinstance(message, ResultMessage):
                    sessions.append(message.session_id)
        seconds.append(time.perf_counter() - started)
    return seconds


def _without_ours(options: ClaudeAgentOptions, config_dir: Path) -> ClaudeAgentOptions:
    """Without a store the transcripts lie in ``config_dir``, so a session that goes on needs the very same one."""
    env = {name: value for name, value in options.env.items() if not name.startswith("FLOWER_")}
    env["CLAUDE_CONFIG_DIR"] = str(config_dir)
    return replace(options, hooks=None, cli_path=None, session_store=None, env=env)


def measure(*, quick: bool) -> Report:
    """Whole runs in turn."""
    report = Report("The starter flow")
    ours, theirs = [], []
    clean = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    with tempfile.TemporaryDirectory() as home, child("bench.flow", env={**clean, "HOME": home}) as stage:
        _pair(stage)  # the first start of the agent program reads it from disk
        for _ in range(1 if quick else 8):
            mine, other = _pair(stage)
            ours.append(mine)
            theirs.append(other)
    whole, floor = [mine[0] for mine in ours], [other[0] for other in theirs]
    report.rows.append(Row("starter flow, from task to verdict", "s", whole, _FLOOR, floor, _GOAL))
    spent, peer_spent = [mine[2] for mine in ours], [other[2] for other in theirs]
    report.rows.append(Row("starter flow, processor time with its agent programs", "s", spent, _FLOOR, peer_spent))
    sessions = [statistics.median(mine[3 + at] for mine in ours) for at in range(len(ours[0]) - 3)]
    peers = [statistics.median(other[3 + at] for other in theirs) for at in range(len(ours[0]) - 3)]
    report.notes += [
        f"{len(sessions)} sessions with {ours[0][1]:.0f} requests. Seconds of each, ours and bare: "
        + ", ".join(f"{mine:.2f}/{other:.2f}" for mine, other in zip(sessions, peers, strict=True))
        + ".",
        f"Between the sessions, where documents are read and written and books kept, the flow spends "
        f"{statistics.median(mine[0] - sum(mine[3:]) for mine in ours) * 1000:.0f} ms in all.",
    ]
    return report


def _pair(stage: Child) -> tuple[list[float], list[float]]:
    mine, other = stage.ask("flow"), stage.ask("bare")
    if mine[1] != other[1] or len(mine) != len(other):
        raise SystemExit(f"not the same calls: {mine[1]:.0f} requests and {other[1]:.0f}")
    return mine, other


def main() -> None:
    """Be the child."""
    with tempfile.TemporaryDirectory() as home, RehearsalServer(pace=0) as endpoint:
        stage = Stage(Path(home), endpoint)
        obey({"flow": stage.flow, "bare": stage.bare})


if __name__ == "__main__":
    main()
