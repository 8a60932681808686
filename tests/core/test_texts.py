"""Every language says the same things: same keys, same placeholders, nothing empty, nothing that cannot be filled."""

from __future__ import annotations

import re
import string
from pathlib import Path
from typing import Any

import pytest

from flower_core import texts
from flower_core.errors import UnknownLanguage
from flower_core.texts import DEFAULT_LANG, LANGUAGES, texts_for

FLAT: dict[str, dict[str, Any]] = {lang: texts_for(lang).flat() for lang in LANGUAGES}
KEYS = sorted({key for flat in FLAT.values() for key in flat})


def placeholders(text: str) -> list[str]:
    return sorted(name for _, name, _, _ in string.Formatter().parse(text) if name is not None)


def test_there_are_languages_and_the_default_is_one_of_them() -> None:
    assert DEFAULT_LANG in LANGUAGES
    assert set(LANGUAGES) == {"en", "es", "fr", "zh"}
    assert len(KEYS) > 20


@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_language_has_every_topic(lang: str) -> None:
    folder = Path(texts.__file__).parent
    topics = {file.name for other in LANGUAGES for file in (folder / other).iterdir()}
    assert {file.name for file in (folder / lang).iterdir()} == topics


@pytest.mark.parametrize("key", KEYS)
def test_every_language_has_every_key_of_the_same_kind(key: str) -> None:
    assert [lang for lang in LANGUAGES if key not in FLAT[lang]] == []
    assert len({type(FLAT[lang][key]) for lang in LANGUAGES}) == 1


@pytest.mark.parametrize("key", KEYS)
def test_every_language_has_the_same_placeholders(key: str) -> None:
    used = {
        lang: tuple(sorted(set(placeholders(value)))) for lang in LANGUAGES if isinstance(value := FLAT[lang][key], str)
    }
    assert len(set(used.values())) <= 1, used


@pytest.mark.parametrize("key", KEYS)
def test_every_placeholder_is_a_plain_name_and_every_text_can_be_filled(key: str) -> None:
    for lang in LANGUAGES:
        value = FLAT[lang][key]
        assert isinstance(value, (str, list)), f"{lang}: {key} is a {type(value).__name__}"
        if isinstance(value, str):
            names = placeholders(value)
            assert all(name.isidentifier() for name in names), f"{lang}: {key}: {names}"
            assert texts_for(lang)(key, **dict.fromkeys(names, "x"))


@pytest.mark.parametrize("lang", LANGUAGES)
def test_no_text_is_empty_or_holds_an_empty_word(lang: str) -> None:
    for key, value in FLAT[lang].items():
        words = value if isinstance(value, list) else [value]
        assert words, f"{lang}: {key}"
        assert all(isinstance(word, str) and word.strip() for word in words), f"{lang}: {key}"


def test_chinese_texts_are_chinese_and_english_texts_are_not() -> None:
    def chinese(text: str) -> bool:
        return any("\u4e00" <= char <= "\u9fff" for char in text)

    for key in KEYS:
        values = FLAT["en"][key]
        assert not any(map(chinese, values if isinstance(values, list) else [values])), key
    prose = [value for value in FLAT["zh"].values() if isinstance(value, str)]
    assert sum(map(chinese, prose)) > 0.9 * len(prose)


def test_chinese_texts_have_chinese_punctuation() -> None:
    # These two are fixed by what has been written to disk before.
    fixed = re.compile(re.escape("(未填)") + "|" + re.escape("[此环境无法验证:原因]"))
    han = "\u4e00-\u9fff"
    half_width = re.compile(rf"[{han}][,:;?()]|[,:;?()][{han}]")
    wrong = {
        key: half_width.findall(fixed.sub("", value)) for key, value in FLAT["zh"].items() if isinstance(value, str)
    }
    assert {key: found for key, found in wrong.items() if found} == {}


@pytest.mark.parametrize("lang", ["es", "fr"])
def test_spanish_and_french_texts_are_not_left_in_english(lang: str) -> None:
    english = re.compile(r"\b(?:the|and|of|is|are|was|what|it|you|with|not|that|this)\b", re.IGNORECASE)
    for key, value in FLAT[lang].items():
        assert not english.search(str(value)), key
        assert len(str(value).split()) < 5 or value != FLAT["en"][key], key


def test_french_texts_have_french_punctuation() -> None:
    # A blank stands before a double sign and inside quotation marks; names of turns and code keep their own.
    fixed = re.compile(r"flower-turn: \w+|`[^`\n]*`|\{\w+\}")
    glued = re.compile(r"[^\s:][;?!»]|[^\s:]:(?=\s|$)|«\S|\w\"\w")
    wrong = {key: glued.findall(fixed.sub("x", value)) for key, value in FLAT["fr"].items() if isinstance(value, str)}
    assert {key: found for key, found in wrong.items() if found} == {}


def test_spanish_questions_open_as_they_close_and_no_blank_stands_before_a_colon() -> None:
    for key, value in FLAT["es"].items():
        assert str(value).count("¿") == re.sub(r"`[^`]*`", "", str(value)).count("?"), key
        assert not re.search(r"\w [:;?!](?=\s|$)", str(value)), key


def test_an_unknown_language_names_those_there_are() -> None:
    with pytest.raises(UnknownLanguage, match="zh"):
        texts_for("tlh")


def test_an_unknown_key_and_a_missing_value_are_key_errors() -> None:
    for key in ("documents.nothing", "nothing", "documents", "documents.placeholder.deeper"):
        with pytest.raises(KeyError):
            texts_for("en")(key)
    with pytest.raises(KeyError):
        texts_for("en")("documents.goal.changed")
    with pytest.raises(KeyError):
        texts_for("en").words("documents.placeholder")
