"""Log lines for operators: to standard error, one line each, as text or as JSON."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

from flower_core.events import clean_text


class _LineFormatter(logging.Formatter):
    """``2026-01-31T12:00:00.250Z INFO flower_http.app message``; line breaks and control characters are escaped."""

    def format(self, record: logging.LogRecord) -> str:
        parts = [_time(record), record.levelname, record.name, record.getMessage()]
        if record.exc_info:
            parts.append(self.formatException(record.exc_info))
        return _one_line(" ".join(parts))


class _JsonFormatter(logging.Formatter):
    """One object a line: at, level, logger, message, and exception where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        line = {"at": _time(record), "level": record.levelname, "logger": record.name, "message": record.getMessage()}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps({key: clean_text(value) for key, value in line.items()}, ensure_ascii=False)


def configure(form: str) -> None:
    """Send everything from INFO up to standard error, in ``form`` text or json. Replaces earlier handlers."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter() if form == "json" else _LineFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _one_line(text: str) -> str:
    # Whoever can put a line break into a log can write log lines of their own.
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
