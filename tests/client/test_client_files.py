"""Documents and files, from the library and from the command."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from flower_client import BadReply, ConfigError, FlowerClient, Refused, Unreachable

from tests.client.scripted_run import ScriptedRun
from tests.client.scripted_server import ScriptedServer, cut, hang_up, html, refusal
from tests.client.test_client_command import Command

BODY = bytes(range(256)) * 4000


@pytest.fixture
def command(server: ScriptedServer, tmp_path: Path) -> Command:
    return Command(server, tmp_path)


@pytest.fixture
def run(server: ScriptedServer) -> ScriptedRun:
    run = server.add(ScriptedRun())
    run.documents = {"brief": "# Goal\n\nBread\x1b[2J\n", "handoff-1": "# Doing now\n"}
    run.files = {"a.txt": b"one\n", "big": BODY, "sub/ü #1?.txt": b"two"}
    return run


def test_documents_are_listed_and_read(client: FlowerClient, run: ScriptedRun) -> None:
    assert [document.name for document in client.documents("r1")] == ["brief", "handoff-1"]
    assert client.document("r1", "handoff-1") == "# Doing now\n"
    with pytest.raises(Refused) as refused:
        client.document("r1", "goal")
    assert refused.value.slug == "unknown-document"


def test_files_are_listed_page_by_page_and_fetched(client: FlowerClient, run: ScriptedRun) -> None:
    first = client.files("r1", limit=2)
    rest = client.files("r1", limit=2, cursor=first.next_cursor)
    assert [entry.name for entry in (*first.entries, *rest.entries)] == ["a.txt", "big", "sub/ü #1?.txt"]
    assert rest.next_cursor == ""
    out = io.BytesIO()
    assert client.fetch("r1", "sub/ü #1?.txt", out) is None
    assert out.getvalue() == b"two"


def test_a_directory_is_not_written_but_returned(client: FlowerClient, run: ScriptedRun) -> None:
    out = io.BytesIO()
    found = client.fetch("r1", "sub", out)
    assert found is not None
    assert ([entry.name for entry in found.entries], out.getvalue()) == (["ü #1?.txt"], b"")
    with pytest.raises(BadReply):
        client.files("r1", "a.txt")


def test_a_download_that_breaks_off_goes_on_where_it_was(
    client: FlowerClient, server: ScriptedServer, run: ScriptedRun, sleeps: list[float]
) -> None:
    out = io.BytesIO()
    server.faults.extend([cut(700_000), hang_up, html()])
    client.fetch("r1", "big", out)
    assert out.getvalue() == BODY
    ranges = [seen.headers.get("range") for seen in server.asked_for("/files/big")]
    assert ranges[0] is None
    assert ranges[-1] not in (None, "bytes=0-")
    assert len(sleeps) == 3


def test_a_file_that_changed_meanwhile_is_fetched_anew(
    client: FlowerClient, server: ScriptedServer, run: ScriptedRun
) -> None:
    changed = b"x" * 900_000

    def change(answer: object) -> object:
        run.files["big"] = changed
        return cut(700_000)(answer)  # type: ignore[arg-type]

    server.faults.append(change)  # type: ignore[arg-type]
    out = io.BytesIO()
    client.fetch("r1", "big", out)
    assert out.getvalue() == changed


def test_a_download_that_never_arrives_is_given_up(
    client: FlowerClient, server: ScriptedServer, run: ScriptedRun, sleeps: list[float]
) -> None:
    server.faults.extend([hang_up] * 4)
    with pytest.raises(Unreachable):
        client.fetch("r1", "big", io.BytesIO())
    assert len(sleeps) == 3


@pytest.mark.parametrize("path", ["..", "a/../b", "/etc", "a//b", "a/", "."])
def test_a_path_that_a_url_would_fold_is_not_sent(client: FlowerClient, server: ScriptedServer, path: str) -> None:
    with pytest.raises(ConfigError):
        client.files("r1", path)
    with pytest.raises(ConfigError):
        client.fetch("r1", path, io.BytesIO())
    assert server.seen == []


def test_an_ended_run_is_deleted_and_another_one_not(
    client: FlowerClient, server: ScriptedServer, run: ScriptedRun
) -> None:
    with pytest.raises(Refused) as refused:
        client.delete("r1")
    assert refused.value.slug == "not-ended"
    run.finish()
    client.delete("r1")
    assert server.runs == {}


def test_docs_prints_a_table_or_a_document_that_steers_no_terminal(command: Command, run: ScriptedRun) -> None:
    assert command("docs", "r1").stdout.split()[:4] == ["DOCUMENT", "TITLE", "BYTES", "MODIFIED"]
    assert command("docs", "r1", "brief").stdout == "# Goal\n\nBread\n"
    assert json.loads(command("--json", "docs", "r1", "handoff-1").stdout)["text"] == "# Doing now\n"
    assert [each["name"] for each in json.loads(command("--json", "docs", "r1").stdout)["documents"]] == [
        "brief",
        "handoff-1",
    ]
    missing = command("docs", "r1", "goal")
    assert (missing.exit_code, missing.stdout) == (5, "")
    assert "flower-client docs RUN_ID" in missing.stderr


def test_files_prints_a_listing_and_says_how_to_go_on(command: Command, run: ScriptedRun) -> None:
    result = command("files", "r1")
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["NAME", "a.txt", "big"]
    assert result.stderr == "more: flower-client files r1 --cursor 2\n"
    assert command("files", "r1", "--cursor", "2").stdout.splitlines()[1].startswith("sub/")
    assert json.loads(command("--json", "files", "r1", "sub").stdout)["entries"][0]["name"] == "ü #1?.txt"


def test_files_writes_a_file_to_standard_output_as_it_is_or_under_a_name(
    command: Command, run: ScriptedRun, tmp_path: Path
) -> None:
    assert command("files", "r1", "big").stdout_bytes == BODY
    target = tmp_path / "copy"
    assert command("files", "r1", "big", "-o", str(target)).exit_code == 0
    assert target.read_bytes() == BODY
    assert command("files", "r1", "big", "-o", "-").stdout_bytes == BODY


def test_a_download_that_fails_leaves_nothing_half_written(
    command: Command, server: ScriptedServer, run: ScriptedRun, tmp_path: Path
) -> None:
    target = tmp_path / "copy"
    target.write_bytes(b"the old one")
    for args, code in (
        (("files", "r1", "nothing", "-o", str(target)), 5),
        (("files", "r1", "sub", "-o", str(target)), 2),
        (("files", "r1", "-o", str(target)), 2),
        (("files", "r1", "big", "-o", str(tmp_path / "no" / "where")), 2),
        (("files", "r1", "../x", "-o", str(target)), 2),
    ):
        assert command(*args).exit_code == code, args
    server.stop()
    assert command("files", "r1", "big", "-o", str(target)).exit_code == 3
    assert (target.read_bytes(), [path.name for path in tmp_path.iterdir()]) == (b"the old one", ["copy"])
    server.start()


@pytest.mark.parametrize(("content", "code"), [(b"\x1b[2Jone\x07\ntwo\xff\n", 0), (b"x" * 2_000_000, 2)])
def test_a_terminal_is_shown_a_file_without_what_it_would_act_on(
    server: ScriptedServer, run: ScriptedRun, tmp_path: Path, content: bytes, code: int
) -> None:
    run.files["odd"] = content
    ours, theirs = pty.openpty()
    environ = {**os.environ, "FLOWER_URL": server.url, "XDG_CONFIG_HOME": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-m", "flower_client", "files", "r1", "odd"],
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        env=environ,
    ) as process:
        assert process.wait(20) == code
    os.close(theirs)
    shown = b""
    try:
        while chunk := os.read(ours, 4096):
            shown += chunk
    except OSError:  # what a terminal says when nobody is left on the other side
        pass
    os.close(ours)
    assert shown == ("one\r\ntwo\N{REPLACEMENT CHARACTER}\r\n".encode() if code == 0 else b"")


def test_a_deletion_whose_reply_was_lost_has_been_done_and_any_other_missing_run_is_refused(
    client: FlowerClient, server: ScriptedServer, run: ScriptedRun
) -> None:
    run.finish()
    server.faults.append(hang_up)
    client.delete("r1")
    assert len(server.asked_for("r1", "DELETE")) == 2
    with pytest.raises(Refused) as refused:  # asked once, so there is nothing it could have done
        client.delete("r1")
    assert refused.value.slug == "unknown-run"
    server.faults.append(refusal(429, "busy", "0"))  # a refusal is a reply: nothing was lost
    with pytest.raises(Refused):
        client.delete("r1")


def test_a_lost_reply_does_not_hide_another_refusal_of_a_deletion(
    client: FlowerClient, server: ScriptedServer, run: ScriptedRun
) -> None:
    server.faults.append(hang_up)
    with pytest.raises(Refused) as refused:
        client.delete("r1")
    assert refused.value.slug == "not-ended"


def test_delete_says_what_it_did(command: Command, run: ScriptedRun) -> None:
    assert command("delete", "r1").exit_code == 5
    run.finish()
    assert command("--json", "delete", "r1").stdout == '{"deleted": "r1"}\n'
