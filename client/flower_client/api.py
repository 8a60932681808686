"""The library's front door: one method per endpoint, typed, and nothing is ever printed."""

from __future__ import annotations

import io
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, Unpack
from urllib.parse import quote

from flower_client.config import DEFAULT_URL, TIMEOUT_S
from flower_client.errors import BadReply, ConfigError, Refused
from flower_client.fields import Json, as_object
from flower_client.files import Document, FileList, checked_path, fetch
from flower_client.models import Ask, Page, Run, RunList, Settled
from flower_client.oracle import OracleAnswer
from flower_client.params import OnceParams, StartParams
from flower_client.poll import Notice, Watch
from flower_client.retrying import Backoff
from flower_client.transport import Reply, Sleep, Transport

LONG_POLL_S = 25.0


class FlowerClient:
    """A flower server, seen from Python.

    ``url`` is its address, ``token`` may stay empty where the server needs none. A request without a usable reply is
    repeated up to ``attempts`` times in all, after pauses that ``backoff`` sets and that ``sleep`` waits for (seconds);
    ``clock`` tells the seconds of an outage. Every POST carries an idempotency key, one for each call of a method, so
    that a repeated one is carried out once. ``timeout_s`` is how long the server may be silent, in seconds, before an
    attempt counts as failed; connecting may take 10 seconds of them. ``long_poll_s`` (0 to 25) is how long the server
    may hold a read of a watch, on top of that.

    Use one client per thread; it is a context manager, and :meth:`close` closes its connections. Nothing is shared
    between clients.

    Every method raises Unreachable, NotAllowed or Refused (see :mod:`flower_client.errors`); ConfigError is for
    arguments that cannot be sent.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        token: str = "",
        *,
        attempts: int = 4,
        timeout_s: float = TIMEOUT_S,
        backoff: Backoff | None = None,
        sleep: Sleep = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        long_poll_s: float = LONG_POLL_S,
    ) -> None:
        self._transport = Transport(url, token, attempts=attempts, timeout_s=timeout_s, backoff=backoff, sleep=sleep)
        self._clock = clock
        self._long_poll_s = long_poll_s

    def __enter__(self) -> FlowerClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        self._transport.close()

    @property
    def url(self) -> str:
        """The server's address, without a trailing slash."""
        return self._transport.url

    # --- runs ---

    def start(self, task: str = "", *, idempotency_key: str = "", **params: Unpack[StartParams]) -> Run:
        """Start a run of the starter flow, or of the one named as ``flow``; see :class:`StartParams`.

        ``task`` may be empty only where ``workspace`` holds something to wake. The same ``idempotency_key`` never
        starts a second run within 24 hours; one is made when none is given.
        """
        return Run.from_json(self._post("/runs", _given(task=task, **params), idempotency_key).data)

    def once(self, prompt: str, *, idempotency_key: str = "", **params: Unpack[OnceParams]) -> Run:
        """Start a run of a single session: one prompt, one answer; see :class:`OnceParams`."""
        return Run.from_json(self._post("/runs", _given(flow="once", task=prompt, **params), idempotency_key).data)

    def run(self, run_id: str) -> Run:
        """One run as it is now."""
        return Run.from_json(self._get(_path(run_id)).data)

    def runs(
        self, *, state: str | None = None, label: str | None = None, limit: int | None = None, cursor: str = ""
    ) -> RunList:
        """Runs, newest first. ``label`` is ``key=value``; ``cursor`` is the last list's ``next_cursor``."""
        data = as_object(
            self._get("/runs", _given(state=state, label=label, limit=limit, cursor=cursor or None)).data, "runs"
        )
        return RunList(
            tuple(Run.from_json(run) for run in _items(data, "runs")), str(data.get("next_cursor") or ""), data
        )

    def steps(self, run_id: str) -> list[Json]:
        """The manifest rows of a run: one per finished session, with session id, cost and duration."""
        return _items(self._get(_path(run_id, "steps")).data, "steps")

    def resume(self, run_id: str, *, idempotency_key: str = "") -> Run:
        """Go on with an interrupted run now instead of when the server would."""
        return Run.from_json(self._post(_path(run_id, "resume"), {}, idempotency_key).data)

    def cancel(self, run_id: str, *, idempotency_key: str = "") -> Run:
        """End a run for good. Cancelling an ended run changes nothing."""
        return Run.from_json(self._post(_path(run_id, "cancel"), {}, idempotency_key).data)

    def delete(self, run_id: str) -> None:
        """Forget an ended run and all that is its own; its workspace stays.

        Raises Refused with slug ``not-ended`` while it goes on, ``unknown-run`` once it is gone.
        """
        try:
            self._transport.call("DELETE", _path(run_id))
        except Refused as error:
            if not (error.maybe_done and error.slug == "unknown-run"):
                raise  # else the attempt whose reply was lost has deleted it

    # --- documents and files ---

    def documents(self, run_id: str) -> list[Document]:
        """What was agreed on: brief, goal, questions, handoffs, as far as they exist."""
        return [Document.from_json(item) for item in _items(self._get(_path(run_id, "documents")).data, "documents")]

    def document(self, run_id: str, name: str) -> str:
        """The text of a document, such as ``brief`` or ``handoff-1``. Raises Refused with slug ``unknown-document``."""
        text = io.BytesIO()
        fetch(self._transport, _path(run_id, "documents", quote(checked_path(name), safe="")), text)
        return text.getvalue().decode("utf-8", "replace")

    def files(self, run_id: str, path: str = "", *, limit: int | None = None, cursor: str = "") -> FileList:
        """What is in a directory of the workspace. ``cursor`` is the last list's ``next_cursor``.

        Raises BadReply when there is a file; :meth:`fetch` takes either.
        """
        where = _path(run_id, "files", *filter(None, [quote(checked_path(path))]))
        return FileList.from_json(self._get(where, _given(limit=limit, cursor=cursor or None)).data)

    def fetch(self, run_id: str, path: str, out: BinaryIO) -> FileList | None:
        """Write a file of the workspace to ``out``, or, where there is a directory, return what is in it.

        A download that breaks off is taken up where it was; ``out`` should be seekable, in case the file has changed.
        """
        return fetch(self._transport, _path(run_id, "files", *filter(None, [quote(checked_path(path))])), out)

    # --- asks and steering ---

    def asks(self, run_id: str, *, state: str = "waiting") -> list[Ask]:
        """The questions of a run: those ``waiting``, or ``all``."""
        data = self._get(_path(run_id, "asks"), {"state": state}).data
        return [Ask.from_json(ask) for ask in _items(data, "asks")]

    def answer(
        self, run_id: str, ask_id: str, text: str | None = None, *, option: int | None = None, idempotency_key: str = ""
    ) -> Settled:
        """Answer a question with ``text``, or with the number of an ``option``, counted from 1.

        When this returns, the answer is kept, whatever happens to the server. Raises Refused with slug
        ``ask-settled`` when the question no longer waits; its ``document["ask"]`` is how it was settled.
        """
        if (text is None) == (option is None):
            raise ConfigError("give either a text or an option")
        body = _given(ask_id=ask_id, text=text, option=option)
        return _settled(self._post(_path(run_id, "answer"), body, idempotency_key))

    def decline(self, run_id: str, ask_id: str, reason: str = "", *, idempotency_key: str = "") -> Settled:
        """Leave a question unanswered: the agent decides itself and notes what it assumed."""
        body = _given(ask_id=ask_id, reason=reason or None)
        return _settled(self._post(_path(run_id, "decline"), body, idempotency_key))

    def say(self, run_id: str, text: str, *, idempotency_key: str = "") -> Json:
        """Tell the agent something unasked; it reads it at its next look into the inbox. Returns id and amended."""
        return as_object(self._post(_path(run_id, "inbox"), {"text": text}, idempotency_key).data, "a message")

    def inbox(self, run_id: str) -> Json:
        """What was said to the agent, and whether it has taken it."""
        return as_object(self._get(_path(run_id, "inbox")).data, "an inbox")

    def interrupt(self, run_id: str, text: str = "", *, idempotency_key: str = "") -> Json:
        """Stop what the agent is doing now; it goes on at once with ``text`` in mind.

        A subagent in flight loses its half-done work. Raises Refused with slug ``not-running`` when nothing runs.
        """
        body = _given(text=text or None)
        return as_object(self._post(_path(run_id, "interrupt"), body, idempotency_key).data, "an interrupt")

    def oracle(self, run_id: str, question: str, *, idempotency_key: str = "") -> OracleAnswer:
        """Ask something about a run on the side; the run never hears of it. :meth:`oracle_answer` has what comes of it.

        Raises Refused with slug ``oracle-busy`` while another question is being answered.
        """
        return OracleAnswer.from_json(self._post(_path(run_id, "oracle"), {"question": question}, idempotency_key).data)

    def oracle_answer(self, run_id: str, question_id: str) -> OracleAnswer:
        """A question about a run, and its answer as far as there is one."""
        return OracleAnswer.from_json(self._get(_path(run_id, "oracle", quote(question_id, safe=""))).data)

    # --- events ---

    def events(
        self,
        run_id: str,
        *,
        after: int = 0,
        tail: int | None = None,
        limit: int | None = None,
        wait: float = 0,
        epoch: str = "",
        on_gap: str = "",
        retry: bool = True,
    ) -> Page:
        """One page of events after seq ``after``, or the last ``tail`` ones.

        ``wait`` seconds (0 to 25) hold the reply until there is something new. With ``on_gap="skip"`` events the server
        no longer has become ``gap`` instead of a refusal. ``retry`` False makes it a single attempt.
        """
        where = {"after": after} if tail is None else {"tail": tail}
        params = {**where, **_given(limit=limit, wait=_seconds(wait), epoch=epoch or None, on_gap=on_gap or None)}
        path = _path(run_id, "events")
        if retry and not wait:
            return Page.from_json(self._get(path, params).data)
        reply = self._transport.exchange("GET", path, params=params, held_s=wait)
        return Page.from_json(reply.data)

    def watch(
        self,
        run_id: str,
        after: int = 0,
        *,
        tail: int | None = None,
        epoch: str = "",
        follow: bool = True,
        limit: int | None = None,
        wait_s: float | None = None,
        give_up_after_s: float | None = None,
        on_notice: Callable[[Notice], None] | None = None,
    ) -> Watch:
        """Iterate over the events of a run, from seq ``after`` (exclusive) or the last ``tail`` ones, until it ends.

        It reconnects for as long as it takes, or ``give_up_after_s`` seconds, and proves by counting that nothing was
        lost; what was is in :attr:`Watch.losses`. ``epoch`` guards a cursor kept from an earlier process. ``follow``
        False stops at the newest event. ``on_notice`` hears of outages and losses as they happen.
        """
        _path(run_id)
        return Watch(
            lambda query: self.events(run_id, **query, retry=False),
            run_id=run_id,
            after=after,
            tail=tail,
            epoch=epoch,
            follow=follow,
            limit=limit,
            wait_s=self._long_poll_s if wait_s is None else wait_s,
            give_up_after_s=give_up_after_s,
            on_notice=on_notice,
            backoff=self._transport.backoff,
            sleep=self._transport.sleep,
            clock=self._clock,
        )

    # --- the server itself ---

    def server(self) -> Reply:
        """Name, version and links of the server, with the headers of the reply."""
        return self._get("/")

    def healthy(self) -> Reply:
        """Whether the server is alive. Needs no token."""
        return self._get("/healthz")

    def ready(self) -> Reply:
        """Whether the server can take runs. Raises Unreachable with its reasons when it cannot."""
        return self._get("/readyz")

    def _get(self, path: str, params: Mapping[str, Any] | None = None) -> Reply:
        return self._transport.call("GET", path, params=params)

    def _post(self, path: str, body: Mapping[str, Any], key: str) -> Reply:
        return self._transport.call("POST", path, body=body, key=key or uuid.uuid4().hex)


def _given(**members: Any) -> Json:
    """The members that are not None: what is left out is the server's to decide."""
    return {name: value for name, value in members.items() if value is not None}


def _seconds(wait: float) -> str | None:
    return f"{wait:.3f}".rstrip("0").rstrip(".") if wait else None


def _path(run_id: str, *rest: str) -> str:
    # Dots survive quoting, and a path of dots would be folded into another endpoint's.
    if run_id in ("", ".", ".."):
        raise ConfigError(f"{run_id!r} is not a run's id", hint="`flower-client runs` lists them.")
    return "/".join(["/runs", quote(run_id, safe=""), *rest])


def _items(data: Any, key: str) -> list[Json]:
    items = data.get(key) if isinstance(data, dict) else None
    if not isinstance(items, list):
        raise BadReply(f"a reply without a list of {key}")
    return [as_object(item, f"one of {key}") for item in items]


def _settled(reply: Reply) -> Settled:
    data = as_object(reply.data, "a settled question")
    replayed = data.get("replayed") is True or reply.headers.get("Idempotent-Replayed") == "true"
    return Settled(Ask.from_json(data.get("ask")), replayed, data)
