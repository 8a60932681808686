"""What long results cost over a run: bytes that reach the model, with what keeps sessions short and without it.

    python -m bench.run context

A coordinator looks at 200 files of 20 KB, one after the other, in one session that is resumed every 20 files. Every
request carries the whole conversation, so what stands in it once is sent again with each that follows. The same
run is made four times: as it comes, without spilling and without rewriting sessions, and with each of the two alone.
Only the bytes of requests are counted, which are the same every time.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bench.measuring import Goal, Report, Row
from flower_core import Runtime, Workbench, coordinator, worker
from flower_core.loopback import LoopbackServer
from flower_core.rehearsal import Play, RehearsalApp

_RESULT_BYTES = 20_000
#: So many files are looked at before the session is left and resumed.
_A_ROUND = 20
_FLOOR = "neither of them"
_GOAL = Goal("≤", 0.1)
#: How each run is made: what is measured, and what :class:`Runtime` is told.
_WAYS: dict[str, Mapping[str, Any]] = {
    "spill and rewriting": {"trim": True},
    "spill alone": {"ephemeral": False},
    "rewriting alone": {"spill_threshold": 0, "trim": True},
}
_NEITHER = {"spill_threshold": 0, "ephemeral": False}


class Counting:
    """A WSGI callable in front of another one that adds up the bytes of all requests."""

    def __init__(self, app: RehearsalApp) -> None:
        self._app = app
        self.bytes = 0
        self.requests = 0

    def __call__(self, environ: Mapping[str, Any], start_response: Any) -> Iterable[bytes]:
        """Count and hand on."""
        self.bytes += int(environ.get("CONTENT_LENGTH") or 0)
        self.requests += 1
        return self._app(environ, start_response)


def _play(results: int) -> Play:
    """Looks at file after file, with a word after every round; usage that never fills a context."""
    replies: list[dict[str, Any]] = []
    for number in range(results):
        if number and number % _A_ROUND == 0:
            replies.append({"text": "So far, so good."})
        replies.append({"tools": [["Bash", {"command": f"cat data/{number}.txt"}]]})
    replies.append({"text": "That is all."})
    return Play.from_dict({"coordinator": [{**reply, "usage": {"input_tokens": 1000}} for reply in replies]})


async def _work(runtime: Runtime, rounds: int) -> None:
    spec = coordinator("Reader", "", {"hands": worker("Does it.", "", lang="en")}, lang="en")
    session: str | None = None
    for _ in range(rounds):
        done = await runtime.run(spec, "Go on reading.", step_name="Read", resume=session)
        if not done.ok:
            raise SystemExit(f"the run failed: {done.error}")
        session = done.session_id


def _bytes(results: int, how: Mapping[str, Any]) -> tuple[float, int]:
    """The megabytes of all requests of one run, and how many there were."""
    counting = Counting(RehearsalApp(_play(results), pace=0, keep=1))
    server = LoopbackServer(counting, name="context", threads=4, port=0, connection_limit=100)
    server.start()
    try:
        with tempfile.TemporaryDirectory() as home:
            workspace = _with_files(Path(home), results)
            environ = {
                "PATH": os.environ["PATH"],
                "HOME": home,
                "ANTHROPIC_BASE_URL": server.url,
                "ANTHROPIC_API_KEY": "rehearsal",
            }
            bench = Workbench(workspace, lang="en").ensure()
            runtime = Runtime(
                workspace=workspace,
                run_dir=Path(home) / "runs",
                workbench=bench,
                handoff=False,
                environ=environ,
                lang="en",
                **how,
            )
            asyncio.run(_work(runtime, results // _A_ROUND))
            runtime.close()
    finally:
        server.close()
    return counting.bytes / 1e6, counting.requests


def _with_files(home: Path, results: int) -> Path:
    folder = home / "space" / "data"
    folder.mkdir(parents=True)
    for number in range(results):
        line = f"{number}: a line of a file that is looked at\n"
        text = line * (_RESULT_BYTES // len(line) + 1)
        (folder / f"{number}.txt").write_text(text[:_RESULT_BYTES], encoding="utf-8")
    return folder.parent


def measure(*, quick: bool) -> Report:
    """One run each way; the bytes do not vary."""
    results = 40 if quick else 200
    report = Report("Results that stay in a session")
    whole, requests = _bytes(results, _NEITHER)
    for name, how in _WAYS.items():
        ours, asked = _bytes(results, how)
        if asked != requests:
            raise SystemExit(f"not the same run: {asked} and {requests} requests")
        goal = _GOAL if name == "spill and rewriting" else None
        what = f"{results} results of 20 KB, bytes to the endpoint: {name}"
        report.rows.append(Row(what, "MB", [ours], _FLOOR, [whole], goal))
    report.notes.append(
        f"{requests} requests in {results // _A_ROUND} stretches of one session; each carries system prompt, tool list "
        "and the conversation so far. Spilling acts at once, rewriting whenever a session is resumed."
    )
    return report
