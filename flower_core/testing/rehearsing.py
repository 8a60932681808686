"""Running a workflow to its end against a play, and what there is to see of it afterwards."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flower_core.events import Event
from flower_core.rehearsal import Play, RehearsalServer, Request
from flower_core.runtime import Runtime
from flower_core.workflow import Workflow

#: Called with a question and its options; returns the words to answer with, or None to decline.
Answer = Callable[[str, Sequence[str]], str | None]


@dataclass(frozen=True)
class Rehearsed:
    """What came of a rehearsal: the context the workflow left, every event, and every request the script got."""

    ctx: Mapping[str, Any]
    events: Sequence[Event]
    requests: Sequence[Request]

    @property
    def failed_at(self) -> str:
        """The step that ended the run, "" when it went through."""
        return str(self.ctx.get("_failed_at", ""))

    @property
    def steps(self) -> list[str]:
        """The sessions in the order they began, with their rounds and verdicts, such as ``Write#round2``."""
        return [event.text for event in self.events if event.kind == "step"]

    def prompts_of(self, speaker: str) -> list[str]:
        """What a speaker of the play was asked, each prompt once, in the order of its first request."""
        asked = (request.talk.prompt for request in self.requests if request.speaker == speaker)
        return list(dict.fromkeys(asked))


def first_option(question: str, options: Sequence[str]) -> str | None:
    """Take the first option; decline what has none."""
    return options[0] if options else None


def rehearse(
    flow: Workflow,
    play: Play | Mapping[str, Any] | str | Path,
    *,
    workspace: Path,
    run_dir: Path,
    answer: Answer = first_option,
    lang: str = "en",
    **runtime: Any,
) -> Rehearsed:
    """Run ``flow`` with the agents in ``workspace`` and the books in ``run_dir``, without a pause, to its end.

    ``play`` is what the model says: a file, the name of a shipped play, or the same as data. ``answer`` stands in for
    people. What else ``runtime`` holds goes to :class:`~flower_core.runtime.Runtime`. The agents see no variable of
    this process but PATH. Not to be called from a running event loop. Raises PlayError or FileNotFoundError for a play
    that cannot be performed, and what the workflow's own functions raise.
    """
    events: list[Event] = []

    def see(event: Event) -> None:
        events.append(event)
        if event.kind == "ask" and event.payload.get("state") == "asked" and flow.channel is not None:
            words = answer(event.text, event.payload["options"])
            settle = flow.channel.decline if words is None else flow.channel.answer
            settle(event.payload["id"], words or "")

    workspace.mkdir(parents=True, exist_ok=True)
    run_dir.mkdir(parents=True, exist_ok=True)
    with RehearsalServer(play, pace=0) as model:
        environ = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(run_dir)}
        environ |= {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": "rehearsal"}
        given = {"workbench": flow.workbench or False, "environ": environ, "lang": lang, **runtime}
        books = Runtime(workspace=workspace, run_dir=run_dir, **given)
        try:
            ctx = asyncio.run(flow.run(books, on_event=see))
        finally:
            books.close()
        return Rehearsed(ctx, events, list(model.app.requests))
