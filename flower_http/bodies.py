"""From the bytes of a request to a dict: strict JSON, or a form whose fields are strings."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qsl

from flower_http.errors import Problem, bad_parameter, invalid_body

_FORM = "application/x-www-form-urlencoded"
_MOST_FIELDS = 100


def decode(raw: bytes, content_type: str, encoding: str = "") -> dict[str, Any]:
    """The fields in ``raw``, sent with this Content-Type and Content-Encoding. An empty body has none.

    Raises Problem 415 for another type than JSON or a form, and for what is compressed, 400 for what is not what its
    type says, 422 for JSON that is no object or names a field twice.
    """
    if not raw:
        return {}
    if encoding.strip().lower() not in ("", "identity"):
        detail = f"send the body as it is, not with Content-Encoding {encoding[:100]!r}"
        raise Problem(415, "unsupported-media-type", detail, headers={"Accept-Encoding": "identity"})
    media_type, _, parameters = content_type.partition(";")
    kind = media_type.strip().lower()
    charset = parameters.partition("charset=")[2].strip().strip('"').lower()
    if kind not in ("application/json", _FORM) or charset not in ("", "utf-8", "utf8"):
        detail = f"send application/json or {_FORM} in UTF-8, not {content_type[:100]!r}"
        raise Problem(415, "unsupported-media-type", detail, headers={"Accept": f"application/json, {_FORM}"})
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Problem(400, "bad-json", f"the body is not UTF-8: {error}") from error
    return _form(text) if kind == _FORM else _json(text)


def _json(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text, object_pairs_hook=_no_twins, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise Problem(400, "bad-json", f"the body is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise invalid_body({"_schema": ["the body must be a JSON object"]})
    if len(document) > _MOST_FIELDS:
        raise invalid_body({"_schema": [f"the body may have at most {_MOST_FIELDS} fields"]})
    return document


def _no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"a name stands twice: {name[:80]!r}")
        found[name] = value
    return found


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _form(text: str) -> dict[str, Any]:
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS)
    except (ValueError, UnicodeDecodeError) as error:
        raise Problem(400, "bad-json", f"the form cannot be decoded: {error}") from error
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise invalid_body({name: ["stands twice"]})
        found[name] = value
    return found


def decode_query(raw: str) -> dict[str, str]:
    """The parameters in a query string, each once. Raises Problem 400 naming one that is repeated or malformed."""
    try:
        pairs = parse_qsl(raw, keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS)
    except (ValueError, UnicodeDecodeError) as error:
        raise bad_parameter(raw[:40], f"cannot be decoded: {error}") from error
    found: dict[str, str] = {}
    for name, value in pairs:
        if name in found:
            raise bad_parameter(name, "stands twice")
        found[name] = value
    return found
