"""Where agents of another user work, the server reads and writes with their rights, whatever links they leave there."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="only root can act for another user, and only on Linux"
)
#: In a process of its own: what is entrusted stays so for as long as a process lives.
PROGRAM = """
import os, sys
from pathlib import Path
from flower_core.documents.brief import Brief, append_amendment
from flower_core.files import append_text, atomic_write, read_text
from flower_core.output_files import OutputFiles
from flower_core.rights import acting_for, entrust
from flower_core.workbench import Workbench

root, secret = Path(sys.argv[1]), Path(sys.argv[2])
one, two = root / "one", root / "two"
entrust(root, 65534)


def tried(act):
    try:
        return act()
    except PermissionError:
        return "refused"


print("no group yet:", tried(lambda: atomic_write(one / "early", "x")))
for place, gid in ((one, 70001), (two, 70002)):
    os.chown(place, 0, gid)
    os.chmod(place, 0o2770)
bench = Workbench(one).ensure()
print("made by:", {(path.stat().st_uid, path.stat().st_gid) for path in one.rglob("*")})
print("within:", atomic_write(one / "a", "x"), read_text(one / "a"))
atomic_write(two / "b", "theirs")
for name, target in (("secret", secret), ("neighbour", two / "b"), ("folder", secret.parent)):
    (bench.notes / name).symlink_to(target)
for name in ("secret", "neighbour"):
    print("read", name, tried(lambda: read_text(bench.notes / name)))
    print("append", name, tried(lambda: append_text(bench.notes / name, "x")))
    print("amend", name, tried(lambda: append_amendment(bench.notes / name, "x", lang="en")))
    print("load", name, tried(lambda: Brief.load(bench.notes / name, lang="en")))
print("replace in folder", tried(lambda: atomic_write(bench.notes / "folder" / "x", "x")))
outputs = OutputFiles(bench.spill)
for path in (secret, two / "b"):
    print("raw file", tried(lambda: outputs.read(path)))
    print("remove raw file", tried(lambda: outputs.remove(path)))
os.chdir(secret.parent / "work")  # where the server was started; the way there is closed
for name in ("cwd/open", "maps"):
    (one / "loose").unlink(missing_ok=True)
    (one / "loose").symlink_to(f"/proc/self/{name}")
    print("process", name, tried(lambda: read_text(one / "loose")))
print("afterwards", read_text(secret), os.geteuid())
with acting_for(one), acting_for(two):
    print("nested", tried(lambda: (one / "a").read_text()), tried(secret.read_text))
"""


@pytest.fixture
def home() -> Iterator[Path]:
    """A directory that other users may cross; those that pytest makes are root's alone."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o711)
        yield Path(made)


def test_no_link_of_an_agent_leads_beyond_what_it_could_reach_itself(home: Path) -> None:
    root, secret = home / "root", home / "vault" / "secret"
    for folder in (root / "one", root / "two", secret.parent):
        folder.mkdir(parents=True)
    secret.write_text("hidden")
    secret.chmod(0o600)
    (secret.parent / "closed" / "work").mkdir(parents=True)
    (secret.parent / "closed" / "work" / "open").write_text("only the way here is closed")
    (secret.parent / "work").symlink_to("closed/work")
    for folder, mode in ((secret.parent, 0o711), (secret.parent / "closed", 0o700)):
        folder.chmod(mode)
    command = [sys.executable, "-c", PROGRAM, str(root), str(secret)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[:3] == ["no group yet: refused", "made by: {(65534, 70001)}", "within: None x"]
    reached = [line for line in lines[3:-2] if not line.endswith("refused")]
    assert reached == []
    assert lines[-2:] == ["afterwards hidden 0", "nested x refused"]
    assert len(lines) == 3 + 8 + 1 + 4 + 2 + 2
