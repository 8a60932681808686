"""The splitter: every form of heading, in every language, and what it must not take for one."""

from __future__ import annotations

import itertools

import pytest

from flower_core.documents.sections import Catalogue, catalogue, fence_map, name_of, shared, shield, split, strip_fences

KINDS = ("brief", "goal", "verdict", "handoff")
FORMS = (
    "## {name}\n\n{body}",
    "# {name}\n{body}",
    "###### {name} ######\n{body}",
    "##{name}\n{body}",
    "## {name}:\n{body}",
    "## {name}: {body}",
    "## {name}：{body}",
    "## 3. {name}\n{body}",
    "## **{name}**\n{body}",
    "## 🎯 {name}\n{body}",
    "**{name}**\n{body}",
    "**{name}** {body}",
    "**{name}**: {body}",
    "**{name}：** {body}",
    "**{name}: {body}**",
    "**2. {name}**\n{body}",
    "__{name}__\n{body}",
    "{name}:\n{body}",
    "{name}: {body}",
    "{name}：{body}",
    "{name}：\n\n{body}",
    "3. {name}\n{body}",
    "3) {name}: {body}",
    "3、{name}：{body}",
    "（3）{name}\n{body}",
    "三、{name}\n{body}",
    "3. **{name}**: {body}",
    "{name}\n=====\n{body}",
    "{name}\n---\n{body}",
    "【{name}】{body}",
    "   ## {name}\n{body}",
    "## {name} (one sentence)\n{body}",
    "**{name}**（一句话）：{body}",
)


def recognised(kind: str, form: str, key: str, alias: str) -> bool:
    return split("preamble\n\n" + form.format(name=alias, body="the body"), catalogue(kind)) == {key: "the body"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_heading_is_recognised(kind: str, form: str) -> None:
    for key, aliases in catalogue(kind).items():
        for alias in (aliases[0], aliases[-1], aliases[-1].upper()):
            assert recognised(kind, form, key, alias), form.format(name=alias, body="the body")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["## {name}\n{body}", "**{name}** {body}", "{name}：{body}", "3. {name}\n{body}"])
def test_every_alias_of_every_language_is_recognised(kind: str, form: str) -> None:
    for key, alias in ((key, alias) for key, aliases in catalogue(kind).items() for alias in aliases):
        assert recognised(kind, form, key, alias), alias


@pytest.mark.parametrize("kind", KINDS)
def test_an_alias_names_one_section_only(kind: str) -> None:
    owners: dict[str, set[str]] = {}
    for key, aliases in catalogue(kind).items():
        for alias in aliases:
            owners.setdefault(name_of(alias), set()).add(key)
    assert {alias: keys for alias, keys in owners.items() if len(keys) > 1} == {}


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_forms_mix_and_sections_come_in_any_order(order: tuple[int, ...]) -> None:
    blocks = [
        "## 目标\n做一个 X",
        "**Acceptance criteria**\n- runs",
        "límites: ninguno",
        "4. Inconnues et hypothèses\naucune",
    ]
    text = "\n\n".join(blocks[index] for index in order)
    assert split(text, catalogue("brief")) == {
        "goal": "做一个 X",
        "accept": "- runs",
        "bounds": "ninguno",
        "unknowns": "aucune",
    }


def test_the_longest_alias_wins() -> None:
    names: Catalogue = {"short": ["未知"], "long": ["未知与假设", "未知: 假设"]}
    assert split("## 未知与假设\nx", names) == {"long": "x"}
    assert split("未知: 假设: x", names) == {"long": "x"}
    assert split("未知: 没有", names) == {"short": "没有"}


def test_accents_case_and_apostrophes_do_not_matter() -> None:
    names = catalogue("brief")
    for heading in (
        "CRITERES D’ACCEPTATION",
        "critères d'acceptation",
        "Crite\u0300res d'acceptation",
        "CRITÈRES  D'ACCEPTATION",
    ):
        assert split(f"## {heading}\nx", names) == {"accept": "x"}


def test_the_first_section_with_a_body_wins() -> None:
    names = catalogue("brief")
    assert split("## 目标\n\n## 目标\n(未填)\n## Goal\nA\n## 目标\nB", names) == {"goal": "A"}


@pytest.mark.parametrize(
    "empty", ["(未填)", "（未填）", "未填", "*(not filled in)*", "(Not filled in)", "- (未填)", "", "\n\n---\n"]
)
def test_a_placeholder_is_no_body(empty: str) -> None:
    assert split(f"## 目标\n{empty}\n", catalogue("brief")) == {}


@pytest.mark.parametrize(
    "line",
    [
        "我们的目标是 X",
        "目标用户：小学生",
        "Goals met: 3",
        "- Goal: ship it",
        "- **Goal**: ship it",
        "> ## Goal",
        "    ## Goal",
        "| Goal | x |",
        "Its goal: ship it",
        "####### Goal",
        "`Goal:` is a key",
        "GoalKeeper: x",
    ],
)
def test_prose_lists_quotes_and_tables_are_no_headings(line: str) -> None:
    names = catalogue("verdict") if "The goal" in line else catalogue("brief")
    assert split(line, names) == {}
    assert split(f"## 边界\n{line}", catalogue("brief"))["bounds"].strip() == line.strip() or line.startswith(
        "The goal"
    )


