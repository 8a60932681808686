"""What the texts of a language ask for is what the parsers of the documents read, in that language and any other."""

from __future__ import annotations

import itertools
import re
import unicodedata
from pathlib import Path

import pytest

from flower_core.documents import Brief, Goal, Handoff, Verdict
from flower_core.documents.sections import catalogue, is_placeholder, split
from flower_core.texts import LANGUAGES, texts_for

PAIRS = list(itertools.product(LANGUAGES, LANGUAGES))
SECTIONS = {
    "brief": ("goal", "accept", "bounds", "unknowns"),
    "goal": ("statement", "checks"),
    "verdict": ("state", "reason", "failed"),
    "handoff": ("doing", "decided", "deadends", "next", "scene"),
}
#: The texts that tell a model which sections to write, and of which document.
ASKING = {
    "roles.clarify": "brief",
    "workflow.goal.prompt": "goal",
    "workflow.verdict.prompt": "verdict",
    "handoff.write": "handoff",
}


def raw(lang: str, key: str) -> str:
    text = texts_for(lang).flat()[key]
    assert isinstance(text, str)
    return text


def titles(lang: str, kind: str) -> list[str]:
    return [raw(lang, f"documents.{kind}.{section}") for section in SECTIONS[kind]]


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize(("key", "kind"), ASKING.items())
def test_the_headings_a_model_is_asked_for_are_the_titles_of_the_document(lang: str, key: str, kind: str) -> None:
    asked = re.findall(r"^## (.+)$", raw(lang, key), re.MULTILINE)
    assert asked == titles(lang, kind)
    assert list(split("\n".join(f"## {name}\nx" for name in asked), catalogue(kind))) == list(SECTIONS[kind])


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("kind", SECTIONS)
def test_titles_are_known_however_they_are_typed(lang: str, kind: str) -> None:
    for section, title in zip(SECTIONS[kind], titles(lang, kind), strict=True):
        typed = {title, unicodedata.normalize("NFD", title), title.replace("'", "’"), title.upper(), f"{title}\u00a0"}
        for name in typed:
            for form in (
                "## {}\nx",
                "## {}\u00a0: x",
                "{}\u202f: x",
                "**{}\u00a0:** x",
                "**{}** : x",
                "{}\u00a0:\n\nx",
            ):
                assert split(form.format(name), catalogue(kind)) == {section: "x"}, form.format(name)


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_words_for_nothing_filled_in_read_as_empty(lang: str) -> None:
    placeholder = raw(lang, "documents.placeholder")
    for typed in (placeholder, unicodedata.normalize("NFD", placeholder), placeholder.strip("()（）").upper()):
        assert is_placeholder(typed)
    nothing = raw(lang, "documents.verdict.nothing")
    assert Verdict.parse(f"## Verdict\n1\n## {raw(lang, 'documents.verdict.failed')}\n- {nothing}").ok


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("state", ["achieved", "not_yet", "unreachable"])
def test_the_judge_is_told_the_words_that_are_read(lang: str, state: str) -> None:
    word = raw(lang, f"documents.verdict.{state}")
    assert word in raw(lang, "workflow.verdict.prompt")
    for said in (word, raw(lang, f"workflow.verdict.{state}"), unicodedata.normalize("NFD", word), word.upper()):
        assert Verdict.parse(said).state == state


@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_word_that_nobody_answered_names_the_section_it_belongs_in(lang: str) -> None:
    for outcome in ("timeout", "declined", "over_budget"):
        assert raw(lang, "documents.brief.unknowns") in raw(lang, f"human.{outcome}")
    assert raw(lang, "documents.brief.unknowns") in raw(lang, "roles.clarify")


@pytest.mark.parametrize(("lang", "other"), PAIRS)
def test_every_document_of_one_language_is_read_back_in_any(tmp_path: Path, lang: str, other: str) -> None:
    path = tmp_path / "document.md"
    body = "- première : « à »\n- ¿qué?\n- 中文"
    brief = Brief(body, body, body, body, lang=lang)
    brief.write(path)
    Brief.append_amendment(path, "plus\n\n# Objetivo\nx", label="dit", lang=lang)
    read = Brief.load(path, lang=other)
    assert (read.goal, read.accept, read.bounds, read.unknowns) == (body,) * 4
    assert read.amendments.endswith("plus\n\n# Objetivo\nx")

    goal = Goal(body, ["première : « à »", "¿qué?"], lang)
    goal.amend("otra cosa").write(path)
    again = Goal.load(path, lang=other)
    assert (again.statement, again.checks) == (goal.statement, goal.checks)

    handoff = Handoff(body, body, "", body, body, degraded=True, lang=lang)
    handoff.write(path)
    assert Handoff.load(path, lang=other) == Handoff(body, body, "", body, body, degraded=True, lang=other)


@pytest.mark.parametrize("lang", LANGUAGES)
def test_what_was_said_later_is_found_under_a_heading_in_decomposed_letters_too(tmp_path: Path, lang: str) -> None:
    path = tmp_path / "brief.md"
    Brief("g", "a", "b", "u", lang=lang).write(path)
    Brief.append_amendment(path, "said later", lang=lang)
    path.write_text(unicodedata.normalize("NFD", path.read_text(encoding="utf-8")), encoding="utf-8")
    brief = Brief.load(path, lang=lang)
    assert (brief.unknowns, brief.amendments.splitlines()[-1]) == ("u", "said later")


@pytest.mark.parametrize("lang", LANGUAGES)
def test_names_of_steps_and_files_can_be_told_apart_and_used(lang: str) -> None:
    files = [raw(lang, f"workflow.files.{name}") for name in ("brief", "goal", "questions")]
    steps = [raw(lang, f"workflow.steps.{name}") for name in ("clarify", "goal", "work")]
    assert len({*files}) == len({*steps}) == 3
    assert all(re.fullmatch(r"[\w-]+\.md", name) and not name.startswith("handoff-") for name in files)
    assert not any(step.startswith("_") or "#" in step for step in steps)
    assert all(unicodedata.is_normalized("NFC", text) for text in map(str, texts_for(lang).flat().values()))


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_documentation_names_steps_files_and_sections_as_they_are(lang: str) -> None:
    steps = [raw(lang, f"workflow.steps.{name}") for name in ("clarify", "goal", "work")]
    files = [raw(lang, f"workflow.files.{name}") for name in ("brief", "goal", "questions")]
    row = f"| `{lang}` | {' | '.join(', '.join(names) for names in (steps, files, titles(lang, 'brief')))} |"
    page = Path(__file__).parents[2] / "docs" / "writing-a-workflow.md"
    assert row in page.read_text(encoding="utf-8").splitlines()
