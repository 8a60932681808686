"""What a newcomer meets first: setting up says in one line what is missing."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
FAKE = """#!/bin/sh
case "$*" in
  *version_info*) exit {old} ;;
  *ensurepip*) exit {no_venv} ;;
  --version) echo "Python 3.9.2" ;;
esac
"""


def run_setup(clone: Path, path: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    for name in ("constraints.txt", "setup.cfg", "pyproject.toml", "client/setup.cfg", "tools/setup.sh"):
        target = clone / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target)
    environ = {"PATH": f"{path}:/usr/bin:/bin", **environ}
    command = ["/bin/sh", str(clone / "tools/setup.sh")]
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)


def fake_pythons(folder: Path, *, old: bool, no_venv: bool) -> Path:
    folder.mkdir()
    for name in ("python", "python3", *(f"python3.{minor}" for minor in range(11, 15))):
        script = folder / name
        script.write_text(FAKE.format(old=int(old), no_venv=int(no_venv)))
        script.chmod(0o755)
    return folder


def test_a_python_that_is_too_old_is_told_in_one_line(tmp_path: Path) -> None:
    done = run_setup(tmp_path / "clone", fake_pythons(tmp_path / "bin", old=True, no_venv=False))
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "needs Python 3.11 or newer" in done.stderr
    assert "Python 3.9.2" in done.stderr
    assert not (tmp_path / "clone" / ".venv").exists()


def test_a_python_without_venv_is_told_in_one_line(tmp_path: Path) -> None:
    done = run_setup(tmp_path / "clone", fake_pythons(tmp_path / "bin", old=False, no_venv=True))
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "python3-venv" in done.stderr
    assert not (tmp_path / "clone" / ".venv").exists()


def test_a_named_python_that_does_not_work_is_told(tmp_path: Path) -> None:
    done = run_setup(tmp_path / "clone", tmp_path, PYTHON="/nowhere/python3")
    assert done.returncode == 2
    assert "PYTHON=/nowhere/python3" in done.stderr


def test_a_complete_setup_is_left_alone(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    run_setup(clone, tmp_path, PYTHON="/nowhere/python3")  # lays the files out
    joined = b"".join(
        (clone / name).read_bytes() for name in ("constraints.txt", "setup.cfg", "client/setup.cfg", "pyproject.toml")
    )
    stamp = subprocess.run(["cksum"], input=joined, capture_output=True, check=True).stdout.decode().strip()
    venv = clone / ".venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").symlink_to(sys.executable)
    (venv / ".complete").write_text(stamp + "\n")
    done = run_setup(clone, Path(sys.executable).parent)
    assert (done.returncode, done.stderr) == (0, "")
