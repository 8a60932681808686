"""A real flower-server in a process of its own, and the little HTTP a test needs to talk to it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from flower_core.rehearsal.script import PLAYS_DIR
from tests.support import eventually

SERVER = Path(sys.executable).parent / "flower-server"
#: Long enough for a busy machine, in seconds; nothing waits so long when it works.
PATIENCE_S = 60.0
#: What the coder runs in the shipped play, and the same after a test has let it go on.
_RUN_IT = "python3 greet.py && cat greeting.txt"
#: A command that makes the file ``begun`` and waits for ``go``: one process that stays the same until then.
WAIT = """python3 -c 'import os, time
open("begun", "w").close()
while not os.path.exists("go"):
    time.sleep(0.05)'"""


def clean_environ(home: Path, **more: str) -> dict[str, str]:
    """An environment with no setting and no credential in it but ``more``."""
    return {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", **more}


def quick_play(folder: Path, *, gated: bool = False) -> Path:
    """The shipped play without its pauses, as a file in ``folder``.

    ``gated``: the coder makes the file ``begun`` in the workspace before it runs its program, and waits for ``go``.
    """
    text = re.sub(r"(?m)^(delay|gap) = .*$", r"\1 = 0", (PLAYS_DIR / "starter.toml").read_text(encoding="utf-8"))
    if gated:
        assert f'command = "{_RUN_IT}"' in text
        text = text.replace(f'command = "{_RUN_IT}"', f"command = {json.dumps(f'{WAIT} && {_RUN_IT}')}")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / ("gated.toml" if gated else "quick.toml")
    path.write_text(text, encoding="utf-8")
    return path


class FlowerServer:
    """``flower-server serve`` on a free port with ``data_dir``; a context manager that ends it with SIGTERM."""

    def __init__(self, data_dir: Path, *flags: str, environ: Mapping[str, str] | None = None) -> None:
        self.data_dir = data_dir
        self.flags = flags
        self.environ = dict(environ or clean_environ(data_dir.parent))
        self.url = ""
        self.token = ""
        self.process: subprocess.Popen[str] | None = None

    @classmethod
    def rehearsing(cls, home: Path, *flags: str, gated: bool = False) -> FlowerServer:
        """A server below ``home`` that plays the shipped play without its pauses; see :func:`quick_play`."""
        return cls(home / "data", f"--rehearse={quick_play(home, gated=gated)}", *flags)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop(timeout=PATIENCE_S)  # how long it may take is what other tests look at

    def start(self, port: int = 0, *more: str) -> None:
        """Start the process and wait for the line that says where it listens."""
        command = [str(SERVER), "serve", "--port", str(port), "--data-dir", str(self.data_dir), *self.flags, *more]
        self.data_dir.mkdir(parents=True, exist_ok=True)
        with (self.data_dir / "stderr.log").open("ab") as errors:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env=self.environ, text=True)
        line = self.process.stdout.readline() if self.process.stdout else ""
        assert line.startswith("flower-server listening on "), self.log()
        self.url = line.split()[-1]

    def stop(self, number: signal.Signals = signal.SIGTERM, timeout: float = 15.0) -> int:
        """Send ``number`` and wait; the exit code."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(timeout)
        if self.process.stdout:
            self.process.stdout.close()
        return code

    def kill(self) -> None:
        """End it as the kernel would: at once, with nothing tidied up."""
        assert self.stop(signal.SIGKILL) == -signal.SIGKILL

    def start_again(self, *more: str) -> None:
        """Start the ended process anew on the port it had."""
        self.start(int(self.url.rpartition(":")[2]), *more)

    def log(self) -> str:
        """What it wrote to its standard error."""
        return (self.data_dir / "stderr.log").read_text(errors="replace")

    def workspace(self, run: Mapping[str, Any]) -> Path:
        """Where a run works."""
        return self.data_dir / "workspaces" / str(run["workspace"])

    def agents(self) -> list[int]:
        """The processes that work in any workspace of this server now (Linux)."""
        return processes_below(self.data_dir / "workspaces")

    # ---- requests

    def fetch(
        self, method: str, path: str, data: bytes | None = None, **headers: str
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Status, headers and body of one request; errors are replies, too. ``_`` in header names stands for ``-``."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.token:
            sent.setdefault("Authorization", f"Bearer {self.token}")
        request = urllib.request.Request(self.url + path, data, sent, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return reply.status, dict(reply.headers), reply.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, dict(error.headers), error.read()

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Status and decoded body of one request with a JSON body."""
        data = None if body is None else json.dumps(body).encode()
        kind = {"Content_Type": "application/json"} if data is not None else {}
        status, _, raw = self.fetch(method, path, data, **kind, **headers)
        return status, json.loads(raw)

    def form(self, path: str, **fields: str) -> tuple[int, Any]:
        """A POST as ``curl -d name=value`` sends it."""
        data = urllib.parse.urlencode(fields).encode()
        status, _, raw = self.fetch("POST", path, data, Content_Type="application/x-www-form-urlencoded")
        return status, json.loads(raw)

    def get(self, path: str) -> Any:
        """The body of a GET that must succeed."""
        status, body = self.call("GET", path)
        assert status == 200, body
        return body

    def post(self, path: str, **body: Any) -> Any:
        """The body of a POST that must succeed."""
        status, reply = self.call("POST", path, body)
        assert status in (200, 201, 202), reply
        return reply

    def refused(self, path: str, **body: Any) -> tuple[int, str, Any]:
        """Status, slug and document of a POST that must be refused."""
        status, problem = self.call("POST", path, body)
        assert status >= 400, problem
        return status, problem["type"], problem

    def start_run(self, task: str = "Greet the world", **body: Any) -> dict[str, Any]:
        """A new run, as its POST shows it."""
        run: dict[str, Any] = self.post("/runs", task=task, **body)
        return run

    def events(self, run_id: str) -> list[dict[str, Any]]:
        """Every event of a run so far, proven complete by counting."""
        found: list[dict[str, Any]] = []
        while True:
            page = self.get(f"/runs/{run_id}/events?after={len(found)}&limit=1000")
            found += page["events"]
            assert page["next_after"] == len(found)
            assert [event["seq"] for event in found] == list(range(1, len(found) + 1))
            if not page["pending"]:
                return found

    def event_bytes(self, run_id: str, upto: int) -> bytes:
        """The first ``upto`` events of a run as they come over the wire."""
        body = self.fetch("GET", f"/runs/{run_id}/events?after=0&limit={upto}")[2]
        begin = body.index(b'"events":[')
        return body[begin : body.rindex(b'],"next_after":')]

    def wait_for(self, run_id: str, *states: str, timeout: float = PATIENCE_S) -> dict[str, Any]:
        """The run once it is in one of ``states``."""

        def look() -> dict[str, Any] | None:
            run: dict[str, Any] = self.get(f"/runs/{run_id}")
            return run if run["state"] in states else None

        found = eventually(look, timeout, 0.05)
        assert found is not None
        return found

    def wait_for_ask(self, run_id: str, timeout: float = PATIENCE_S) -> dict[str, Any]:
        """The first question that waits, once there is one."""
        asks = eventually(lambda: self.get(f"/runs/{run_id}/asks")["asks"], timeout, 0.05)
        found: dict[str, Any] = asks[0]
        return found

    def wait_for_worker(self, run: Mapping[str, Any]) -> None:
        """Until the coder of a gated play has begun to run its program, and waits for :meth:`let_go`."""
        eventually((self.workspace(run) / "begun").exists, PATIENCE_S, 0.02)

    def let_go(self, run: Mapping[str, Any]) -> None:
        """Let the coders of a gated play go on."""
        (self.workspace(run) / "go").touch()


def processes_below(folder: Path) -> list[int]:
    """The ids of all processes whose current directory lies in ``folder`` (Linux)."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if Path(os.readlink(entry / "cwd")).is_relative_to(folder.resolve()):
                    found.append(int(entry.name))
    return found


def of_kind(events: list[dict[str, Any]], kind: str, tool: str | None = None) -> list[dict[str, Any]]:
    """The events of one kind (and of one tool)."""
    return [event for event in events if event["kind"] == kind and tool in (None, event["tool"])]


def steps_of(events: list[dict[str, Any]]) -> list[str]:
    """The names of the steps that ran, attempts and verdicts included, in order."""
    return [event["text"] for event in of_kind(events, "step")]


def told_of(events: list[dict[str, Any]]) -> list[str]:
    """What the server itself said of a run, in order."""
    return [event["text"] for event in of_kind(events, "system") if event["text"].startswith("run.")]
