"""The menu that Ctrl-C opens, and what its choices do to the run."""

from __future__ import annotations

from flower_client.api import FlowerClient
from flower_client.errors import FlowerClientError

#: What the keyboard is told while the menu is on the screen; no question has such an id.
MENU = "(menu)"
MENU_LINES = (
    "",
    "The run goes on meanwhile. What now?  (Ctrl-C again leaves)",
    "   i [WORDS]  interrupt it; it goes on at once, with your words in mind.",
    "              What a subagent in flight has half done is lost.",
    "   l          leave it running and stop watching",
    "   c          cancel the run for good",
    "   (nothing)  go on watching",
)
LEAVE = "l"


def chosen(line: str) -> tuple[str, str] | None:
    """The letter of a choice, empty for none, and the words behind it; None when ``line`` is no choice."""
    letter, _, words = line.strip().partition(" ")
    return (letter.lower(), words.strip()) if letter.lower() in ("", "i", LEAVE, "c") else None


def carry_out(client: FlowerClient, run_id: str, letter: str, words: str) -> tuple[str, str]:
    """Do what ``letter`` stands for. Returns what to say about it, and the colour; raises nothing of the server's."""
    try:
        if letter == "i":
            client.interrupt(run_id, words)
            more = f" with your words: {words}" if words else ""
            return f"interrupted; what was under way is told as failed, and it goes on{more}", "green"
        if letter == "c":
            client.cancel(run_id)
    except FlowerClientError as error:
        return error.advice, "red"
    if letter == LEAVE:
        return f"left running; `flower-client watch {run_id}` comes back to it", "green"
    return "", ""
