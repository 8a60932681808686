from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from flower_http.commands import make_cli
from flower_http.serving import Service, temporary_dir
from flower_http.settings import SECRETS, TABLE, Settings
from flower_http.tokens import TokenStore, add_token
from tests.http import small_service

ROOT = Path(__file__).parents[2]
CLEAN = {name: None for name in os.environ if name.startswith(("FLOWER_", "ANTHROPIC_", "CLAUDE_"))}


def _build_nothing(settings: Settings) -> Service:
    raise AssertionError("something was started")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No .env of anybody's, neither here nor in the configuration directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def invoke(*arguments: str, **environ: str) -> Result:
    return CliRunner().invoke(make_cli(_build_nothing), arguments, env={**CLEAN, **environ})


@pytest.fixture
def data(tmp_path: Path) -> str:
    return str(tmp_path / "data")


def test_a_token_is_shown_once_and_listed_without_it(data: str) -> None:
    added = invoke("token", "add", "bot", "--scope", "steer", "--data-dir", data)
    token = added.stdout.strip()
    assert (added.exit_code, token[:4]) == (0, "flw_")
    assert added.stdout == f"{token}\n"
    listed = invoke("token", "list", FLOWER_DATA_DIR=data, FLOWER_TOKEN="e" * 20)
    assert [line.split("\t")[:2] for line in listed.stdout.splitlines()] == [["env", "start"], ["bot", "steer"]]
    assert token not in listed.stdout
    assert [row.name for row in TokenStore(Path(data) / "tokens.json").rows()] == ["bot"]


def test_a_revoked_token_is_gone_and_cannot_be_revoked_again(data: str) -> None:
    invoke("token", "add", "bot", "--scope", "read", "--data-dir", data)
    assert invoke("token", "revoke", "bot", "--data-dir", data).exit_code == 0
    again = invoke("token", "revoke", "bot", "--data-dir", data)
    assert_refused(again, "no token 'bot'")
    assert invoke("token", "list", "--data-dir", data).stdout == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(("env", "--scope", "read"), "token name 'env'"), (("a b", "--scope", "read"), "token name")],
)
def test_a_token_name_that_will_not_do_is_refused(data: str, arguments: tuple[str, ...], words: str) -> None:
    assert_refused(invoke("token", "add", *arguments, "--data-dir", data), words)


def test_a_scope_can_be_chosen_by_a_variable_and_a_flag_beats_it(data: str) -> None:
    assert invoke("token", "add", "one", "--data-dir", data, FLOWER_SCOPE="read").exit_code == 0
    assert invoke("token", "add", "two", "--scope", "steer", "--data-dir", data, FLOWER_SCOPE="read").exit_code == 0
    assert [row.scope for row in TokenStore(Path(data) / "tokens.json").rows()] == ["read", "steer"]


def test_a_scope_must_be_chosen(data: str) -> None:
    assert invoke("token", "add", "bot", "--data-dir", data).exit_code == 2
    assert invoke("token", "add", "bot", "--scope", "admin", "--data-dir", data).exit_code == 2
    assert not Path(data).exists()


def test_help_explains_every_flag_with_its_variable_and_default() -> None:
    text = " ".join(invoke("serve", "--help").stdout.split())
    for row in TABLE:
        assert row.variable in text
        assert row.flag in text
        assert not row.default or f"default: {row.default}" in text, row.name


def assert_refused(result: Result, *words: str) -> None:
    """Exit code 2 and one line on standard error that holds ``words``."""
    lines = [line for line in result.stderr.splitlines() if line.startswith("flower-server: ")]
    assert (result.exit_code, len(lines)) == (2, 1), result.output
    assert result.stdout == ""
    for word in words:
        assert word in lines[0]


def test_serve_refuses_to_start_without_credentials(data: str) -> None:
    assert_refused(invoke("serve", "--data-dir", data), "ANTHROPIC_API_KEY", "--rehearse")


def test_serve_refuses_a_public_address_without_a_token(data: str) -> None:
    result = invoke("serve", "--host", "0.0.0.0", "--rehearse", "--data-dir", data)  # noqa: S104
    assert_refused(result, "flower-server token add NAME --scope start", "FLOWER_TOKEN", "--host 0.0.0.0")


def test_a_token_makes_a_public_address_possible(data: str) -> None:
    def build(settings: Settings) -> Any:
        raise OSError(f"far enough with {settings.host}")

    cli, arguments = make_cli(build), ["serve", "--host", "0.0.0.0", "--rehearse", "--data-dir", data]  # noqa: S104
    by_variable = CliRunner().invoke(cli, arguments, env={**CLEAN, "FLOWER_TOKEN": "e" * 20})
    assert_refused(by_variable, "far enough")
    add_token(Path(data) / "tokens.json", "bot", "read")
    assert_refused(CliRunner().invoke(cli, arguments, env=CLEAN), "far enough")


def test_serve_refuses_a_setting_that_cannot_be(data: str) -> None:
    assert_refused(invoke("serve", "--port", "http", "--data-dir", data), "--port", "FLOWER_PORT")
    assert_refused(invoke("serve", "--data-dir", data, FLOWER_RING="0"), "--ring", "FLOWER_RING")
    assert_refused(invoke("serve", "--flow", "a=b:c", "--flow", "a=d:e", "--data-dir", data), "--flow")


def test_serve_refuses_a_spoilt_tokens_file(data: str) -> None:
    Path(data).mkdir()
    (Path(data) / "tokens.json").write_text("{")
    assert_refused(invoke("serve", "--rehearse", "--data-dir", data), "tokens.json")


