"""Long outputs of tools as files that are named by what they hold."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from flower_core.files import atomic_write, read_bytes
from flower_core.rights import acting_for
from flower_core.texts import DEFAULT_LANG, texts_for

#: The directory's name, below the root of a workbench.
FOLDER = "spill"
_POINTER = re.compile(rf"[^\n]*{FOLDER}[/\\][0-9a-f]{{16}}\.txt[^\n]*")


class OutputFiles:
    """Keeps texts as ``<folder>/<first 16 hexadecimal digits of their SHA-256>.txt``, readable by their owner alone.

    A text that comes again is kept once. ``folder`` has its symlinks resolved. Pointers name files absolutely: the
    current directory of an agent's tools is not always the workspace.
    """

    def __init__(self, folder: Path, lang: str = DEFAULT_LANG) -> None:
        self.folder = folder
        self._text = texts_for(lang)

    def keep(self, text: str) -> Path:
        """Keep ``text`` and return the file it is in.

        Raises OSError, also when the directory has become a link to somewhere else.
        """
        data = text.encode("utf-8", "replace")
        path = self.folder / f"{hashlib.sha256(data).hexdigest()[:16]}.txt"
        if Path(os.path.realpath(path)) != path:
            raise OSError(f"{path} leads elsewhere by a link")
        # Of the same size is as good as equal: the name says what is in it, and half a file is never met.
        if not path.is_file() or path.stat().st_size != len(data):
            atomic_write(path, text, private=True)
        return path

    def read(self, path: Path) -> str:
        """What a file the agent program has named holds as UTF-8, line ends as they are. Raises OSError.

        It is read with the rights of whoever owns the folder: the name may have been made up by an agent.
        """
        with acting_for(self.folder):
            return read_bytes(path).decode("utf-8", "replace")

    def remove(self, path: Path) -> None:
        """Remove such a file, with the same rights. Raises OSError."""
        with acting_for(self.folder):
            path.unlink(missing_ok=True)

    def pointer(self, path: Path, chars: int) -> str:
        """The line that says that a text of ``chars`` characters is in ``path``."""
        return self._text("spill.pointer", chars=chars, path=path)

    def owns(self, path: Path | str) -> bool:
        """Whether ``path``, symlinks resolved, lies in the directory."""
        return Path(os.path.realpath(path)).is_relative_to(self.folder)


def is_pointer(text: str) -> bool:
    """Whether ``text`` is nothing but the line :meth:`OutputFiles.pointer` returns, in whatever language."""
    return _POINTER.fullmatch(text.strip()) is not None
