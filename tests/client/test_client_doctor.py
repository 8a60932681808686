"""doctor finds what stands between the command and a run, and changes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from flower_client.cli import main
from flower_client.commands_doctor import clock
from flower_client.exits import Exit
from flower_client.transport import Reply

from tests.client.scripted_server import ScriptedServer, refusal


def doctor(server: ScriptedServer, home: Path, *flags: str, token: str | None = None) -> Result:
    env = {"FLOWER_URL": server.url, "XDG_CONFIG_HOME": str(home), "FLOWER_TOKEN": token}
    return CliRunner().invoke(main, [*flags, "doctor"], env=env)


def test_all_is_well(server: ScriptedServer, tmp_path: Path) -> None:
    result = doctor(server, tmp_path)
    assert result.exit_code == 0
    found = dict(line.split(":", 1) for line in result.stdout.splitlines())
    assert {name: value.strip() for name, value in found.items()} == {
        "url": server.url,
        "client": "0.1.0",
        "reachable": "yes",
        "clock": "agrees",
        "token": "start",
        "transport": "this machine",
        "server": "flower 0.1.0",
        "ready": "yes",
    }
    assert server.runs == {}


@pytest.mark.parametrize(
    ("scopes", "largest"), [({"read"}, "read"), ({"read", "steer"}, "steer"), ({"read", "steer", "start"}, "start")]
)
def test_it_finds_the_scope_of_the_token(
    server: ScriptedServer, tmp_path: Path, scopes: set[str], largest: str
) -> None:
    server.token, server.scopes = "t", scopes
    result = doctor(server, tmp_path, "--json", token="t")
    assert json.loads(result.stdout)["token"] == largest
    assert result.exit_code == 0


def test_a_wrong_token_is_told(server: ScriptedServer, tmp_path: Path) -> None:
    server.token = "t"
    result = doctor(server, tmp_path, token="wr0ng")
    assert result.exit_code == Exit.NOT_ALLOWED
    assert "problem:   a token is needed. " in result.stdout
    assert "wr0ng" not in result.output


def test_a_server_that_is_down_or_not_ready_is_told(server: ScriptedServer, tmp_path: Path) -> None:
    server.faults.extend([lambda answer: answer] * 3)
    server.faults.extend([refusal(503, "not-ready")] * 3)
    result = doctor(server, tmp_path)
    assert result.exit_code == Exit.UNREACHABLE
    assert "not-ready, says the test" in result.stdout
    server.stop()
    assert doctor(server, tmp_path).exit_code == Exit.UNREACHABLE


def test_clocks_that_differ_are_told() -> None:
    def at(date: str) -> str:
        return clock(Reply(200, {}, {"Date": date}), now=1_000_000_000)

    assert at("Sun, 09 Sep 2001 01:46:45 GMT") == "agrees"
    assert at("Sun, 09 Sep 2001 02:46:40 GMT") == "the server's is 3600 s ahead"
    assert at("Sun, 09 Sep 2001 01:36:40 GMT") == "the server's is 600 s behind"
    assert at("") == "the server does not tell the time"
