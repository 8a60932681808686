"""docs/getting-started.md and the two READMEs, followed to the letter: terminals, commands and what they print.

Other than printed are only the port, the data directory, the pauses of the play, and the address listened on, which
stays on loopback.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.terminal import terminal
from tests.doc_blocks import Block, blocks
from tests.e2e.serving import PATIENCE_S, SERVER, FlowerServer, quick_play

#: What a reader types, of the lines that are shown; the rest is printed.
TYPED = {"q1> 2": "2", "Count the letters, too": "Count the letters, too", "? How far is it?": "? How far is it?"}
#: Comes when it comes; at the end it is looked up.
ASIDE = "?? How far is it?"
#: Where the verdict is not what a page is about, nobody need wait for the judge.
QUICK = {"FLOWER_START_NO_GOAL": "yes"}
#: Every block of the pages that is run, in order. Each test takes the ones of its page.
BLOCKS = {page: [it for it in blocks(page) if not it.reason] for page in ("docs/getting-started.md", "README.md")}

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlowerServer]:
    home = tmp_path_factory.mktemp("newcomer")
    _, serve = lines_of(below("2. Start a server")[0])
    with FlowerServer(home / "data", *flags_of(serve, home)) as running:
        yield running


def test_every_block_of_the_page_is_followed() -> None:
    blocks_below = [(block.heading, block.language) for block in BLOCKS["docs/getting-started.md"]]
    assert blocks_below == [
        ("2. Start a server", "sh"),
        ("3. Start a run and watch it", "sh"),
        ("3. Start a run and watch it", "text"),
        *[("4. Leave, come back, and see what it made", "sh")] * 2,
        *[("5. Answer from another machine", "sh")] * 4,
    ]


def below(heading: str) -> list[Block]:
    found = [block for block in BLOCKS["docs/getting-started.md"] if block.heading == heading]
    assert found, heading
    return found


def lines_of(block: Block) -> list[str]:
    return block.text.splitlines()


def flags_of(serve: str, home: Path) -> list[str]:
    """The flags of a line that serves a rehearsal, as a test may use them."""
    program, command, *flags = shlex.split(serve, comments=True)
    assert (program, command, flags[0]) == ("flower-server", "serve", "--rehearse")
    return [f"--rehearse={quick_play(home)}", *(flag.replace("0.0.0.0", "127.0.0.1") for flag in flags[1:])]  # noqa: S104


def popen(script: str, url: str, home: Path, **more: str) -> subprocess.Popen[str]:
    """``script`` in a shell that stops at the first command that fails, with our commands on its path."""
    environ = {"PATH": f"{SERVER.parent}:{os.environ['PATH']}", "HOME": str(home), "LANG": "C.UTF-8"}
    return subprocess.Popen(
        ["bash", "-euc", script.replace("http://localhost:8420", url).replace("localhost:8420", url)],
        cwd=home,
        env={**environ, "FLOWER_URL": url, **more},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def shell(script: str, url: str, home: Path, **more: str) -> str:
    """What ``script`` prints; see :func:`popen`."""
    with popen(script, url, home, **more) as process:
        out, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, errors
    return out


def test_a_newcomer_gets_to_a_verdict_and_finds_everything_again(server: FlowerServer, tmp_path: Path) -> None:
    commands, shown = below("3. Start a run and watch it")
    _, doctor, start = lines_of(commands)
    assert "reachable: yes" in shell(doctor, server.url, tmp_path)
    with terminal(*shlex.split(start)[1:], home=tmp_path, url=server.url) as screen:
        for line in lines_of(shown):
            if line == ASIDE:
                continue
            if line in TYPED:
                screen.see(r"q1> " if line.startswith("q1> ") else "", PATIENCE_S)
                screen.type(TYPED[line] + "\n")
            else:
                screen.see(r" +".join(map(re.escape, line.split())), PATIENCE_S)
        assert screen.exit_code(20) == 0
    run = server.get("/runs")["runs"][0]["id"]
    assert server.get(f"/runs/{run}/oracle/o1")["state"] == "answered"
    again, looks = (block.text.replace("RUN_ID", run) for block in below("4. Leave, come back, and see what it made"))
    assert "── 1/3 Clarify ──" in shell(again, server.url, tmp_path)
    printed = shell(looks, server.url, tmp_path)
    for words in (
        "achieved:",
        "questions",
        "Count the letters, too",
        "greeting.txt",
        "Good morning\n",
        "Work·verdict#2",
    ):
        assert words in printed


def test_the_question_of_a_run_is_answered_from_another_machine(tmp_path: Path) -> None:
    add, serve, answer, by_curl = below("5. Answer from another machine")
    environ = {"FLOWER_DATA_DIR": str(tmp_path / "data")}
    token = shell(add.text, "", tmp_path, **environ).strip()
    with FlowerServer(tmp_path / "data", *flags_of(serve.text, tmp_path)) as server:
        printed = shell(answer.text, server.url, tmp_path, FLOWER_TOKEN=token, **QUICK)
        assert "token:     start" in printed
        assert "left with 7: a question waits" in printed
        assert "q1: answered" in printed
        assert re.search(r"run +succeeded", printed)
        shown = shell(by_curl.text, server.url, tmp_path, FLOWER_TOKEN=token)
        assert '"asks"' in shown
        assert '"state":"succeeded"' in shown.replace(" ", "")


def test_the_five_lines_of_the_readme_work(server: FlowerServer, tmp_path: Path) -> None:
    (block,) = BLOCKS["README.md"]
    serve, start, *others = lines_of(block)
    assert flags_of(serve, tmp_path)
    with popen(start, server.url, tmp_path, **QUICK) as watching:
        run = watching.stdout.readline().strip() if watching.stdout else ""
        assert server.wait_for_ask(run)["id"] == "q1"
        printed = shell("\n".join(others).replace("RUN_ID", run), server.url, tmp_path)
        assert f'"run":"{run}"' in printed.replace(" ", "")
        rest, errors = watching.communicate(timeout=PATIENCE_S)
    assert watching.returncode == 0, errors
    assert re.search(r"run +succeeded", rest)


def test_the_library_and_the_commands_of_the_clients_readme_work(server: FlowerServer, tmp_path: Path) -> None:
    commands, library = (it.text for it in blocks("client/README.md") if not it.reason)
    program = library.replace("http://127.0.0.1:8420", server.url)
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    assert "'achieved'" in done.stdout.splitlines()[-1]
    run = server.get("/runs")["runs"][0]["id"]
    shown = shell(commands.replace("RUN_ID", run), server.url, tmp_path, FLOWER_START_ON_ASK="first", **QUICK)
    assert len(re.findall(r"run +succeeded", shown)) == 2
