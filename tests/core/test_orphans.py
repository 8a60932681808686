"""Processes that carry a mark are stopped, whatever they think of it, and nobody else is."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flower_core.claude.environment import MARK
from flower_core.claude.orphans import mark_of, stop_marked
from tests.support import eventually

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

Start = Callable[..., "subprocess.Popen[bytes]"]
#: Waits for its standard input without a child, which would count, too.
PATIENT = "read _"


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a shell with a mark, and returns once its script has begun; afterwards all of them are killed."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(mark: str, script: str) -> subprocess.Popen[bytes]:
        command = ["/bin/bash", "-c", f"{script} echo ready; {PATIENT}"]
        environ = {"PATH": os.environ["PATH"], MARK: mark}
        process = subprocess.Popen(
            command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def test_only_what_carries_the_mark_is_stopped(start: Start) -> None:
    ours, theirs, longer = start("m-1", ""), start("m-2", ""), start("m-11", "")
    assert stop_marked("m-1") == 1
    assert ours.wait(5) == -15
    assert (theirs.poll(), longer.poll()) == (None, None)


def test_a_command_in_a_session_of_its_own_is_found_by_what_it_inherited(start: Start, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    parent = start("m-3", f"setsid sleep 600 & echo $! > '{note}'; ")
    child = int(note.read_text())
    parent.kill()
    parent.wait()
    assert stop_marked("m-3") == 1
    eventually(lambda: not Path(f"/proc/{child}/environ").exists() or not Path(f"/proc/{child}/cmdline").read_bytes())


def test_what_does_not_stop_when_asked_is_forced(start: Start) -> None:
    stubborn = start("m-4", "trap '' TERM INT HUP; ")
    assert stop_marked("m-4", ask_s=0.2, all_s=5.0) == 1
    assert stubborn.wait(5) == -9


def test_whoever_asks_and_what_it_descends_from_are_left_alone(start: Start) -> None:
    program = "from flower_core.claude.orphans import stop_marked; print(stop_marked('m-5'))"
    environ = {"PATH": os.environ["PATH"], MARK: "m-5"}
    nested = ["/bin/bash", "-c", f'"{sys.executable}" -c "{program}"; echo alive']
    done = subprocess.run(nested, env=environ, capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.split() == ["0", "alive"]


def test_without_any_it_takes_no_time() -> None:
    begun = time.monotonic()
    assert stop_marked("m-6", ask_s=30.0, all_s=60.0) == 0
    assert time.monotonic() - begun < 20.0  # long before the first would be forced


def test_a_mark_names_one_directory(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert mark_of(tmp_path / "a") == mark_of(tmp_path / "link") != mark_of(tmp_path / "b")
