"""The program between us and the agent program: a clean environment, and no life beyond the parent's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from flower_core.claude import launch
from flower_core.claude.environment import (
    RUN_AS,
    agent_program,
    check_credentials,
    session_environment,
    write_launcher,
)
from flower_core.errors import CredentialsMissing
from tests.support import eventually

ENV = "/usr/bin/env"
#: Starts what it is told to, prints its process id, and waits to be killed.
PARENT = "import subprocess, sys, time; print(subprocess.Popen(sys.argv[1:]).pid, flush=True); time.sleep(600)"


def launched(*command: str, **environ: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-I", "-S", launch.__file__, *command]
    return subprocess.run(program, env=environ, capture_output=True, text=True, check=False, timeout=30)


def test_only_the_variables_named_are_kept() -> None:
    done = launched(ENV, FLOWER_KEEP_ENV="PATH,PAINT,MISSING", PATH="/bin", PAINT="blue", SECRET="hidden")
    assert sorted(done.stdout.split()) == ["PAINT=blue", "PATH=/bin"]


def test_without_a_list_nothing_is_kept() -> None:
    assert launched(ENV, SECRET="hidden").stdout == ""


def test_the_command_gets_its_arguments_and_gives_its_exit_code() -> None:
    done = launched("/bin/sh", "-c", 'printf "%s|" "$@"; exit 7', "sh", "a b", "", "*")
    assert (done.stdout, done.returncode) == ("a b||*|", 7)


def test_it_gives_up_when_its_parent_died_before_it_looked(tmp_path: Path) -> None:
    done = launched("/bin/sh", "-c", f"touch '{tmp_path}/ran'", FLOWER_PARENT_PID=str(os.getppid()))
    assert done.returncode == 143
    assert not (tmp_path / "ran").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel call is Linux's")
@pytest.mark.parametrize("platform", ["linux", "elsewhere"])
def test_the_command_is_interrupted_when_the_parent_is_killed(tmp_path: Path, platform: str) -> None:
    ready, heard = tmp_path / "ready", tmp_path / "heard"
    patient = f"trap 'touch \"{heard}\"; exit 0' INT; touch '{ready}'; while :; do read -t 0.1 _ <> <(:); done"
    run = f"import sys; from flower_core.claude import launch; sys.exit(launch.main(sys.argv[1:], {platform!r}))"
    command = [sys.executable, "-c", PARENT, sys.executable, "-c", run, "/bin/bash", "-c", patient]
    environ = {name: value for name, value in os.environ.items() if name != "FLOWER_PARENT_PID"}
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        eventually(ready.exists, timeout=20)
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        eventually(heard.exists, timeout=20)
        eventually(lambda: not alive(child), timeout=20)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("platform", ["linux", "elsewhere"])
def test_a_server_that_ignores_interrupts_does_not_pass_that_on(platform: str) -> None:
    ignore = "import signal, subprocess, sys; signal.signal(2, signal.SIG_IGN); subprocess.run(sys.argv[1:])"
    run = f"import sys; from flower_core.claude import launch; sys.exit(launch.main(sys.argv[1:], {platform!r}))"
    look = [sys.executable, "-c", run, "/bin/grep", "SigIgn", "/proc/self/status"]
    environ = {name: value for name, value in os.environ.items() if name != "FLOWER_PARENT_PID"}
    done = subprocess.run(
        [sys.executable, "-c", ignore, *look], env=environ, capture_output=True, text=True, timeout=30
    )
    ignored = int(done.stdout.split()[1], 16)
    assert not ignored & (1 << (signal.SIGINT - 1))


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_watcher_hands_signals_on_and_returns_the_exit_code(tmp_path: Path, number: signal.Signals) -> None:
    ready = tmp_path / "ready"
    patient = f"trap 'exit 9' INT TERM; touch '{ready}'; while :; do read -t 0.1 _ <> <(:); done"
    run = "import sys; from flower_core.claude import launch; sys.exit(launch.main(sys.argv[1:], 'elsewhere'))"
    environ = {name: value for name, value in os.environ.items() if name != "FLOWER_PARENT_PID"}
    with subprocess.Popen([sys.executable, "-c", run, "/bin/bash", "-c", patient], env=environ) as watcher:
        eventually(ready.exists, timeout=20)
        watcher.send_signal(number)
        assert watcher.wait(20) == 9


def test_a_signal_that_comes_before_the_command_has_started_is_handed_on_too() -> None:
    run = """
