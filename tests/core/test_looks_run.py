"""Looks, really run where everything is set to do harm: no file changes, no trap springs, each ends by itself.

``FUZZ_EXAMPLES`` is how many commands are made up; see CONTRIBUTING.md.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from flower_core.looks import RULES
from flower_core.quiet_git import quiet
from flower_core.shell import is_ephemeral
from tests.core.test_shell import CORPUS, LOOKS
from tests.core.trapped_repository import SPRINGS, TrappedRepository, trapped_repository

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "60"))


@pytest.fixture(scope="module")
def trapped(tmp_path_factory: pytest.TempPathFactory) -> TrappedRepository:
    return trapped_repository(tmp_path_factory.mktemp("trapped"))


def harm_of(here: TrappedRepository, before: dict[str, tuple[object, ...]], *commands: str) -> str:
    """What running the looks did that no look may do, "" for nothing."""
    for command in commands:
        here.run(quiet(command, here.repo))
    sprung, after = here.sprung(), here.snapshot()
    changed = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    return f"{commands}: {sprung or ''} {changed or ''}" if sprung or changed else ""


@pytest.mark.parametrize("trap", SPRINGS)
def test_a_trap_that_springs_for_whoever_is_careless_does_not_for_a_look(tmp_path: Path, trap: str) -> None:
    here = trapped_repository(tmp_path)
    command = SPRINGS[trap]
    assert is_ephemeral(command)
    assert harm_of(here, here.snapshot(), command) == ""
    here.run(command)
    assert trap in here.sprung()


@pytest.mark.parametrize("group", CORPUS["passes"])
def test_the_looks_that_are_known_do_no_harm(trapped: TrappedRepository, group: str) -> None:
    before = trapped.snapshot()
    assert harm_of(trapped, before, *CORPUS["passes"][group]) == ""


# ---- looks that are made up

_NAMES = ["a.txt", "b.drv", "c.wrd", "d.cln", "e.prc", "src", "src/a.py", "sub", "loop", "out", "gone", "missing", "."]
_ODD = ["-", "--", "--output=x", "-delete", "-f", "[a]", "*", "./*", "src/*", "$(id)", "; id", "a\nb", "~", "..", "+1f"]
_REVISIONS = ["HEAD", "HEAD~1", "side", "main..side", "HEAD:a.txt", ":/More", "--all", "HEAD~3:a.txt"]
_VALUES = ["1", "-1", "f", "5f", "needle", "x", "now", "%G?", "%h", "auto", "always", "all", "none", "", "a.txt", "+2"]
_GLUE = [" | ", " && ", " || ", "; ", ";", " |& ", "|", " & ", "\n", " ;; ", "\r", "\x00"]
_BITS = [
    *"$`'\"\\{}()<>|&;!~#*?[]=- \t\n\r",
    "$(touch x)",
    ">x",
    "2>&1",
    ">/dev/null",
    "<<<x",
    "&&",
    "-f",
    "--",
    "$'",
    "\u00a0",
]


@st.composite
def built(draw: st.DrawFn) -> str:
    """A command of the right form: a known name, flags it may carry, values, names of files and revisions."""
    name = draw(st.sampled_from([*RULES, "find"]))
    flags = (
        [*RULES[name].flags.items()] if name in RULES else [("-name", ":"), ("-type", ":"), ("-newer", ":"), ("-o", "")]
    )
    words = name.split()
    for flag, kind in draw(st.lists(st.sampled_from(flags), max_size=4)):
        value = draw(st.sampled_from([*_VALUES, *_NAMES]))
        flag = f"-{value}" if flag == "-NUM" else flag
        attached = flag + ("=" if flag.startswith("--") else "") + value
        forms = {"": [[flag]], ":": [[flag, value], [attached]], "?": [[flag], [attached]], "=": [[attached]]}
        words += draw(st.sampled_from(forms[kind]))
    words += draw(st.lists(st.sampled_from([*_NAMES, *_ODD, *(_REVISIONS if words[0] == "git" else ())]), max_size=3))
    quoted = draw(st.booleans())
    return " ".join([words[0], *(shlex.quote(word) if quoted else word for word in words[1:])])


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A known look into which some bits are put, or from which a piece is cut."""
    command = draw(st.sampled_from(LOOKS))
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(command)))
        cut = draw(st.integers(0, 3))
        command = command[:at] + draw(st.sampled_from([*_BITS, *_NAMES, *_VALUES])) + command[at + cut :]
    return command


@st.composite
def commands(draw: st.DrawFn) -> str:
    simple = st.one_of(built(), mutated())
    parts = draw(st.lists(simple, min_size=1, max_size=2))
    return draw(st.sampled_from(_GLUE)).join(parts)


@settings(
    max_examples=EXAMPLES, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
@given(st.lists(commands(), min_size=6, max_size=12))
def test_whatever_passes_changes_nothing_and_ends(trapped: TrappedRepository, made: list[str]) -> None:
    looks = [command for command in made if is_ephemeral(command)]
    event(f"{len(looks)} looks")
    assert harm_of(trapped, trapped.snapshot(), *looks) == ""
