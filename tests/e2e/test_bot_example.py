"""The chat bot against a real server, killed in the middle of its work: nothing is lost, nothing is done twice."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.serving import PATIENCE_S, FlowerServer, clean_environ
from tests.support import eventually

pytestmark = pytest.mark.e2e

EXAMPLES = Path(__file__).parents[2] / "examples"
BOT = EXAMPLES / "bot.py"
#: The bot, killed by the kernel as soon as it has told what matches, or has relayed what matches: before it keeps that.
MORTAL = f"""
import os, re, signal, sys
from pathlib import Path
sys.path.insert(0, {str(EXAMPLES)!r})
from bot import Bot
from room import Room

run_id, room, in_told, in_relayed = sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4]

def die_over(pattern, text):
    if pattern and re.search(pattern, text):
        os.kill(os.getpid(), signal.SIGKILL)

class MortalRoom(Room):
    def post(self, text):
        super().post(text)
        die_over(in_told, text)

class MortalBot(Bot):
    def relay(self, client, text, key):
        super().relay(client, text, key)
        die_over(in_relayed, text)

MortalBot(run_id, MortalRoom(room), room.parent).run()
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FlowerServer]:
    with FlowerServer.rehearsing(tmp_path) as running:
        yield running


def bot(server: FlowerServer, program: tuple[str, ...], run_id: str, room: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, *program, run_id, str(room), *more]
    environ = clean_environ(room.parent, FLOWER_URL=server.url, PYTHONDONTWRITEBYTECODE="1")
    return subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def say(room: Path, *lines: str) -> None:
    with room.open("a", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)


def dies(process: subprocess.Popen[str]) -> None:
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == -signal.SIGKILL, out


def told(room: Path) -> list[int]:
    """The numbers of the events told in the room, in order."""
    return [int(number) for number in re.findall(r"^bot> #(\d+) ", room.read_text(encoding="utf-8"), re.MULTILINE)]


def test_killed_while_telling_and_relaying_it_loses_nothing_and_does_nothing_twice(
    server: FlowerServer, tmp_path: Path
) -> None:
    room = tmp_path / "room" / "room.txt"
    room.parent.mkdir()
    run = server.start_run(goal=False)
    mortal = ("-c", MORTAL)
    dies(bot(server, mortal, run["id"], room, r" q1: Which", ""))
    say(room, "good morning, all", "say Count the letters, too", "q1 1")
    dies(bot(server, mortal, run["id"], room, "", "^say"))
    dies(bot(server, mortal, run["id"], room, "", "^q1"))
    with bot(server, (str(BOT),), run["id"], room) as last:
        out, _ = last.communicate(timeout=PATIENCE_S)
        assert (last.returncode, out) == (0, "")

    mail = server.get(f"/runs/{run['id']}/inbox")["mail"]
    assert [letter["text"] for letter in mail] == ["Count the letters, too"]
    (ask,) = server.get(f"/runs/{run['id']}/asks?state=all")["asks"]
    assert (ask["state"], ask["answer"]) == ("answered", "Hello")
    events = server.events(run["id"])
    asked = next(event["seq"] for event in events if event["kind"] == "ask" and event["payload"].get("id") == "q1")
    matter = {e["seq"] for e in events if e["kind"] == "step" or e["text"] == "run.finished"} | {asked}
    assert matter <= set(told(room)), room.read_text()
    assert told(room).count(asked) >= 2, "what it was killed over is told again"
    assert "not done" not in room.read_text()
    assert not list(room.parent.glob("*.new*"))


def test_a_room_that_was_used_before_and_an_answer_that_comes_late(server: FlowerServer, tmp_path: Path) -> None:
    room = tmp_path / "room.txt"
    say(room, "q1 2")  # about another run
    run = server.start_run(goal=False)
    with bot(server, (str(BOT),), run["id"], room) as process:
        eventually(lambda: "q1: Which greeting" in room.read_text(), PATIENCE_S)
        assert server.wait_for_ask(run["id"])["id"] == "q1", "it still waits"
        say(room, "q1 9", "q1 Ahoy", "q1 Howdy")
        eventually(lambda: room.read_text().count("not done: ") == 2, PATIENCE_S)
        assert "q1 answered: Ahoy" in room.read_text()
        out, _ = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, out) == (0, "")
    lines = room.read_text().splitlines()
    assert lines[-1].endswith("run.finished")
    assert told(room) == sorted(set(told(room))), "without a kill everything is told once, in order"


def test_it_stays_as_short_as_it_is_said_to_be() -> None:
    assert len(BOT.read_text(encoding="utf-8").splitlines()) < 80
