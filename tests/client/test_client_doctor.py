"""doctor finds what stands between the command and a run, and changes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from flower_client.advice import OTHER_VERSION, for_connection, for_problem
from flower_client.api import FlowerClient
from flower_client.cli import main
from flower_client.commands_doctor import clock
from flower_client.errors import Unreachable
from flower_client.exits import Exit
from flower_client.transport import Reply

from tests.client.scripted_server import ScriptedServer, edited, html, refusal

ANOTHER = "`flower-server token add NAME --scope start` makes another"


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
        "server": "flower 0.1.0",
        "versions": "server and client belong together",
        "token": "start",
        "reach": "enough for everything",
        "transport": "this machine",
        "ready": "yes",
    }
    assert server.runs == {}


@pytest.mark.parametrize(
    ("scopes", "largest", "reach"),
    [
        ({"read"}, "read", f"enough to watch; to answer and to start, {ANOTHER}"),
        ({"read", "steer"}, "steer", f"enough to watch and to answer; to start, {ANOTHER}"),
        ({"read", "steer", "start"}, "start", "enough for everything"),
    ],
)
def test_it_finds_the_scope_of_the_token(
    server: ScriptedServer, tmp_path: Path, scopes: set[str], largest: str, reach: str
) -> None:
    server.token, server.scopes = "t", scopes
    result = doctor(server, tmp_path, "--json", token="t")
    found = json.loads(result.stdout)
    assert (found["token"], found["reach"]) == (largest, reach)
    assert result.exit_code == 0


def test_a_wrong_token_is_told(server: ScriptedServer, tmp_path: Path) -> None:
    server.token = "t"
    result = doctor(server, tmp_path, token="wr0ng")
    assert result.exit_code == Exit.NOT_ALLOWED
    advice = "Give a token with --token or FLOWER_TOKEN; `flower-server token add NAME --scope SCOPE` makes one."
    assert f"problem:   a token is needed. {advice}\n" in result.stdout
    assert "wr0ng" not in result.output


def test_a_server_that_is_down_or_not_ready_is_told(server: ScriptedServer, tmp_path: Path) -> None:
    server.faults.extend([lambda answer: answer] * 3)
    server.faults.extend([refusal(503, "not-ready", "0")] * 3)
    result = doctor(server, tmp_path)
    assert result.exit_code == Exit.UNREACHABLE
    assert "not-ready, says the test" in result.stdout
    server.stop()
    assert doctor(server, tmp_path).exit_code == Exit.UNREACHABLE


def test_clocks_that_differ_are_told() -> None:
    def at(date: str) -> str:
        return clock(Reply(200, {}, {"Date": date}), now=1_000_000_000)

    assert at("Sun, 09 Sep 2001 01:46:45 GMT") == "agrees"
    way = "set the one that is wrong, or times shown here mislead"
    assert at("Sun, 09 Sep 2001 02:46:40 GMT") == f"the server's is 3600 s ahead: {way}"
    assert at("Sun, 09 Sep 2001 01:36:40 GMT") == f"the server's is 600 s behind: {way}"
    assert at("") == "the server does not tell the time"


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("0.1.7", "server and client belong together"),
        (
            "0.0.9",
            "the server is older than this client (0.1.0): update flower-http there, or it may refuse what is asked",
        ),
        ("0.2.0", "the server is newer than this client (0.1.0): update flower-client to get at all it can do"),
        ("1.0", "the server is newer than this client (0.1.0): update flower-client to get at all it can do"),
        ("next", "the versions cannot be compared"),
    ],
)
def test_versions_are_compared(server: ScriptedServer, tmp_path: Path, version: str, said: str) -> None:
    server.faults.extend([lambda answer: answer, edited(lambda about: about.update(version=version))])
    result = doctor(server, tmp_path, "--json")
    assert json.loads(result.stdout)["versions"] == said
    assert result.exit_code == Exit.DONE


def test_what_is_no_flower_server_is_told_and_not_acted_on(server: ScriptedServer, tmp_path: Path) -> None:
    server.faults.extend([lambda answer: answer, edited(lambda about: about.update(name="teapot"))])
    result = doctor(server, tmp_path)
    said = (
        f"{server.url} is no flower-server. Is that address flower-server's? Look at --url and at what stands between."
    )
    assert f"problem:   {said}\n" in result.stdout
    assert result.exit_code == Exit.UNREACHABLE
    assert {seen.method for seen in server.seen} == {"GET"}


def test_a_wrong_url_is_told_with_what_to_try(server: ScriptedServer, tmp_path: Path) -> None:
    def told(url: str) -> str:
        with FlowerClient(url, attempts=1) as client, pytest.raises(Unreachable) as error:
            client.healthy()
        return error.value.advice

    assert told(server.url.replace("http", "https")).endswith(
        ". No TLS is spoken there: is it http:// rather than https://?"
    )
    server.faults.append(html(404))
    page = f"{server.url}: HTTP 404 without a problem document"
    assert told(server.url) == f"{page}. Is that address flower-server's? Look at --url and at what stands between."
    server.stop()
    running = "Is flower-server running there? Give another address with --url or FLOWER_URL."
    assert told(server.url) == f"{server.url}: Connection refused. {running}"


def test_a_certificate_nobody_vouches_for_is_told() -> None:
    said = "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate (_ssl.c:1006)"
    assert "REQUESTS_CA_BUNDLE" in for_connection(said)
    assert "clock" in for_connection(said)


@pytest.mark.parametrize(
    ("status", "problem", "hint"),
    [
        (422, {"type": "invalid-body", "errors": {"params": ["there is no such field"]}}, OTHER_VERSION),
        (404, {"type": "not-found"}, OTHER_VERSION),
        (422, {"type": "invalid-body", "errors": {"rounds": ["must be from 1 to 100"]}}, ""),
        (404, {"type": "unknown-run"}, "`flower-client runs` lists them."),
        (401, {}, "Give a token with --token or FLOWER_TOKEN; `flower-server token add NAME --scope SCOPE` makes one."),
        (
            403,
            {"type": "scope-too-small", "needed": "steer"},
            "`flower-server token add NAME --scope steer` makes a token that reaches so far.",
        ),
        (
            403,
            {"type": "host-not-allowed"},
            "`flower-server token add NAME --scope start` on the server makes a token for --token.",
        ),
        (503, {"type": "not-ready"}, "`flower-server doctor` on the server says what it lacks."),
        (
            503,
            {"type": "journal-unavailable"},
            "Make room on the server's disk; runs that it has stopped go on by themselves then.",
        ),
    ],
)
def test_a_refusal_comes_with_what_to_do_about_it(status: int, problem: dict[str, object], hint: str) -> None:
    assert for_problem(status, problem) == hint


@pytest.mark.parametrize("slug", ["not-ready", "journal-unavailable"])
def test_a_server_in_trouble_is_told_with_what_to_do_there(server: ScriptedServer, slug: str) -> None:
    server.faults.append(refusal(503, slug))
    with FlowerClient(server.url, attempts=1) as client, pytest.raises(Unreachable) as error:
        client.run("r1")
    assert error.value.hint == for_problem(503, {"type": slug})
    assert error.value.hint
