"""The brief: four sections, and what was said later, which nothing may lose."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest

from flower_core.documents import Brief, append_amendment
from flower_core.texts import LANGUAGES

SECTIONS = ("goal", "accept", "bounds", "unknowns")
BODIES = (
    "one line",
    "- a\n- b\n\n  - nested",
    "多行\n\n### 小标题\n正文",
    "ends with a colon:",
    "1. 边界：空输入\n2. Goal: nothing",
    "\ttabs and  blanks",
    "Ünïcödé 🎉",
)


def full(**changes: str) -> Brief:
    return Brief(**{"goal": "G", "accept": "A", "bounds": "B", "unknowns": "U", **changes})


@pytest.mark.parametrize(
    ("lang", "names"),
    [
        ("zh", ["目标", "验收标准", "边界", "未知与假设"]),
        ("en", ["Goal", "Acceptance criteria", "Boundaries", "Unknowns and assumptions"]),
        ("es", ["Objetivo", "Criterios de aceptación", "Límites", "Incógnitas y supuestos"]),
        ("fr", ["Objectif", "Critères d'acceptation", "Limites", "Inconnues et hypothèses"]),
    ],
)
def test_missing_names_the_empty_sections_in_the_language_of_the_brief(lang: str, names: list[str]) -> None:
    assert Brief(lang=lang).missing() == names
    assert Brief.parse(f"## {names[1]}\nx", lang=lang).missing() == [names[0], *names[2:]]
    assert Brief(goal="(未填)", accept="x", bounds="x", unknowns="x", lang=lang).missing() == [names[0]]
    assert full(lang=lang).missing() == []
    assert full(lang=lang).complete()
    assert not full(lang=lang, unknowns=" \n").complete()


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("other", LANGUAGES)
@pytest.mark.parametrize("body", BODIES)
def test_markdown_of_one_language_is_read_back_in_any(lang: str, other: str, body: str) -> None:
    brief = Brief(body, body, body, body, lang=lang)
    read = Brief.parse(brief.to_markdown(), lang=other)
    assert [getattr(read, key) for key in SECTIONS] == [body.strip()] * 4
    assert read.lang == other


def test_an_empty_section_is_written_as_a_placeholder_and_reads_as_empty(tmp_path: Path) -> None:
    brief = full(bounds="")
    assert "(未填)" in brief.to_markdown()
    brief.write(tmp_path / "需求.md")
    assert Brief.load(tmp_path / "需求.md").missing() == ["边界"]


def test_pasted_code_and_foreign_sections_stay_out() -> None:
    text = (
        "Sure!\n```python\nprint(1)\n```\n## 目标\nX\n```\n## 边界\ncode\n```\n## 代码\nmore\n"
        "**验收标准**：跑得起来\n边界：无\n4. 未知\n- 无"
    )
    assert Brief.parse(text) == Brief("X", "跑得起来", "无", "- 无")


def test_a_cut_reply_is_incomplete() -> None:
    assert Brief.parse("## 目标\nX\n## 验收标准\n```\ncut off\n## 边界\nY\n## 未知与假设\nZ").missing() == [
        "验收标准",
        "边界",
        "未知与假设",
    ]


def test_a_brief_may_have_been_saved_by_any_editor(tmp_path: Path) -> None:
    path = tmp_path / "brief.md"
    full().write(path)
    append_amendment(path, "and that")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    brief = Brief.load(path)
    assert brief.sections() == full().sections()
    assert brief.amendments.endswith("and that")
    brief.write(path)
    assert path.read_bytes().count(b"and that") == 1


def test_a_missing_file_is_a_file_not_found_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Brief.load(tmp_path / "none.md")


@pytest.mark.parametrize("lang", LANGUAGES)
def test_an_amendment_stands_under_a_dated_heading_and_survives_a_round_trip(tmp_path: Path, lang: str) -> None:
    path = tmp_path / "notes" / "brief.md"
    full(lang=lang).write(path)
    said = "use Rust\n\n# Goal\n```\nunclosed\n## 边界\nnone at all"
    append_amendment(path, said, label="mid-run\nm1", lang=lang)
    brief = Brief.load(path, lang=lang)
    assert [getattr(brief, key) for key in SECTIONS] == ["G", "A", "B", "U"]
    assert re.match(r"# \S+ · \d{4}-\d\d-\d\d \d\d:\d\d:\d\d · mid-run m1\n\n", brief.amendments)
    assert brief.amendments.endswith(said)
    before = path.read_bytes()
    brief.write(path)
    assert Brief.load(path, lang=lang) == brief
    assert path.read_bytes().strip() == before.strip()


def test_amendments_are_part_of_the_prompt_block() -> None:
    block = full(amendments="# 补充 · 2025-01-02 03:04:05\n\n改用 Rust").prompt_block()
    assert block.index("U") < block.index("改用 Rust")
    assert "改用 Rust" not in full().prompt_block()
    assert "边界" not in full(bounds="").prompt_block()


def test_freezing_anew_keeps_what_was_said(tmp_path: Path) -> None:
    path = tmp_path / "brief.md"
    full().write(path)
    append_amendment(path, "first", label="run")
    append_amendment(path, "second", label="wake")
    Brief.parse("## 目标\nnew\n## 验收标准\nA\n## 边界\nB\n## 未知与假设\nU").write(path)
    frozen = Brief.load(path)
    assert frozen.goal == "new"
    assert frozen.amendments.index("first") < frozen.amendments.index("second")
    frozen.write(path)
    frozen.write(path)
    assert Brief.load(path).amendments.count("first") == 1


def test_freezing_over_an_amendment_made_since_loading_keeps_both(tmp_path: Path) -> None:
    path = tmp_path / "brief.md"
    full().write(path)
    append_amendment(path, "first")
    loaded = Brief.load(path)
    append_amendment(path, "second")
    loaded.write(path)
    assert "first" in Brief.load(path).amendments
    assert "second" in Brief.load(path).amendments


def test_an_amendment_behind_a_stray_fence_in_the_file_is_not_lost(tmp_path: Path) -> None:
    path = tmp_path / "brief.md"
    path.write_text("# 目标\nX\n```\nforgotten to close\n", encoding="utf-8")
    append_amendment(path, "```\nhello\n```")
    full().write(path)
    assert "hello" in Brief.load(path).amendments


def test_a_quoted_amendment_in_a_reply_is_not_taken_for_one() -> None:
    reply = full().to_markdown() + "\n```\n# 补充 · 2025-01-02 03:04:05\nquoted\n```\n"
    assert Brief.parse(reply).amendments == ""
    assert Brief.parse(reply.replace("```", "")).amendments.startswith("# 补充")


def test_an_amendment_may_come_before_there_is_a_brief(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "brief.md"
    append_amendment(path, "said early", lang="en")
    assert "said early" in Brief.load(path).amendments
    assert not Brief.load(path).complete()
    full().write(path)
    assert Brief.load(path).complete()
    assert "said early" in Brief.load(path).amendments


def test_amending_while_freezing_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "brief.md"
    full().write(path)

    def amend(writer: int) -> None:
        for number in range(20):
            append_amendment(path, f"<{writer}.{number}>")

    threads = [threading.Thread(target=amend, args=(writer,)) for writer in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        full(goal="again").write(path)
    for thread in threads:
        thread.join()
    said = Brief.load(path).amendments
    assert [said.count(f"<{writer}.{number}>") for writer in range(3) for number in range(20)] == [1] * 60


def test_the_classmethod_appends_like_the_function(tmp_path: Path) -> None:
    path = tmp_path / "brief.md"
    Brief.append_amendment(path, "x", label="y", lang="en")
    assert path.read_text(encoding="utf-8").startswith("\n# Amendment · ")
