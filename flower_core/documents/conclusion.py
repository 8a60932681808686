"""Reading a judge's conclusion out of free text, so that doubt never becomes success.

In this order: a text that is nothing but 1/true or 0/false; state words, longest first; "cannot be verified" in any
wording; a lone 1 or 0. The words are data (``texts/shared/documents.toml``); this file is the procedure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from flower_core.documents.sections import fold, name_of, shared

State = Literal["achieved", "not_yet", "unreachable", ""]
Doubt = Literal["", "unclear", "contradictory"]

#: A judge asked for nothing but 0 or 1 often answers just that.
_NUMBERS: dict[str, State] = {"1": "achieved", "true": "achieved", "0": "not_yet", "false": "not_yet"}
_BARE_NUMBER = re.compile(r"^(?:[-+•]\s+)?[\"'(\[]*(1|true|0|false)[\"')\].。!]*$")
_CLAIMABLE: tuple[State, ...] = ("unreachable", "not_yet", "achieved")
#: How far around a word its clause and sentence are looked at, in characters; keeps long texts cheap.
_REACH = 400
#: More claims than this are no conclusion, and looking at each would take long.
_MOST_CLAIMS = 40
_MARKUP = re.compile(r"~~.*?~~|[*`]+|^\s*#+\s*|^\s*>\s*", re.MULTILINE)
_JOINER = re.compile(r"(?<=[^\W\d_])[_\-‐‑](?=[^\W\d_])")
_CJK_GAP = re.compile(r"(?<=[\u3400-\u9fff])[ \t]+(?=[\u3400-\u9fff])")
_BLANKS = re.compile(r"[ \t\u3000]+")
# A hyphen between blanks separates; so do words that set what follows against what went before.
_CLAUSE_END = re.compile(
    r"[,，、.。;；:：!！?？\n(（)）\[\]【】—–|]|\s-\s|\b(?:but|and|pero|mais|y|et|so)\b|但|而且|并且"
)
_STATEMENT_END = re.compile(_CLAUSE_END.pattern.replace(":：", ""))
_SENTENCE_END = re.compile(r"[.。;；!！\n](?!\d)")
_FRACTION = re.compile(r"(?<![\d./])(\d{1,4})\s*(?:/|of|out of|de|de l[ao]s|sur|des)\s*(\d{1,4})(?![\d/])")
_CHINESE_FRACTION = re.compile(r"(\d{1,4})\s*[条项个]?(?:里|中|当中)(?:的|有)?\s*(\d{1,4})")
_PERCENT = re.compile(r"(\d{1,3}(?:\.\d+)?)\s*%")
_NEGATES = re.compile(
    r"没有|无(?!法|從|从)|(?<!\w)0\b|\b(?:no|none|nothing|not any|zero|sin|nada|ningun[oa]?|sans|rien|aucune?)\b"
)


@dataclass(frozen=True)
class Reading:
    """What a conclusion says, and why it is in doubt if it is: no clear word, or two that do not go together."""

    state: State
    doubt: Doubt = ""


def read_conclusion(text: str) -> Reading:
    """The state ``text`` claims. A claim that is negated, hedged, partial or contradicted is never ``achieved``."""
    plain = plain_text(text)
    whole = name_of(plain)
    number = _BARE_NUMBER.match(plain)
    if number:
        return Reading(_NUMBERS[number[1]])
    claims = list(_claims(plain))
    if claims:
        return _weigh(plain, claims)
    if _unverifiable(plain):
        return Reading("unreachable")
    if whole in _words("achieved_alone"):
        return Reading("achieved")
    state: State = "not_yet" if whole in _words("not_yet_alone") else _lone_number(plain)
    return Reading(state, "" if state else "unclear")


def plain_text(text: str) -> str:
    """``text`` in the form the word lists are written in: folded, without markup, single blanks."""
    plain = _JOINER.sub(" ", _MARKUP.sub("", fold(text)))
    return _CJK_GAP.sub("", _BLANKS.sub(" ", plain)).strip()


@dataclass(frozen=True)
class _Claim:
    state: State
    start: int
    end: int


def _claims(plain: str) -> Iterator[_Claim]:
    """Every state word in order of appearance, the longest at each place; phrases that claim nothing are skipped."""
    states = _states_by_word()
    for match in _state_words().finditer(plain):
        if match.lastgroup != "void":
            yield _Claim(states[match[0].replace("\n", " ")], match.start(), match.end())


def _weigh(plain: str, claims: list[_Claim]) -> Reading:
    others = [claim.state for claim in claims if claim.state != "achieved"]
    if others:
        # "Not achieved: two of three are achieved" is a plain no, and the first no says which one. The other way
        # round it is a no as well, but not a plain one.
        return Reading(others[0], "contradictory" if claims[0].state == "achieved" else "")
    if len(claims) > _MOST_CLAIMS:
        return Reading("", "unclear")
    if any(
        _match("hedge_after", plain[claim.end : claim.end + _REACH]) or _search("negated", _clause(plain, claim))
        for claim in claims
    ):
        return Reading("not_yet")
    if _unverifiable(plain):
        # Achieved, and something cannot be verified: another round would not settle that, a person can.
        return Reading("unreachable", "contradictory")
    if any(
        _search("hedged", _clause(plain, claim))
        or _search("conditional", _tail(plain, claim.start, _SENTENCE_END))
        or _partial(_sentence(plain, claim))
        for claim in claims
    ):
        return Reading("", "unclear")
    if _search("reservation", plain):
        return Reading("", "contradictory")
    # No list of doubts is ever complete, so the claim itself must hold nothing but words known to add none.
    return Reading("achieved") if all(_is_plain(plain, claim) for claim in claims) else Reading("", "unclear")


def _clause(plain: str, claim: _Claim) -> str:
    """What stands before the claim in its own clause."""
    return _tail(plain, claim.start, _CLAUSE_END)


def _tail(text: str, stop: int, end: re.Pattern[str]) -> str:
    """``text`` up to ``stop``, from behind the last match of ``end`` on."""
    near = text[max(0, stop - _REACH) : stop]
    ends = [match.end() for match in end.finditer(near)]
    return near[ends[-1] :] if ends else near


def _is_plain(plain: str, claim: _Claim) -> bool:
    """Whether the clause of the claim says no more than the claim; what stands before a colon is part of it."""
    before = _tail(plain, claim.start, _STATEMENT_END)
    rest = plain[claim.end : claim.end + _REACH]
    stop = _CLAUSE_END.search(rest)
    after = rest[: stop.start()] if stop else rest
    return not any(map(str.isalnum, _any_of("plain").sub(" ", f"{before}\n{after}")))


def _sentence(plain: str, claim: _Claim) -> str:
    """The sentence the claim stands in."""
    rest = plain[claim.start : claim.end + _REACH]
    stop = _SENTENCE_END.search(rest, claim.end - claim.start)
    return _tail(plain, claim.start, _SENTENCE_END) + rest[: stop.start() if stop else len(rest)]


def _partial(sentence: str) -> bool:
    """Whether it counts less than all: 3/5, 3 of 5, 5 条中的 3 条, 80 %."""
    parts = [(int(match[1]), int(match[2])) for match in _FRACTION.finditer(sentence)]
    parts += [(int(match[2]), int(match[1])) for match in _CHINESE_FRACTION.finditer(sentence)]
    return any(part < whole for part, whole in parts) or any(
        float(match[1]) < 100 for match in _PERCENT.finditer(sentence)
    )


def _unverifiable(plain: str) -> bool:
    """Whether it says that something cannot be verified ("nothing was unverifiable" does not)."""
    return any(
        not _NEGATES.search(_tail(plain, match.start(), _CLAUSE_END))
        for match in _any_of("unverifiable").finditer(plain)
    )


def _lone_number(plain: str) -> State:
    """A 1 or 0 alone on its line or right behind a word such as "answer"; two different ones say nothing."""
    lead = "|".join(shared()["verdict"]["number_lead"])
    alone = rf"^[^\w-]*([01])\W*$|(?:{lead})\s*(?:is|was|es|est|为|是)?\s*[:：=]?\s*[\"'(]?([01])[\"')]?\s*[.。!！]?$"
    found = {first or second for first, second in re.findall(alone, plain, re.MULTILINE)}
    if len(found) != 1:
        return ""
    return "achieved" if found == {"1"} else "not_yet"


@cache
def _states_by_word() -> Mapping[str, State]:
    return {fold(word): state for state in _CLAIMABLE for word in shared()["verdict"][state]}


@cache
def _state_words() -> re.Pattern[str]:
    # Alternatives are tried from left to right at each place: phrases that claim nothing first, then the words of
    # all states, the longest first, so that no word is found inside a longer one that means something else. Bare
    # words beside each other are told apart by their first letter, which is fast; a group around each is not.
    words = sorted(_states_by_word(), key=len, reverse=True)
    latin, other = ([word for word in words if word[0].isascii() == ascii_] for ascii_ in (True, False))
    void = "|".join(f"(?:{phrase})" for phrase in shared()["verdict"]["void"])
    # A word in Latin letters must not be part of a longer one.
    return re.compile(rf"(?P<void>{void})|(?<![^\W\d_])(?:{_either(latin)})(?![^\W\d_])|(?:{_either(other)})")


def _either(words: list[str]) -> str:
    return "|".join(re.escape(word).replace(r"\ ", "[ \n]") for word in words)


@cache
def _any_of(key: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in shared()["verdict"][key]))


def _search(key: str, text: str) -> bool:
    return _any_of(key).search(text) is not None


def _match(key: str, text: str) -> bool:
    return _any_of(key).match(text) is not None


@cache
def _words(key: str) -> frozenset[str]:
    return frozenset(name_of(word) for word in shared()["verdict"][key])
