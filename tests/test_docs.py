"""What README and docs name exists: files, flags, settings with their defaults, error types."""

from __future__ import annotations

import errno
import os
import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from flower_client.cli import main as client_main
from flower_client.exits import Exit

from flower_http.cli import main as server_main
from flower_http.errors import CATALOGUE
from flower_http.settings import TABLE, Settings
from tests.doc_blocks import blocks

ROOT = Path(__file__).parents[1]
DOCS = sorted((ROOT / "docs").glob("*.md"))
USER_PAGES = [ROOT / "README.md", ROOT / "client" / "README.md", *DOCS]
PAGES = [ROOT / "CONTRIBUTING.md", *USER_PAGES]

#: Which test in tests/e2e runs the blocks of a page, by their language; it fails when it does not know one of them.
RUN_BY: dict[str, dict[str, str]] = {
    "README.md": {"sh": "test_docs_getting_started.py"},
    "client/README.md": dict.fromkeys(("indented", "python"), "test_docs_getting_started.py"),
    "docs/getting-started.md": {"sh": "test_docs_getting_started.py"},
    "docs/http-by-example.md": {"bash": "test_recipes.py"},
    "docs/http.md": dict.fromkeys(("indented", "python"), "test_docs_curl.py"),
    "docs/operating.md": dict.fromkeys(("dockerfile", "indented", "ini", "sh", "yaml"), "test_docs_operating.py"),
    "docs/python-api.md": {"python": "test_docs_python.py"},
    "docs/security.md": {
        "indented": "test_docs_operating.py",
        **dict.fromkeys(("nginx", "caddyfile"), "test_docs_proxies.py"),
    },
    "docs/writing-a-workflow.md": dict.fromkeys(("python", "toml"), "test_docs_examples.py"),
}

#: Files that a reader makes.
_EXAMPLES = {"greet.py"}

_LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
_CODE = re.compile(r"```.*?```|`[^`\n]+`|^    .+$", re.DOTALL | re.MULTILINE)
#: A command of ours with its arguments, up to where the shell or the sentence ends it.
_COMMAND = re.compile(r"(?:^|[\s`/])(flower-(?:server|client) (?!listening on )[^\n|`;&]+)")
_FLAG = re.compile(r"(?<![\w-])(--?[a-z][a-z-]*)")
_HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
_ROW = re.compile(r"^\| `([a-z0-9-]+)` \| (\d{3}) \| .+ \|$", re.MULTILINE)


