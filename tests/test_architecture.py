"""The rules of the house that a reader relies on: who may import whom, how long a file is, where text lives."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("flower_core", "flower_http", "client/flower_client")
FILES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]

#: Low to high; a module may import from its own rank and below.
CORE_RANKS = (
    ("errors", "events", "files", "git_program", "loopback", "rights", "texts", "trees", "worktrees"),
    ("agent", "documents", "hook_input", "looks", "operands", "output_files", "quiet_git", "shell", "rescue"),
    ("human_records", "human_log", "human_inbox", "human_questions", "human_queue", "human_replies", "human"),
    ("lineage", "manifest", "resilience", "sessions", "workbench"),
    ("guards", "spill", "context_watch", "ledger", "call"),
    ("claude", "roles"),
    ("handoff_turn",),
    ("step_loop",),
    ("runtime",),
    ("workflow",),
    ("aside", "rehearsal", "testing"),
)
#: The one import that would be a cycle at module level.
LATE_IMPORTS = {("flower_core.human", "flower_core.claude.tools")}
LONGEST_FILE = 320


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts[1:] if parts[0] == "client" else parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path: Path) -> Iterator[tuple[str, int, bool]]:
    """Every module ``path`` imports: name, line, and whether inside a function."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inside = {
        id(node)
        for outer in ast.walk(tree)
        if isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef))
        for node in ast.walk(outer)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno, id(node) in inside
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                place = ROOT / Path(*full.split("."))
                known = place.with_suffix(".py").exists() or (place / "__init__.py").exists()
                yield full if known else str(node.module), node.lineno, id(node) in inside


def rank_of(module: str) -> int | None:
    name = module.split(".")[1] if "." in module else ""
    return next((rank for rank, names in enumerate(CORE_RANKS) if name in names), None)


def test_every_file_of_the_core_has_a_rank() -> None:
    names = {
        path.relative_to(ROOT / "flower_core").parts[0].removesuffix(".py")
        for path in FILES
        if path.is_relative_to(ROOT / "flower_core")
    }
    assert names - {"__init__"} == {name for names in CORE_RANKS for name in names} & names
    assert all(rank_of(f"flower_core.{name}") is not None for name in names - {"__init__"})


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_imports_point_downwards(path: Path) -> None:
    module = module_of(path)
    for name, line, late in imports_of(path):
        where = f"{path.relative_to(ROOT)}:{line} imports {name}"
        top = name.split(".")[0]
        if module.startswith("flower_client"):
            assert top not in ("flower_core", "flower_http"), where
        if module.startswith("flower_core"):
            assert top not in ("flower_http", "flower_client", "flask", "marshmallow", "requests"), where
            if top == "claude_agent_sdk":
                assert module.startswith("flower_core.claude"), where
            mine, theirs = rank_of(module), rank_of(name)
            if mine is not None and theirs is not None and (module, name) not in LATE_IMPORTS:
                assert theirs <= mine, f"{where}, which lies above it"
        if late:
            assert (module, name) in LATE_IMPORTS, f"{where} inside a function"


def test_there_is_no_import_cycle() -> None:
    graph = {module_of(path): {name for name, _, late in imports_of(path) if not late} for path in FILES}
    done: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, " → ".join((*trail[trail.index(module) :], module))
        if module in done:
            return
        for name in sorted(graph.get(module, ())):
            visit(name, (*trail, module))
        done.add(module)

    for module in sorted(graph):
        visit(module, ())


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_no_file_outgrows_its_reader(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST_FILE


def test_only_the_wiring_joins_core_and_http() -> None:
    allowed = {
        "flower_core.events",
        "flower_core.texts",
        "flower_core.agent",
        "flower_core.files",
        "flower_core.loopback",
        "flower_core.rights",
        "flower_core.trees",
        "flower_core.errors",
    }
    joining = {
        "wiring",
        "flows",
        "built_in_flows",
        "flow_registry",
        "interruptions",
        "kit",
        "jobs",
        "recovery",
        "places",
        "doctor",
        "oracles",
    }
    for path in (ROOT / "flower_http").rglob("*.py"):
        if path.stem in joining:
            continue
        for name, line, _ in imports_of(path):
            if name.startswith("flower_core"):
                assert name in allowed, f"{path.relative_to(ROOT)}:{line} imports {name}"


def test_no_prompt_hides_in_the_code() -> None:
    # A prompt speaks to a model; the line that says who it speaks to is the surest sign of one.
    for path in FILES:
        if "rehearsal" not in path.parts:
            assert not re.search(r"flower-(role|turn): \w", path.read_text(encoding="utf-8")), path
