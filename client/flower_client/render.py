"""Events as lines of text for a person. Pure: events in, lines out; nothing is printed here."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import click

from flower_client.counting import Loss
from flower_client.models import Ask, Event, Run
from flower_client.safe_text import clean, json_line, one_line

#: What --show may name; steps, questions, retries, handoffs and errors are always shown.
SHOWABLE = ("text", "thinking", "tools", "all")
DEFAULT_SHOW = frozenset({"text", "tools"})
#: The most characters of one text that are shown unless everything is.
LONGEST = 8000
_GAPS = re.compile(r"\n(?:[ \t]*\n){2,}")

_STATE_COLOURS = {"succeeded": "green", "failed": "red", "cancelled": "yellow", "interrupted": "yellow"}
_VERDICT_COLOURS = {"achieved": "green", "not_yet": "yellow", "unreachable": "red"}


class Renderer:
    """Turns events into lines.

    ``show`` holds names from :data:`SHOWABLE`; ``subagents`` adds what subagents say and do. With ``colour`` False the
    lines hold no escape sequence at all.
    """

    def __init__(self, *, show: frozenset[str] = DEFAULT_SHOW, subagents: bool = False, colour: bool = True) -> None:
        self._show = frozenset(SHOWABLE) if "all" in show else show
        self._everything = "all" in show
        self._subagents = subagents
        self._colour = colour
        self._handlers: dict[str, Callable[[Event], list[str]]] = {
            "text": self._text,
            "thinking": self._thinking,
            "tool_call": self._tool_call,
            "tool_result": self._tool_result,
            "step": self._step,
            "ask": self._ask,
            "retry": lambda event: [self.style(f"↻ {one_line(event.text, 400)}", fg="yellow")],
            "handoff": lambda event: [self.style(f"⇢ {one_line(event.text, 400)}", fg="magenta")],
            "error": lambda event: [self.style(f"error: {one_line(event.text, 1000)}", fg="red")],
            "reset": lambda event: [self.style(f"({one_line(event.text)})", dim=True)],
            "result": self._result,
            "task": self._task,
            "system": self._system,
        }

    def style(self, text: str, **how: Any) -> str:
        """``text`` in colour, or as it is."""
        return click.style(text, **how) if self._colour else text

    def event(self, event: Event) -> list[str]:
        """The lines for one event; none where it is not to be shown."""
        who = event.payload.get("subagent") or event.payload.get("parent_tool_use_id")
        if who and not self._subagents:
            return []
        lines = self._handlers.get(event.kind, self._other)(event)
        if not who:
            return lines
        name = one_line(who, 40) if isinstance(event.payload.get("subagent"), str) else "subagent"
        return [self.style(f"  {name} │ ", fg="cyan") + line for line in lines]

    def question(self, ask: Ask) -> list[str]:
        """A question with its numbered options; after them the number of questions left, where there is a quota."""
        head, *more = self._body(ask.question) or [""]
        lines = ["", self.style(f"? {one_line(ask.id, 40)}  {head}", fg="yellow", bold=True)]
        lines += [f"      {line}" for line in more]
        digits = len(str(len(ask.options)))
        lines += [f"   {number:>{digits}}) {one_line(option, 500)}" for number, option in enumerate(ask.options, 1)]
        notes = [f"{ask.remaining} questions left"] if ask.remaining >= 0 else []
        notes += [f"waits until {one_line(clock(ask.expires_at), 40)}"] if ask.expires_at else []
        return lines + ([self.style(f"   ({', '.join(notes)})", dim=True)] if notes else [])

    def summary(self, run: Run, losses: Sequence[Loss]) -> list[str]:
        """How a run ended: verdict, state, cost, time, where its manifest is, and what the watch lost."""
        lines = [""]
        if run.verdict and run.verdict.state:
            colour = _VERDICT_COLOURS.get(run.verdict.state, "white")
            verdict = self.style(one_line(run.verdict.state), fg=colour, bold=True)
            lines.append(f"verdict   {verdict}  {one_line(run.verdict.reason, 500)}".rstrip())
            lines += [f"          not passed: {one_line(check, 300)}" for check in run.verdict.failed]
        state = self.style(one_line(run.state), fg=_STATE_COLOURS.get(run.state, "white"), bold=True)
        because = run.aborted or run.error or (f"at step {run.failed_at}" if run.failed_at else "")
        lines.append(f"run       {state}" + (f"  {one_line(because, 500)}" if because else ""))
        lines.append(f"cost      ${run.cost_usd:.2f} in {run.num_turns} turns")
        lines.append(f"time      {duration(run.started_at or run.created_at, run.ended_at)}")
        lines.append(f"manifest  flower-client steps {one_line(run.id)}")
        return lines + [self.style(f"lost      {loss}", fg="red", bold=True) for loss in losses]

    def _body(self, text: str) -> list[str]:
        """The lines of ``text``; unless everything is shown, without rows of blank ones, and cut when very long."""
        whole = clean(text).strip("\n")
        if self._everything:
            return whole.splitlines()
        whole = _GAPS.sub("\n\n", whole)
        if len(whole) <= LONGEST:
            return whole.splitlines()
        left = self.style(f"({len(whole) - LONGEST} more characters; --show all shows them)", dim=True)
        return [*whole[:LONGEST].splitlines(), left]

    def _text(self, event: Event) -> list[str]:
        return self._body(event.text) if "text" in self._show else []

    def _thinking(self, event: Event) -> list[str]:
        if "thinking" not in self._show:
            return []
        return [self.style(f"  ~ {line}", dim=True, italic=True) for line in self._body(event.text)]

    def _tool_call(self, event: Event) -> list[str]:
        if "tools" not in self._show:
            return []
        given = event.payload.get("input")
        name = f"  [{one_line(event.tool, 60)}]"
        if self._everything and isinstance(given, dict):
            return [self.style(line, dim=True) for line in (name, *_arguments(given))]
        return [self.style(f"{name} {one_line(event.text)}".rstrip(), dim=True)]

    def _tool_result(self, event: Event) -> list[str]:
        failed = event.payload.get("is_error") is True
        if "tools" not in self._show or not (failed or self._everything):
            return []
        mark = "failed: " if failed else "= "
        lines = self._body(event.text) if self._everything else [one_line(event.text)]
        head, *more = lines or [""]
        return [self.style(f"    {line}", dim=True) for line in (mark + head, *more)]

    def _step(self, event: Event) -> list[str]:
        index, total = event.payload.get("index"), event.payload.get("total")
        part = "#" in event.text  # Work·verdict#2 and Work#round2 are parts of the step Work
        place = f"{index}/{total} " if isinstance(index, int) and isinstance(total, int) else ""
        notes = [word for word in ("woke", "resumed") if event.payload.get(word) is True]
        title = f"{place}{one_line(event.text, 100)}" + (f" ({', '.join(notes)})" if notes else "")
        return ["", self.style(f"·· {title}" if part else f"── {title} ──", fg="blue", bold=True)]

    def _ask(self, event: Event) -> list[str]:
        ask = Ask.from_event(event)
        if ask is None:
            return self._mail(event)
        if ask.waiting:
            return self.question(ask)
        said = one_line(ask.answer, 400)
        by = f" by {one_line(ask.answered_by, 60)}" if ask.answered_by else ""
        line = f"? {one_line(ask.id, 40)}  {one_line(ask.state, 40)}{by}" + (f": {said}" if said else "")
        return [self.style(line, fg="yellow")]

    def _mail(self, event: Event) -> list[str]:
        state, words = one_line(str(event.payload.get("state") or "said"), 40), one_line(event.text, 400)
        return [self.style(f"✉ {state}: {words}" if words else f"✉ {state}", fg="cyan")]

    def _result(self, event: Event) -> list[str]:
        if event.payload.get("is_error") is True:
            return [self.style(f"this turn did not end well ({one_line(event.text)})", fg="red")]
        return self._other(event)

    def _task(self, event: Event) -> list[str]:
        unverifiable = event.payload.get("unverifiable")
        if not unverifiable:
            return self._other(event)
        count = len(unverifiable) if isinstance(unverifiable, list) else one_line(str(unverifiable), 20)
        total = one_line(str(event.payload.get("total", "?")), 20)
        return [self.style(f"warning: {count} of {total} checks cannot be verified here", fg="yellow", bold=True)]

    def _system(self, event: Event) -> list[str]:
        if not event.text.startswith("run.") or event.text == "run.finished":
            return self._other(event)
        reason = event.payload.get("error") or event.payload.get("reason")
        more = f": {one_line(reason)}" if isinstance(reason, str) and reason else ""
        line = f"· run {one_line(event.text.removeprefix('run.'))}{more}"
        return [self.style(line, **({"fg": "yellow"} if event.text == "run.interrupted" else {"dim": True}))]

    def _other(self, event: Event) -> list[str]:
        if not self._everything:
            return []
        return [self.style(f"  <{one_line(event.kind, 40)}> {one_line(event.text)}".rstrip(), dim=True)]


def _arguments(given: Mapping[str, Any]) -> list[str]:
    """What a tool was called with, a line for each argument, and the lines of long ones below their names."""
    lines = []
    for name, value in given.items():
        head, *more = clean(value if isinstance(value, str) else json_line(value)).splitlines() or [""]
        lines += [f"    {one_line(name, 60)}: {head}", *(f"      {line}" for line in more)]
    return lines


def clock(at: str) -> str:
    """An RFC 3339 time as local ``HH:MM:SS``; unchanged when it is none."""
    try:
        return datetime.fromisoformat(at).astimezone().strftime("%H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return at


def duration(start: str, end: str) -> str:
    """The time between two RFC 3339 times, such as ``1 h 02 min 03 s``; ``unknown`` when either is none."""
    try:
        seconds = (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()
    except (ValueError, TypeError):
        return "unknown"
    minutes, rest = divmod(max(round(seconds), 0), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min {rest:02d} s"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def table(rows: Sequence[Sequence[str]], header: Sequence[str]) -> list[str]:
    """``rows`` under ``header``, in columns two spaces apart. Every cell is cleaned; the last column is not padded."""
    cells = [list(header), *([one_line(cell, 80) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    return [
        "  ".join(cell if column == len(row) - 1 else cell.ljust(widths[column]) for column, cell in enumerate(row))
        for row in cells
    ]
