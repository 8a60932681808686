"""One agent program process: open it, take turns with it, stop it cleanly.

Facts this rests on were measured with the installed agent program: leaving the message iterator is not a stop
(the agent works on for seconds), :meth:`ClaudeSDKClient.interrupt` is; an interrupt that arrives while no turn
runs is never answered by a result; after an exhausted budget a foreground subagent works on and the stream
stays open for minutes, but once that result is there, closing the process ends both at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import uuid
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, ResultMessage, SystemMessage

from flower_core.claude.errors import Failure, failure_of_result, was_interrupted
from flower_core.claude.messages import normalize
from flower_core.claude.options import aside
from flower_core.claude.processes import end_process
from flower_core.events import Event

_STOP_S = 3.0
#: How long a turn may take to end after it was interrupted; it takes milliseconds where all is well.
_SETTLE_S = 10.0
_DRAIN_S = 5.0
_CLOSE_S = 15.0
_ASK_S = 20.0
_STDERR_LINES = 30
#: What the program writes at the first request of the main thread to a model that is not on its list.
_UNKNOWN_MODEL = re.compile(r'unrecognized_model\].*"query_source":"sdk"')
_UNSETTLED = Failure("unsettled", "the agent program did not heed an interruption")


@dataclass(frozen=True)
class TurnEnd:
    """How one turn ended. ``total_cost_usd`` counts since the process started, plus what its transcript carried.

    With a ``failure`` of kind ``unsettled`` the turn was interrupted, too, but its process had to be ended, and the
    rest is unknown.
    """

    session_id: str
    total_cost_usd: float
    num_turns: int
    interrupted: bool
    failure: Failure | None


class AgentSession:
    """An asynchronous context manager around one process of the agent program.

    ``make_options`` is given the callback that collects the process's standard error. Use :meth:`turn` for
    each prompt, one at a time; :meth:`interrupt` ends the turn in flight from another task of the same loop.
    Leaving the context interrupts what is running and waits for the process to go.
    """

    def __init__(self, make_options: Callable[[Callable[[str], None]], ClaudeAgentOptions]) -> None:
        self._stderr: deque[str] = deque(maxlen=_STDERR_LINES)
        self._model_known = True
        self._options = make_options(self._note_stderr)
        self._client = ClaudeSDKClient(self._options)
        self._result_due = False  # a turn is in flight, and its result will come
        self._started = False
        self._stop_wanted = False
        self._stopping: asyncio.Task[None] | None = None
        self._settling: asyncio.Task[None] | None = None
        self._unsettled = False
        self._asking: asyncio.Task[None] | None = None
        self._api_error = ("", "")
        self._pause_s = 0.0

    @property
    def stderr(self) -> str:
        """The last lines the process wrote to its standard error."""
        return "\n".join(self._stderr)

    def beside(self, session_id: str, *, refusal: str, replies: int) -> AgentSession:
        """Another process, for a turn beside ``session_id``: see :func:`~flower_core.claude.options.aside`."""
        return AgentSession(lambda say: aside(self._options, session_id, refusal=refusal, replies=replies, stderr=say))

    async def __aenter__(self) -> AgentSession:
        await self._client.connect()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        # A cancelled caller must still leave no process behind, so the closing runs as a task of its own.
        closing = asyncio.ensure_future(self._close())
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            await asyncio.wait({closing}, timeout=_CLOSE_S)
            raise

    async def turn(self, prompt: str) -> AsyncGenerator[Event | TurnEnd, None]:
        """Send ``prompt`` and yield what comes back as events; the last item is the :class:`TurnEnd`.

        Raises what the SDK raises when the process cannot be reached or ends early.
        """
        marker = str(uuid.uuid4())
        self._started = self._stop_wanted = False
        self._api_error, self._pause_s = ("", ""), 0.0
        self._result_due = True
        try:
            await self._client.query(_as_stream(prompt, marker))
            async for message in self._client.receive_messages():
                self._note_start(message)
                if isinstance(message, ResultMessage):
                    if _is_leftover(message, marker):
                        continue
                    self._settle()
                for event in normalize(message):
                    self._note_trouble(event)
                    yield event
                if isinstance(message, ResultMessage):
                    yield self._end(message)
                    return
        except Exception:
            if not self._unsettled:
                raise
        if self._unsettled:
            yield TurnEnd("", 0.0, 0, True, _UNSETTLED)

    def _settle(self) -> None:
        """Note that the turn has ended."""
        self._result_due = False
        if self._settling is not None and not self._unsettled:
            self._settling.cancel()
            self._settling = None

    def _end(self, result: ResultMessage) -> TurnEnd:
        if self._unsettled:  # at the last moment, but its process is ending
            return TurnEnd(result.session_id, result.total_cost_usd or 0.0, result.num_turns, True, _UNSETTLED)
        interrupted = was_interrupted(result)
        failure = None if interrupted else failure_of_result(result, *self._api_error, self._pause_s)
        return TurnEnd(result.session_id, result.total_cost_usd or 0.0, result.num_turns, interrupted, failure)

    def _note_trouble(self, event: Event) -> None:
        if event.payload.get("subagent"):
            return
        if event.kind == "error":
            self._api_error = (event.payload.get("error", ""), event.text)
        elif event.kind == "system" and event.text == "api_retry":
            # At least what a Retry-After said, if there was one. A longer one is not passed on: the program gives up.
            self._pause_s = float(event.payload["data"].get("retry_delay_ms") or 0) / 1000
        elif event.kind in ("text", "thinking", "tool_call"):
            self._pause_s = 0.0

    async def interrupt(self) -> None:
        """End the turn in flight; its result arrives through :meth:`turn`. Without a turn nothing happens.

        Before the agent program has begun the turn it would answer nothing, so then the interrupt waits for that. A
        turn that has not ended ten seconds later is ended with its process; its :class:`TurnEnd` says so.
        """
        if not self._result_due:
            return
        if self._settling is None:
            self._settling = asyncio.ensure_future(self._end_unsettled())
        if not self._started:
            self._stop_wanted = True
            return
        with contextlib.suppress(Exception):  # a process that has just died needs no stopping
            await asyncio.wait_for(self._client.interrupt(), _STOP_S)

    async def _end_unsettled(self) -> None:
        await asyncio.sleep(_SETTLE_S)
        self._unsettled, self._result_due = True, False
        about = await self._client.get_server_info()
        await end_process(int((about or {})["pid"]))

    def _note_stderr(self, line: str) -> None:
        self._stderr.append(line)
        if _UNKNOWN_MODEL.search(line):
            self._model_known = False

    def ask_window(self, learn: Callable[[int | None], None]) -> None:
        """Ask the program how large the model's context window is; ``learn`` gets the tokens, None if it cannot say.

        Returns at once. Costs a dozen small requests for counting tokens the first time a process is asked.
        """
        self._asking = asyncio.ensure_future(self._ask_window(learn))

    async def _ask_window(self, learn: Callable[[int | None], None]) -> None:
        window = None
        with contextlib.suppress(Exception):  # a process that has just died, or is too busy to say
            usage = await asyncio.wait_for(self._client.get_context_usage(), _ASK_S)
            # Of a model it does not know the program assumes the largest window there is: that is no answer.
            if self._model_known:
                window = int(usage["maxTokens"])
        learn(window)

    def _note_start(self, message: object) -> None:
        if self._started or not (isinstance(message, SystemMessage) and message.subtype == "init"):
            return
        self._started = True
        if self._stop_wanted:
            # Not awaited here: while this body waits nobody reads the stream the reply comes through.
            self._stopping = asyncio.ensure_future(self.interrupt())

    async def _close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
        if self._result_due:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(self._stop_turn(), _DRAIN_S)
        with contextlib.suppress(Exception):
            await asyncio.wait_for(self._client.disconnect(), _CLOSE_S)
        # Last, since stopping the turn here has begun to wait for it anew: ended later, it might be some other process.
        if self._settling is not None:
            if not self._unsettled:
                self._settling.cancel()
            await asyncio.wait({self._settling})

    async def _stop_turn(self) -> None:
        # The reply to the interrupt comes through only while somebody reads what else the program says.
        reading = asyncio.ensure_future(self._read_to_result())
        try:
            await self.interrupt()
            await reading
        finally:
            reading.cancel()

    async def _read_to_result(self) -> None:
        async for message in self._client.receive_messages():
            self._note_start(message)
            if isinstance(message, ResultMessage):
                return


async def _as_stream(prompt: str, marker: str) -> AsyncIterator[dict[str, Any]]:
    yield {
        "type": "user",
        "message": {"role": "user", "content": prompt},
        "parent_tool_use_id": None,
        "uuid": marker,
    }


def _is_leftover(result: ResultMessage, marker: str) -> bool:
    """Whether ``result`` is the empty one that a resume after lost background work begins with."""
    answered = {result.user_message_uuid, *(result.user_message_uuids or ())}
    return marker not in answered and not result.is_error and result.num_turns == 0 and not result.result
