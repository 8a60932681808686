"""flower-server doctor says what is missing before anything is started, and what to do about it."""

from __future__ import annotations

import os
import socket
import sqlite3
import subprocess
import sys
from contextlib import closing
from importlib import resources
from pathlib import Path

import pytest

from flower_core.rehearsal import shipped_plays
from flower_http.doctor import Finding, diagnose
from flower_http.serving import data_dir
from flower_http.settings import Settings

DOCTOR = [str(Path(sys.executable).parent / "flower-server"), "doctor"]
KEY = "sk-ant-0123456789abcdefghij"
NAMES = ["agent program", "credentials", "endpoint", "data dir", "workspaces"]
NAMES += ["journal", "tokens", "port", "flows", "memory"]


def run(tmp_path: Path, *flags: str, **environ: str) -> subprocess.CompletedProcess[str]:
    plain = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "FLOWER_DATA_DIR": str(tmp_path / "data"), **environ}
    plain.setdefault("FLOWER_PORT", "0")
    return subprocess.run([*DOCTOR, *flags], env=plain, capture_output=True, text=True, timeout=60, cwd=tmp_path)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory and a configuration directory without a .env of anybody's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


def found(home: Path, name: str, *, environ: dict[str, str] | None = None, **flags: str) -> Finding:
    """What is said of one thing."""
    given = {"data_dir": str(home / "data"), "port": "0", "rehearse": "yes", **flags}
    findings = diagnose(Settings.load(given, environ or {}))
    assert [finding.name for finding in findings] == NAMES
    return next(finding for finding in findings if finding.name == name)


def test_all_is_well_in_rehearsal(tmp_path: Path) -> None:
    done = run(tmp_path, "--rehearse")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.split(": ")[0].removeprefix("ok       ") for line in done.stdout.splitlines()] == NAMES
    assert not (tmp_path / "data").exists(), "looking changes nothing"


