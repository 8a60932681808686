"""``make demo`` shows the main job from beginning to end, with somebody at the terminal and without."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.client.terminal import CTRL_C, terminal

DEMO = Path(__file__).parents[2] / "tools/demo.py"

pytestmark = pytest.mark.e2e


def test_the_demonstration_ends_with_a_success_within_a_minute(tmp_path: Path) -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TMPDIR": str(tmp_path), "LANG": "C.UTF-8"}
    for folder in (tmp_path, tmp_path / ".config" / "flower"):  # what is set up for a real server does no harm
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".env").write_text(f"FLOWER_TOKEN={'t' * 40}\n")
    done = subprocess.run(
        [sys.executable, DEMO],
        cwd=tmp_path,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "achieved" in done.stdout
    made = list(tmp_path.glob("flower-demo-*/workspaces/*/greeting.txt"))
    assert len(made) == 1
    assert made[0].read_text().startswith("Hello\nTask: Write a small program")


def test_ctrl_c_asks_what_is_meant_and_leaves_the_server_running(tmp_path: Path) -> None:
    with terminal(home=tmp_path, url="", program=(str(DEMO),)) as demo:
        demo.see(r"q1> ", 60)
        demo.type(CTRL_C)
        demo.see(r"i/l/c> ")
        demo.type("\n")
        demo.see(r"q1> ")
        demo.type("1\n")
        demo.see(r"run +succeeded", 60)
        assert demo.exit_code(20) == 0


def test_a_demonstration_whose_terminal_is_closed_takes_its_server_with_it(tmp_path: Path) -> None:
    with terminal(home=tmp_path, url="", program=(str(DEMO),)) as demo:
        url = demo.see(r"http://127\.0\.0\.1:\d+", 60)
        demo.see(r"q1> ", 60)
        demo.process.send_signal(signal.SIGHUP)
        assert demo.exit_code(20) == 128 + signal.SIGHUP
    port = int(url.rpartition(":")[2])
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 5).close()
