"""What the test of a long run needs: a person, a client that counts, and the moments its server is killed at."""

from __future__ import annotations

import hashlib
import http.client
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

from tests.e2e.serving import PATIENCE_S, FlowerServer
from tests.support import eventually

#: How many of the last events are read once more with every request, and compared.
_OVERLAP = 20
_LOOK_S = 0.02
#: What a request may end in while the server is down, or goes down.
_GONE = (OSError, http.client.HTTPException, json.JSONDecodeError)

Kind = Literal["start", "events", "asked", "answering"]


#: So many events a question is waited for; one comes up about as often.
_UNTIL_ASKED = 60
#: What the jitter of each kind of moment is below, in seconds. An answer takes a few milliseconds in all.
_JITTER_S: dict[Kind, float] = {"start": 0.4, "events": 0.1, "asked": 0.2, "answering": 0.02}


@dataclass(frozen=True)
class Moment:
    """When to kill a server, counted from its start: what ``kind`` says, and ``jitter`` seconds later.

    ``start``: as soon as it listens. ``events``: when the run has ``amount`` more events. ``asked``: when a question
    has come up, and nobody has answered. ``answering``: when an answer is on its way. These two are waited for until
    there are ``amount`` more events.
    """

    kind: Kind
    amount: int
    jitter: float


