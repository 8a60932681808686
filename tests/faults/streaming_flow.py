"""A flow without an agent: numbered events at a steady rate, going on where it was when the server has been away.

Its task is a JSON object: ``url`` of the server, how many ``events``, and how many a second (``rate``).
"""

from __future__ import annotations

import asyncio
import json
import time
import urllib.request
from typing import Any

from flower_core import Event
from flower_core.events import EventSink
from flower_core.workflow import Workflow
from flower_http.flows import FlowContext

#: Among that many newest events the last one of the flow is found, whatever the server has said since.
_TAIL = 20
#: The loop is given back at least that often, in events.
_BREATH = 50


def text_of(number: int) -> str:
    """The text of event ``number``: a reader can tell whether it is the right one."""
    return f"{number} " + "abcdefghij" * (number % 30)


class Stream(Workflow):
    """Publishes what its task says."""

    async def run(self, runtime: Any, *, on_event: EventSink | None = None, on_step: Any = None) -> dict[str, Any]:
        """Publish what has not been kept yet."""
        assert on_event is not None
        task = json.loads(self.context["task"])
        kept = await asyncio.to_thread(last_kept, task["url"], runtime.workspace.name)
        begun = time.monotonic()
        for number in range(kept + 1, task["events"] + 1):
            on_event(Event("text", text_of(number), payload={"n": number}))
            ahead = begun + (number - kept) / task["rate"] - time.monotonic()
            if ahead > 0.01 or number % _BREATH == 0:
                await asyncio.sleep(max(0.0, ahead))
        return {"_results": {}}


def last_kept(url: str, run_id: str) -> int:
    """The number of the last event of this flow that its run has, 0 when there is none."""
    with urllib.request.urlopen(f"{url}/runs/{run_id}/events?tail={_TAIL}", timeout=30) as reply:
        events = json.load(reply)["events"]
    return max((event["payload"]["n"] for event in events if event["kind"] == "text"), default=0)


def make(context: FlowContext) -> Workflow:
    """The flow of one run, which works in a workspace of its own, named after it."""
    return Stream([], context={"task": context.task})
