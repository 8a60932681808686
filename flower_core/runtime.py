"""Running agents in one workspace, and keeping the books: sessions, costs, the manifest.

How one step gets to its end is :mod:`flower_core.step_loop`.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from flower_core.agent import AgentSpec, HandoffPolicy
from flower_core.call import Call
from flower_core.claude.environment import check_credentials, write_launcher
from flower_core.claude.options import Opening, Surroundings, build_options
from flower_core.events import EventSink, SafeSink
from flower_core.handoff_turn import Desk
from flower_core.manifest import Manifest, StepResult
from flower_core.output_files import OutputFiles
from flower_core.rescue import rescued_on_signals, undisturbed
from flower_core.resilience import Resilience, endpoint
from flower_core.sessions import SqliteSessionStore, rewriters
from flower_core.step_loop import StepLoop
from flower_core.texts import DEFAULT_LANG
from flower_core.workbench import Workbench
from flower_core.worktrees import prepare_repository

SessionListener = Callable[[str, str], None]


#: Where a runtime keeps its sessions, in its ``run_dir``.
SESSIONS_FILE = "sessions.db"
#: The error of a step in flight when its process was told to die.
KILLED = "killed-by-signal"
#: The error of a step that is still at work, and of one whose process was killed outright; ``ended_at`` is 0.
UNFINISHED = "unfinished"


class Runtime:
    """Runs agents in one workspace and keeps their books in ``run_dir``.

    ``workspace`` (made if missing) is the agents' current directory. ``workbench`` is a shared
    :class:`Workbench`, True for one at ``<run_dir>/workbench``, False for none. ``portable`` keeps the
    machine's own agent settings out. ``resilience`` and ``handoff`` are policies, or a bool for the default one or
    none; handoffs are kept in the notes of the workbench, without one in ``<run_dir>/notes``.
    With a workbench, outputs of ``spill_threshold`` characters and more (0 or None: none) go into files there.
    A session that is resumed is rewritten on its way (:mod:`flower_core.sessions`): ``ephemeral`` drops what old
    looks showed, ``trim`` moves every old long result into a file of the workbench (or the workspace's ``.flower``)
    instead of those of failed calls only, all but the last ``keep_denials`` (0 or more) refused calls go.
    ``store`` replaces the SQLite session store in ``run_dir`` and brings its own rewriters; ``environ`` stands in
    for the process's environment, ``config_dir`` for ``<run_dir>/config/<run_id>``, ``run_id`` names the run in the
    manifest.
    ``upstream`` is the endpoint behind ANTHROPIC_BASE_URL where that is only a relay: the one whose being reachable
    is waited for after a failure.

    Raises CredentialsMissing, which says what to set, when the environment cannot reach a model, and ValueError
    for an ANTHROPIC_BASE_URL or proxy that is no URL, for a directory whose path is no UTF-8, for ``keep_denials`` or
    ``spill_threshold`` below 0, and for a ``store`` together with how sessions are to be rewritten; OSError or
    sqlite3.Error when its directories or its store cannot be made or opened.
    """

    def __init__(
        self,
        *,
        workspace: Path | str,
        run_dir: Path | str = "runs",
        portable: bool = True,
        trim: bool = False,
        ephemeral: bool = True,
        keep_denials: int = 1,
        workbench: Workbench | bool = False,
        spill_threshold: int | None = 4000,
        resilience: Resilience | bool = True,
        handoff: HandoffPolicy | bool = True,
        store: SqliteSessionStore | None = None,
        environ: Mapping[str, str] | None = None,
        upstream: str = "",
        config_dir: Path | str | None = None,
        run_id: str = "",
        lang: str = DEFAULT_LANG,
    ) -> None:
        if spill_threshold is not None and spill_threshold < 0:
            raise ValueError(f"spill_threshold must be 0 (off) or more, not {spill_threshold}")
        if store is not None and (trim, ephemeral, keep_denials) != (False, True, 1):
            raise ValueError("a store of your own rewrites by its own rewriters; give it those you want")
        self._environ = dict(os.environ if environ is None else environ)
        check_credentials(self._environ)
        model = endpoint({**self._environ, "ANTHROPIC_BASE_URL": upstream} if upstream else self._environ)
        self.workspace = _made(workspace)
        self.run_dir = _made(run_dir)
        self.run_id = run_id or time.strftime("%Y%m%dT%H%M%S-") + uuid.uuid4().hex[:6]
        self.lang = lang
        self.workbench = self._choose_workbench(workbench)
        self.resilience = resilience if isinstance(resilience, Resilience) else Resilience(enabled=resilience)
        self.handoff = handoff if isinstance(handoff, HandoffPolicy) else HandoffPolicy(enabled=handoff)
        self.results: list[StepResult] = []
        self.ui_errors: list[str] = []
        self.on_session: SessionListener | None = None
        self._manifest = Manifest(self.run_dir / "manifest.json", self.run_id)
        config, launcher = _made(config_dir or self.run_dir / "config" / self.run_id), write_launcher(self.run_dir)
        raw_root = config if config_dir else config.parent  # of earlier runs, too
        # Last of what can fail: a store that is open has a thread.
        self._store = store or self._open_store(raw_root, ephemeral, trim, keep_denials)
        self._owns_store = store is None
        self._around = Surroundings(
            workspace=self.workspace,
            config_dir=config,
            launcher=launcher,
            environ=self._environ,
            store=self._store,
            workbench=self.workbench,
            portable=portable,
            spill_threshold=spill_threshold,
            handoff=self.handoff.enabled,
        )
        notes = self.run_dir / "notes" if self.workbench is None else self.workbench.notes
        desk = Desk(self._store, self.workbench, notes)
        self._loop = StepLoop(self._around, self._store, desk, self.resilience, model, self._keep_row)
        self._calls: list[Call] = []
        self._lock = threading.Lock()

    def _choose_workbench(self, given: Workbench | bool) -> Workbench | None:
        if isinstance(given, Workbench):
            return given
        return Workbench(self.workspace, home=self.run_dir / "workbench", lang=self.lang).ensure() if given else None

    def _open_store(self, raw_root: Path, ephemeral: bool, trim: bool, keep_denials: int) -> SqliteSessionStore:
        """The store in ``run_dir``; below ``raw_root`` lies what the agent program keeps of outputs too long for it."""
        rewriting = rewriters(
            outputs=OutputFiles((self.workbench or Workbench(self.workspace)).spill, self.lang),
            raw_root=raw_root,
            ephemeral=ephemeral,
            trim_all=trim,
            keep_denials=keep_denials,
            lang=self.lang,
        )
        return SqliteSessionStore(self.run_dir / SESSIONS_FILE, rewriters=rewriting)

    async def run(
        self,
        spec: AgentSpec,
        prompt: str,
        *,
        step_name: str = "",
        resume: str | None = None,
        fork: bool = False,
        resume_at: str | None = None,
        on_event: EventSink | None = None,
    ) -> StepResult:
        """Run ``spec`` on ``prompt`` until it is done, and return what came of it. Failures are in the result.

        ``resume`` goes on with that session; ``fork`` under an id of its own; ``resume_at`` cuts its history
        after the entry with that uuid, one of those that are fed back. ``step_name`` (default: the spec's name) is
        the row in the manifest.

        Raises ValueError for ``fork`` or ``resume_at`` without ``resume``, for a spec that cannot be opened, and for
        one with isolated workers where the workspace is not the top of a git repository with a commit.
        Cancelling stops the agent cleanly and writes the row with error "cancelled".
        """
        if resume is None and (fork or resume_at is not None):
            raise ValueError("fork and resume_at continue a session; name it with resume")
        if any(worker.isolate for worker in (spec.agents or {}).values()):
            await asyncio.to_thread(prepare_repository, self.workspace)
        build_options(spec, self._around)  # a spec that cannot be opened is refused before anything happens
        sink = SafeSink(on_event, self.ui_errors)
        call = Call(spec, step_name or spec.name, prompt, sink, self._session_known, self.handoff)
        call.result.resumed = resume is not None
        opening = Opening(str(uuid.uuid4()), resume, fork, resume_at)
        with rescued_on_signals(self.rescue):
            with self._lock:
                self._calls.append(call)
            try:
                await self._loop.until_done(call, opening)
            except BaseException as error:
                cancelled = isinstance(error, asyncio.CancelledError)
                why = KILLED if call.rescued else "cancelled"
                call.result.error = why if cancelled else f"{type(error).__name__}: {error}"
                raise
            finally:
                self._close_books(call)
        return call.result

    def interrupt(self, message: str = "", told: Callable[[], None] | None = None) -> bool:
        """Stop the agent at work and go on with ``message`` in the same session. Any thread.

        Costs no attempt. A subagent in flight loses its half-done work. False when nothing runs. ``told``, which must
        be quick and not raise, is called on the loop's thread once ``message`` is part of a prompt.
        """
        with self._lock:
            return bool(self._calls) and self._calls[-1].interrupt(message, told)

    def rescue(self) -> None:
        """Write the row of every step in flight, with error "killed-by-signal": the process is about to die."""
        # Without the lock: a signal handler must not wait for the code it has interrupted.
        for call in list(self._calls):
            ended = call.result.ended_at or time.time()
            call.rescued = True
            self._manifest.record(replace(call.result, ok=False, error=KILLED, ended_at=ended))

    def has_session(self, session_id: str) -> bool:
        """Whether that session is in the store, so that it can be resumed."""
        return self._store.has_session(session_id)

    def context_of(self, session_id: str) -> int:
        """The last known context level of a session, in tokens; 0 when no step of this run used it."""
        levels = [result.context for result in self.results if result.session_id == session_id]
        return levels[-1] if levels else 0

    def total_cost(self) -> float:
        """What all steps of this runtime cost together so far, in US dollars."""
        with self._lock:
            running = [call.result for call in self._calls]
        return sum(result.cost_usd for result in [*self.results, *running])

    def close(self) -> None:
        """Let go of the session store. The runtime is of no use afterwards."""
        if self._owns_store:
            self._store.close()

    def _session_known(self, step: str, session_id: str) -> None:
        if self.on_session is not None:
            self.on_session(step, session_id)

    def _keep_row(self, call: Call) -> None:
        if call.rescued:
            return
        try:
            self._manifest.record(replace(call.result, error=UNFINISHED))
        except OSError as error:
            call.emit.report(error)

    def _close_books(self, call: Call) -> None:
        call.give_up()
        call.result.ended_at = time.time()
        with undisturbed():
            try:
                self._manifest.record(call.result)
            except OSError as error:  # a full disk must not turn a finished step into a lost one
                call.emit.report(error)
            with self._lock:
                self._calls.remove(call)
                self.results.append(call.result)


def _made(path: Path | str) -> Path:
    folder = Path(path).expanduser().resolve()
    try:
        str(folder).encode()
    except UnicodeEncodeError:
        # Measured with agent program 2.1.332: it says that there is no such directory, or no such session.
        raise ValueError(f"the agent program finds nothing where a name is no UTF-8: {str(folder)!a}") from None
    folder.mkdir(parents=True, exist_ok=True)
    return folder
