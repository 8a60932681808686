"""Show the main job from a task to its verdict, with a scripted model and everything else real.

Starts a server in rehearsal mode on a free port with a data directory of its own, lets ``flower-client`` start
a run and watch it, and ends with the client's exit code. In a terminal the questions are yours to answer;
otherwise the first option is taken.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

TASK = "Write a small program that greets the reader and counts the letters of the greeting"
BIN = Path(sys.executable).parent
STOP_S = 15


def main() -> int:
    """Run the demonstration; returns the exit code of the client."""
    home = Path(tempfile.mkdtemp(prefix="flower-demo-"))
    # What has been set up for a real server must lead this one astray neither by variables nor by files.
    environ = {name: value for name, value in os.environ.items() if not name.startswith("FLOWER_")}
    environ["XDG_CONFIG_HOME"] = str(home)
    command: list[str | Path] = [BIN / "flower-server", "serve", "--rehearse", "--port", "0", "--data-dir", home]
    log = home / "server.log"
    with log.open("wb") as errors:
        # In a process group of its own: a Ctrl-C is meant for the client, and must not stop the server under it.
        server = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environ,
            text=True,
            process_group=0,
            cwd=home,
        )
    _leave_in_order()
    try:
        url = server.stdout.readline().strip().rpartition(" ")[2] if server.stdout else ""
        if not url:
            sys.stderr.write(log.read_text())
            return 1
        print(f"server: {url} (rehearsal: a script stands in for the model, all else is real)\n", flush=True)
        return _watch(url, environ)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(STOP_S)
        print(f"\nwhat the run left behind: {home / 'workspaces'} (delete {home} when you have seen enough)")


def _leave_in_order() -> None:
    """Have a closed terminal or a ``kill`` end this program by way of its ``finally``, which stops the server."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda received, _frame: sys.exit(128 + received))


def _watch(url: str, environ: dict[str, str]) -> int:
    answering = [] if sys.stdin.isatty() else ["--on-ask", "first"]
    command: list[str | Path] = [BIN / "flower-client", "--url", url, "start", TASK, "--watch", *answering]
    client = subprocess.Popen(command, env=environ)
    while True:
        try:
            return client.wait()
        except KeyboardInterrupt:
            continue  # the terminal sent it to the client too, which asks what is meant by it


if __name__ == "__main__":
    sys.exit(main())