import os, signal, sys
from flower_core.claude import launch
def tell(event, arguments):
    if event == "subprocess.Popen":
        os.kill(os.getpid(), signal.SIGTERM)
sys.addaudithook(tell)
sys.exit(launch.main(sys.argv[1:], "elsewhere"))
"""
    environ = {name: value for name, value in os.environ.items() if name != "FLOWER_PARENT_PID"}
    done = subprocess.run([sys.executable, "-c", run, "/bin/sleep", "600"], env=environ, timeout=60, check=False)
    assert done.returncode == -signal.SIGTERM % 256  # what the command came to, as anybody's exit code is handed on


def test_the_launcher_starts_the_agent_program_from_any_directory(tmp_path: Path) -> None:
    folder = tmp_path / "a 'quoted' place"
    folder.mkdir()
    script = write_launcher(folder)
    assert write_launcher(folder) == script
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "FLOWER_KEEP_ENV": "PATH,HOME"}
    done = subprocess.run([script, "--version"], cwd="/", env=environ, capture_output=True, text=True, check=True)
    assert "Claude Code" in done.stdout
    assert script.stat().st_mode & 0o777 == 0o700
    assert agent_program().is_file()


def test_only_root_can_run_agents_as_another_user() -> None:
    program = """
import os, pathlib
from flower_core.claude.agent_user import AgentUser
from flower_core.errors import AgentUserUnusable
if os.geteuid() == 0:
    os.seteuid(65534)
try:
    AgentUser.find("nobody", pathlib.Path("/data"), pathlib.Path("/work"))
except AgentUserUnusable as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout == "--agent-user nobody: only root on Linux can run agents as another user\n"


def test_the_environment_of_a_session_is_a_short_list() -> None:
    environ = {
        "PATH": "/bin",
        "LC_TIME": "C",
        "https_proxy": "http://proxy:1",
        "ANTHROPIC_API_KEY": "key",
        "AWS_SECRET_ACCESS_KEY": "hidden",
        "FLOWER_TOKEN": "hidden",
        "MCP_TOOL_TIMEOUT": "60000",
    }
    chosen = session_environment(environ, config_dir=Path("/c"), extra={"PAINT": "blue"}, tool_timeout_s=2.5)
    assert "hidden" not in chosen.values()
    assert {name: chosen[name] for name in ("PATH", "LC_TIME", "https_proxy", "PAINT")} == {
        "PATH": "/bin",
        "LC_TIME": "C",
        "https_proxy": "http://proxy:1",
        "PAINT": "blue",
    }
    assert (chosen["CLAUDE_CONFIG_DIR"], chosen["MCP_TOOL_TIMEOUT"]) == ("/c", "2500")
    assert chosen["FLOWER_PARENT_PID"] == str(os.getpid())
    kept = set(chosen["FLOWER_KEEP_ENV"].split(","))
    assert kept >= chosen.keys() - {"FLOWER_KEEP_ENV", "FLOWER_PARENT_PID"}
    assert not any(name.startswith("FLOWER") for name in kept)
    as_another = session_environment({RUN_AS: "7:8"}, config_dir=Path("/c"), extra={RUN_AS: "0:0"}, tool_timeout_s=None)
    assert as_another[RUN_AS] == "7:8"


def test_a_tool_may_wait_as_long_as_a_timer_can() -> None:
    for seconds in (None, 1e9):
        chosen = session_environment({}, config_dir=Path("/c"), extra={}, tool_timeout_s=seconds)
        assert chosen["MCP_TOOL_TIMEOUT"] == str(2**31 - 1)


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({}, "ANTHROPIC_API_KEY"),
        ({"ANTHROPIC_API_KEY": " "}, "CLAUDE_CODE_OAUTH_TOKEN"),
        ({"ANTHROPIC_API_KEY": "key", "CLAUDE_CODE_USE_BEDROCK": "1"}, "CLAUDE_CODE_USE_BEDROCK is set"),
    ],
)
def test_missing_credentials_say_what_to_set(environ: dict[str, str], said: str) -> None:
    with pytest.raises(CredentialsMissing, match=said):
        check_credentials(environ)


@pytest.mark.parametrize("name", ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"])
def test_any_one_credential_will_do(name: str) -> None:
    check_credentials({name: "key", "CLAUDE_CODE_USE_VERTEX": "false"})
