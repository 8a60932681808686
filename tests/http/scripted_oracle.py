"""An oracle that needs no agent program: it answers at once, or when a test lets it."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from flower_core import OracleAnswer

ANSWER = OracleAnswer("All is well.", 0.02, True, "")
_LOOK_S = 0.005


class ScriptedOracle:
    """Stands in for :func:`flower_core.ask_oracle`. ``asked`` holds what each call was given, with its question."""

    def __init__(self, answer: OracleAnswer | Exception = ANSWER) -> None:
        self.answer = answer
        self.asked: list[dict[str, Any]] = []
        self.go = threading.Event()
        self.go.set()
        self.stopped = 0
        #: Whether it goes on when it is to stop, as an agent program may that hangs.
        self.stubborn = False

    async def __call__(self, question: str, **given: Any) -> OracleAnswer:
        self.asked.append({"question": question, **given})
        while not self.go.is_set():
            try:
                await asyncio.sleep(_LOOK_S)
            except asyncio.CancelledError:
                self.stopped += 1
                if not self.stubborn:
                    raise
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer
