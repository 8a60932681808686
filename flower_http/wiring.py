"""The one place that puts a server together: journal, runs, routes, events, and the core behind them."""

from __future__ import annotations

import logging
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar, cast

from flower_core.claude.agent_user import AgentUser
from flower_core.claude.environment import MARK, agent_program
from flower_core.claude.orphans import mark_of, stop_marked
from flower_core.errors import FlowerError
from flower_core.rehearsal import Play, RehearsalServer
from flower_http.app import create_app
from flower_http.engine import Engine
from flower_http.errors import StartError
from flower_http.flow_registry import Flows
from flower_http.idempotency import SqliteKeys
from flower_http.journal import Journal
from flower_http.kit import Kit
from flower_http.log_book import LogBook
from flower_http.metrics import Metrics
from flower_http.parking import ParkingDispatcher
from flower_http.places import Places, keep_apart
from flower_http.poll import EventsApp
from flower_http.relay import relay_for
from flower_http.retention import Retention
from flower_http.runs import RunManager
from flower_http.server import make_server
from flower_http.settings import CREDENTIALS, Settings
from flower_http.tokens import TokenStore

T = TypeVar("T")

#: What the agent program is given as a key when a script stands in for the model.
_REHEARSAL_KEY = "rehearsal"
_TOKENS_EVERY_S = 1.0
#: How the time to stop is divided: runs first, then readers and the journal. Seconds.
_READERS_S, _JOURNAL_S, _ENGINE_S = 2.0, 1.5, 0.5
#: Seconds that processes left at the end are given to stop when asked, and as many again when forced.
_ORPHANS_S = 0.4
#: Less room than this on the disk is none.
_ROOM_BYTES = 1024 * 1024
_LOG = logging.getLogger(__name__)


class FlowerService:
    """A complete server. :meth:`start` it once; it owns everything it is made of."""

    def __init__(self, settings: Settings) -> None:
        agent_program()  # refuse to start without it
        _check_places(settings)
        self._agent_user = _agent_user(settings)
        self._settings = settings
        flows = Flows(settings.flow)
        with ExitStack() as undo:  # what has been opened is closed again when a later part is refused
            self._rehearsal = _rehearsal(settings)
            if self._rehearsal is not None:
                undo.callback(self._rehearsal.close)
            self._journal = _opened(Journal, settings.data_dir / "journal.db")
            undo.callback(self._journal.close)
            self._keys = _opened(SqliteKeys, settings.data_dir / "idempotency.db")
            undo.callback(self._keys.close)
            self._mark = mark_of(settings.data_dir)
            self._engine = Engine()
            undo.callback(self._engine.stop, _ENGINE_S)
            environ = self._environ()
            self._relay = relay_for(environ, runs=settings.max_runs)
            if self._relay is not None:
                undo.callback(self._relay.close)
            places = Places(settings.workspace_root, settings.data_dir)
            self._join(settings, Kit(flows, places, environ, self._relay, agent_user=self._agent_user))
            undo.pop_all()

    def _join(self, settings: Settings, kit: Kit) -> None:
        if kit.relay is None:
            _LOG.warning("a subscription's token cannot be relayed: the commands of agents can read it")
        book = LogBook(self._journal, settings.ring, keep_events=settings.keep_events)
        self._manager = RunManager(
            book, self._engine, kit, max_runs=settings.max_runs, queue=settings.queue, lang=settings.lang
        )
        keep_days = settings.keep_days
        self._retention = None if keep_days is None else Retention(book, self._manager.delete, keep_days)
        self._tokens = TokenStore(settings.tokens_path, settings.token)
        metrics = Metrics(book)
        app = create_app(
            settings,
            manager=self._manager,
            book=book,
            tokens=self._tokens,
            keys=self._keys,
            missing=self._missing,
            metrics=metrics,
        )
        events = cast(EventsApp, app.wsgi_app)  # what it is with a book
        self._dispatcher = ParkingDispatcher(events)
        self._server = make_server(
            events,
            host=settings.host,
            port=settings.port,
            threads=settings.threads,
            dispatcher=self._dispatcher,
        )
        metrics.watch(self._server)
        self._serving = threading.Thread(target=self._server.run, name="flower-http", daemon=True)
        self._leaving = threading.Event()

    @property
    def url(self) -> str:
        """Where the server is reached, without a slash at the end."""
        return self._server.url

    def start(self) -> None:
        """Start the engine, take up what an earlier process left, and accept requests.

        Raises StartError when the journal cannot be read.
        """
        # The data dir is ours alone, and none of our own agents runs yet.
        if orphans := stop_marked(self._mark):
            _LOG.warning("stopped %d processes that an earlier server had left behind", orphans)
        self._engine.start()
        if self._rehearsal is not None:
            self._rehearsal.start()
        if self._relay is not None:
            self._relay.start()
        try:
            self._manager.start_up(resume=not self._settings.no_resume)
        except sqlite3.DatabaseError as error:
            # Not set aside by itself: most of what people have been told may still be in it.
            way = "restore a backup, or move it away together with its -wal and -shm to begin with none"
            raise StartError(f"{self._journal.file.path} is damaged ({error}): {way}") from error
        if self._retention is not None:
            self._retention.start()
        self._serving.start()
        self._tokens.on_change.append(self._dispatcher.recheck)
        threading.Thread(target=self._watch_tokens, name="flower-tokens", daemon=True).start()

    def stop(self, deadline_s: float) -> None:
        """Stop the runs so that they can go on later, let the readers go, close the books; within ``deadline_s``."""
        until = time.monotonic() + deadline_s
        self._leaving.set()
        if self._retention is not None:
            self._retention.stop()
        self._manager.shut_down(max(0.5, deadline_s - _READERS_S - _JOURNAL_S - _ENGINE_S))
        self._server.close(_READERS_S)
        self._keys.close()
        self._journal.close(_JOURNAL_S)
        self._engine.stop(max(_ENGINE_S, until - time.monotonic()))
        # What an agent started and did not wait for, and an agent program that has not stopped in time.
        stop_marked(self._mark, ask_s=_ORPHANS_S, all_s=2 * _ORPHANS_S)
        if self._relay is not None:
            self._relay.close()
        if self._rehearsal is not None:
            self._rehearsal.close()

    def _environ(self) -> dict[str, str]:
        theirs = {} if self._agent_user is None else self._agent_user.environ()
        environ = {**self._settings.base_env, **self._settings.model_env, **theirs, MARK: self._mark}
        if self._rehearsal is None:
            return environ
        plain = {name: value for name, value in environ.items() if name not in (*CREDENTIALS, "ANTHROPIC_MODEL")}
        return {**plain, "ANTHROPIC_BASE_URL": self._rehearsal.url, "ANTHROPIC_API_KEY": _REHEARSAL_KEY}

    def _missing(self) -> list[str]:
        """What a run needs of the machine, and does not find there (any more)."""
        needs = {"agent program": agent_program, "credentials": self._settings.require_credentials}
        reasons = []
        for name, look in needs.items():
            try:
                look()
            except (FlowerError, StartError) as error:
                reasons.append(f"{name}: {error}")
        return reasons

    def _watch_tokens(self) -> None:
        """Notice a changed tokens file also while no request comes, so that a revoked token's readers are let go."""
        while not self._leaving.wait(_TOKENS_EVERY_S):
            self._tokens.refresh()


def build_service(settings: Settings) -> FlowerService:
    """A server for ``settings``, ready to be started.

    Raises StartError for a play or a flow that cannot be loaded, AgentProgramMissing, and OSError for an address
    or a data directory that cannot be used.
    """
    return FlowerService(settings)


def _check_places(settings: Settings) -> None:
    """Raise StartError for roots that cannot be what they are for."""
    root = settings.workspace_root
    keep_apart(root, settings.data_dir)
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        way = "make it a directory that this user can write, or choose another (FLOWER_WORKSPACE_ROOT)"
        raise StartError(f"--workspace-root {root}: {error.strerror}; {way}") from error


def _agent_user(settings: Settings) -> AgentUser | None:
    """Make ready to run agents as another user, if that is wanted. Raises AgentUserUnusable."""
    if not settings.agent_user:
        return None
    user = AgentUser.find(settings.agent_user, settings.data_dir, settings.workspace_root)
    user.move_in()
    return user


def _opened(kind: Callable[[Path], T], path: Path) -> T:
    try:
        return kind(path)
    except OSError as error:
        raise StartError(f"{path}: {error.strerror or error}") from error
    except sqlite3.Error as error:
        # SQLite calls a disk without room for its index an I/O error.
        full = shutil.disk_usage(path.parent).free < _ROOM_BYTES
        raise StartError(f"{path}: {error}{': the disk is full; make room' if full else ''}") from error


def _rehearsal(settings: Settings) -> RehearsalServer | None:
    if not settings.rehearse:
        return None
    try:
        return RehearsalServer(Play.load(settings.rehearse))
    except (OSError, ValueError) as error:
        raise StartError(f"--rehearse={settings.rehearse}: {error}") from error
