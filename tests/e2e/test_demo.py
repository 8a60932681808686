"""``make demo`` shows the main job from beginning to end, also where nobody can answer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[2] / "tools/demo.py"

pytestmark = pytest.mark.e2e


def test_the_demonstration_ends_with_a_success_within_a_minute(tmp_path: Path) -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TMPDIR": str(tmp_path), "LANG": "C.UTF-8"}
    done = subprocess.run(
        [sys.executable, DEMO], env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "achieved" in done.stdout
    made = list(tmp_path.glob("flower-demo-*/workspaces/*/greeting.txt"))
    assert len(made) == 1
    assert made[0].read_text().startswith("Hello\nTask: Write a small program")
