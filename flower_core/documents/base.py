"""What all documents share: sections in, Markdown out, files written in one step."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Self

from flower_core.documents.sections import Catalogue, catalogue, is_placeholder, shield
from flower_core.files import atomic_write, read_text
from flower_core.texts import texts_for


class Document:
    """A document with named sections. Subclasses are dataclasses that say which sections there are."""

    #: Name of the document in the texts and in the catalogue of headings.
    kind: ClassVar[str]
    #: Keys of the sections without which the document is not complete.
    required: ClassVar[tuple[str, ...]]
    lang: str

    @classmethod
    def parse(cls, text: str, *, lang: str = "zh") -> Self:
        """Read a document out of ``text`` a model or a person wrote. Never raises for what the text says."""
        raise NotImplementedError

    def sections(self) -> dict[str, str]:
        """Every section's text by key, in order; empty where nothing is filled in."""
        raise NotImplementedError

    def missing(self) -> list[str]:
        """The display names of the required sections that are empty, in the document's language."""
        held = self.sections()
        return [self._title(key) for key in self.required if is_placeholder(held[key])]

    def complete(self) -> bool:
        """Whether no required section is empty."""
        return not self.missing()

    def to_markdown(self) -> str:
        """The document as Markdown; :meth:`parse` reads it back."""
        names, empty = self._names(), self._say("placeholder")
        return "\n".join(
            f"# {self._title(key)}\n\n{shield(body, names).strip() or empty}\n" for key, body in self.sections().items()
        )

    def prompt_block(self) -> str:
        """The filled sections, compact, for use inside a prompt."""
        return "\n\n".join(
            f"## {self._title(key)}\n{body.strip()}" for key, body in self.sections().items() if body.strip()
        )

    def write(self, path: Path | str) -> None:
        """Write the Markdown form to ``path`` in one step. Raises OSError."""
        atomic_write(path, self.to_markdown())

    @classmethod
    def load(cls, path: Path | str, *, lang: str = "zh") -> Self:
        """Read the document at ``path``. Raises FileNotFoundError when there is none, else OSError."""
        return cls.parse(read_text(path), lang=lang)

    def _title(self, key: str) -> str:
        return self._say(f"{self.kind}.{key}")

    def _names(self) -> Catalogue:
        return catalogue(self.kind)

    def _say(self, key: str, /, **values: object) -> str:
        return texts_for(self.lang)(f"documents.{key}", **values)