def test_what_is_found_of_a_credential_is_told_masked_with_its_source(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(f"ANTHROPIC_API_KEY={KEY}\n")
    (tmp_path / ".env").chmod(0o644)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        done = run(tmp_path, ANTHROPIC_BASE_URL=f"http://{address}")
    assert done.returncode == 0, done.stdout
    assert f"ok       credentials: ANTHROPIC_API_KEY …ghij from {tmp_path / '.env'}\n" in done.stdout
    accepts = f"ok       endpoint: {address} accepts connections (ANTHROPIC_BASE_URL from the environment)\n"
    assert accepts in done.stdout
    assert done.stdout.startswith(f"note     {tmp_path / '.env'} has mode 0644, so others can read")
    assert KEY not in done.stdout + done.stderr


def test_a_missing_credential_is_named_with_where_to_put_it(tmp_path: Path) -> None:
    done = run(tmp_path, ANTHROPIC_BASE_URL="http://127.0.0.1:9")
    assert done.returncode == 1
    assert (
        "MISSING  credentials: no credentials: set ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN or CLAUDE_CODE_OAUTH_TOKEN "
        f"in the environment, ./.env or {tmp_path / '.config' / 'flower' / '.env'}, or try it out with --rehearse\n"
    ) in done.stdout


@pytest.mark.parametrize(
    ("url", "advice"),
    [
        ("http://{free}", "{free} cannot be reached; check the network, the proxy and ANTHROPIC_BASE_URL"),
        ("{free}", "ANTHROPIC_BASE_URL must be a URL like https://host:port, not '{free}'"),
    ],
)
def test_a_wrong_endpoint_is_named(home: Path, url: str, advice: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    environ = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": url.format(free=address)}
    finding = found(home, "endpoint", environ=environ, rehearse="no")
    assert (finding.ok, finding.text) == (False, advice.format(free=address))


def test_a_play_that_there_is_not_is_named_with_those_there_are(home: Path) -> None:
    finding = found(home, "endpoint", rehearse="hamlet")
    text = f"no play 'hamlet': neither a file nor one of: {', '.join(shipped_plays())}"
    assert (finding.ok, finding.text) == (False, text)


def test_an_agent_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    real, copy = Path(str(resources.files("claude_agent_sdk"))), tmp_path / "libs" / "claude_agent_sdk"
    copy.mkdir(parents=True)
    for part in real.iterdir():
        if part.name != "_bundled":
            (copy / part.name).symlink_to(part)
    done = run(tmp_path, "--rehearse", PYTHONPATH=str(copy.parent), PATH=str(tmp_path))
    assert done.returncode == 1
    missing = "the agent program is missing; reinstall claude-agent-sdk from a wheel of this platform"
    assert f"MISSING  agent program: {missing}\n" in done.stdout


@pytest.mark.parametrize(
    ("name", "flag", "advice"),
    [
        ("data dir", "data_dir", "--data-dir (FLOWER_DATA_DIR)"),
        ("workspaces", "workspace_root", "--workspace-root (FLOWER_WORKSPACE_ROOT)"),
    ],
)
def test_a_place_that_cannot_be_a_directory_is_named(home: Path, name: str, flag: str, advice: str) -> None:
    (home / "file").touch()
    finding = found(home, name, **{flag: str(home / "file" / "below")})  # type: ignore[arg-type]
    text = f"{home / 'file'} is no directory; choose another place with {advice}"
    assert (finding.ok, finding.text) == (False, text)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_data_dir_that_cannot_be_written_is_named(home: Path) -> None:
    home.chmod(0o500)
    finding = found(home, "data dir")
    way = "change that, or choose another place with --data-dir (FLOWER_DATA_DIR)"
    assert (finding.ok, finding.text) == (False, f"{home} cannot be written by this user; {way}")


def test_agents_must_not_work_around_the_data_dir(home: Path) -> None:
    finding = found(home, "workspaces", workspace_root=str(home))
    assert not finding.ok
    assert finding.text == f"--workspace-root {home} holds the data dir {home / 'data'}, where agents must not work"


def test_a_journal_of_a_newer_version_is_named_and_left_alone(home: Path) -> None:
    path = home / "data" / "journal.db"
    path.parent.mkdir()
    for version, ok in ((99, False), (1, True)):
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"PRAGMA user_version = {version}")
        finding = found(home, "journal")
        assert finding.ok is ok
        if not ok:
            assert finding.text.startswith("a newer version of this server has written it (format 99, this one knows ")
            assert finding.text.endswith("): update the server, or use another data dir")
    assert [file.name for file in path.parent.iterdir()] == ["journal.db"]


def test_a_host_that_others_reach_needs_a_token(home: Path) -> None:
    everywhere = "0.0.0.0"  # noqa: S104
    finding = found(home, "tokens", host=everywhere)
    advice = f"--host {everywhere} needs a token: `flower-server token add NAME --scope start`"
    assert (finding.ok, finding.text) == (False, advice)
    assert found(home, "tokens", host=everywhere, environ={"FLOWER_TOKEN": "t" * 40}).ok


def test_a_port_that_is_taken_is_named_unless_our_own_server_has_it(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        finding = found(home, "port", port=port)
        way = "Address already in use; choose another with --port (FLOWER_PORT) or --host"
        assert (finding.ok, finding.text) == (False, f"{port} of 127.0.0.1: {way}")
        with data_dir(home / "data"):
            finding = found(home, "port", port=port)
    assert (finding.ok, finding.text) == (True, f"{port} is not free, as a server runs with this data dir")


def test_a_flow_that_cannot_be_loaded_is_named(home: Path) -> None:
    finding = found(home, "flows", flow="mine=gone.py:make")
    assert not finding.ok
    assert finding.text.startswith("--flow mine=gone.py:make: FileNotFoundError: ")


def test_an_impossible_setting_is_refused(tmp_path: Path) -> None:
    done = run(tmp_path, FLOWER_PORT="many")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "FLOWER_PORT" in done.stderr


def test_a_user_that_agents_cannot_run_as_is_named(tmp_path: Path) -> None:
    done = run(tmp_path, "--rehearse", "--agent-user", "no-such-user-here")
    assert done.returncode == 1
    [line] = [line for line in done.stdout.splitlines() if "agent user" in line]
    assert line.startswith("MISSING  agent user: --agent-user no-such-user-here")
