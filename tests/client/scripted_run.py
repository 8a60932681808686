"""A run as a server keeps it, driven by a test: events are appended, questions asked, pages read."""

from __future__ import annotations

import threading
from typing import Any

Json = dict[str, Any]
AT = "2030-01-02T03:04:05.000Z"
FINAL = ("succeeded", "failed", "cancelled")


class Problem(Exception):
    """A refusal: status, slug, and further members of the document."""

    def __init__(self, status: int, slug: str, detail: str = "", **extra: Any) -> None:
        super().__init__(slug)
        self.status = status
        self.document = {"type": slug, "title": slug, "status": status, "detail": detail or slug, **extra}


class ScriptedRun:
    """One run. Every change wakes whoever waits for events."""

    def __init__(self, run_id: str = "r1", task: str = "bake bread") -> None:
        self.id = run_id
        self.task = task
        self.epoch = "e1"
        self.state = "running"
        self.first_seq = 1
        self.events: list[Json] = []
        self.asks: dict[str, Json] = {}
        self.mail: list[str] = []
        self.documents: dict[str, str] = {}
        self.files: dict[str, bytes] = {}
        self.interrupts: list[str] = []
        self.questions: list[Json] = []
        self.more: Json = {}
        self.changed = threading.Condition()
        self.append("system", "run.created", {"id": run_id})

    @property
    def last_seq(self) -> int:
        return self.first_seq - 1 + len(self.events)

    def append(self, kind: str, text: str = "", payload: Json | None = None, *, tool: str = "") -> int:
        with self.changed:
            seq = self.last_seq + 1
            event = {"seq": seq, "at": AT, "kind": kind, "text": text, "tool": tool, "payload": payload or {}}
            self.events.append(event)
            self.changed.notify_all()
            return seq

    def say(self, *texts: str) -> None:
        for text in texts:
            self.append("text", text)

    def finish(self, state: str = "succeeded", **more: Any) -> None:
        with self.changed:
            self.more |= more
            self.state = state
            self.append("system", "run.finished", {"state": state})

    def ask(self, ask_id: str, question: str, options: list[str] | None = None, remaining: int = -1) -> None:
        with self.changed:
            self.asks[ask_id] = {
                "id": ask_id,
                "question": question,
                "options": options or [],
                "state": "asked",
                "answer": "",
                "asked_at": AT,
                "remaining": remaining,
            }
            self.state = "waiting"
            payload = {"id": ask_id, "options": options or [], "state": "asked", "remaining": remaining}
            self.append("ask", question, payload)

    def settle(self, ask_id: str, state: str, answer: str = "", by: str = "") -> Json:
        with self.changed:
            ask = self.asks.get(ask_id)
            if ask is None:
                raise Problem(404, "unknown-ask")
            if ask["state"] != "asked":
                raise Problem(409, "ask-settled", f"{ask_id} was {ask['state']} already", ok=False, ask=ask)
            ask |= {"state": state, "answer": answer, "answered_by": by}
            if not any(other["state"] == "asked" for other in self.asks.values()):
                self.state = "running"
            self.append("ask", ask["question"], {**ask})
            return {"ok": True, "ask": ask}

    def post(self, text: str) -> Json:
        with self.changed:
            self.mail.append(text)
            mail_id = f"m{len(self.mail)}"
            self.append("ask", text, {"kind": "mail", "id": mail_id, "state": "queued"})
            return {"id": mail_id, "amended": ""}

    def interrupt(self, text: str) -> Json:
        with self.changed:
            if self.state in FINAL:
                raise Problem(409, "not-running", "there is nothing to interrupt")
            self.interrupts.append(text)
            return {"ok": True, "note": "a subagent in flight loses its half-done work"}

    def ask_oracle(self, question: str) -> Json:
        with self.changed:
            if any(each["state"] == "thinking" for each in self.questions):
                raise Problem(429, "oracle-busy", "a question about this run is being answered")
            number = f"o{len(self.questions) + 1}"
            asked = {"run": self.id, "id": number, "question": question, "state": "thinking", "answer": "", "error": ""}
            self.questions.append({**asked, "cost_usd": 0.0, "asked_at": AT, "answered_at": None})
            return dict(self.questions[-1])

    def tell_oracle(self, answer: str = "", error: str = "") -> None:
        """Settle the last question."""
        with self.changed:
            state = "failed" if error else "answered"
            self.questions[-1] |= {"state": state, "answer": answer, "error": error, "cost_usd": 0.02}

    def oracle_answer(self, question_id: str) -> Json:
        with self.changed:
            for each in self.questions:
                if each["id"] == question_id:
                    return dict(each)
        raise Problem(404, "unknown-question")

    def resume(self) -> None:
        with self.changed:
            if self.state != "interrupted":
                raise Problem(409, "not-interrupted", "only an interrupted run can be resumed")
            self.state = "running"

    def forget_before(self, seq: int) -> None:
        """Retention drops the events before ``seq``."""
        with self.changed:
            self.events = self.events[seq - self.first_seq :]
            self.first_seq = seq

    def lose_journal(self) -> None:
        """Everything is gone, and what comes is counted anew."""
        with self.changed:
            self.epoch += "'"
            self.events, self.first_seq = [], 1

    def page(self, query: dict[str, str]) -> Json:
        with self.changed:
            if "tail" in query:
                after = max(self.last_seq - int(query["tail"]), self.first_seq - 1)
            else:
                after = int(query.get("after", "0"))
            known: Json = {"epoch": self.epoch, "first_seq": self.first_seq, "last_seq": self.last_seq}
            if query.get("epoch", self.epoch) != self.epoch:
                raise Problem(410, "epoch-changed", **known)
            if after > self.last_seq:
                raise Problem(409, "cursor-ahead", **known)
            self.changed.wait_for(
                lambda: self.last_seq > after or self.state in FINAL, timeout=float(query.get("wait", "0"))
            )
            return self._page(after, int(query.get("limit", "100")), skip=query.get("on_gap") == "skip")

    def _page(self, after: int, limit: int, *, skip: bool) -> Json:
        gap = None
        base = after
        if after < self.first_seq - 1:
            base = self.first_seq - 1
            if not skip:
                lost = {"from": after + 1, "to": base, "count": base - after}
                raise Problem(410, "cursor-expired", lost=lost, epoch=self.epoch, resume_after=base)
            gap = {"from": after + 1, "to": base}
        start = base - self.first_seq + 1
        events = self.events[start : start + limit]
        next_after = base + len(events)
        pending = self.last_seq - next_after
        return {
            "run": self.id,
            "epoch": self.epoch,
            "state": self.state,
            "after": after,
            "events": events,
            "next_after": next_after,
            "first_seq": self.first_seq,
            "last_seq": self.last_seq,
            "pending": pending,
            "final": self.state in FINAL and pending == 0,
            "gap": gap,
            "retry_after_ms": 0,
        }

    def to_json(self) -> Json:
        return {
            "id": self.id,
            "state": self.state,
            "flow": "starter",
            "task": self.task,
            "workspace": self.id,
            "lang": "en",
            "labels": {},
            "created_at": "2030-01-02T03:00:00Z",
            "started_at": "2030-01-02T03:00:00Z",
            "ended_at": "2030-01-02T03:04:05Z" if self.state in FINAL else None,
            "step": {"name": "Work", "index": 3, "total": 3, "round": 1},
            "asks_waiting": sum(ask["state"] == "asked" for ask in self.asks.values()),
            "result": "",
            "verdict": None,
            "cost_usd": 0.0,
            "num_turns": 0,
            "last_seq": self.last_seq,
            "epoch": self.epoch,
            **self.more,
        }
