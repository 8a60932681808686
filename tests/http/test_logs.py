from __future__ import annotations

import json
import logging

import pytest

from flower_http import logs


@pytest.fixture(autouse=True)
def _restore() -> object:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def _log(form: str, capsys: pytest.CaptureFixture[str]) -> str:
    logs.configure(form)
    try:
        raise ValueError("broken\nbadly")
    except ValueError:
        logging.getLogger("flower.test").exception("a path: %s", "/x\n2026 INFO forged \x1b[31m \udc80")
    return capsys.readouterr().err


def test_a_text_line_cannot_be_broken_by_what_is_logged(capsys: pytest.CaptureFixture[str]) -> None:
    written = _log("text", capsys)
    assert written.count("\n") == 1
    assert written[:-1].isprintable()
    assert "ERROR flower.test a path: /x\\n2026" in written
    assert "ValueError" in written


def test_a_json_line_holds_everything(capsys: pytest.CaptureFixture[str]) -> None:
    written = _log("json", capsys)
    record = json.loads(written)
    assert written.count("\n") == 1
    assert (record["level"], record["logger"]) == ("ERROR", "flower.test")
    assert record["message"].startswith("a path: /x\n2026")
    assert "broken\nbadly" in record["exception"]
    assert record["at"].endswith("Z")


def test_a_json_line_steers_no_terminal_and_reorders_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("json")
    odd = "\x9b31m \x1b[2J \u2028 \u202e \U000e0001 清理"
    logging.getLogger("flower.test").info("a path: %s", odd)
    written = capsys.readouterr().err
    assert written[:-1].isprintable()
    assert "清理" in written
    assert json.loads(written)["message"] == f"a path: {odd}"
