"""Removing what agents have left, whatever they have made of it."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flower_core.trees import remove_tree
from tests.nested import nest


@contextmanager
def few_files() -> Iterator[None]:
    """While inside, this process may open hardly any more files than it has."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.open("/", os.O_RDONLY)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + 30, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize("depth", [0, 1, 50, 1200])
def test_however_deep_it_goes(tmp_path: Path, depth: int) -> None:
    top = tmp_path / "top"
    top.mkdir()
    nest(top, depth)
    with few_files():
        remove_tree(top)
    assert not top.exists()


def test_what_links_lead_to_stays(tmp_path: Path) -> None:
    top, kept = tmp_path / "top", tmp_path / "kept"
    for folder in (top, kept):
        folder.mkdir()
        nest(folder, 3)
    (top / "d" / "link").symlink_to(kept)
    nest(top / "d" / "d" / "d", 1100)
    remove_tree(top)
    assert not top.exists()
    assert (kept / "d" / "d" / "d" / "file").is_file()
    (tmp_path / "link").symlink_to(kept)
    remove_tree(tmp_path / "link")
    assert (kept / "d" / "d" / "d" / "file").is_file()


def test_what_is_not_there_or_no_directory_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    remove_tree(tmp_path / "missing")
    remove_tree(tmp_path / "file")
