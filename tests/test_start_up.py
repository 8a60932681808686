"""What the commands load before they do anything: a command that only says something must not load what serves runs."""

from __future__ import annotations

import importlib
import json
import pkgutil
import subprocess
import sys
from pathlib import Path

import flower_client
import pytest
from flower_client.cli import main as client

import flower_core

#: Each takes longer to load than the rest of the command; seen with ``python -X importtime``.
HEAVY = {"claude_agent_sdk", "flask", "marshmallow", "mcp", "requests", "tree_sitter", "urllib3", "waitress"}
RUN = """
import json, sys
from {module} import main
main({arguments!r}, standalone_mode=False)
print(json.dumps(sorted(sys.modules)))
"""


def loaded_by(module: str, *arguments: str) -> set[str]:
    """The modules that are loaded once the command in ``module`` has done its work in a fresh interpreter."""
    code = RUN.format(module=module, arguments=list(arguments))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_the_version_of_the_client_is_told_with_click_alone() -> None:
    loaded = loaded_by("flower_client.cli", "--version")
    assert not loaded & HEAVY
    assert not {name for name in loaded if name.startswith("flower_client.commands_")}


@pytest.mark.parametrize("arguments", [["--version"], ["token", "add", "ann", "--scope", "read"], ["serve", "--help"]])
def test_a_server_command_that_serves_nothing_loads_no_service(arguments: list[str], tmp_path: Path) -> None:
    if arguments[0] == "token":
        arguments = [*arguments, "--data-dir", str(tmp_path)]
    assert not loaded_by("flower_http.cli", *arguments) & HEAVY


def test_every_place_of_a_client_command_leads_to_the_command_of_that_name() -> None:
    context = client.make_context("flower-client", ["runs"])
    for name in client.list_commands(context):
        command = client.get_command(context, name)
        assert command is not None
        assert command.name == name


@pytest.mark.parametrize("package", [flower_core, flower_client])
def test_every_public_name_is_there_when_it_is_asked_for(package: object) -> None:
    module = importlib.import_module(str(package.__name__))  # type: ignore[attr-defined]
    for name in module.__all__:
        assert getattr(module, name) is not None
    assert set(module.__all__) <= set(dir(module))
    with pytest.raises(AttributeError, match="no attribute 'nothing_of_the_kind'"):
        _ = module.nothing_of_the_kind


@pytest.mark.parametrize("package", [flower_core, flower_client])
def test_no_public_name_is_a_modules_too(package: object) -> None:
    # Importing a module binds its name in the package: ``oracle``, say, would be a function or not by what came first.
    path = package.__path__  # type: ignore[attr-defined]
    assert not {module.name for module in pkgutil.iter_modules(path)} & set(package.__all__)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("first", "then"), [("ask_oracle", "oracle"), ("oracle", "ask_oracle")])
def test_a_role_stays_a_function_whatever_was_imported_before(first: str, then: str) -> None:
    code = f"from flower_core import {first}; from flower_core import {then}, oracle; print(oracle('Oracle').name)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "Oracle\n"
