"""What the bot wants of a chat, and a chat that needs no account: a text file, one message a line.

`tail -f ROOM.txt` shows it, `echo q1 2 >> ROOM.txt` speaks in it.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol


class Chat(Protocol):
    """Any chat. A message has a name, which stays the same when the message is delivered again."""

    def post(self, text: str) -> None:
        """Say ``text``; return once the chat has it."""

    def newest(self) -> str:
        """The name of the newest message."""

    def messages(self, after: str) -> Iterator[tuple[str, str]]:
        """Name and text of what people say behind the message named ``after``, as it comes, for ever."""


class Room:
    """The file at ``path`` as a chat. A message is known by the place where its line ends."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def post(self, text: str) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"bot> {' '.join(text.split())}\n")

    def newest(self) -> str:
        return str(self.path.stat().st_size)

    def messages(self, after: str) -> Iterator[tuple[str, str]]:
        place = int(after)
        while True:
            with self.path.open("rb") as file:
                file.seek(place)
                while (line := file.readline()).endswith(b"\n"):
                    place += len(line)
                    if not line.startswith(b"bot> "):
                        yield str(place), line.decode("utf-8", "replace").strip()
            time.sleep(0.2)
