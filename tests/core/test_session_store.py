"""The SQLite session store: the SDK's own contracts, and what several threads and processes may do to it."""

from __future__ import annotations

import asyncio
import itertools
import json
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import SessionStore
from claude_agent_sdk.testing import run_session_store_conformance

from flower_core.sessions import SqliteSessionStore

KEY = {"project_key": "p", "session_id": "s"}
SUB = {**KEY, "subpath": "subagents/agent-1"}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteSessionStore]:
    store = SqliteSessionStore(tmp_path / "deep" / "sessions.db")
    yield store
    store.close()


def entry(number: int, **more: Any) -> dict[str, Any]:
    return {"type": "user", "uuid": f"u{number}", "n": number, **more}


def test_it_meets_the_contracts_of_the_sdk(tmp_path: Path) -> None:
    numbers = itertools.count()
    opened: list[SqliteSessionStore] = []

    def fresh() -> SessionStore:
        opened.append(SqliteSessionStore(tmp_path / f"{next(numbers)}.db"))
        return opened[-1]  # type: ignore[return-value]  # by shape: it does not know the SDK's types

    asyncio.run(run_session_store_conformance(fresh))
    assert len(opened) >= 12
    for store in opened:
        store.close()


def test_the_first_prompt_is_what_was_first_said_to_the_session_in_words(store: SqliteSessionStore) -> None:
    def said(number: int, content: object, **more: Any) -> dict[str, Any]:
        return entry(number, message={"role": "user", "content": content}, **more)

    async def body() -> None:
        await store.append(SUB, [said(0, "To a subagent")])
        assert store.first_prompt("s") == ""
        await store.append(
            KEY, [{"type": "mode"}, said(1, "Inserted", isMeta=True), said(2, [{"type": "tool_result"}])]
        )
        assert store.first_prompt("s") == ""
        await store.append(KEY, [said(3, "Paint the wall", isMeta=False), said(4, "Go on")])
        assert store.first_prompt("s") == "Paint the wall"

    asyncio.run(body())


def test_an_entry_that_comes_again_is_kept_once_and_one_without_uuid_every_time(store: SqliteSessionStore) -> None:
    async def body() -> None:
        await store.append(KEY, [entry(1), {"type": "mode"}])
        await store.append(KEY, [entry(1, changed=True), entry(2), {"type": "mode"}])
        await store.append(SUB, [entry(1)])
        assert await store.load(KEY) == [entry(1), {"type": "mode"}, entry(2), {"type": "mode"}]
        assert await store.load(SUB) == [entry(1)]

    asyncio.run(body())


def test_everything_json_can_hold_comes_back_equal(store: SqliteSessionStore) -> None:
    odd = entry(1, text="\ud800 \x00 🎉 \u2028", big=2**80, nested={"a": [None, True, 1.5, {"": []}]}, uuid="é")

    async def body() -> None:
        await store.append(KEY, [odd, {"type": "x", "uuid": 7}, {"type": "x", "uuid": ""}])
        assert await store.load(KEY) == [odd, {"type": "x", "uuid": 7}, {"type": "x", "uuid": ""}]

    asyncio.run(body())


def test_a_batch_is_kept_whole_or_not_at_all(store: SqliteSessionStore) -> None:
    async def body() -> None:
        with pytest.raises(TypeError):
            await store.append(KEY, [entry(1), entry(2, bad=object())])
        assert await store.load(KEY) is None

    asyncio.run(body())


def test_load_goes_through_the_rewriters_in_order_and_stores_nothing(tmp_path: Path) -> None:
    def drop_first(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return entries[1:]

    def mark(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**found, "left": len(entries)} for found in entries]

    path = tmp_path / "s.db"
    rewriting, plain = SqliteSessionStore(path, rewriters=[drop_first, mark]), SqliteSessionStore(path)

    async def body() -> None:
        await rewriting.append(KEY, [entry(1), entry(2)])
        assert await rewriting.load(KEY) == [entry(2, left=1)]
        assert await plain.load(KEY) == [entry(1), entry(2)]
        assert await rewriting.load({**KEY, "session_id": "none"}) is None

    asyncio.run(body())
    rewriting.close()
    plain.close()


