"""The client by itself: with click and requests and what requests brings, on every Python there is here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import distribution, requires
from pathlib import Path

import flower_client
import pytest


def pythons() -> Iterator[str]:
    """Every interpreter from 3.11 on that works here, this one first, one for each version."""
    seen: set[tuple[int, ...]] = {sys.version_info[:2]}
    yield sys.executable
    named = [shutil.which(f"python3.{minor}") for minor in range(11, 20)]
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    for path in [*filter(None, named), *sorted(map(str, pyenv.glob("versions/3.*/bin/python3")))]:
        asked = subprocess.run([path, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True)
        version = tuple(map(int, asked.stdout.split())) if asked.returncode == 0 else (0, 0)
        if version >= (3, 11) and version not in seen:
            seen.add(version)
            yield path


#: Loads every module, then says how each command is called.
EVERYTHING = """
import importlib, pkgutil, sys
sys.path[:0] = [sys.argv[1]]
import flower_client
for module in pkgutil.iter_modules(flower_client.__path__, "flower_client."):
    if module.name != "flower_client.__main__":
        importlib.import_module(module.name)
from click.testing import CliRunner
from flower_client.cli import main
names = main.list_commands(main.make_context("flower-client", ["runs"]))
assert "watch" in names
for words in [[], *([name] for name in names)]:
    done = CliRunner().invoke(main, [*words, "--help"])
    assert done.exit_code == 0, done.output
done = CliRunner().invoke(main, ["--url", "http://127.0.0.1:9", "runs"])
assert done.exit_code == 3, done.output
print(CliRunner().invoke(main, ["--version"], prog_name="flower-client").output.strip())
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the client and what it says it requires, and nothing else."""
    folder = tmp_path_factory.mktemp("site")
    wanted, seen = ["flower-client"], set()
    while wanted:
        name = wanted.pop()
        if name in seen:
            continue
        seen.add(name)
        found = distribution(name)
        for top in {file.parts[0] for file in found.files or () if file.parts[0] not in ("..", "__pycache__")}:
            target = Path(str(found.locate_file(top)))
            if not (folder / top).exists() and target.exists():
                (folder / top).symlink_to(target)
        wanted += [_name(each) for each in requires(name) or () if "extra ==" not in each]
    (home,) = flower_client.__path__
    for path in (Path(home), *Path(home).parent.glob("flower_client.egg-info")):
        if not (folder / path.name).exists():
            (folder / path.name).symlink_to(path)
    return folder


def _name(requirement: str) -> str:
    return "".join(sign if sign.isalnum() or sign in "-_." else " " for sign in requirement).split()[0]


def test_it_requires_two_packages() -> None:
    assert {_name(each) for each in requires("flower-client") or ()} == {"click", "requests"}


def test_all_of_it_loads_and_speaks_with_these_alone(site: Path, tmp_path: Path) -> None:
    for python in pythons():
        command = [python, "-I", "-S", "-B", "-W", "error", "-c", EVERYTHING, str(site)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, ""), python
        assert done.stdout.startswith("flower-client, version "), python


def test_its_types_are_there_for_others() -> None:
    (home,) = flower_client.__path__
    assert (Path(home) / "py.typed").exists()
