"""A journal that cannot be used: the server says so in one line and leaves the file as it is."""

from __future__ import annotations

import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

from flower_http.journal import Journal
from flower_http.log_book import LogBook
from tests.e2e.serving import SERVER, clean_environ

#: SQLite's page size here. The first page, which says that this is a database, is to stay as it is.
_PAGE = 4096


def test_a_journal_with_overwritten_pages_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "data/journal.db"
    journal = Journal(path)
    row = {"flow": "starter", "task": "Greet", "workspace": "w", "lang": "en", "labels": {}, "params": {}, "by": "me"}
    LogBook(journal).create({"id": "20260131t094512123-5f0c", **row}, timeout=10)
    journal.close()
    whole = path.read_bytes()
    damaged = whole[:_PAGE] + b"A" * (len(whole) - _PAGE)
    path.write_bytes(damaged)

    said = refused_start(path.parent)
    assert said.startswith(f"flower-server: {path} is damaged (database disk image is malformed)")
    assert path.read_bytes() == damaged


def test_a_journal_of_a_newer_server_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "data/journal.db"
    Journal(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    newer = path.read_bytes()

    said = refused_start(path.parent)
    assert said.startswith(f"flower-server: {path}: a newer version of this server has written it")
    assert path.read_bytes() == newer


def refused_start(data: Path) -> str:
    """The last line of a server that refuses to start on ``data``."""
    command: list[str | Path] = [SERVER, "serve", "--rehearse", "--port", "0", "--data-dir", data]
    done = subprocess.run(command, env=clean_environ(data.parent), capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr
    return done.stderr.splitlines()[-1]
