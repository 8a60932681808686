"""One run at work: its flow, its runtime, its channel, and everything they say written to its log."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Literal, TypeVar

from flower_core.agent import HandoffPolicy
from flower_core.events import Event
from flower_core.human import Ask, HumanChannel
from flower_core.human_questions import words_of
from flower_core.manifest import StepResult
from flower_core.runtime import Runtime
from flower_http.encode import shown_payload
from flower_http.engine import Engine
from flower_http.event_log import EventLog, LogClosed
from flower_http.flows import Links, outcome
from flower_http.interruptions import Interruptions
from flower_http.journal import JournalUnavailable
from flower_http.kit import Kit
from flower_http.projection import FINISHED, INTERRUPTED, STARTED
from flower_http.recovery import Recovery
from flower_http.schemas import StartParams

Ending = Literal["cancelled", "interrupted", "failed"]
T = TypeVar("T")
#: Being cancelled a second time would cut short what the first time set going, and leave an agent program behind.
#: Only a flow that has swallowed the first one needs it; by then whatever ends properly has ended. Seconds.
_CANCEL_AGAIN_S = 60.0
#: How long the end of a run waits for answers on their way into the log, and how often it looks. Seconds.
_SETTLE_S, _LOOK_EVERY_S = 6.0, 0.005
#: Why runs are stopped when the disk does not take what must be kept.
UNWRITTEN = "the journal could not be written"
_LOG = logging.getLogger(__name__)


class Job:
    """A run from its start in this process to its end here; a resumed run is a new job on the same log.

    :meth:`run` belongs to the engine's loop; everything else may be called from any thread.
    """

    def __init__(self, log: EventLog, params: StartParams, workspace: Path, kit: Kit, *, resumed: bool = False) -> None:
        self.log = log
        self.params = params
        self.workspace = workspace
        self.resumed = resumed
        self.channel: HumanChannel | None = None
        self.runtime: Runtime | None = None
        #: Set once the channel is there, if there is one, and also when the job ends before that.
        self.opened = threading.Event()
        self._kit = kit
        self._lang = log.view.lang or "en"
        self._recovery = Recovery(log, self._lang, kit.open_asks, resumed=resumed)
        self._engine: Engine | None = None
        self._task: asyncio.Task[None] | None = None
        self._cancelled_at: float | None = None
        self._ending: tuple[Ending, str] | None = None
        self._leaving = False
        self._interruptions: Interruptions | None = None
        self._undo = ExitStack()
        self._settling = 0
        self._settling_lock = threading.Lock()

    @property
    def run_id(self) -> str:
        """The run this job carries on."""
        return self.log.run_id

    @property
    def started(self) -> bool:
        """Whether its turn has come."""
        return self._engine is not None

    def start(self, engine: Engine, on_end: Callable[[Job], None]) -> None:
        """Begin; ``on_end(job)`` is called, on the engine's loop, once nothing of the job is left."""
        self._engine = engine
        # Nobody ever cancels this future: it would count as done at once, long before the agent has stopped.
        engine.submit(self.run()).add_done_callback(lambda _: on_end(self))

    @property
    def _goes_on(self) -> bool:
        """Whether it has been told to stop so that the run can go on later."""
        return self._ending is not None and self._ending[0] == "interrupted"

    @property
    def leaving(self) -> bool:
        """Whether nothing is left to do but to write its end down."""
        return self._leaving

    @property
    def unwritten(self) -> bool:
        """Whether it was stopped because the disk did not take its events."""
        return self._ending == ("interrupted", UNWRITTEN)

    def end(self, how: Ending, reason: str) -> None:
        """Stop the run: for good, or so that it can go on later. Returns at once; the log says when it is done."""
        if self._ending is None or how == "cancelled":
            self._ending = (how, reason)
        if self._engine is not None:
            self._engine.call_soon(self._cancel)

    def _cancel(self) -> None:
        """On the loop: before :meth:`run` has begun there is no task, and it will see for itself."""
        again = self._cancelled_at is None or time.monotonic() - self._cancelled_at > _CANCEL_AGAIN_S
        if self._task is not None and again:
            self._cancelled_at = time.monotonic()
            self._task.cancel()

    def interrupt(self, words: str, *, ref: str = "") -> str | None:
        """Stop the agent; it goes on with ``words``. Returns as :meth:`Interruptions.interrupt`; idle: None."""
        if self._interruptions is None or self.runtime is None:
            return None
        return self._interruptions.interrupt(self.runtime, words, ref)

    def said_with(self, ref: str) -> str | None:
        """The id of the mail that was sent with this ``ref``, None for none or without one."""
        return None if self._interruptions is None else self._interruptions.said_with(ref)

    def settle_ask(self, ask_id: str, state: str, text: str, by: str) -> bool:
        """Settle a question of this run for a person; as the channel's ``answer`` and ``decline``.

        The agent hears of it before the log does. Until the log has, the run does not end, however fast the agent is.
        """
        channel = self.channel
        if channel is None:
            return False
        with self._settling_lock:
            self._settling += 1
        try:
            settle = channel.answer if state == "answered" else channel.decline
            return settle(ask_id, text, by=by)
        finally:
            with self._settling_lock:
                self._settling -= 1

    def waiting_like(self, question: str) -> list[str]:
        """The ids of questions that wait in these words, those included that are just being asked."""
        channel, engine = self.channel, self._engine
        if channel is None or engine is None:
            return []

        async def look() -> list[str]:
            # On the loop: a question that has looked into the books already is among those that wait by now.
            return [ask.id for ask in channel.pending() if words_of(ask.question) == words_of(question)]

        try:
            return engine.submit(look()).result(_SETTLE_S)
        except (TimeoutError, concurrent.futures.CancelledError, RuntimeError):  # the engine has ended
            return []

    def rescue(self) -> None:
        """Write the books of the step in flight: the process is about to end."""
        if self.runtime is not None:
            self.runtime.rescue()

    def settle(self, ask: Ask) -> None:
        """Keep an answer before the agent gets it. Raises JournalUnavailable, and then the question waits on."""
        kept = {"id": ask.id, "question": ask.question, "state": ask.state, "answer": ask.answer}
        self.log.conversation.settle_answer({**kept, "answered_by": ask.answered_by})

    async def run(self) -> None:
        """Carry the run to its end and write that end down. Never raises."""
        finish: dict[str, Any] | None = None
        self._task = asyncio.current_task()
        self.log.on_broken = self._lost
        try:
            if self._ending is None:
                self._say(STARTED, {"resumed": self.resumed})
                finish = await self._work()
        except asyncio.CancelledError:
            self._ending = self._ending or ("interrupted", "the run was stopped from within the server")
        except LogClosed as error:
            _LOG.info("run %s was ended before its turn came", self.run_id)
            finish = {"state": "failed", "error": str(error)}
        except (Exception, SystemExit) as error:  # a registered flow may do anything; the engine must live on
            _LOG.exception("run %s failed", self.run_id)
            finish = {"state": "failed", "error": f"{type(error).__name__}: {error}"}
        self._task = None
        self.opened.set()
        with suppress(asyncio.CancelledError):  # the engine ends: then without waiting
            await self._until_settled()
        self._close()
        if not self._goes_on:
            with suppress(asyncio.CancelledError):  # before anybody can see that the run has ended
                await asyncio.to_thread(self._kit.places.end, self.run_id)
        self._leaving = True
        self._write_end(finish)

    async def _until_settled(self) -> None:
        """Close the channel, and wait for answers that are on their way into the log."""
        if self.channel is not None:
            self.channel.close()
        deadline = time.monotonic() + _SETTLE_S
        while self._settling and time.monotonic() < deadline:  # noqa: ASYNC110 - other threads count it down
            await asyncio.sleep(_LOOK_EVERY_S)

    async def _work(self) -> dict[str, Any]:
        context = self._kit.context(self.params, self.workspace, self._lang)
        config_dir = self._kit.places.config_dir(self.run_id)
        # In a thread: it looks at every file there is.
        admitted = await asyncio.to_thread(self._kit.admit, config_dir, self.workspace, context.workbench.root)
        flow = self._kit.flows.make(context, self._links())
        self._kit.places.begin(self.run_id, flow.workbench)
        channel = flow.channel or HumanChannel(lang=self._lang)  # words need one also where nobody can be asked
        self._listen(channel)
        self.channel = flow.channel
        self._interruptions = Interruptions(channel)
        self._recovery.begin(channel)
        self.opened.set()
        self.runtime = Runtime(
            workspace=self.workspace,
            run_dir=context.run_dir,
            workbench=flow.workbench or False,
            handoff=HandoffPolicy(enabled=self.params.handoff, window=self.params.window),
            environ={**self._undo.enter_context(self._kit.way_to_model()), **admitted},
            upstream=self._kit.upstream,
            config_dir=config_dir,
            run_id=self.run_id,
            lang=self._lang,
        )
        self._undo.callback(self.runtime.close)
        if self.runtime.workspace != self.workspace:  # agents of a directory above may have put a link there
            raise ValueError("the workspace has become a symbolic link")
        ctx = await flow.run(self.runtime, on_event=self._on_event, on_step=self._on_step)
        return outcome(ctx)

    def _links(self) -> Links:
        return Links(
            resumed=self.resumed,
            opening=self._recovery.opening(),
            cut_off=self._recovery.cut_off,
            spent_usd=self.log.view.cost_usd,
            session_file=self._kit.places.session_file(self.workspace, self.run_id),
        )

    def _listen(self, channel: HumanChannel) -> None:
        """Have the flow's channel keep answers before they are given, and tell everything to our log, too.

        Undone at the end: a ready Workflow object outlives this run, and the next one must not report to it.
        """
        theirs, sink = channel.on_settle, channel.on_event
        channel.on_settle = self.settle if theirs is None else _both(self.settle, theirs)
        self._undo.callback(setattr, channel, "on_settle", theirs)
        # Also where the workflow would do it: something may be said before that gets so far.
        channel.on_event = self._on_event if sink is None else _both(self._on_event, sink)
        self._undo.callback(setattr, channel, "on_event", sink)

    def _on_step(self, _step: object, _result: StepResult) -> None:
        """The first step to end is the one that was cut off, if one was."""
        self._recovery.end(self.channel)

    def _on_event(self, event: Event) -> None:
        if self._goes_on and _abandoned(event):
            return  # only its call has gone; the question waits on, and the run that goes on will ask it again
        try:
            self.log.append(event.kind, event.text, event.tool, shown_payload(event, self.workspace))
        except JournalUnavailable:
            # Nothing may happen that nobody can ever see: rather stop, and go on when the disk is well.
            self.end("interrupted", UNWRITTEN)
            raise

    def _say(self, text: str, payload: Mapping[str, Any]) -> None:
        self.log.append("system", text, payload=payload)

    def _close(self) -> None:
        """Let go of everything. Whatever goes wrong here must not cost the run its last event."""
        for line in self.runtime.ui_errors if self.runtime is not None else ():
            _LOG.warning("run %s: %s", self.run_id, line)
        try:
            self._undo.close()
        except Exception:
            _LOG.exception("run %s: something could not be closed", self.run_id)

    def _write_end(self, finish: dict[str, Any] | None) -> None:
        try:
            if not self._goes_on:
                self._recovery.end(self.channel)
            if self._ending is not None:
                how, why = self._ending
                self._say(INTERRUPTED if self._goes_on else FINISHED, {"state": how, "error": why})
            else:
                self._say(FINISHED, finish or {"state": "failed", "error": "the run ended without an outcome"})
        except (LogClosed, JournalUnavailable) as error:
            _LOG.error("run %s: its end could not be written: %s", self.run_id, error)

    def _lost(self, why: str) -> None:
        """The journal has refused an event of the run for good: stop, rather than go on as if nothing were missing."""
        if not self._leaving:
            self.end("failed", why)
            return
        self.log.on_broken = None  # it was the end itself: once more in short, and not again
        with suppress(LogClosed, JournalUnavailable):
            self._say(FINISHED, {"state": "failed", "error": why})


def _both(first: Callable[[T], None], second: Callable[[T], None]) -> Callable[[T], None]:
    def call(given: T) -> None:
        first(given)
        second(given)

    return call


def _abandoned(event: Event) -> bool:
    """Whether a question ends only because nobody is there any more to hear the answer."""
    payload = event.payload
    return event.kind == "ask" and payload.get("state") == "declined" and not payload.get("answered_by")
