"""A disk that is really full, or really read-only, under a real server: a small file system in memory."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.serving import SERVER, FlowerServer, clean_environ, told_of
from tests.support import eventually

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(
        not sys.platform.startswith("linux") or os.geteuid() != 0, reason="only root can mount a file system"
    ),
]

#: Says more than the buffer for a failing disk holds, then waits for words; started again, it ends at once.
FLOW = """
import asyncio

from flower_core import Event, HumanChannel
from flower_core.workflow import Workflow


class Talkative(Workflow):
    async def run(self, runtime, *, on_event=None, on_step=None):
        mark = runtime.workspace / "was here"
        if mark.exists():
            on_event(Event("text", "back again"))
            return {"_results": {}}
        mark.touch()
        try:
            for number in range(1000):
                on_event(Event("text", f"{number} " + "x" * 100_000))
                await asyncio.sleep(0.001)
            await asyncio.Event().wait()
        finally:
            (runtime.workspace / "stopped").touch()


def make(context):
    return Talkative([], channel=HumanChannel(), context={"task": context.task})
"""
_MIB = 1024 * 1024


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A directory on a file system of its own, of 160 MiB, 152 of them taken by the file ``filler``."""
    where = tmp_path / "small"
    where.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=160m", "none", str(where)], capture_output=True)
    if done.returncode:
        pytest.skip(f"no file system can be mounted here: {done.stderr.decode().strip()}")
    try:
        with (where / "filler").open("wb") as out:
            os.posix_fallocate(out.fileno(), 0, 152 * _MIB)
        yield where
    finally:
        subprocess.run(["umount", "-l", str(where)], check=True)


@pytest.fixture
def server(small: Path, tmp_path: Path) -> Iterator[FlowerServer]:
    flow = tmp_path / "talkative.py"
    flow.write_text(FLOW)
    root = tmp_path / "work"
    (small / "data").mkdir()
    # A log on the full disk would make the interpreter itself end with an error.
    (small / "data/stderr.log").symlink_to(tmp_path / "stderr.log")
    made = FlowerServer(small / "data", "--rehearse", "--flow", f"talk={flow}:make", "--workspace-root", str(root))
    with made:
        yield made


def fill_up(server: FlowerServer) -> tuple[str, int, bytes]:
    """A run that has filled the disk and been stopped; how many of its events are shown, and their bytes."""
    run_id: str = server.start_run(flow="talk", timeout_s=0, workspace="here")["id"]
    eventually(lambda: server.call("GET", "/readyz")[0] == 503, 30)
    eventually((server.data_dir.parent.parent / "work/here/stopped").exists, 30)
    shown = server.get(f"/runs/{run_id}")["last_seq"]
    return run_id, shown, server.event_bytes(run_id, shown)


def test_a_full_disk_stops_the_run_says_so_and_on_it_goes_when_there_is_room(server: FlowerServer, small: Path) -> None:
    run_id, shown, seen = fill_up(server)
    assert shown > 10
    told = server.call("GET", "/readyz")[1]
    assert "journal: the disk does not take what must be kept" in str(told)
    assert server.get(f"/runs/{run_id}")["last_seq"] == shown
    assert server.event_bytes(run_id, shown) == seen

    (small / "filler").unlink()
    assert server.wait_for(run_id, "succeeded", "failed")["state"] == "succeeded"
    assert server.call("GET", "/readyz")[0] == 200
    assert server.event_bytes(run_id, shown) == seen
    events = server.events(run_id)
    said = [event["text"].split()[0] for event in events if event["kind"] == "text"]
    assert said == [*map(str, range(len(said) - 1)), "back"]
    assert told_of(events)[1:] == ["run.started", "run.interrupted", "run.resumed", "run.started", "run.finished"]
    words = server.log()
    assert words.count("the journal cannot be written, trying again") == 1
    assert words.count("the journal can be written again") == 1


def test_a_server_with_a_full_disk_ends_in_order_and_loses_nothing_shown(server: FlowerServer, small: Path) -> None:
    run_id, shown, seen = fill_up(server)
    assert server.stop() == 0, server.log()
    (small / "filler").unlink()
    server.start_again()
    assert server.wait_for(run_id, "succeeded", "failed")["state"] == "succeeded"
    assert server.event_bytes(run_id, shown) == seen
    assert server.events(run_id)[-1]["text"] == "run.finished"


def refused_start(data: Path, tmp_path: Path) -> str:
    """The one line with which a server refuses to start on ``data``."""
    command: list[str | Path] = [SERVER, "serve", "--rehearse", "--port", "0", "--data-dir", data]
    done = subprocess.run(command, env=clean_environ(tmp_path), capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr.splitlines()[-1]


def doctor_on(data: Path, tmp_path: Path) -> str:
    """What doctor finds missing about the data directory."""
    command: list[str | Path] = [SERVER, "doctor", "--rehearse", "--port", "0", "--data-dir", data]
    done = subprocess.run(command, env=clean_environ(tmp_path), capture_output=True, text=True, timeout=60)
    assert done.returncode == 1, done.stdout
    return next(line for line in done.stdout.splitlines() if line.startswith("MISSING  data dir: "))


def test_a_server_does_not_start_on_a_disk_that_cannot_be_written(small: Path, tmp_path: Path) -> None:
    data = small / "data"
    with FlowerServer(data, "--rehearse", "--workspace-root", str(tmp_path / "work")) as server:
        assert server.get("/healthz")
    subprocess.run(["mount", "-o", "remount,ro", str(small)], check=True)
    assert "Read-only file system" in refused_start(data, tmp_path)
    unwritable = f"{data} cannot be written by this user; change that, or choose another place with --data-dir"
    assert unwritable in doctor_on(data, tmp_path)
    subprocess.run(["mount", "-o", "remount,rw", str(small)], check=True)
    with (small / "more").open("wb") as out:
        os.posix_fallocate(out.fileno(), 0, shutil.disk_usage(small).free)
    assert "the disk is full; make room" in refused_start(data, tmp_path)
    assert f"{data}: only 0 MiB free; make room, or choose another place with --data-dir" in doctor_on(data, tmp_path)
