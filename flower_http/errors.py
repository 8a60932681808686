"""Errors as the wire sees them: RFC 9457 problem documents with stable types.

::

    Problem            anything a client is told; raised anywhere below a view, rendered by the app and by poll.py

Clients key on ``type`` alone, a stable slug.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

CONTENT_TYPE = "application/problem+json"


class Problem(Exception):
    """A request that ends in an error document.

    ``slug`` is the stable type, ``status`` the HTTP status, ``detail`` says what was wrong and what to do,
    ``headers`` go onto the reply, ``extra`` become further members of the document.
    """

    def __init__(
        self,
        status: int,
        slug: str,
        detail: str,
        *,
        title: str = "",
        headers: Mapping[str, str] | None = None,
        **extra: Any,
    ) -> None:
        super().__init__(f"{status} {slug}: {detail}")
        self.status = status
        self.slug = slug
        self.detail = detail
        self.title = title or HTTPStatus(status).phrase
        self.headers = dict(headers or {})
        self.extra = extra

    def document(self) -> dict[str, Any]:
        """The members of the problem document."""
        return {"type": self.slug, "title": self.title, "status": self.status, "detail": self.detail, **self.extra}

    def body(self) -> bytes:
        """The document, encoded."""
        return json.dumps(self.document(), ensure_ascii=False).encode()