def test_serve_refuses_a_data_dir_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert_refused(invoke("serve", "--rehearse", "--data-dir", str(tmp_path / "file")), "--data-dir")


@pytest.mark.parametrize(
    ("arguments", "play"),
    [(["--rehearse"], "starter"), (["--rehearse=two.toml"], "two.toml"), (["--rehearse", "--no-resume"], "starter")],
)
def test_rehearse_may_stand_alone_or_with_a_play(data: str, arguments: list[str], play: str) -> None:
    seen: list[Settings] = []

    def build(settings: Settings) -> Any:
        seen.append(settings)
        raise OSError("far enough")

    result = CliRunner().invoke(make_cli(build), ["serve", "--data-dir", data, *arguments], env=CLEAN)
    assert_refused(result, "far enough")
    assert [one.rehearse for one in seen] == [play]


class Process:
    """A flower-server with a small service, in a process of its own."""

    def __init__(self, *arguments: str, **environ: str) -> None:
        kept = {name: value for name, value in os.environ.items() if name not in CLEAN}
        command = [sys.executable, small_service.__file__, "serve", "--rehearse", *arguments]
        self.popen = subprocess.Popen(
            command,
            env={**kept, **environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def line(self) -> str:
        """The next line of standard output."""
        assert self.popen.stdout is not None
        return self.popen.stdout.readline()

    def end(self, signal_number: int | None = None) -> tuple[int, str, str]:
        """Exit code and the rest of both outputs."""
        if signal_number is not None:
            self.popen.send_signal(signal_number)
        rest, errors = self.popen.communicate(timeout=20)
        return self.popen.returncode, rest, errors


@pytest.fixture
def server(data: str) -> Iterator[Process]:
    process = Process("--port", "0", "--data-dir", data)
    yield process
    if process.popen.poll() is None:
        process.popen.kill()
        process.popen.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_serve_says_one_line_where_it_listens_and_ends_orderly(server: Process, number: int) -> None:
    match = re.fullmatch(r"flower-server listening on http://127\.0\.0\.1:(\d+)\n", server.line())
    assert match
    socket.create_connection(("127.0.0.1", int(match[1])), timeout=5).close()
    code, rest, errors = server.end(number)
    assert (code, rest) == (0, "")
    assert "stopped with" in errors


def test_a_server_that_was_told_to_ignore_hangups_lives_on_without_its_terminal(data: str) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # what nohup does; a child process inherits it
    try:
        process = Process("--port", "0", "--data-dir", data)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert "listening" in process.line()
    process.popen.send_signal(signal.SIGHUP)
    code, _, errors = process.end(signal.SIGTERM)
    assert code == 0
    assert "SIGTERM" in errors


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="the kernel tells nobody")
def test_nobody_can_read_a_secret_in_the_environment_of_a_server(data: str) -> None:
    secrets = {name: f"secret-{name}" for name in SECRETS}
    process = Process("--port", "0", "--data-dir", data, FLOWER_RING="77", **secrets)
    assert "listening" in process.line()
    told = Path(f"/proc/{process.popen.pid}/environ").read_bytes()
    code, _, errors = process.end(signal.SIGTERM)
    assert code == 0
    assert b"FLOWER_RING=77" in told
    assert b"secret-" not in told
    assert "secrets not unset: none" in errors


def test_a_data_dir_in_use_is_refused_and_free_again_afterwards(server: Process, data: str) -> None:
    server.line()
    code, out, errors = Process("--port", "0", "--data-dir", data).end()
    assert (code, out) == (2, "")
    assert "in use by another flower-server" in errors.splitlines()[-1]
    server.end(signal.SIGKILL)
    third = Process("--port", "0", "--data-dir", data)
    assert "listening" in third.line()
    assert third.end(signal.SIGTERM)[0] == 0


def test_temporary_files_lie_in_the_data_dir_and_those_of_a_killed_server_are_removed(tmp_path: Path) -> None:
    left = tmp_path / "tmp" / "claude-resume-of-a-killed-server"
    left.mkdir(parents=True)
    (left / "session.jsonl").write_text("{}")
    before = tempfile.gettempdir()
    with temporary_dir(tmp_path / "tmp"):
        assert not left.exists()
        assert Path(tempfile.mkdtemp()).parent == tmp_path / "tmp"
        assert (tmp_path / "tmp").stat().st_mode & 0o777 == 0o700
    assert tempfile.gettempdir() == before


def test_a_server_empties_its_temporary_dir_at_start(data: str) -> None:
    left = Path(data) / "tmp" / "claude-resume-of-a-killed-server"
    left.mkdir(parents=True)
    process = Process("--port", "0", "--data-dir", data)
    assert "listening" in process.line()
    assert process.end(signal.SIGTERM)[0] == 0
    assert not left.exists()


def test_a_taken_port_is_refused(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        code, out, errors = Process("--port", port, "--data-dir", str(tmp_path / "other")).end()
    assert (code, out) == (2, "")
    assert errors.startswith(f"flower-server: port {port} of 127.0.0.1: ")
    assert "--port" in errors
    assert errors.count("\n") == 1


def test_logs_can_be_json_and_begin_with_what_the_operator_should_hear(data: str) -> None:
    process = Process("--port", "0", "--data-dir", data, FLOWER_LOG_FORMAT="json", FLOWER_TYPO="1")
    assert "listening" in process.line()
    code, _, errors = process.end(signal.SIGTERM)
    records = [json.loads(line) for line in errors.splitlines() if line.startswith("{")]
    assert code == 0
    assert records[0]["level"] == "WARNING"
    assert "FLOWER_TYPO" in records[0]["message"]
    assert any("SIGTERM" in record["message"] for record in records)