def moments(seed: int, kills: int, most_events: int) -> list[Moment]:
    """``kills`` random moments of every kind, ``most_events`` at most apart. Never two at the very start in a row.

    A run that has had no time to get on three times in a row would be left alone, and rightly so. The first two are
    those of a question, which the run begins with: so both are reached, whatever the others come to.
    """
    chance = random.Random(seed)  # noqa: S311 - chance that can be repeated is the point
    rare: list[Kind] = ["start", "asked", "answering"]
    kinds: list[Kind] = [kind for kind in rare for _ in range(kills // 5)]
    kinds += ["events" for _ in range(kills - len(kinds))]
    kinds = kinds[:-2]
    while ("start", "start") in pairwise(kinds):
        chance.shuffle(kinds)
    kinds = ["asked", "answering", *kinds]
    amounts = dict.fromkeys(rare, _UNTIL_ASKED)
    return [
        Moment(kind, amounts.get(kind) or chance.randint(4, most_events), chance.uniform(0, _JITTER_S[kind]))
        for kind in kinds
    ]


class Worker(threading.Thread):
    """A thread that repeats ``step`` until it is done; what it raises is raised again by :meth:`finish`."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._over = threading.Event()
        self._error: BaseException | None = None

    def run(self) -> None:
        """Repeat; a server that is down is tried again."""
        try:
            while not self._over.wait(_LOOK_S) and not self.done():
                try:
                    self.step()
                except _GONE:
                    self.broken()
        except BaseException as error:
            self._error = error

    def done(self) -> bool:
        """Whether there is nothing left to do."""
        return False

    def step(self) -> None:
        """One request or a few. May raise what a server that goes away makes of them."""
        raise NotImplementedError

    def broken(self) -> None:
        """The server is down."""

    def check(self) -> None:
        """Raise what has gone wrong so far."""
        if self._error is not None:
            raise self._error

    def finish(self, *, wait: bool = False) -> None:
        """End it, or ``wait`` until it has nothing left to do; raise what went wrong."""
        if not wait:
            self._over.set()
        self.join(PATIENCE_S)
        self.check()
        assert not self.is_alive(), f"{self.name} does not come to an end"


class Watcher(Worker):
    """A client that follows a run by counting and reads the newest events again each time: they must not change."""

    def __init__(self, server: FlowerServer, run: dict[str, Any]) -> None:
        super().__init__("watcher")
        self._server, self._run, self._epoch = server, run["id"], run["epoch"]
        self._final = False
        self.events: list[dict[str, Any]] = []
        self.digest = hashlib.sha256()
        self.compared = self.breaks = 0

    def done(self) -> bool:
        """When the run has ended and everything has been read."""
        return self._final

    def step(self) -> None:
        """Read on, from a little before the end."""
        seen = len(self.events)
        after = max(0, seen - _OVERLAP)
        path = f"/runs/{self._run}/events?after={after}&limit=500&epoch={self._epoch}"
        status, page = self._server.call("GET", path)
        assert status == 200, page
        assert (page["after"], page["gap"]) == (after, None), "nothing is missing"
        assert page["next_after"] == after + len(page["events"]) >= seen, "nothing that was shown is gone"
        assert page["events"][: seen - after] == self.events[after:], "nothing that was shown has changed"
        self.compared += seen - after
        for event in page["events"][seen - after :]:
            assert event["seq"] == len(self.events) + 1
            self.events.append(event)
            self.digest.update(canonical(event))
        self._final = page["final"]

    def broken(self) -> None:
        """Count it."""
        self.breaks += 1

    def asked(self, since: int) -> bool:
        """Whether a question was put among the events after the first ``since``."""
        return any(event["kind"] == "ask" and event["payload"].get("state") == "asked" for event in self.events[since:])


class Person(Worker):
    """Answers every question it sees, each in words of its own, and says the same again until it is told it counts."""

    def __init__(self, server: FlowerServer, run: dict[str, Any]) -> None:
        super().__init__("person")
        self._server, self._run = server, run["id"]
        #: Set while it may answer.
        self.present = threading.Event()
        self.present.set()
        #: Set when the next answer is about to be sent.
        self.answering = threading.Event()
        self.said: dict[str, str] = {}
        self.accepted: dict[str, str] = {}

    def step(self) -> None:
        """Look at what waits, and answer it."""
        for ask in self._server.get(f"/runs/{self._run}/asks")["asks"]:
            words = ask["question"]
            assert words not in self.accepted, f"asked again: {words}"
            if not self.present.is_set():
                continue
            text = self.said.setdefault(words, f"Answer {len(self.said) + 1} to: {words}")
            self.answering.set()
            status, reply = self._server.call("POST", f"/runs/{self._run}/answer", {"ask_id": ask["id"], "text": text})
            if status == 200:
                self.accepted[words] = text
            else:
                assert status in (409, 503), reply


@dataclass
class Kills:
    """Kills a server at moments, and starts it again; ``reached`` counts those that came as they were meant to."""

    server: FlowerServer
    watcher: Watcher
    person: Person
    reached: Counter[Kind] = field(default_factory=Counter)
    _orphans: set[int] = field(default_factory=set)

    def at(self, moment: Moment) -> None:
        """Wait for ``moment``, kill, start again."""
        before = len(self.watcher.events)
        if moment.kind == "asked":
            self.person.present.clear()
        if moment.kind != "start":
            self.nothing_is_left()
        if self._wait(self._condition(moment, before), lambda: len(self.watcher.events) >= before + moment.amount):
            self.reached[moment.kind] += 1
        time.sleep(moment.jitter)
        self._orphans.update(self.server.agents())
        self.server.kill()
        self.person.answering.clear()
        self.person.present.set()
        self.server.start_again()

    def nothing_is_left(self) -> None:
        """No program that worked for a server that was killed works on."""
        eventually(lambda: not self._orphans & set(self.server.agents()), PATIENCE_S)
        self._orphans.clear()

    def _condition(self, moment: Moment, before: int) -> Callable[[], bool]:
        if moment.kind == "asked":
            return lambda: self.watcher.asked(before)
        if moment.kind == "answering":
            return self.person.answering.is_set
        if moment.kind == "events":
            return lambda: len(self.watcher.events) >= before + moment.amount
        return lambda: True

    def _wait(self, condition: Callable[[], bool], too_late: Callable[[], bool]) -> bool:
        """Whether ``condition`` came true before it was ``too_late``."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            if too_late():
                return False
            self.watcher.check()
            self.person.check()
            assert not self.watcher.done(), "the run ended before it was killed often enough"
            assert time.monotonic() < deadline, f"stuck after {len(self.watcher.events)} events"
            time.sleep(0.002)
        return True


def canonical(event: dict[str, Any]) -> bytes:
    """The event as bytes that are the same whenever the event is."""
    return json.dumps(event, sort_keys=True).encode()
