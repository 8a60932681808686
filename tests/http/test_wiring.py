"""What a server refuses to be put together from, each with one line that says what to change."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import requests

from flower_http.errors import StartError
from flower_http.settings import Settings
from flower_http.wiring import build_service


def settings(data_dir: Path, **more: str) -> Settings:
    return Settings.load({"data_dir": str(data_dir), "rehearse": "yes", "port": "0", **more}, {})


def opened_files() -> list[str]:
    """What this process has open, as far as the system tells."""
    return [os.readlink(link) for link in Path("/proc/self/fd").glob("*") if link.is_symlink()]


def test_a_workspace_root_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StartError, match=r"--workspace-root .*file: File exists"):
        build_service(settings(tmp_path / "data", workspace_root=str(tmp_path / "file")))


@pytest.mark.parametrize("inside", ["", "data"])
def test_the_data_dir_must_not_lie_where_agents_work(tmp_path: Path, inside: str) -> None:
    with pytest.raises(StartError, match="where agents must not work"):
        build_service(settings(tmp_path / "root" / inside, workspace_root=str(tmp_path / "root")))


def test_a_play_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StartError, match=r"--rehearse=.*nowhere"):
        build_service(settings(tmp_path / "data", rehearse=str(tmp_path / "nowhere.toml")))


def test_a_flow_that_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="--flow mine=no_such_module:make"):
        build_service(settings(tmp_path / "data", flow="mine=no_such_module:make"))


@pytest.mark.parametrize("name", ["journal.db", "idempotency.db"])
def test_a_file_in_the_data_dir_that_cannot_be_opened_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "data" / name).mkdir(parents=True)
    with pytest.raises(StartError, match=f"{name}: Is a directory"):
        build_service(settings(tmp_path / "data"))


def test_a_stopped_server_leaves_no_file_open(tmp_path: Path) -> None:
    service = build_service(settings(tmp_path / "data"))
    service.start()
    service.stop(8.0)
    assert not [path for path in opened_files() if str(tmp_path) in path]


def test_a_server_without_credentials_is_not_ready_and_says_so(tmp_path: Path) -> None:
    service = build_service(settings(tmp_path / "data", rehearse="no"))
    service.start()
    try:
        reply = requests.get(f"{service.url}/readyz", timeout=10)
    finally:
        service.stop(8.0)
    assert (reply.status_code, reply.json()["type"]) == (503, "not-ready")
    assert [reason.partition(":")[0] for reason in reply.json()["reasons"]] == ["credentials"]


def test_a_server_is_put_together_started_and_stopped(tmp_path: Path) -> None:
    service = build_service(settings(tmp_path / "data"))
    service.start()
    assert service.url.startswith("http://127.0.0.1:")
    service.stop(8.0)


def test_what_is_kept_is_for_the_owner_alone_also_in_a_directory_made_by_somebody_else(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o755)
    service = build_service(settings(tmp_path / "data"))
    service.start()
    service.stop(8.0)
    kept = [path for path in (tmp_path / "data").iterdir() if ".db" in path.name]
    assert len(kept) >= 2
    assert {path.stat().st_mode & 0o777 for path in kept} == {0o600}
