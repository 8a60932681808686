r"""A play: what the scripted endpoint says, as data.

A play is a TOML file (or the same as a dict). Each top-level array is one speaker's replies; ``[play]``,
``[parameters]`` and ``[facts]`` are the only other tables::

    [play]
    title = "Greets somebody"
    gap = 0.02                                  # for every reply that does not say otherwise

    [parameters]                                # {rounds} in a reply; whoever loads the play may say otherwise
    rounds = 2

    [facts.name]                                # {name} in a reply
    pattern = 'My name is (\w+)'
    default = "stranger"

    [[coordinator]]
    when = { not = { called = "Read" } }
    text = "I shall look first."
    tools = [["Read", { file_path = "{workspace}/README.md" }]]

    [[coordinator]]
    text = "Hello {name}, this is what I read: {result}"

    [["judge/verdict"]]                         # a role whose prompt has the line `flower-turn: verdict`
    error = "overloaded"

**Parameters** follow the name of a play, or its file, after commas: ``long,tasks=12,pace=0``. Those of the play stand
in its table, with what they are when not given: whole numbers from 1, or texts. ``pace`` is one of every play: all
delays and gaps are multiplied by it, 0 to 100, so that with 0 there is no pause.

**Who speaks** is recognised by the line ``flower-role: <role>``, in the system prompt or the first prompt. For
``worker/coder`` the speakers ``worker/coder``, ``worker`` and ``default`` are tried; a request without a role goes
to ``default``.

**Which reply.** The first one, in the order written, whose ``when`` holds. When none does, the replies without
``when`` count: the one for this turn (0 for the first reply of the session, 1 for the second …), and past the end
the last. Conditions, all of which must hold; regular expressions are searched with ``.`` matching newlines:

==========  =================================================================================================
turn        this many replies are in the history: a number or a list of them
request     this speaker has been asked this often before, in all sessions together: a number or a list
prompt      a regex found in the prompt being answered
prompts     a regex found in any prompt of the session
called      a tool, a list of tools, or {tool = least number of calls}: called since that prompt
after       a tool or a list of tools: the last call since that prompt is one of these
result      {tool = regex}: what the tool's last call since that prompt gave back
values      {name = regex}: what a placeholder stands for
not         {…}: none of these conditions holds
==========  =================================================================================================

**What it says.** ``text``, ``thinking``, ``tools`` (each ``[name, input]`` or ``{name = …, input = …}``) or raw
``content`` blocks; ``stop`` (the stop reason), ``usage = {input_tokens = …}``, ``headers``. Seconds: ``delay`` before
the first byte, ``gap`` between deltas. Failures: ``error`` (a name from :data:`NAMED_ERRORS`, or ``[status, type,
message]``), ``sse_error = [type, message]`` after the stream has begun, ``cut = n`` closes the connection after n
stream events, ``hang = "name"`` holds the last delta until :meth:`RehearsalApp.release`.

**Placeholders**, in every string: ``{task}`` ``{prompt}`` ``{answer}`` ``{answers}`` ``{inbox}`` ``{result}`` (of the
last call since the prompt) ``{workspace}`` and the play's parameters and facts; ``{name!r}`` is the value as a Python
literal, ``{name!line}`` on one line. Braces around anything else stay as they are.

**Facts** are looked for ``in`` the "prompts" of the session (or the "prompt" being answered, the "system" prompt, a
tool's results by the tool's name, or a list of these). The value is the first group of the newest match of
``pattern``, one regex or a list; with ``join`` it is all different matches, joined by that text. Without a match it
is ``default``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flower_core.rehearsal import checks
from flower_core.rehearsal.checks import PlayError
from flower_core.rehearsal.conversation import VALUE_NAMES, Conversation
from flower_core.rehearsal.parameters import read_pace, read_parameters, split_name
from flower_core.rehearsal.parts import Fact, Reply, read_fact, read_reply

PLAYS_DIR = Path(__file__).parent / "plays"
DEFAULT_PLAY = "starter"

_PLAY_KEYS = ("title", "delay", "gap")
#: What stands in a play beside its speakers.
_TABLES = ("play", "parameters", "facts")


@dataclass(frozen=True)
class Play:
    """A checked play. Immutable; one object serves any number of sessions at once."""

    speakers: Mapping[str, tuple[Reply, ...]]
    facts: Mapping[str, Fact] = field(default_factory=dict)
    title: str = ""
    pace: float = 1.0
    parameters: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def load(cls, path_or_name: str | Path = DEFAULT_PLAY) -> Play:
        """Load a TOML file, or a shipped play by its name; parameters may follow, as in ``long,tasks=12,pace=0``.

        Raises PlayError (a ValueError) or FileNotFoundError.
        """
        name, given = split_name(str(path_or_name))
        path = PLAYS_DIR / f"{name}.toml" if name in shipped_plays() else Path(name)
        if not path.is_file():
            known = ", ".join(shipped_plays())
            raise FileNotFoundError(f"no play {name!r}: neither a file nor one of: {known}")
        try:
            data = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise PlayError(str(path), f"is not TOML: {error}") from None
        return cls.from_dict(data, given)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], given: Mapping[str, str] | None = None) -> Play:
        """Check and take over ``data``, which has the form of a play file; ``given`` are parameters as they were typed.

        Raises PlayError, naming the key.
        """
        play = checks.table(data, "play")
        head = checks.table(play.get("play", {}), "play", _PLAY_KEYS)
        facts = checks.table(play.get("facts", {}), "facts")
        speakers = {name: replies for name, replies in play.items() if name not in _TABLES}
        if not speakers:
            raise PlayError("play", "nobody speaks in it; give at least one speaker a list of replies")
        given = dict(given or {})
        pace = read_pace(given.pop("pace", "1"))
        parameters = read_parameters(play.get("parameters", {}), given)
        taken = (*VALUE_NAMES, *parameters)
        names = (*taken, *facts)
        return cls(
            speakers={name: _replies(replies, name, head, names) for name, replies in speakers.items()},
            facts={name: _named_fact(name, fact, taken) for name, fact in facts.items()},
            title=checks.text(head.get("title", ""), "play.title"),
            pace=pace,
            parameters=parameters,
        )

    def speaker(self, talk: Conversation) -> str:
        """The name under which this play holds replies for ``talk``; the most exact one where it holds none."""
        names = list(talk.speakers())
        return next((name for name in names if name in self.speakers), names[0])

    def values(self, talk: Conversation) -> dict[str, str]:
        """Every placeholder's value in ``talk``."""
        return {**talk.values(), **self.parameters, **{name: fact.value(talk) for name, fact in self.facts.items()}}

    def reply(self, talk: Conversation, request: int, values: Mapping[str, str]) -> Reply | None:
        """The reply for ``talk``, None when the play has none; ``request`` counts the speaker's requests from 0."""
        replies = self.speakers.get(self.speaker(talk), ())
        for reply in replies:
            if reply.when is not None and reply.when.holds(talk, request, values):
                return reply
        plain = [reply for reply in replies if reply.when is None]
        return plain[min(talk.turn, len(plain) - 1)] if plain else None


def shipped_plays() -> list[str]:
    """Names of the plays that come with the package."""
    return sorted(path.stem for path in PLAYS_DIR.glob("*.toml"))


def _replies(data: Any, name: str, head: Mapping[str, Any], names: Collection[str]) -> tuple[Reply, ...]:
    replies = checks.array(data, name)
    if not replies:
        raise PlayError(name, "has no replies")
    return tuple(read_reply(entry, f"{name}[{index}]", head, names) for index, entry in enumerate(replies))


def _named_fact(name: str, data: Any, taken: Collection[str]) -> Fact:
    where = f"facts.{name}"
    checks.placeholder(name, where, taken)
    return read_fact(data, where)