def page_name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    for target in _LINK.findall(page.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", target):
            continue
        place, _, anchor = target.partition("#")
        path = (page.parent / place).resolve() if place else page
        assert path.exists(), f"{page_name(page)} links to {target}"
        if anchor:
            headings = {_slug(title) for title in _HEADING.findall(path.read_text(encoding="utf-8"))}
            assert anchor in headings, f"{page_name(page)} links to {target}"


def test_every_page_is_linked_from_the_readme() -> None:
    linked = set(_LINK.findall((ROOT / "README.md").read_text(encoding="utf-8")))
    assert {page_name(page) for page in DOCS} <= linked


def test_every_source_file_named_is_there() -> None:
    folders = ("flower_core", "flower_http", "client", "tests", "tools", "examples", "bench")
    sources = [page_name(path) for folder in folders for path in (ROOT / folder).rglob("*.py")]
    for page in PAGES:
        for name in re.findall(r"`([a-z_/]+\.py)`", page.read_text(encoding="utf-8")):
            there = any(f"/{source}".endswith(f"/{name}") for source in sources)
            assert there or name in _EXAMPLES, f"{page_name(page)} names {name}"


def _slug(title: str) -> str:
    """The anchor GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_block_is_run_by_a_test_or_says_why_it_is_not(page: Path) -> None:
    name = page_name(page)
    run_by = RUN_BY.get(name, {})
    for block in blocks(name):  # "text" is a picture, or what a program prints
        assert block.reason or block.language in ("text", *run_by), f"{name}:{block.line} is run by nobody"
    for module in run_by.values():
        assert page.name in (ROOT / "tests" / "e2e" / module).read_text(encoding="utf-8")


def commands_of(command: click.Command) -> dict[str, click.Command]:
    if not isinstance(command, click.Group):
        return {}
    context = click.Context(command)
    found = {name: command.get_command(context, name) for name in command.list_commands(context)}
    return {name: below for name, below in found.items() if below is not None}


def flags_of(command: click.Command) -> set[str]:
    """The flags ``--help`` of this very command lists."""
    return {name for param in command.get_params(click.Context(command)) for name in param.opts}


def every_flag(command: click.Command) -> set[str]:
    """The flags of a command and of all below it."""
    return flags_of(command).union(*map(every_flag, commands_of(command).values()))


def variables_of(command: click.Command, context: click.Context) -> set[str]:
    """The variables that set the options of a command and of all below it."""
    options = [param for param in command.get_params(context) if isinstance(param, click.Option)]
    found = {name for option in options for name in option.get_help_extra(context).get("envvars", ())}
    for name, below in commands_of(command).items():
        found |= variables_of(below, click.Context(below, info_name=name, parent=context))
    return found


def command_lines() -> Iterator[tuple[str, str]]:
    """Page and text of every command line of ours that stands in code."""
    for page in USER_PAGES:
        for code in _CODE.findall(page.read_text(encoding="utf-8").replace("\\\n", " ")):
            for line in _COMMAND.findall(code):
                yield page_name(page), re.sub(r"\s#.*", "", line).strip()


def advised_lines() -> Iterator[tuple[str, str]]:
    """File and text of every command line of ours that a message of ours tells somebody to type."""
    for path in [*ROOT.glob("flower_*/**/*.py"), *ROOT.glob("client/flower_client/*.py")]:
        for line in re.findall(r"`(flower-(?:server|client) [^`\n]+)`", path.read_text(encoding="utf-8")):
            yield page_name(path), re.sub(r"\{[^}]+\}", "TEXT", line)


@pytest.mark.parametrize(("page", "line"), sorted({*command_lines(), *advised_lines()}))
def test_every_command_line_uses_commands_and_flags_that_exist(page: str, line: str) -> None:
    command: click.Command = server_main if line.startswith("flower-server") else client_main
    plain = re.sub(r"\"[^\"]*\"|'[^']*'", "TEXT", line)
    listed = re.findall(r"[a-z]+(?=,)|(?<=, )[a-z]+", plain)
    assert set(listed) <= set(commands_of(command)), line
    known, given = flags_of(command), set()
    for word in plain.replace(",", "").split()[1:]:
        flag = _FLAG.match(word)
        if flag:
            assert flag[1] in known, f"{page}: {line} has {flag[1]}"
            given.add(flag[1])
        elif commands_of(command) and word.isalpha() and not word.isupper():
            assert word in commands_of(command), f"{page}: {line} names no command {word!r}"
            command = commands_of(command)[word]
            known |= flags_of(command)
            given.clear()
        else:
            given.add(word)
    if given:  # a line to be typed, not only the name of a command
        needed = [param.opts[0] for param in command.params if isinstance(param, click.Option) and param.required]
        assert set(needed) <= given, f"{page}: {line} lacks {needed}"


def test_every_flag_that_stands_by_itself_exists() -> None:
    known = every_flag(server_main) | every_flag(client_main)
    for page in USER_PAGES:
        for flag in re.findall(r"`(--[a-z-]+)[^`\n]*`", page.read_text(encoding="utf-8")):
            assert flag in known, f"{page_name(page)} names {flag}"


def test_the_page_of_settings_is_what_the_code_says() -> None:
    printed = runpy.run_path(str(ROOT / "tools" / "settings_page.py"))["page"]()
    assert (ROOT / "docs" / "settings.md").read_text(encoding="utf-8") == printed, "run `make docs`"


@pytest.mark.parametrize("name", ["client/README.md", "docs/troubleshooting.md"])
def test_the_table_of_exit_codes_is_complete(name: str) -> None:
    rows = re.findall(r"^\| (\d{1,3}) \| [^|]+\|", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE)
    assert [int(code) for code in rows] == sorted(Exit)


def test_the_table_of_errors_is_the_catalogue() -> None:
    page = (ROOT / "docs" / "http.md").read_text(encoding="utf-8")
    table = {slug: int(status) for slug, status in _ROW.findall(page)}
    assert table == {slug: status for slug, (status, _) in CATALOGUE.items()}


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_no_error_type_is_named_that_does_not_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for slug in re.findall(r"\b[45]\d\d,? `([a-z]+(?:-[a-z]+)*)`", text):
        assert slug in CATALOGUE, f"{page_name(page)} names {slug}"


def test_every_variable_named_is_one_that_is_read() -> None:
    context = click.Context(client_main, auto_envvar_prefix="FLOWER")
    ours = {row.variable for row in TABLE} | {"FLOWER_ENV"} | variables_of(client_main, context)
    ours |= variables_of(server_main, click.Context(server_main))
    for page in PAGES:
        for name in re.findall(r"\bFLOWER_[A-Z_]*[A-Z]\b", page.read_text(encoding="utf-8")):
            assert name in ours, f"{page_name(page)} names {name}"


def test_the_server_is_silent_about_the_variables_of_the_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    clients = variables_of(client_main, click.Context(client_main, auto_envvar_prefix="FLOWER"))
    assert "FLOWER_WATCH_SHOW" in clients
    assert Settings.load({}, dict.fromkeys(clients, "long-enough-for-a-token")).warnings == ()


def test_every_message_quoted_in_troubleshooting_is_one_that_is_said() -> None:
    """Code with blanks in a first column is quoted from a program of ours or from the system."""
    sources = [*ROOT.glob("flower_*/**/*.py"), *ROOT.glob("client/flower_client/*.py"), *ROOT.glob("tools/*")]
    sources += ROOT.glob("flower_core/texts/**/*.toml")
    said = "\n".join(path.read_text(encoding="utf-8") for path in sources if path.is_file())
    said += "\n".join(os.strerror(number) for number in errno.errorcode)
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    rows = [line.split(" | ")[0] for line in page.splitlines() if line.startswith("| ")]
    rows += [text for text in page.split("\n\n") if text.startswith("`")]
    quotes = [quote for row in rows for quote in re.findall(r"`([^`]+)`", row) if " " in quote]
    assert len(quotes) > 30
    for quote in quotes:
        for part in filter(None, (part.strip(" :") for part in re.split("…|NAME=", quote))):
            assert part in said, f"nobody says {part!r}"
