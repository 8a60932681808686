"""What the shell offers behind a command's name: runs, questions and documents, as far as the server tells at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import click
from click.shell_completion import CompletionItem

import flower_client
from flower_client.app import App
from flower_client.errors import FlowerClientError
from flower_client.safe_text import one_line

#: How long somebody who pressed the tabulator key waits for a server, in seconds.
_PATIENCE_S = 2.0
#: What a shell takes for nothing but a word. It splits and expands what it is offered.
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

Offers = Iterable[tuple[str, str]]


def _offering(
    find: Callable[[flower_client.FlowerClient, click.Context], Offers],
) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem[str]]]:
    """Turns what ``find`` gives, as pairs of word and meaning, into what click wants. Without a server, nothing."""

    def offer(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        given = ctx.find_root().params
        try:
            with App(given.get("url"), given.get("token")).client(attempts=1, timeout_s=_PATIENCE_S) as client:
                offers = list(find(client, ctx))
        except FlowerClientError:
            return []
        return [
            CompletionItem(word, help=one_line(meaning, 60) or None)
            for word, meaning in offers
            if word.startswith(incomplete) and _PLAIN.fullmatch(word)
        ]

    return offer


def _runs(client: flower_client.FlowerClient, ctx: click.Context) -> Offers:
    return ((run.id, f"{run.state}: {run.task}") for run in client.runs(limit=50).runs)


def _asks(client: flower_client.FlowerClient, ctx: click.Context) -> Offers:
    return ((ask.id, ask.question) for ask in client.asks(ctx.params["run_id"]))


def _documents(client: flower_client.FlowerClient, ctx: click.Context) -> Offers:
    return ((document.name, document.title) for document in client.documents(ctx.params["run_id"]))


run_id = click.argument("run_id", shell_complete=_offering(_runs))
ask_id = click.argument("ask_id", shell_complete=_offering(_asks))
document = click.argument("name", required=False, shell_complete=_offering(_documents))
