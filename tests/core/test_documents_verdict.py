"""The verdict: tables of what judges write, and the rule that doubt is never success."""

from __future__ import annotations

from pathlib import Path

import pytest

from flower_core.documents import Verdict
from flower_core.documents.sections import catalogue, shared
from flower_core.texts import LANGUAGES

ACHIEVED = [
    "达成",
    "已达成。",
    "**达成**",
    "✅ 达成",
    "目标已达成",
    "全部 5 条判定项均已达成",
    "功能全部达成",
    "要求都达成了",
    "5/5 条都过了，达成",
    "所有判定项都看过证据，没有遗留，达成",
    "不但达成，而且超出预期",
    "没有无法验证的项，达成",
    "达成：没有问题",
    "达成，没有失败的条目",
    "achieved: 5 passed, 0 failed",
    "achieved: no failures",
    "achieved, no check failed",
    "achieved: 0 failed",
    "達成",
    "通过",
    "全部通过",
    "achieved",
    "ACHIEVED",
    "Achieved.",
    "`achieved`",
    "Goal achieved — all 5 checks pass",
    "The goal has been achieved.",
    "achieved (5/5)",
    "100% achieved",
    "state: achieved",
    "achieved: true",
    '{"achieved": true}',
    "All checks passed, so it is achieved",
    "No problems found; achieved",
    "passed",
    "1",
    "**1**",
    "1.",
    "true",
    "True",
    "１",
    "logrado",
    "Objetivo alcanzado",
    "atteint",
    "L'objectif est atteint.",
    "所有判定项均已达成",
    "The goal has been fully achieved.",
    "达成。逐条看过，证据见理由",
    "El objetivo ha sido plenamente alcanzado",
]
NOT_YET = [
    "未达成",
    "**未达成**",
    "未 达成",
    "尚未达成",
    "还没有达成",
    "并未达成",
    "没有全部达成",
    "没能达成",
    "不算达成",
    "部分达成",
    "几乎达成",
    "离达成还差一步",
    "未达成：5 条里达成了 3 条",
    "达成了 3 条，整体未达成",
    "达成了吗？没有",
    "达成：否",
    "未达成，第 2 条此环境无法验证",
    "未通过",
    "不通过",
    "失败",
    "未達成",
    "not achieved",
    "NOT ACHIEVED",
    "not **achieved**",
    "not_achieved",
    "not-achieved",
    "Not yet",
    "not  yet",
    "not yet achieved",
    "not fully achieved",
    "not, or hardly achieved",
    "hasn't been achieved",
    "hasn’t been achieved",
    "has never been achieved",
    "nothing was achieved",
    "none of it is achieved",
    "only partially achieved",
    "partially achieved",
    "almost achieved",
    "nearly achieved",
    "the goal has yet to be achieved",
    "remains to be achieved",
    "failed to be achieved",
    "far from achieved",
    "achieved only in part",
    "achieved partially",
    "unachieved",
    "achieved: no",
    "achieved: not really",
    "achieved: none.",
    "it is false that the goal is achieved",
    "I don't think it is achieved",
    "achieved = false",
    '{"achieved": false}',
    "not achieved, although check 1 is achieved",
    "Not achieved: check 2 cannot be verified",
    "achieved? no",
    "~~achieved~~ not yet",
    "not met",
    "incomplete",
    "failed",
    "0",
    "0.",
    "false",
    "False",
    "no logrado",
    "aún no",
    "todavía no logrado",
    "pas encore",
    "non atteint",
    "l'objectif n'est pas atteint",
]
UNREACHABLE = [
    "无法达成",
    "無法達成",
    "**无法达成**：缺少依赖",
    "不能达成",
    "不可能达成",
    "达不成",
    "达成不了",
    "无法达成，已达成 2 条",
    "第 2 条在此环境无法验证",
    "此环境无法验证",
    "验证不了",
    "有一条不能被验证",
    "没法验证",
    "unreachable",
    "Unreachable: no GPU",
    "cannot be achieved",
    "can not be achieved",
    "can't be achieved",
    "can’t be achieved here",
    "not achievable",
    "unachievable",
    "impossible",
    "cannot be verified",
    "Cannot be verified here",
    "can't be verified",
    "check 3 could not be verified",
    "I was unable to verify check 3",
    "impossible to check",
    "It is not possible to verify this here",
    "unverifiable",
    "inalcanzable",
    "no se puede lograr",
    "no se puede verificar aquí",
    "inatteignable",
    "impossible à vérifier ici",
    "ne peut pas être vérifié",
]
UNCLEAR = [
    "也许达成",
    "应该可以达成",
    "基本达成",
    "除第 3 条外均达成",
    "如果再补一条就能达成",
    "达成，但第 3 条没过",
    "达成了 80%",
    "achieved, but check 3 is red",
    "achieved except for check 2",
    "probably achieved",
    "seems achieved",
    "can be achieved",
    "will be achieved soon",
    "should be achieved",
    "achieved 3/5",
    "3 of 5 achieved",
    "80% achieved",
    "the worker claims it is achieved",
    "if check 2 were fixed it would be achieved",
    "whether the goal is achieved is open",
    "是否达成：是",
    "达成率很高",
    "check 1 looks fine",
    "1 failed",
    "1/5",
    "10",
    "exit status 1",
    "1 or 0",
    "yes and no",
    "?",
    "看情况",
    "overachieved",
    "达成，第 3 条没过",
    "达成，第 3 条失败",
    "达成还差一条",
    "achieved; 2 checks failed",
    "achieved, check 3 fails",
    "I doubt it is achieved",
    "unclear whether achieved",
    "达成 ✗",
    "达成❌",
    "[ ] 达成",
    "达成，待确认",
    "达成，没有实际运行",
    "拒绝判为达成",
    "达成不代表通过",
    "判定为达成为时尚早",
    "工人说达成",
    "工人说：达成",
    "achieved (pending test run)",
    "achieved pending review",
    "achieved modulo the tests",
    "achieved by reading the source",
    "achieved; the tests were not run",
    "Too early to call it achieved",
    "The worker says achieved",
    "The worker says: achieved",
    "I refuse to call this achieved",
    "achieved in spirit",
    "el trabajador dice logrado",
    "atteint selon lui",
    "if check 2 is fixed, achieved",
    "once check 2 is fixed, achieved",
    "when check 2 is fixed, achieved",
    "assuming 2 gets fixed, achieved",
    "achieved; check 3 remains",
    "achieved, untested",
    "achieved, still open: 3",
    "补上第三条后，达成",
    "达成；第三条未做",
    "达成，差第三条",
]
CASES = [
    (state, words)
    for state, group in (("achieved", ACHIEVED), ("not_yet", NOT_YET), ("unreachable", UNREACHABLE), ("", UNCLEAR))
    for words in group
]
FORMS = (
    "## 结论\n{}\n\n## 理由\nr",
    "Conclusion: {}\nReason: r",
    "**Veredicto**\n\n{}\n\n**Motivo**: r",
    "1. Verdict\n{}\n2. Raison\nr",
)