def test_an_unknown_heading_ends_a_section_and_a_deeper_one_belongs_to_it() -> None:
    names = catalogue("brief")
    text = "## Goal\nA\n### Detail\nB\n## Appendix\nC\n## Boundaries\nD"
    assert split(text, names) == {"goal": "A\n### Detail\nB", "bounds": "D"}
    assert split("**Goal**\nA\n## Appendix\nB", names) == {"goal": "A"}


def test_a_title_over_the_section_it_names_is_not_that_section() -> None:
    text = "# Verdict\nI looked at all five.\n## Reason\nr\n## Conclusion\nachieved\n# Verdict\nlater"
    assert split(text, catalogue("verdict")) == {"state": "achieved", "reason": "r"}
    assert split("# Goal\nA\n# Goal\nB", catalogue("brief")) == {"goal": "A"}
    assert split("# Goal\nA\n# Boundaries\n## Goal\nB", catalogue("brief")) == {"goal": "A"}


def test_a_numbered_item_is_a_section_only_where_nothing_marks_that_section() -> None:
    names = catalogue("brief")
    plain = "1. 目标：A\n2. 验收标准：B\n3. 边界：C\n4. 未知与假设：D"
    assert split(plain, names) == {"goal": "A", "accept": "B", "bounds": "C", "unknowns": "D"}
    marked = "## 验收标准\n1. 能跑\n2. 边界：空输入返回空\n## 边界\n不做 GUI"
    assert split(marked, names) == {"accept": "1. 能跑\n2. 边界：空输入返回空", "bounds": "不做 GUI"}


@pytest.mark.parametrize("fence", ["```", "````", "~~~", "   ```", "- ```", "```python", "~~~ text `with` ticks"])
def test_fenced_code_is_dropped_with_the_headings_in_it(fence: str) -> None:
    ticks = fence.strip("- ").split(" ")[0].rstrip("python")
    text = f"## Goal\nA\n{fence}\n## Goal\ncode\n{ticks}\nB\n## Boundaries\nC"
    assert split(text, catalogue("brief")) == {"goal": "A\nB", "bounds": "C"}


def test_an_unclosed_fence_drops_the_rest() -> None:
    text = "## Goal\nA\n```python\n## Acceptance criteria\nB\n## Boundaries\nC"
    assert split(text, catalogue("brief")) == {"goal": "A"}


def test_a_fence_closes_only_with_its_own_character_its_length_and_nothing_behind() -> None:
    assert strip_fences("a\n````\n```\n~~~~\n```` x\n````\nb") == "a\nb"
    assert strip_fences("a ```not a fence``` b\n```one line```\nc") == "a ```not a fence``` b\n```one line```\nc"


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_every_kind_of_line_end_is_understood(newline: str) -> None:
    text = newline.join(["## Goal", "A", "```", "x", "```", "## Boundaries", "B", ""])
    assert split(text, catalogue("brief")) == {"goal": "A", "bounds": "B"}


@pytest.mark.parametrize("title", ["Goal\n=====", "# Goal", "# Whatever"])
def test_a_title_over_a_section_is_shielded_in_a_body(title: str) -> None:
    names = catalogue("brief")
    body = shield(f"first\n{title}\n## 目标\nlast", names)
    assert split(f"# 未知与假设\n\n{body}", names)["unknowns"].endswith("last")


def test_shielded_bodies_come_back_whole() -> None:
    names = catalogue("brief")
    hostile = "边界: 偷换\n# top\n## Goal\n```\nopen\n**Boundaries**\nx\n目标\n---\nend\n1. 边界：item"
    written = f"# 目标\n\n{shield(hostile, names)}\n\n# 边界\n\nreal"
    found = split(written, names)
    assert found["bounds"] == "real"
    assert found["goal"].replace("> ", "") == hostile
    assert shield(found["goal"], names) == found["goal"]


def test_fence_map_keeps_every_line() -> None:
    text = "a\n```\nb\n```\nc\n~~~\nd"
    assert [line for line, _ in fence_map(text)] == text.split("\n")
    assert [fenced for _, fenced in fence_map(text)] == [False, True, True, True, False, True, True]


@pytest.mark.parametrize(
    "text", ["", "\n", "#", "##", "**", "****", ":", "：", "```", "# \x00", "\ud800: x", "1.", "【】", "##   ##"]
)
def test_nothing_the_text_says_makes_it_raise(text: str) -> None:
    for kind in KINDS:
        assert split(text, catalogue(kind)) == {}


def test_long_hostile_lines_take_no_long_time() -> None:
    text = "\n".join(
        ["*" * 20_000, "#" * 20_000, "[" * 20_000, "(" * 20_000, "1." * 10_000, ":" * 20_000, " " * 20_000 + "x"]
    )
    assert split(text + "\n## Goal\nA", catalogue("brief")) == {"goal": "A"}


def test_the_shared_words_are_there_for_all_four_languages() -> None:
    for kind, sample in {
        "brief": ("目标", "Goal", "Objetivo", "Objectif"),
        "goal": ("判定清单", "Checklist", "Lista de verificación", "Liste de contrôle"),
        "verdict": ("结论", "Conclusion", "Conclusión", "Décision"),
        "handoff": ("下一步", "Next step", "Siguiente paso", "Prochaine étape"),
    }.items():
        for heading in sample:
            assert list(split(f"## {heading}\nx", catalogue(kind)).values()) == ["x"], heading
    assert shared()["placeholders"]
