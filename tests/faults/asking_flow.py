"""A flow without an agent that puts many questions at once, and says what each asker was told.

Its task is a JSON object: how many ``asks``, and how many seconds an answer that has been kept waits before it is
handed on and acknowledged (``linger_s``): the moment between the two, made as wide as a test needs it.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

from flower_core import Event
from flower_core.events import EventSink
from flower_core.human import Ask
from flower_core.workflow import Workflow
from flower_http.flows import FlowContext


class Asking(Workflow):
    """Asks ``Question 1?`` to ``Question N?`` and ends when all have been settled."""

    async def run(self, runtime: Any, *, on_event: EventSink | None = None, on_step: Any = None) -> dict[str, Any]:
        """Ask everything at once."""
        channel = self.channel
        assert channel is not None
        assert on_event is not None

        async def one(number: int) -> None:
            ask = await channel.ask(f"Question {number}?")
            on_event(Event("text", ask.answer, payload={"asker": number, "state": ask.state}))

        await asyncio.gather(*(one(number) for number in range(1, self.context["asks"] + 1)))
        return {"_results": {}}


def make(context: FlowContext) -> Workflow:
    """The flow of one run."""
    task = json.loads(context.task)

    def linger(_: Ask) -> None:
        time.sleep(task["linger_s"])

    return Asking([], context={"asks": task["asks"]}, channel=context.channel(on_settle=linger))
