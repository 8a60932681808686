"""flower-server doctor says what is missing before anything is started."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

DOCTOR = [str(Path(sys.executable).parent / "flower-server"), "doctor"]


def run(tmp_path: Path, *flags: str, **environ: str) -> subprocess.CompletedProcess[str]:
    plain = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "FLOWER_DATA_DIR": str(tmp_path / "data"), **environ}
    return subprocess.run([*DOCTOR, *flags], env=plain, capture_output=True, text=True, timeout=60, cwd=tmp_path)


def test_all_is_well_in_rehearsal(tmp_path: Path) -> None:
    done = run(tmp_path, "--rehearse")
    assert done.returncode == 0, done.stdout + done.stderr
    names = [line.split(": ")[0].split("  ")[-1].strip() for line in done.stdout.splitlines()]
    assert names == ["agent program", "credentials", "endpoint", "data dir", "tokens", "memory"]
    assert all(line.startswith("ok ") for line in done.stdout.splitlines())
    assert not (tmp_path / "data").exists(), "looking changes nothing"


def test_a_missing_credential_is_named(tmp_path: Path) -> None:
    done = run(tmp_path, ANTHROPIC_BASE_URL="http://127.0.0.1:9")
    assert done.returncode == 1
    [line] = [line for line in done.stdout.splitlines() if "credentials" in line]
    assert line.startswith("MISSING")
    assert "ANTHROPIC_API_KEY" in line


def test_an_endpoint_that_does_not_answer_is_named(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    done = run(tmp_path, ANTHROPIC_API_KEY="dummy", ANTHROPIC_BASE_URL=f"http://{address}")
    assert done.returncode == 1
    assert f"MISSING  endpoint: {address} cannot be reached" in done.stdout


def test_an_endpoint_that_answers_is_well(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        done = run(tmp_path, ANTHROPIC_API_KEY="dummy", ANTHROPIC_BASE_URL=f"http://{address}")
    assert done.returncode == 0, done.stdout
    assert f"{address} accepts connections" in done.stdout
    assert "dummy" not in done.stdout + done.stderr


def test_a_host_that_others_reach_needs_a_token(tmp_path: Path) -> None:
    everywhere = ("--rehearse", "--host", "0.0.0.0")  # noqa: S104
    done = run(tmp_path, *everywhere)
    assert done.returncode == 1
    assert "MISSING  tokens: --host 0.0.0.0 needs a token" in done.stdout
    assert run(tmp_path, *everywhere, FLOWER_TOKEN="t" * 40).returncode == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_data_dir_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert "MISSING  data dir" in run(tmp_path, "--rehearse").stdout


def test_an_impossible_setting_is_refused(tmp_path: Path) -> None:
    done = run(tmp_path, FLOWER_PORT="many")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "FLOWER_PORT" in done.stderr