@pytest.mark.parametrize(("state", "words"), CASES)
def test_the_conclusion_is_read_the_same_under_every_heading_and_in_every_language(state: str, words: str) -> None:
    for form in FORMS:
        for lang in LANGUAGES:
            verdict = Verdict.parse(form.format(words), lang=lang)
            assert (verdict.state, verdict.ok) == (state, state == "achieved"), form
            assert "r" in verdict.reason


@pytest.mark.parametrize(("state", "words"), CASES)
def test_a_reply_without_headings_is_read_as_the_conclusion(state: str, words: str) -> None:
    assert Verdict.parse(words).state == state


@pytest.mark.parametrize("words", [words for words in ACHIEVED if not words.startswith("state:")])
@pytest.mark.parametrize(
    "other", ["未达成", "not achieved", "无法达成", "unreachable", "此环境无法验证", "cannot be verified", "pas encore"]
)
def test_success_beside_any_other_state_is_no_success(words: str, other: str) -> None:
    for text in (f"{words}\n{other}", f"{other}\n{words}", f"{words}, {other}", f"{other}; {words}"):
        assert not Verdict.parse(f"## Conclusion\n{text}").ok
        assert not Verdict.parse(text).ok


@pytest.mark.parametrize("words", UNCLEAR)
@pytest.mark.parametrize(
    ("lang", "mark"),
    [
        ("zh", "按未达成处理"),
        ("en", "counts as not yet"),
        ("es", "cuenta como todavía no"),
        ("fr", "compte comme pas encore"),
    ],
)
def test_ambiguity_gets_a_reason_that_says_so(words: str, lang: str, mark: str) -> None:
    verdict = Verdict.parse(f"## 结论\n{words}", lang=lang)
    assert mark in verdict.reason
    assert mark in verdict.feedback()


@pytest.mark.parametrize("words", [*ACHIEVED, *NOT_YET, *(word for word in UNREACHABLE if "达成 2" not in word)])
def test_a_clear_conclusion_gets_no_reason_of_ours(words: str) -> None:
    reason = Verdict.parse(f"## 结论\n{words}\n## 理由\n看过了").reason
    assert reason == "看过了" or not Verdict.parse(words).ok
    assert reason.endswith("看过了")


