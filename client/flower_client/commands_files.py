"""docs, files: what a run has agreed on, and what lies in its workspace."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

import click

from flower_client.api import FlowerClient
from flower_client.app import App, command, option, pass_app, put
from flower_client.complete import document, run_id
from flower_client.files import FileList
from flower_client.render import table
from flower_client.safe_text import one_line

#: The most of a file that is shown on a terminal, in bytes.
_MOST_SHOWN = 1024 * 1024


@command()
@run_id
@document
@pass_app
def docs(app: App, run_id: str, name: str | None) -> None:
    """List the documents of a run, or print one.

    They are brief, goal, questions, handoff-1 and so on. Of a run that has ended they are as they were at its end.
    """
    with app.client() as client:
        if name is not None:
            text = client.document(run_id, name)
            app.put({"name": name, "text": text}, text.splitlines())
            return
        found = client.documents(run_id)
    rows = [[each.name, each.title, str(each.size), each.modified] for each in found]
    app.put({"documents": [each.raw for each in found]}, table(rows, ["DOCUMENT", "TITLE", "BYTES", "MODIFIED"]))


@command()
@run_id
@click.argument("path", default="")
@option("-o", "--output", metavar="FILE", help="Where to write the file at PATH; - for standard output.")
@option("--cursor", default="", metavar="CURSOR", help="Go on where an earlier list of the directory ended.")
@pass_app
def files(app: App, run_id: str, path: str, output: str | None, cursor: str) -> None:
    """List a directory of a run's workspace, or get the file at PATH.

    Without -o a file goes to standard output, where a terminal shows it without what it would act on.
    """
    with app.client() as client:
        if not path or cursor:
            if output is not None:
                raise click.UsageError("-o is for one file; name it with PATH")
            _list(app, run_id, path, client.files(run_id, path, cursor=cursor))
        elif output in (None, "-"):
            _show(app, client, run_id, path, terminal=output is None)
        else:
            with _written(str(output)) as out:
                if client.fetch(run_id, path, out) is not None:
                    raise click.UsageError(f"{path} is a directory; leave out -o to list it")
            app.put({"written": output}, [f"{one_line(str(output))} is written"])


def _show(app: App, client: FlowerClient, run_id: str, path: str, *, terminal: bool) -> None:
    out = sys.stdout.buffer
    shown = _Shown() if terminal and out.isatty() else None
    listing = client.fetch(run_id, path, shown or out)
    if listing is not None:
        _list(app, run_id, path, listing)
    elif shown is not None:
        put(shown.getvalue().decode("utf-8", "replace").splitlines())
    else:
        out.flush()


def _list(app: App, run_id: str, path: str, listing: FileList) -> None:
    rows = [
        [each.name + ("/" if each.kind == "directory" else ""), each.kind, _size(each.size), each.modified]
        for each in listing.entries
    ]
    app.put(listing.raw, table(rows, ["NAME", "TYPE", "BYTES", "MODIFIED"]))
    if listing.next_cursor and not app.as_json:
        where = one_line(f"{run_id} {path}".strip())
        click.echo(f"more: flower-client files {where} --cursor {one_line(listing.next_cursor, 600)}", err=True)


def _size(size: int | None) -> str:
    return "" if size is None else str(size)


class _Shown(io.BytesIO):
    """Takes as much as can be shown."""

    def write(self, data: bytes, /) -> int:  # type: ignore[override]  # chunks of a download are bytes
        """Raises UsageError for more than that."""
        if self.tell() + len(data) > _MOST_SHOWN:
            raise click.UsageError("that is too long for a terminal; write it to a file with -o FILE")
        return super().write(data)


@contextmanager
def _written(name: str) -> Iterator[BinaryIO]:
    """A file that gets its name when all is in it. Raises UsageError when it cannot be written."""
    part = f"{name}.part"
    try:
        with open(part, "w+b") as out:
            yield out
        os.replace(part, name)
    except OSError as error:
        raise click.UsageError(f"{name} cannot be written: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            os.unlink(part)
