"""The life of a server process: what is checked before anything starts, one line when it listens, an orderly end."""

from __future__ import annotations

import errno
import logging
import os
import queue
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn, Protocol

from flower_core.errors import FlowerError
from flower_core.trees import remove_tree
from flower_http import logs
from flower_http.errors import StartError
from flower_http.secrecy import close_memory, hide
from flower_http.settings import SECRETS, Settings
from flower_http.tokens import TokenStore

try:
    import fcntl
except ImportError:  # pragma: no cover - no such module on Windows, where nothing guards the data dir
    fcntl = None  # type: ignore[assignment]

#: Seconds the service gets to stop, and seconds after which the process ends whatever still hangs.
_STOP_S, _END_S = 8.0, 9.5
#: SIGHUP comes when the terminal it was started from goes away.
_SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name))
#: The file in the data dir that a server holds a lock on.
_LOCK = "server.lock"
_LOG = logging.getLogger(__name__)


class Service(Protocol):
    """A server that is ready to be started, with everything behind it."""

    @property
    def url(self) -> str:
        """``http://HOST:PORT`` with the port in use; known once :meth:`start` has returned."""
        ...

    def start(self) -> None:
        """Listen, and return when requests are accepted. Raises OSError when the address cannot be had."""
        ...

    def stop(self, deadline_s: float) -> None:
        """Take no more, let readers go, write the books; return within ``deadline_s`` seconds."""
        ...


BuildService = Callable[[Settings], Service]


def serve(settings: Settings, build: BuildService) -> None:
    """Serve until SIGTERM, SIGINT or SIGHUP. Call from the main thread.

    The process's environment loses its secrets, and other processes of its user can no longer look into it.

    Raises :class:`StartError`, with one line that says what to do, when anything is in the way; nothing has been
    started then.
    """
    logs.configure(settings.log_format)
    for line in settings.warnings:
        _LOG.warning(line)
    with data_dir(settings.data_dir), temporary_dir(settings.data_dir / "tmp"):
        check(settings)
        hide(SECRETS)
        close_memory()
        # A SimpleQueue may be used from a signal handler; an Event may not, its lock is not reentrant.
        stops: queue.SimpleQueue[int] = queue.SimpleQueue()
        with _on_signals(stops.put):
            service = _start(settings, build)
            print(f"flower-server listening on {service.url}", flush=True)
            _LOG.info("stopping on %s", signal.Signals(stops.get()).name)
            _stop(service)


def leave() -> NoReturn:
    """End the process, with exit code 0, whatever its threads are doing. Call this last.

    Python would wait for what has been begun with :func:`asyncio.to_thread`, as a flow's gate may have, however long
    that takes; all that is to be kept has been written by now.
    """
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def check(settings: Settings) -> None:
    """Raise :class:`StartError` for what the operator has to settle first: tokens, credentials, impossible wishes."""
    tokens = TokenStore(settings.tokens_path, settings.token)
    if not settings.on_loopback and not tokens.configured:
        raise StartError(
            f"--host {settings.host} can be reached from other machines, so a token is needed: "
            "run `flower-server token add NAME --scope start`, or set FLOWER_TOKEN"
        )
    settings.require_credentials()


@contextmanager
def data_dir(path: Path) -> Iterator[None]:
    """Hold ``path``, made if missing (mode 0700), for this process alone. Raises :class:`StartError`."""
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = (path / _LOCK).open("a")
    except OSError as error:
        way = "make it a directory that this user can write, or choose another (FLOWER_DATA_DIR)"
        raise StartError(f"--data-dir {path}: {error.strerror or error}; {way}") from error
    with handle:
        if fcntl is not None:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                other = "is in use by another flower-server; stop that one, or choose another (FLOWER_DATA_DIR)"
                raise StartError(f"--data-dir {path} {other}") from error
        yield


def in_use(data_dir: Path) -> bool:
    """Whether a server holds ``data_dir`` now. Says no where nothing guards it."""
    try:
        with (data_dir / _LOCK).open("rb") as handle:
            if fcntl is not None:
                fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


@contextmanager
def temporary_dir(path: Path) -> Iterator[None]:
    """Have this process's temporary files made in ``path`` (mode 0700), emptied first. Raises :class:`StartError`.

    The agent SDK lays out a resumed session as a temporary directory. A killed server leaves that behind, and it holds
    all that the agent has seen: here the next server finds it.
    """
    remove_tree(path)
    try:
        path.mkdir(exist_ok=True, mode=0o700)
    except OSError as error:
        raise StartError(f"--data-dir: {path}: {error.strerror or error}") from error
    before, tempfile.tempdir = tempfile.tempdir, str(path)
    try:
        yield
    finally:
        tempfile.tempdir = before


def _start(settings: Settings, build: BuildService) -> Service:
    try:
        service = build(settings)
        service.start()
    except FlowerError as error:
        raise StartError(str(error)) from error
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES):
            raise StartError(str(error)) from error
        place = f"port {settings.port} of {settings.host}"
        raise StartError(f"{place}: {error.strerror}; choose another with --port (FLOWER_PORT) or --host") from error
    return service


def _stop(service: Service) -> None:
    watchdog = threading.Timer(_END_S, _end_anyway)
    watchdog.daemon = True
    watchdog.start()
    try:
        service.stop(_STOP_S)
    finally:
        watchdog.cancel()


def _end_anyway() -> None:  # pragma: no cover - only when a stop hangs
    sys.stderr.write("flower-server: did not stop in time; ending anyway\n")
    sys.stderr.flush()
    os._exit(1)


@contextmanager
def _on_signals(put: Callable[[int], None]) -> Iterator[None]:
    # What was ignored when we came stays ignored: nohup, and a shell's `&`, want it so.
    wanted = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, lambda got, _frame: put(got)) for number in wanted}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
