"""Asking about a run on the side: putting the question, and looking again until there is an answer."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread

from flower_client.api import FlowerClient
from flower_client.errors import FlowerClientError
from flower_client.oracle import OracleAnswer
from flower_client.safe_text import clean, one_line
from flower_client.transport import Sleep

#: Seconds between looks for the answer: an agent has to start first, and often it is done soon after.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S, _GROWTH = 0.5, 3.0, 1.3


def ask_and_wait(client: FlowerClient, run_id: str, question: str, sleep: Sleep) -> OracleAnswer:
    """Ask ``question`` about a run and wait, pausing with ``sleep``, until it is settled.

    Raises what the two methods of ``client`` raise.
    """
    found, pause = client.oracle(run_id, question), _FIRST_PAUSE_S
    while found.thinking:
        sleep(pause)
        pause = min(pause * _GROWTH, _LONGEST_PAUSE_S)
        found = client.oracle_answer(run_id, found.id)
    return found


def answer_lines(found: OracleAnswer) -> list[str]:
    """What came of a question, for people."""
    said = clean(found.answer).splitlines()
    if found.state == "answered":
        return said or ["(it answered nothing)"]
    return [*said, f"no answer: {one_line(found.error, 1000)}"]


class Asker:
    """Asks without keeping the caller waiting; ``tell`` is called with what comes of it. :meth:`stop` it at the end."""

    def __init__(
        self,
        make_client: Callable[[Sleep], FlowerClient],
        run_id: str,
        tell: Callable[[OracleAnswer | FlowerClientError], object],
    ) -> None:
        self._make_client = make_client
        self._run_id = run_id
        self._tell = tell
        self._stopping = Event()

    def ask(self, question: str) -> None:
        """Ask, on a thread of its own."""
        Thread(target=self._ask, args=(question,), name="flower-oracle", daemon=True).start()

    def stop(self) -> None:
        """Wait for no answer any more."""
        self._stopping.set()

    def _ask(self, question: str) -> None:
        try:
            with self._make_client(self._pause) as client:
                self._tell(ask_and_wait(client, self._run_id, question, self._pause))
        except _Stopped:
            pass
        except FlowerClientError as error:
            self._tell(error)

    def _pause(self, seconds: float) -> None:
        if self._stopping.wait(seconds):
            raise _Stopped


class _Stopped(Exception):
    """The watch has ended, and nobody is there to read an answer."""
