"""A journal that opens but cannot be read: the server says so in one line and leaves the file as it is."""

from __future__ import annotations

import subprocess
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

    command: list[str | Path] = [SERVER, "serve", "--rehearse", "--port", "0", "--data-dir", path.parent]
    done = subprocess.run(command, env=clean_environ(tmp_path), capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1].startswith(
        f"flower-server: {path} is damaged (database disk image is malformed)"
    )
    assert "Traceback" not in done.stderr
    assert path.read_bytes() == damaged