def test_the_conclusion_section_alone_decides() -> None:
    text = "The goal is achieved, I first thought.\n## 结论\n未达成\n## 理由\n大部分已达成"
    assert Verdict.parse(text).state == "not_yet"
    text = "## 理由\n前一轮未达成，这一轮补上了\n## 结论\n达成"
    assert Verdict.parse(text) == Verdict("achieved", "前一轮未达成，这一轮补上了")
    assert Verdict.parse("## 结论\n说不好\n## 理由\n达成").state == ""
    assert Verdict.parse("达成\n\n理由：第一轮未达成").state == "achieved"
    assert Verdict.parse("not achieved\nstate: achieved").state == "achieved"


def test_a_claim_said_over_and_over_is_no_conclusion() -> None:
    assert Verdict.parse("## 结论\n" + "达成\n" * 40).ok
    assert Verdict.parse("## 结论\n" + "达成\n" * 41).state == ""


def test_the_template_repeated_back_is_no_conclusion() -> None:
    assert not Verdict.parse("## 结论\n达成 / 未达成 / 无法达成").ok
    assert not Verdict.parse("Conclusion: achieved | not yet | unreachable").ok


@pytest.mark.parametrize("text", ["答案是 1", "The answer is 1.", "Result: 1", "looked at everything\n\n1\n", "返回 1"])
def test_a_lone_one_counts_and_a_lone_zero_counts_against(text: str) -> None:
    assert Verdict.parse(text).state == "achieved"
    assert Verdict.parse(text.replace("1", "0")).state == "not_yet"
    assert Verdict.parse(f"{text}\n0\n1").state == ""


@pytest.mark.parametrize(
    "text", ["1. first check fine", "check 1 is broken", "Result: 1 failed", "1 of 5", "v1", "1 2 3", "-1", "0.1", "11"]
)
def test_a_number_inside_a_sentence_is_never_success(text: str) -> None:
    assert not Verdict.parse(text).ok
    assert not Verdict.parse(f"## 结论\n{text}").ok


@pytest.mark.parametrize(
    "nothing",
    [
        "无",
        "无。",
        "- 无",
        "没有",
        "(无)",
        "none",
        "- None.",
        "N/A",
        "None — all five passed",
        "无，全部通过",
        "全部通过",
        "All checks passed.",
        "-",
        "ninguno",
        "aucun",
    ],
)
def test_a_list_that_says_nothing_failed_is_empty(nothing: str) -> None:
    verdict = Verdict.parse(f"## 结论\n达成\n## 未通过\n{nothing}")
    assert verdict.failed == []
    assert verdict.ok


def test_success_with_failed_checks_contradicts_itself() -> None:
    verdict = Verdict.parse("## Conclusion\nachieved\n## Not passed\n- check 2: exits 1\n- check 3", lang="en")
    assert verdict.state == ""
    assert verdict.failed == ["check 2: exits 1", "check 3"]
    assert "contradicts" in verdict.reason


@pytest.mark.parametrize(
    "text", ["", " \n", "```\n## 结论\n达成\n```", "## 结论\n```\n达成\n```", "## 结论\n\n## 理由\n达成"]
)
def test_nothing_or_fenced_code_is_no_conclusion(text: str) -> None:
    verdict = Verdict.parse(text)
    assert not verdict.ok
    assert verdict.missing() == ["结论"]
    assert not verdict.complete()


def test_feedback_says_what_is_missing() -> None:
    verdict = Verdict.parse(
        "## Conclusion\nnot yet\n## Reason\nno output\n## Not passed\n1. runs\n2. prints `x`", lang="en"
    )
    feedback = verdict.feedback()
    assert all(part in feedback for part in ("not yet", "- runs", "- prints `x`", "no output"))
    assert "未达成" in Verdict(lang="zh").feedback()


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("state", ["achieved", "not_yet", "unreachable"])
def test_a_verdict_survives_writing_and_reading(tmp_path: Path, lang: str, state: str) -> None:
    verdict = Verdict(lang=lang, reason="because\n\n- of this", failed=[] if state == "achieved" else ["a", "b: c"])
    verdict.state = "achieved" if state == "achieved" else "not_yet" if state == "not_yet" else "unreachable"
    verdict.write(tmp_path / "v.md")
    for other in LANGUAGES:
        read = Verdict.load(tmp_path / "v.md", lang=other)
        assert (read.state, read.reason, read.failed) == (verdict.state, verdict.reason, verdict.failed)
    with pytest.raises(FileNotFoundError):
        Verdict.load(tmp_path / "none.md")


def test_every_listed_word_means_what_its_list_says() -> None:
    for state in ("achieved", "not_yet", "unreachable"):
        for word in shared()["verdict"][state]:
            assert Verdict.parse(f"## 结论\n{word}").state == state, word
            assert Verdict.parse(word.upper()).state == state, word


def test_every_alias_of_the_conclusion_carries_it() -> None:
    for alias in catalogue("verdict")["state"]:
        assert Verdict.parse(f"not achieved, it seemed\n\n## {alias}\nachieved").ok, alias
