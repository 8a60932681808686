"""The workbench: a directory where what is worth keeping between contexts lies, with an index of it.

Scripts, long output and notes stand in files; the agent sees one short index of them in every turn. Where the
workbench lies inside the workspace its paths are shown relative to it, otherwise absolute.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from flower_core.files import atomic_write, open_regular
from flower_core.output_files import FOLDER
from flower_core.rights import acting_for
from flower_core.texts import DEFAULT_LANG, texts_for

#: A script says what it does in a line ``# desc: …`` among its first lines.
DESC_MARK = "# desc:"
DESC_LINES = 8
_DESC_CHARS = 120
_LINE_BYTES = 400
SECTIONS = ("scripts", "artifacts", "notes")
#: The directory of a workbench inside its workspace.
DIRNAME = ".flower"
#: What the name of a workbench beside its workspace begins with; the workspace's own name follows.
BESIDE = ".flower-"


@dataclass(frozen=True)
class Entry:
    """One file of the workbench: its section, path, size in bytes, modification time, and what it says it is."""

    section: str
    path: Path
    size: int
    modified: float
    desc: str = ""


class Workbench:
    """The directories ``scripts``, ``artifacts`` and ``notes`` and the index ``INDEX.md`` above them.

    The root is ``<workspace>/<dirname>``, or ``home`` when given (absolute, or relative to the workspace);
    a root outside the workspace is ``external``. At most ``max_index_entries`` files (at least 1) of each
    section are listed, the newest first. Nothing is made before :meth:`ensure`.
    """

    def __init__(
        self,
        workspace: Path | str,
        dirname: str = DIRNAME,
        max_index_entries: int = 40,
        home: Path | str | None = None,
        lang: str = DEFAULT_LANG,
    ) -> None:
        if max_index_entries < 1:
            raise ValueError(f"max_index_entries must be at least 1, not {max_index_entries}")
        if home is None and (Path(dirname).name != dirname or dirname in ("", ".", "..")):
            raise ValueError(f"dirname must be one plain name, not {dirname!r}; use home for another place")
        self.workspace = Path(workspace).resolve()
        self.root = (self.workspace / (dirname if home is None else Path(home).expanduser())).resolve()
        self.max_index_entries = max_index_entries
        self.lang = lang
        self._text = texts_for(lang)

    @property
    def scripts(self) -> Path:
        """Where reusable scripts go."""
        return self.root / "scripts"

    @property
    def artifacts(self) -> Path:
        """Where long output goes."""
        return self.root / "artifacts"

    @property
    def notes(self) -> Path:
        """Where documents go: brief, goal, questions, handoffs."""
        return self.root / "notes"

    @property
    def spill(self) -> Path:
        """Where outputs of tools go that are too long for a conversation; not in the index."""
        return self.root / FOLDER

    @property
    def index_path(self) -> Path:
        """The index file."""
        return self.root / "INDEX.md"

    @property
    def external(self) -> bool:
        """Whether the workbench lies outside the workspace, so that its directory must be opened to the agents."""
        return not self.root.is_relative_to(self.workspace)

    def ensure(self) -> Workbench:
        """Make what is missing, bring the index up to date, and return self. Raises OSError.

        One that now lies beside its workspace and lay inside before is moved, with all that is in it.
        """
        before = self.as_found()
        if before is not self:
            before._move_to(self.root)
        with acting_for(self.root):
            for section in SECTIONS:
                (self.root / section).mkdir(parents=True, exist_ok=True)
        self.refresh()
        return self

    def as_found(self) -> Workbench:
        """Where its files are now: itself, or the one inside the workspace that :meth:`ensure` will move here."""
        if self.root != beside(self.workspace) or self.index_path.exists():
            return self
        inside = Workbench(self.workspace, max_index_entries=self.max_index_entries, lang=self.lang)
        return self if inside.external or not inside.root.is_dir() else inside

    def _move_to(self, root: Path) -> None:
        """Move all there is to ``root``, the index last: while there is none, the move is not over."""
        with acting_for(root):
            root.mkdir(exist_ok=True)
            for path in sorted(self.root.iterdir(), key=lambda path: path == self.index_path):
                if not (root / path.name).exists():
                    shutil.move(path, root / path.name)
            with contextlib.suppress(OSError):  # something of that name lies there, and stays
                self.root.rmdir()

    def show(self, path: Path | str) -> str:
        """``path`` as agents should write it: relative when inside the workspace, else absolute."""
        full = Path(os.path.normpath(self.workspace / path))
        return full.relative_to(self.workspace).as_posix() if full.is_relative_to(self.workspace) else str(full)

    def owns(self, path: Path | str) -> bool:
        """Whether ``path`` (relative ones: to the workspace), symlinks resolved, lies inside the workbench."""
        return Path(os.path.realpath(self.workspace / path)).is_relative_to(self.root)

    def scan(self) -> list[Entry]:
        """What lies in the workbench, section by section, newest first. A file that vanishes meanwhile is left out."""
        entries: list[Entry] = []
        for section in SECTIONS:
            with acting_for(self.root):
                found = [entry for path in _files(self.root / section) if (entry := _entry(section, path))]
            entries += sorted(found, key=lambda entry: (-entry.modified, entry.path))
        return entries

    def index(self) -> str:
        """The index as Markdown, at most ``max_index_entries`` files of each section."""
        lines = [self._text("workbench.index_title"), ""]
        entries = self.scan()
        for section in SECTIONS:
            mine = [entry for entry in entries if entry.section == section]
            lines += [self._text(f"workbench.{section}", path=self.show(self.root / section)), ""]
            lines += [self._line(entry) for entry in mine[: self.max_index_entries]] or [self._text("workbench.empty")]
            if len(mine) > self.max_index_entries:
                lines.append(self._text("workbench.more", count=len(mine) - self.max_index_entries))
            lines.append("")
        return "\n".join(lines)

    def refresh(self) -> None:
        """Write the index anew, in one step. Raises OSError."""
        atomic_write(self.index_path, self.index())

    def prompt_block(self) -> str:
        """What the agent is told about the workbench in every turn: where things go, and the index."""
        places = {section: self.show(self.root / section) for section in SECTIONS}
        return self._text("workbench.prompt", **places, index=self.index().strip())

    def _line(self, entry: Entry) -> str:
        line = self._text("workbench.entry", path=_one_line(self.show(entry.path)), size=_human(entry.size))
        return line + (self._text("workbench.entry_desc", desc=entry.desc) if entry.desc else "")


def beside(workspace: Path | str) -> Path:
    """The place of a workbench next to ``workspace``: outside its repository, and no other workspace's."""
    resolved = Path(workspace).resolve()
    return resolved.parent / f"{BESIDE}{resolved.name}"


