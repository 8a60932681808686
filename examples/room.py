"""A chat that needs no account: a text file, one message a line.

`tail -f ROOM.txt` shows it, `echo q1 2 >> ROOM.txt` speaks in it.
"""

import time
from collections.abc import Iterator
from pathlib import Path


class Room:
    """The file at ``path``. A message is known by the place where its line ends."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def post(self, text: str) -> None:
        """Say ``text``."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"bot> {' '.join(text.split())}\n")

    def newest(self) -> str:
        """The name of the newest message."""
        return str(self.path.stat().st_size)

    def messages(self, after: str) -> Iterator[tuple[str, str]]:
        """Name and text of each message behind the one named ``after``, as they come, for ever."""
        place = int(after)
        while True:
            with self.path.open("rb") as file:
                file.seek(place)
                while (line := file.readline()).endswith(b"\n"):
                    place += len(line)
                    if not line.startswith(b"bot> "):
                        yield str(place), line.decode("utf-8", "replace").strip()
            time.sleep(0.2)
