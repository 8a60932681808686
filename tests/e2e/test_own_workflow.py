"""The worked example: tested without a server, as docs say, and played through server and client as a user would."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from flower_core import Workbench
from flower_core.rehearsal import Play
from flower_core.testing import Rehearsed, rehearse
from flower_http.flows import FlowContext
from tests.e2e.serving import FlowerServer, steps_of

EXAMPLES = Path(__file__).parents[2] / "examples"
CLIENT = Path(sys.executable).parent / "flower-client"
ALL_STEPS = ["Investigate", "Implement", "Implement#round2", "Review"]

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def flows() -> ModuleType:
    spec = importlib.util.spec_from_file_location("example_flows", EXAMPLES / "flows.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


Rehearsal = Callable[..., Rehearsed]


@pytest.fixture
def rehearsal(flows: ModuleType, tmp_path: Path) -> Rehearsal:
    """Plays the example below ``tmp_path``."""

    def play(script: Any = EXAMPLES / "flows.toml", params: Mapping[str, str] | None = None, **more: Any) -> Rehearsed:
        space, books = tmp_path / "space", tmp_path / "books"
        context = FlowContext("Make slugs", space, books, Workbench(space, lang="en"), params or {})
        return rehearse(flows.make(context), script, workspace=space, run_dir=books, **more)

    return play


def test_it_is_sent_back_by_its_tests_and_reviewed_by_one_who_knows_the_plan(
    rehearsal: Rehearsal, tmp_path: Path
) -> None:
    asked: list[str] = []

    def answer(question: str, options: Sequence[str]) -> str:
        asked.append(question)
        return options[1]

    played = rehearsal(params={"focus": "the README"}, answer=answer)
    assert (played.failed_at, played.steps) == ("", ALL_STEPS)
    assert asked == ["What joins the words of a slug?"]
    assert '"_".join' in (tmp_path / "space" / "slug.py").read_text().replace("'", '"')
    assert "Look first at: the README" in played.prompts_of("investigator")[0]
    assert "AssertionError" in played.prompts_of("implementer")[1]
    reviewing = [request.talk for request in played.requests if request.speaker == "reviewer"]
    assert any("What joins" in str(talk.body) for talk in reviewing), "a copy of the session that asked"
    assert "The punctuation is still in it" not in str(reviewing[-1].body), "and not of the one that wrote"
    sessions = played.ctx["_sessions"]
    assert len(set(sessions.values())) == 3, "each goes on in a copy of its own"


def test_code_that_never_passes_its_tests_is_not_reviewed(rehearsal: Rehearsal) -> None:
    played = rehearsal(params={"rounds": "1"}, answer=lambda question, options: None)
    assert (played.failed_at, played.steps) == ("Implement", ["Investigate", "Implement"])
    assert "AssertionError" in played.ctx["what the tests said"]
    states = [event.payload["state"] for event in played.events if event.kind == "ask"]
    assert states == ["asked", "declined"], "None declines"


def test_a_reviewer_who_refuses_ends_the_run_with_the_reason(rehearsal: Rehearsal, tmp_path: Path) -> None:
    script = tmp_path / "refused.toml"
    script.write_text((EXAMPLES / "flows.toml").read_text().replace("approved\\n", "refused\\nNo docstring. "))
    played = rehearsal(script)
    assert (played.failed_at, played.steps) == ("Review", ALL_STEPS)
    assert "No docstring." in played.ctx["_aborted"]


@pytest.mark.parametrize(
    ("params", "why"),
    [({"depth": "1"}, "depth: there is no such parameter"), ({"rounds": "6"}, "rounds: must be 1 to 5, not '6'")],
)
def test_parameters_it_does_not_know_are_refused(rehearsal: Rehearsal, params: dict[str, str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        rehearsal(params=params)


def test_a_rehearsal_needs_a_play_that_can_be_performed(rehearsal: Rehearsal) -> None:
    assert isinstance(Play.load(EXAMPLES / "flows.toml"), Play)
    with pytest.raises(FileNotFoundError, match="no play"):
        rehearsal("hamlet")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Any:
    home = tmp_path_factory.mktemp("fix")
    flags = (f"--rehearse={EXAMPLES / 'flows.toml'},pace=0", "--flow", f"fix={EXAMPLES / 'flows.py'}:make")
    with FlowerServer(home / "data", *flags) as made:
        yield made


def client(server: FlowerServer, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(CLIENT), "--url", server.url, *arguments]
    return subprocess.run(command, env=server.environ, capture_output=True, text=True, timeout=90)


def test_a_client_starts_it_by_name_with_parameters_and_sees_it_through(server: FlowerServer) -> None:
    start = ("start", "Make slugs", "--flow", "fix", "--param", "rounds=3", "--workspace", "slugs")
    done = client(server, *start, "--watch", "--on-ask", "first")
    assert done.returncode == 0, done.stdout + done.stderr
    run = server.get("/runs")["runs"][0]
    assert (run["flow"], run["state"], run["result"].splitlines()[0]) == ("fix", "succeeded", "approved")
    assert steps_of(server.events(run["id"])) == ALL_STEPS
    assert "slug.py" in {entry.name for entry in server.workspace(run).iterdir()}
    rows = json.loads(client(server, "--json", "steps", run["id"]).stdout)
    assert [row["step"] for row in rows["steps"] if row["ok"]] == ALL_STEPS


def test_it_goes_on_with_its_parameters_when_the_server_was_killed_under_it(server: FlowerServer) -> None:
    run = server.start_run("Make slugs", flow="fix", params={"rounds": "1"}, workspace="killed")
    ask = server.wait_for_ask(run["id"])
    server.kill()
    server.start_again()
    server.post(f"/runs/{run['id']}/answer", ask_id=ask["id"], option=2)
    ended = server.wait_for(run["id"], "failed", "succeeded")
    assert (ended["state"], ended["failed_at"]) == ("failed", "Implement"), "a single round, as was asked for"
    assert '"_".join' in (server.workspace(run) / "slug.py").read_text().replace("'", '"')


def test_what_a_flow_says_of_its_parameters_reaches_the_client(server: FlowerServer) -> None:
    before = server.get("/runs")["runs"]
    done = client(server, "start", "Make slugs", "--flow", "fix", "--param", "depth=1", "--watch")
    assert done.returncode == 5
    assert "params.depth: there is no such parameter; there are: rounds, focus" in done.stderr
    assert server.get("/runs")["runs"] == before
    refused = client(server, "start", "Make slugs", "--param", "rounds=1")
    assert refused.returncode == 5
    assert "params: are for flows that were registered with the server" in refused.stderr