def workbench_of(workspace: Path | str, *, isolate: bool = False, lang: str = DEFAULT_LANG) -> Workbench:
    """The workbench of ``workspace``: inside it, or beside it once workers were isolated there (``isolate``).

    An isolated worker sees the files of a commit; what all share must lie outside the repository. Makes nothing.
    """
    outside = beside(workspace)
    return Workbench(workspace, home=outside if isolate or outside.is_dir() else None, lang=lang)


def _files(directory: Path) -> Iterator[Path]:
    """Every regular file below, hidden ones and symlinks aside: a link could name anything outside."""
    for parent, names, files in os.walk(directory):
        names[:] = sorted(name for name in names if not name.startswith("."))
        yield from (Path(parent, name) for name in sorted(files) if not name.startswith("."))


def _entry(section: str, path: Path) -> Entry | None:
    try:
        if path.is_symlink() or not path.is_file():
            return None
        stat = path.stat()
        desc = _desc(path) if section == "scripts" else ""
    except OSError:
        return None
    return Entry(section, path, stat.st_size, stat.st_mtime, desc)


def _desc(path: Path) -> str:
    with os.fdopen(open_regular(path), "rb") as file:
        for _ in range(DESC_LINES):
            line = file.readline(_LINE_BYTES).decode("utf-8", "replace").strip()
            if line.lower().startswith(DESC_MARK):
                return _one_line(line[len(DESC_MARK) :].strip())[:_DESC_CHARS]
    return ""


def _one_line(text: str) -> str:
    """``text`` without control characters: a file's name must not be able to write lines of the index."""
    return "".join(char if char.isprintable() else " " for char in text)


def _human(size: int) -> str:
    return f"{size} B" if size < 1024 else f"{size / 1024:.1f} KiB" if size < 1024**2 else f"{size / 1024**2:.1f} MiB"