def test_has_session_answers_any_thread_and_means_main_transcripts(store: SqliteSessionStore) -> None:
    asyncio.run(store.append({**KEY, "session_id": "a"}, [entry(1)]))
    asyncio.run(store.append({**SUB, "session_id": "b"}, [entry(1)]))
    answers: dict[str, bool] = {}

    def ask(session_id: str) -> None:
        answers[session_id] = store.has_session(session_id)

    threads = [threading.Thread(target=ask, args=(session_id,)) for session_id in ("a", "b", "c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {"a": True, "b": False, "c": False}


def test_a_blocked_file_never_blocks_the_event_loop(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    store = SqliteSessionStore(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    async def body() -> None:
        append = asyncio.create_task(store.append(KEY, [entry(1)]))
        for _ in range(50):
            await asyncio.sleep(0.001)
        assert not append.done()
        other.execute("COMMIT")
        await asyncio.wait_for(append, 10)
        assert await store.load(KEY) == [entry(1)]

    asyncio.run(body())
    other.close()
    store.close()


def test_a_cancelled_append_is_kept_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    store = SqliteSessionStore(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    async def body() -> None:
        appends = [asyncio.create_task(store.append(KEY, [entry(number)])) for number in range(3)]
        await asyncio.sleep(0)
        for append in appends:
            append.cancel()
        await asyncio.gather(*appends, return_exceptions=True)
        assert all(append.cancelled() for append in appends)
        other.execute("COMMIT")
        assert await store.load(KEY) == [entry(0), entry(1), entry(2)]

    asyncio.run(body())
    other.close()
    store.close()


def test_closing_finishes_what_was_begun_and_later_calls_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    store = SqliteSessionStore(path)

    async def body() -> None:
        append = asyncio.create_task(store.append(KEY, [entry(1)]))
        await asyncio.sleep(0)
        store.close()
        store.close()
        await append
        with pytest.raises(RuntimeError, match="closed"):
            await store.load(KEY)

    asyncio.run(body())
    with pytest.raises(RuntimeError, match="closed"):
        store.has_session("s")
    again = SqliteSessionStore(path)
    assert asyncio.run(again.load(KEY)) == [entry(1)]
    again.close()


def test_the_file_is_private_and_a_foreign_file_is_refused(tmp_path: Path) -> None:
    store = SqliteSessionStore(tmp_path / "s.db")
    assert (tmp_path / "s.db").stat().st_mode & 0o777 == 0o600
    store.close()
    (tmp_path / "foreign.db").write_text("this is no database " * 100)
    with pytest.raises(sqlite3.DatabaseError):
        SqliteSessionStore(tmp_path / "foreign.db")
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("flower-sessions")]


WRITER = """
import asyncio, sys
from flower_core.sessions import SqliteSessionStore
store = SqliteSessionStore(sys.argv[1])
async def main():
    for n in range(15):
        await store.append({"project_key": "p", "session_id": "s"}, [{"type": "x", "uuid": f"{sys.argv[2]}-{n}"}])
asyncio.run(main())
store.close()
"""


def test_two_processes_may_write_one_file(tmp_path: Path) -> None:
    path = str(tmp_path / "s.db")
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, path, name]) for name in ("a", "b")]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    store = SqliteSessionStore(path)
    uuids = [row["uuid"] for row in asyncio.run(store.load(KEY)) or []]
    store.close()
    assert sorted(uuids) == sorted(f"{name}-{n}" for name in "ab" for n in range(15))
    for name in "ab":
        own = [uuid for uuid in uuids if uuid.startswith(name)]
        assert own == [f"{name}-{n}" for n in range(15)]


def test_what_was_appended_survives_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    script = WRITER.replace("range(15)", "range(10**9)").replace("[{", "[print(n, flush=True) or {", 1)
    writer = subprocess.Popen([sys.executable, "-c", script, str(path), "k"], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    for line in writer.stdout:
        if int(line) >= 30:
            writer.kill()
            break
    writer.wait(30)
    writer.stdout.close()
    store = SqliteSessionStore(path)
    entries = asyncio.run(store.load(KEY)) or []
    store.close()
    assert [row["uuid"] for row in entries] == [f"k-{n}" for n in range(len(entries))]
    assert len(entries) >= 30
    assert json.dumps(entries)
