"""What a runtime checks and makes before any agent runs."""

from __future__ import annotations

import asyncio
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from flower_core import AgentSpec, CredentialsMissing, Runtime, Workbench
from flower_core.sessions import SqliteSessionStore

ENVIRON = {"ANTHROPIC_API_KEY": "key", "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}


@pytest.mark.parametrize(
    ("environ", "error", "said"),
    [
        ({}, CredentialsMissing, "ANTHROPIC_API_KEY"),
        ({**ENVIRON, "CLAUDE_CODE_USE_VERTEX": "1"}, CredentialsMissing, "CLAUDE_CODE_USE_VERTEX"),
        ({**ENVIRON, "ANTHROPIC_BASE_URL": "localhost:8080"}, ValueError, "ANTHROPIC_BASE_URL must be a URL"),
    ],
)
def test_an_environment_that_reaches_no_model_is_refused_before_anything_is_made(
    tmp_path: Path, environ: dict[str, str], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        Runtime(workspace=tmp_path / "space", run_dir=tmp_path / "books", environ=environ)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("given", [{}, {"run_id": "run-1"}])
def test_it_makes_its_directories_and_has_a_run_id(tmp_path: Path, given: dict[str, Any]) -> None:
    runtime = Runtime(workspace=tmp_path / "space", run_dir=tmp_path / "books", environ=ENVIRON, **given)
    runtime.close()
    assert runtime.run_id == given.get("run_id", runtime.run_id) != ""
    assert runtime.workspace.is_dir()
    assert (tmp_path / "books" / "config" / runtime.run_id).is_dir()
    assert runtime.interrupt("hello") is False
    assert (runtime.results, runtime.total_cost(), runtime.context_of("none")) == ([], 0.0, 0)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"keep_denials": -1}, "keep_denials must be 0 or more"),
        ({"spill_threshold": -1}, "spill_threshold must be 0"),
        ({"trim": True, "own store": True}, "a store of your own"),
        ({"ephemeral": False, "own store": True}, "a store of your own"),
    ],
)
def test_how_sessions_are_kept_short_is_checked(tmp_path: Path, given: dict[str, Any], said: str) -> None:
    with closing(SqliteSessionStore(tmp_path / "own.db")) as store:
        more: dict[str, Any] = {"store": store} if "own store" in given else {}
        more |= {key: value for key, value in given.items() if key != "own store"}
        with pytest.raises(ValueError, match=said):
            Runtime(workspace=tmp_path, run_dir=tmp_path / "books", environ=ENVIRON, **more)


@pytest.mark.parametrize("which", ["workspace", "run_dir", "config_dir"])
def test_a_directory_that_the_agent_program_would_not_find_is_refused(tmp_path: Path, which: str) -> None:
    given = {"workspace": tmp_path / "space", "run_dir": tmp_path / "books", which: tmp_path / "caf\udce9"}
    with pytest.raises(ValueError, match=r"no UTF-8: '.*caf\\udce9'"):
        Runtime(**given, environ=ENVIRON)  # type: ignore[arg-type]
    assert not (tmp_path / "caf\udce9").exists()


def test_a_runtime_that_cannot_be_made_leaves_no_store_open(tmp_path: Path) -> None:
    (tmp_path / "books" / "agent").mkdir(parents=True)  # where the launcher is to be
    before = threading.active_count()
    with pytest.raises(OSError, match="agent"):
        Runtime(workspace=tmp_path, run_dir=tmp_path / "books", environ=ENVIRON)
    assert threading.active_count() == before


class SlowStore(SqliteSessionStore):
    """Gives no answer until the loop has gone on, for ``patience`` seconds at most."""

    def __init__(self, path: Path, patience: float) -> None:
        super().__init__(path)
        self.patience = patience
        self.loop_went_on = threading.Event()

    def cumulative_cost(self, session_id: str) -> float:
        raise LookupError("the loop went on" if self.loop_went_on.wait(self.patience) else "the loop stood still")


def test_a_slow_session_store_does_not_stop_the_loop(tmp_path: Path) -> None:
    store = SlowStore(tmp_path / "sessions.db", 3.0)
    runtime = Runtime(workspace=tmp_path, run_dir=tmp_path / "books", environ=ENVIRON, store=store)

    async def resume() -> None:
        asyncio.get_running_loop().call_later(0.05, store.loop_went_on.set)
        await runtime.run(AgentSpec("worker", ""), "go on", resume="11111111-1111-4111-8111-111111111111")

    with pytest.raises(LookupError, match="the loop went on"):
        asyncio.run(resume())
    runtime.close()
    store.close()


def test_a_workbench_is_shared_made_or_left_out(tmp_path: Path) -> None:
    shared = Workbench(tmp_path)
    for given, root in ((shared, shared.root), (True, tmp_path / "books" / "workbench"), (False, None)):
        runtime = Runtime(workspace=tmp_path, run_dir=tmp_path / "books", environ=ENVIRON, workbench=given)
        runtime.close()
        assert (runtime.workbench and runtime.workbench.root) == root
    assert (tmp_path / "books" / "workbench" / "notes").is_dir()
