"""Without --rehearse, against an endpoint that is not ours: nothing but the environment says where the model is."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.e2e.other_endpoint import FILE, KEY, OtherEndpoint
from tests.e2e.serving import SERVER, FlowerServer, clean_environ, steps_of

pytestmark = pytest.mark.e2e


def test_any_messages_api_named_in_the_environment_drives_the_main_job(tmp_path: Path) -> None:
    with OtherEndpoint() as endpoint:
        environ = clean_environ(tmp_path, ANTHROPIC_BASE_URL=endpoint.url, ANTHROPIC_API_KEY=KEY)
        with FlowerServer(tmp_path / "data", environ=environ) as server:
            run = server.start_run("Make a file")
            server.wait_for_ask(run["id"])
            server.post("/answer", ask_id="q1", text="by hand")
            done = server.wait_for(run["id"], "succeeded", "failed")
            assert done["state"] == "succeeded", done
            assert done["verdict"]["state"] == "achieved"
            events = server.events(run["id"])
            assert steps_of(events) == ["Clarify", "Set goal", "Work", "Work·verdict#1"]
            assert (server.workspace(run) / FILE).read_text() == "made by hand\n"
            brief = (server.workspace(run) / ".flower/notes/brief.md").read_text()
            assert "It was said: by hand" in brief
            shown = json.dumps(events) + server.log()
            assert KEY not in shown, "the key is in no event and no log line"
    assert endpoint.problems == []
    assert set(endpoint.roles) == {"clarify", "judge goal", "coordinator", "worker/coder", "judge verdict"}


def test_without_a_credential_nothing_starts_and_one_line_says_what_to_set(tmp_path: Path) -> None:
    done = subprocess.run(
        [SERVER, "serve", "--port", "0", "--data-dir", tmp_path / "data"],
        env=clean_environ(tmp_path),
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.strip().splitlines()) == 1
    assert "ANTHROPIC_API_KEY" in done.stderr
