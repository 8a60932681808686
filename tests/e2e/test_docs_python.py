"""The examples of docs/python-api.md, run from top to bottom against a real server."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import flower_client
import pytest
from flower_client import FlowerClient, FlowerClientError, ProblemError
from flower_client.exits import Exit

from tests.e2e.serving import PATIENCE_S, FlowerServer, clean_environ

PAGE = (Path(__file__).parents[2] / "docs" / "python-api.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FlowerServer]:
    with FlowerServer.rehearsing(tmp_path) as running:
        yield running


@pytest.mark.e2e
def test_the_examples_say_what_the_page_says(server: FlowerServer, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", "\n".join(BLOCKS)]
    environ = clean_environ(tmp_path, FLOWER_URL=server.url)
    done = subprocess.run(
        command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=2 * PATIENCE_S, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] in ("queued", "running")
    assert lines[1:5] == [
        "step Clarify",
        "Which greeting should the result open with? ('Hello', 'Good morning', '你好')",
        "Hello",
        "step Work",
    ]
    succeeded = lines.index("succeeded []")
    shown, finished, settled, again, asked, names, heading, files, steps, found = lines[succeeded + 1 :]
    assert (shown[:5], finished, settled, again) == ("True ", "True run.finished", "ask-settled Hello", "True")
    assert (asked, "'brief'" in names, heading) == ("answered True", True, "#")
    assert files == "['greet.py', 'greeting.txt']"
    assert (steps, found) == ("['Clarify', 'Work'] True", "True")
    assert server.get("/runs")["runs"] == [], "it was deleted"
    assert (tmp_path / "greeting.txt").read_text().startswith("Hello\n")


def test_the_table_of_exceptions_is_the_tree_there_is() -> None:
    rows = re.findall(r"^\| ([^|`]*)`(\w+)` \| (\d?) *\|", PAGE, re.MULTILINE)
    assert {name for _, name, _ in rows} == {
        name
        for name in flower_client.__all__
        if isinstance(there := getattr(flower_client, name), type) and issubclass(there, FlowerClientError)
    }
    for _, name, code in rows:
        error = getattr(flower_client, name)
        assert code == str(getattr(error, "exit_code", "")), name
        assert not code or Exit(int(code))
    parents = {name: getattr(flower_client, name).__bases__[0] for branch, name, _ in rows if branch}
    assert parents.pop("BadReply") is flower_client.Unreachable
    assert {parents.pop(name) for name in ("NotAllowed", "Refused")} == {ProblemError}
    assert set(parents.values()) == {FlowerClientError}


def test_every_method_stands_on_the_page() -> None:
    for name in vars(FlowerClient):
        if not name.startswith("_") and callable(getattr(FlowerClient, name)):
            assert re.search(rf"(client\.|`){name}\b", PAGE), name
