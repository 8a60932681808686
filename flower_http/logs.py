"""Log lines for operators: to standard error, one line each, as text or as JSON."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache

from flower_core.events import clean_text

#: Most characters of one message.
_MOST_CHARS = 4000


class _LineFormatter(logging.Formatter):
    """``2026-01-31T12:00:00.250Z INFO flower_http.app message``; line breaks and control characters are escaped."""

    def format(self, record: logging.LogRecord) -> str:
        parts = [_time(record), record.levelname, record.name, _message(record)]
        if record.exc_info:
            parts.append(self.formatException(record.exc_info))
        return _printable(" ".join(parts), _escaped)


class _JsonFormatter(logging.Formatter):
    """One object a line: at, level, logger, message, and exception where there is one.

    JSON itself lets characters through that steer a terminal or reorder a line; they are escaped like the others.
    """

    def format(self, record: logging.LogRecord) -> str:
        line = {"at": _time(record), "level": record.levelname, "logger": record.name, "message": _message(record)}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        text = json.dumps({key: clean_text(value) for key, value in line.items()}, ensure_ascii=False)
        return _printable(text, lambda char: json.dumps(char)[1:-1])


def configure(form: str) -> None:
    """Send everything from INFO up to standard error, in ``form`` text or json. Replaces earlier handlers."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter(form))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    # No line shows a thread or a process, and looking them up is a good part of what a record costs.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False


def formatter(form: str) -> logging.Formatter:
    """What makes a line of a record, in ``form`` text or json."""
    return _JsonFormatter() if form == "json" else _LineFormatter()


def _time(record: logging.LogRecord) -> str:
    seconds, rest = divmod(record.created, 1)
    return f"{_second(int(seconds))}.{int(rest * 1000):03}Z"


@lru_cache(maxsize=8)
def _second(since_epoch: int) -> str:
    """The second as text: hundreds of lines share one."""
    return datetime.fromtimestamp(since_epoch, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _message(record: logging.LogRecord) -> str:
    # Some libraries log what a client sent, all of it.
    text = record.getMessage()
    return text if len(text) <= _MOST_CHARS else f"{text[:_MOST_CHARS]}… ({len(text)} characters)"


def _printable(text: str, escape: Callable[[str], str]) -> str:
    # Nearly every line is printable as it is, and there is one for every request: looking at each character would cost
    # as much as parsing the request.
    return text if text.isprintable() else "".join(char if char.isprintable() else escape(char) for char in text)


def _escaped(char: str) -> str:
    # Whoever can put a line break into a log can write log lines of their own.
    return char.encode("unicode_escape").decode()
