"""The files of a run's workspace and the documents of the run, for reading."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from flask import Blueprint, request
from werkzeug.datastructures import Headers
from werkzeug.http import http_date, is_resource_modified, quote_etag

from flower_http.documents import Document
from flower_http.encode import rfc3339
from flower_http.errors import Problem
from flower_http.files import Entry, OpenFile
from flower_http.paging import cursor_of, limit_up_to, seal_cursor
from flower_http.replies import FileReply, Reply, json_reply
from flower_http.routes.view import Param, manager, view

blueprint = Blueprint("files", __name__)

_MOST_NAMES = 1000
_PAGE = (Param("limit", limit_up_to(_MOST_NAMES), _MOST_NAMES), Param("cursor", cursor_of("files"), ""))


@view(blueprint, "GET", "/runs/<run_id>/documents", scope="read")
def documents(run_id: str) -> Reply:
    """Brief, goal, questions, handoffs: what there is."""
    return json_reply({"run": run_id, "documents": [_about(each) for each in manager().documents(run_id)]})


@view(blueprint, "GET", "/runs/<run_id>/documents/<name>", scope="read")
def document(run_id: str, name: str) -> Reply:
    """One document, as Markdown."""
    found = next((each for each in manager().documents(run_id) if each.name == name), None)
    if found is None:
        detail = f"there is no document {name[:80]!r} (yet); GET /runs/{run_id}/documents lists those there are"
        raise Problem(404, "unknown-document", detail)
    changed = ("Last-Modified", http_date(found.modified))
    return Reply(200, found.text.encode(), (("Content-Type", "text/markdown; charset=utf-8"), changed))


@view(blueprint, "GET", "/runs/<run_id>/files", scope="read", query=_PAGE)
def files(run_id: str, query: dict[str, Any]) -> Reply:
    """What lies in the workspace."""
    return _listing(run_id, b"", query)


@view(blueprint, "GET", "/runs/<run_id>/files/<path:path>", scope="read", query=_PAGE)
def file(run_id: str, path: str, query: dict[str, Any]) -> Reply | FileReply:
    """A directory of the workspace, or the bytes of a file."""
    # The path as it was sent: what Flask hands over has lost the bytes that are no UTF-8.
    raw = request.environ["PATH_INFO"].encode("latin-1").split(b"/", 4)[4]
    opened = manager().files(run_id).open(raw)
    return _listing(run_id, raw, query) if opened is None else _bytes(opened, raw.rpartition(b"/")[2])


def _about(document: Document) -> dict[str, Any]:
    size = len(document.text.encode())
    return {
        "name": document.name,
        "title": document.title,
        "size": size,
        "modified": rfc3339(document.modified),
    }


def _listing(run_id: str, path: bytes, query: dict[str, Any]) -> Reply:
    part = manager().files(run_id).list(path, limit=query["limit"], after=os.fsencode(query["cursor"]))
    base = f"/runs/{run_id}/files/" + (quote(path) + "/" if path else "")
    following = None if part.following is None else seal_cursor("files", os.fsdecode(part.following))
    return json_reply(
        {
            "run": run_id,
            "path": path.decode("utf-8", "replace"),
            "entries": [_entry(each, base) for each in part.entries],
            "next_cursor": following,
        }
    )


def _entry(entry: Entry, base: str) -> dict[str, Any]:
    return {
        "name": entry.name.decode("utf-8", "replace"),
        "type": entry.kind,
        "size": entry.size,
        "modified": rfc3339(entry.modified),
        "href": base + quote(entry.name),
    }


def _bytes(opened: OpenFile, name: bytes) -> Reply | FileReply:
    """The file, the part of it that was asked for, or that it has not changed; closes it where it is not sent."""
    etag, changed = quote_etag(opened.etag), datetime.fromtimestamp(int(opened.modified), UTC)
    headers = Headers()  # no browser runs what an agent has written: see flower_http/headers.py
    headers["ETag"], headers["Last-Modified"] = etag, http_date(changed)
    if not _expected(opened.etag, changed):
        opened.close()
        detail = "the file is no longer the one that If-Match or If-Unmodified-Since means"
        raise Problem(412, "precondition-failed", detail, headers={"ETag": etag})
    # Without If-Match, which is told of above: werkzeug would say 304 where it does not match.
    environ = {name: value for name, value in request.environ.items() if name != "HTTP_IF_MATCH"}
    if not is_resource_modified(environ, etag, last_modified=changed):
        opened.close()
        return Reply(304, b"", tuple(headers))
    headers["Content-Type"] = "application/octet-stream"
    headers["Content-Disposition"] = f"attachment; filename*=UTF-8''{quote(name, safe='')}"
    headers["Accept-Ranges"] = "bytes"
    status, start, stop = 200, 0, opened.size
    wanted = request.range
    # Of several ranges, or one in another unit, the whole file is a right answer, too (RFC 9110, section 14.2).
    if wanted is not None and wanted.units == "bytes" and len(wanted.ranges) == 1 and _unchanged(etag, changed):
        span = _span(*wanted.ranges[0], opened.size)
        if span is None:
            opened.close()
            raise Problem(
                416,
                "range-not-satisfiable",
                f"the file has {opened.size} bytes",
                headers={"Content-Range": f"bytes */{opened.size}"},
            )
        status, (start, stop) = 206, span
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{opened.size}"
    opened.narrow(start, stop)
    headers["Content-Length"] = str(stop - start)
    return FileReply(status, opened, tuple(headers))


def _span(first: int, end: int | None, size: int) -> tuple[int, int] | None:
    """Which bytes a range means, the last one exclusive; None for none. A negative ``first`` counts from the end.

    Not werkzeug's, which refuses the last 100 bytes of a file that has only 10 (RFC 9110, section 14.1.2, gives those).
    """
    start = max(0, size + first) if first < 0 else first
    stop = size if end is None else min(end, size)
    return (start, stop) if start < stop else None


def _expected(etag: str, changed: datetime) -> bool:
    """Whether the file is the one that If-Match means, else If-Unmodified-Since (RFC 9110, section 13.2.2)."""
    if "If-Match" in request.headers:
        return etag in request.if_match
    return request.if_unmodified_since is None or changed <= request.if_unmodified_since


def _unchanged(etag: str, changed: datetime) -> bool:
    """Whether the file is still the one that If-Range means, where it is sent."""
    return "If-Range" not in request.headers or not is_resource_modified(
        request.environ, etag, last_modified=changed, ignore_if_range=False
    )
