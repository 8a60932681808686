"""A real flower-server in a process of its own, and the little HTTP a test needs to talk to it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from tests.support import eventually

SERVER = Path(sys.executable).parent / "flower-server"


def clean_environ(home: Path, **more: str) -> dict[str, str]:
    """An environment with no setting and no credential in it but ``more``."""
    return {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", **more}


class FlowerServer:
    """``flower-server serve`` on a free port with ``data_dir``; a context manager that ends it with SIGTERM."""

    def __init__(self, data_dir: Path, *flags: str, environ: Mapping[str, str] | None = None) -> None:
        self.data_dir = data_dir
        self.flags = flags
        self.environ = dict(environ or clean_environ(data_dir.parent))
        self.url = ""
        self.process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def start(self, port: int = 0) -> None:
        """Start the process and wait for the line that says where it listens."""
        command = [str(SERVER), "serve", "--port", str(port), "--data-dir", str(self.data_dir), *self.flags]
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

    def log(self) -> str:
        """What it wrote to its standard error."""
        return (self.data_dir / "stderr.log").read_text(errors="replace")

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Status and decoded body of one request; errors are replies, too."""
        data = None if body is None else json.dumps(body).encode()
        kind = {"Content-Type": "application/json"} if data is not None else {}
        request = urllib.request.Request(self.url + path, data, {**kind, **headers}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return reply.status, json.load(reply)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

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

    def wait_for(self, run_id: str, *states: str, timeout: float = 60.0) -> dict[str, Any]:
        """The run once it is in one of ``states``."""

        def look() -> dict[str, Any] | None:
            run: dict[str, Any] = self.get(f"/runs/{run_id}")
            return run if run["state"] in states else None

        found = eventually(look, timeout, 0.05)
        assert found is not None
        return found

    def wait_for_ask(self, run_id: str, timeout: float = 30.0) -> dict[str, Any]:
        """The first question that waits, once there is one."""
        asks = eventually(lambda: self.get(f"/runs/{run_id}/asks")["asks"], timeout, 0.05)
        found: dict[str, Any] = asks[0]
        return found
