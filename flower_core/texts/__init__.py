"""All text a model or a person reads, one folder per language, one TOML file per topic.

``texts("human.timeout")`` looks up the key ``timeout`` in ``texts/<lang>/human.toml``. Placeholders are
``{name}``, filled by keyword; a literal brace is doubled, as in :meth:`str.format`.
"""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from flower_core.errors import UnknownLanguage

_HERE = Path(__file__).parent
#: The library's own default; the server has a setting for its runs.
DEFAULT_LANG = "zh"
LANGUAGES: tuple[str, ...] = tuple(sorted(entry.name for entry in _HERE.iterdir() if (entry / "human.toml").is_file()))


class Texts:
    """The texts of one language, looked up by dotted key. Immutable and shared; get one with :func:`texts_for`."""

    def __init__(self, lang: str, tables: dict[str, Any]) -> None:
        self.lang = lang
        self._tables = tables

    def __call__(self, key: str, /, **values: object) -> str:
        """The text at ``key`` with its placeholders filled. Raises KeyError for an unknown key or a missing value."""
        found = self._find(key)
        if not isinstance(found, str):
            raise KeyError(f"{key} is not a text but a {type(found).__name__} ({self.lang})")
        return found.format_map(values)

    def words(self, key: str, /) -> tuple[str, ...]:
        """The list of words at ``key``, such as the aliases of a heading. Raises KeyError when it is no list."""
        found = self._find(key)
        if not isinstance(found, list):
            raise KeyError(f"{key} is not a list ({self.lang})")
        return tuple(found)

    def _find(self, key: str) -> Any:
        found: Any = self._tables
        for part in key.split("."):
            if not isinstance(found, dict) or part not in found:
                raise KeyError(f"no text {key!r} for language {self.lang!r}")
            found = found[part]
        return found

    def flat(self) -> dict[str, Any]:
        """Every key with its raw value, dotted; what the test of completeness compares."""
        return dict(_walk(self._tables))


def _walk(table: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = []
    for key, value in table.items():
        if isinstance(value, dict):
            rows += _walk(value, f"{prefix}{key}.")
        else:
            rows.append((prefix + key, value))
    return rows


@cache
def texts_for(lang: str = DEFAULT_LANG) -> Texts:
    """The texts of ``lang``. Raises :class:`UnknownLanguage`, which names the languages there are."""
    if lang not in LANGUAGES:
        raise UnknownLanguage(f"no texts for language {lang!r}; there are: {', '.join(LANGUAGES)}")
    files = sorted((_HERE / lang).glob("*.toml"))
    return Texts(lang, {file.stem: tomllib.loads(file.read_text(encoding="utf-8")) for file in files})
