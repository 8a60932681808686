from __future__ import annotations

from pathlib import Path

import pytest

from flower_http.places import Places, RunIds, overlaps
from flower_http.projection import RunView
from tests.http.run_world import refused


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path / "work", tmp_path / "data")


def test_run_ids_sort_in_the_order_they_were_made_even_within_a_millisecond() -> None:
    ids = RunIds()
    made = [ids.make() for _ in range(500)]
    assert made == sorted(made)
    assert len({name.rsplit("-")[0] for name in made}) == 500


def test_a_run_without_a_workspace_gets_one_named_after_it(places: Places) -> None:
    assert places.find(None, "run-1") == places.root / "run-1"


def test_looking_for_a_workspace_makes_nothing(places: Places) -> None:
    found = places.find("a/b", "run-1")
    assert not found.exists()
    places.make(found)
    assert found.is_dir()
    assert places.shown(found) == "a/b"


@pytest.mark.parametrize("name", ["..", "a/../..", "/etc", ".", "a/.."])
def test_a_workspace_outside_the_root_or_the_root_itself_is_refused(places: Places, name: str) -> None:
    problem = refused(lambda: places.find(name, "run-1"))
    assert (problem.status, problem.slug) == (422, "invalid-body")
    assert "below" in problem.extra["errors"]["workspace"][0]


def test_a_link_that_leads_out_is_refused_and_one_that_stays_in_is_followed(places: Places, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (places.root / "inner").mkdir()
    (places.root / "out").symlink_to(tmp_path / "outside")
    (places.root / "in").symlink_to(places.root / "inner")
    assert refused(lambda: places.find("out", "r")).status == 422
    assert refused(lambda: places.find("out/deeper", "r")).status == 422
    assert places.find("in/deeper", "r") == places.root / "inner/deeper"


def test_names_no_directory_can_have_are_refused_and_break_nothing(places: Places) -> None:
    (places.root / "file").write_text("x")
    (places.root / "loop").symlink_to(places.root / "loop")
    for name in ("file", "x" * 300, "a\0b", "loop", "loop/x"):
        assert refused(lambda name=name: places.make(places.find(name, "r"))).status == 422, name  # type: ignore[misc]
    assert refused(lambda: places.make(places.find("file/below", "r"))).status == 422


@pytest.mark.parametrize(
    "name",
    ["a\nb", "a\tb", "\x1b[31mred", "a\u202egpj.exe", "zero\u200bwidth", "\udcff", "no\u00a0break", "a\x7f"],
)
def test_a_name_that_does_not_look_like_what_it_is_is_refused(places: Places, name: str) -> None:
    assert "printable" in refused(lambda: places.find(name, "r")).extra["errors"]["workspace"][0]


@pytest.mark.parametrize(
    "name", ["größe", "需求 1", "a" * 255, "..a", "a..", "-x", "~", "a/./b", "a//b", "%2e%2e", "..\\x"]
)
def test_a_name_that_only_looks_odd_is_a_directory_below_the_root(places: Places, name: str) -> None:
    found = places.find(name, "r")
    places.make(found)
    assert found.is_dir()
    assert found.is_relative_to(places.root)
    assert places.find(places.shown(found), "r") == found


@pytest.mark.parametrize("name", [".flower-shop", "a/.flower-b", ".flower-a/b", "way"])
def test_the_place_of_a_workbench_is_no_workspace(places: Places, name: str) -> None:
    (places.root / ".flower-shop").mkdir()
    (places.root / "way").symlink_to(places.root / ".flower-shop")
    assert "workbenches lie there" in refused(lambda: places.find(name, "r")).extra["errors"]["workspace"][0]


def test_names_that_only_resemble_a_workbenchs_are_free(places: Places) -> None:
    for name in (".flower", "flower-a", "x.flower-a", ".flowers"):
        assert places.find(name, "r") == places.root / name


def test_a_link_put_in_the_way_after_the_look_is_noticed(places: Places, tmp_path: Path) -> None:
    found = places.find("a/b", "r")
    (tmp_path / "outside").mkdir()
    (places.root / "a").symlink_to(tmp_path / "outside")
    assert "link" in refused(lambda: places.make(found)).extra["errors"]["workspace"][0]
    assert list((tmp_path / "outside").iterdir()) == []


def test_books_lie_in_the_data_dir_one_set_for_each_workspace(places: Places, tmp_path: Path) -> None:
    one, other = (places.books(places.find(name, "r")) for name in ("a", "b"))
    assert one != other
    assert one.is_relative_to(tmp_path / "data")
    assert places.session_file(places.root / "a", "run-1").is_relative_to(one)
    assert places.config_dir("run-1").is_relative_to(tmp_path / "data")


def test_a_run_without_steps_has_no_rows(places: Places) -> None:
    assert places.manifest_rows(RunView("run-1", "e", workspace="a")) == []


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [("/a", "/a", True), ("/a", "/a/b", True), ("/a/b", "/a", True), ("/a/b", "/a/c", False), ("/a", "/ab", False)],
)
def test_workspaces_overlap_when_one_is_or_holds_the_other(one: str, other: str, both: bool) -> None:
    assert overlaps(Path(one), Path(other)) is both
