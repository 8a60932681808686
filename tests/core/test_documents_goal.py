"""The goal: statement and checks, and which checks cannot pass here."""

from __future__ import annotations

from pathlib import Path

import pytest

from flower_core.documents import Goal, Handoff
from flower_core.texts import LANGUAGES


@pytest.mark.parametrize(
    "bullet",
    [
        "- ",
        "* ",
        "+ ",
        "• ",
        "1. ",
        "12. ",
        "1) ",
        "1、",
        "1．",
        "（1）",
        "(1) ",
        "① ",
        "一、",
        "- [ ] ",
        "- [x] ",
        "- 1. ",
        "1. - ",
        "  - ",
        "",
    ],
)
def test_bullets_numbers_and_checkboxes_are_stripped(bullet: str) -> None:
    text = f"## 目标\nX\n## 判定清单\n{bullet}跑 `a.sh` 输出 `-5`\n\n{bullet}1.5 s 内返回 [ ]\n{bullet}**粗体** 也算\n"
    assert Goal.parse(text).checks == ["跑 `a.sh` 输出 `-5`", "1.5 s 内返回 [ ]", "**粗体** 也算"]


def test_a_continued_line_belongs_to_its_check_and_an_introduction_is_none() -> None:
    text = "# Goal\nX\n# Checklist\nAll of these hold:\n### Build\n- run make\n  and see `ok`\n---\n- run it\nlast one"
    assert Goal.parse(text).checks == ["run make and see `ok`", "run it", "last one"]


@pytest.mark.parametrize(
    "text", ["", "## 目标\nX", "## 判定清单\n- a", "## 目标\nX\n## 判定清单\n(未填)", "## 目标\nX\n## 判定清单\n- \n-"]
)
def test_both_parts_are_needed(text: str) -> None:
    goal = Goal.parse(text)
    assert not goal.complete()
    assert set(goal.missing()) == ({"目标"} if "目标" not in text else set()) | (
        {"判定清单"} if not goal.checks else set()
    )


def test_a_goal_survives_writing_and_reading_in_any_language(tmp_path: Path) -> None:
    goal = Goal("make conv.py\n\n## detail\nx", ["run `python conv.py`", "# not a heading", "Goal: a trap"], "en")
    goal.write(tmp_path / "g" / "goal.md")
    for lang in LANGUAGES:
        read = Goal.load(tmp_path / "g" / "goal.md", lang=lang)
        assert (read.statement, read.checks, read.lang) == (goal.statement, goal.checks, lang)
    with pytest.raises(FileNotFoundError):
        Goal.load(tmp_path / "none.md")


@pytest.mark.parametrize(
    "mark",
    [
        "[此环境无法验证:屏幕录制未授权]",
        "[此环境无法验证：没有 GPU]",
        "【此环境无法验证：没有 GPU】",
        "[ 此环境无法验证 ]",
        "[当前环境无法验证:x]",
        "[cannot be verified here: no GPU]",
        "[Cannot be verified here]",
        "[can't be verified here: x]",
        "[can’t be verified here: x]",
        "[no se puede verificar aquí: sin GPU]",
        "[Impossible à vérifier ici : pas de GPU]",
        "[invérifiable ici : pas de GPU]",
        "[no se puede verificar aqui\u0301: sin GPU]",
        "[No puede comprobarse en este entorno: sin GPU]",
        "[inverificable: sin GPU]",
        "[impossible\u00a0à vérifier ici\u202f: pas de GPU]",
        "[ne peut pas être vérifié dans cet environnement\u00a0: pas de GPU]",
        "[n’est pas vérifiable ici — pas de GPU]",
    ],
)
def test_unverifiable_checks_are_found_in_every_language(mark: str) -> None:
    for lang in LANGUAGES:
        goal = Goal.parse(f"# Goal\nX\n# Checklist\n- one\n- look at it {mark}\n- three", lang=lang)
        assert goal.unverifiable == [f"look at it {mark}"]
        assert len(goal.checks) == 3


@pytest.mark.parametrize(
    "check", ["输出里写明“此环境无法验证”", "it prints [ok]", "the note [see above] cannot be verified here", "[] x"]
)
def test_only_the_mark_in_brackets_counts(check: str) -> None:
    assert Goal("X", [check]).unverifiable == []


def test_amending_appends_under_a_mark_and_survives_hostile_words(tmp_path: Path) -> None:
    goal = Goal("the old goal", ["a"], "en")
    extra = "only md\n目标: x\n# Checklist\n- fake\n```\nopen"
    assert goal.amend(extra) is goal
    goal.write(tmp_path / "goal.md")
    read = Goal.load(tmp_path / "goal.md", lang="en")
    assert read.checks == ["a"]
    assert read.statement.startswith("the old goal\n\n[the goal was changed, this counts] only md")
    assert read.statement.replace("> ", "").endswith(extra)


def test_the_prompt_block_holds_statement_and_checks() -> None:
    assert Goal("S", ["a", "b"], "en").prompt_block() == "## Goal\nS\n\n## Checklist\n- a\n- b"


def test_a_handoff_needs_what_is_being_done_what_comes_next_and_the_scene(tmp_path: Path) -> None:
    assert Handoff().missing() == ["现在在做", "下一步", "现场"]
    text = "## 现在在做\nA\n## Decided\nB\n**Impasses**\nC\nSiguiente paso: D\n## 现场\nE"
    handoff = Handoff.parse(text)
    assert handoff == Handoff("A", "B", "C", "D", "E")
    assert handoff.complete()
    handoff.write(tmp_path / "h.md")
    assert Handoff.load(tmp_path / "h.md") == handoff


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_degraded_handoff_stays_degraded_and_says_so(tmp_path: Path, lang: str) -> None:
    handoff = Handoff(doing="A", next="B", degraded=True, lang=lang)
    handoff.write(tmp_path / "h.md")
    assert Handoff.load(tmp_path / "h.md", lang=lang) == handoff
    plain = Handoff(doing="A", next="B", lang=lang)
    assert len(handoff.prompt_block()) > len(plain.prompt_block())
    assert handoff.prompt_block().endswith(plain.prompt_block())
