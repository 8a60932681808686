"""Watching a run from a terminal: events, questions, typed lines and Ctrl-C, brought together in one queue.

Three producers (the reader of events, the keyboard, the signal handler) put what happens into the queue; one consumer,
on the main thread, acts on it. So everything has one order, and nothing here needs a lock.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from queue import SimpleQueue

from flower_client.api import FlowerClient
from flower_client.asking import Asker, answer_lines
from flower_client.ctrl_c import ctrl_c
from flower_client.errors import FlowerClientError, NotAllowed, Unreachable
from flower_client.exits import Exit, for_run
from flower_client.feed import CtrlC, Ended, Feed, Item, Options
from flower_client.keyboard import InputClosed, Keyboard, Line
from flower_client.menu import LEAVE, MENU, MENU_LINES, carry_out, chosen
from flower_client.models import Ask, Event, Page, Run
from flower_client.oracle import OracleAnswer
from flower_client.poll import Notice
from flower_client.prompt import DECLINE, Choice, Questions, first_option, interpret
from flower_client.render import Renderer
from flower_client.safe_text import json_line, one_line
from flower_client.screen import Screen
from flower_client.settling import as_settled, settle
from flower_client.standing import Standing
from flower_client.transport import Sleep

HINT = "type to say something to the agents; ? and a question asks about the run on the side; Ctrl-C for more"


class WatchSession:
    """One ``flower-client watch``. ``make_client`` makes a client that pauses with the given function."""

    def __init__(
        self,
        run_id: str,
        options: Options,
        *,
        client: FlowerClient,
        make_client: Callable[[Sleep], FlowerClient],
        renderer: Renderer,
        screen: Screen,
    ) -> None:
        self.run_id = run_id
        self._options = options
        self._client = client
        self._renderer = renderer
        self._screen = screen
        self._queue: SimpleQueue[Item] = SimpleQueue()
        self._feed = Feed(make_client, run_id, options, self._queue)
        self._asker = Asker(make_client, run_id, self._queue.put)
        self._keyboard = Keyboard(options.keyboard, self._queue.put) if options.keyboard is not None else None
        self._listening = self._keyboard is not None
        self._questions = Questions()
        self._standing = Standing()
        self._asked_server = False
        self._announced: set[str] = set()
        self._current: Ask | None = None
        self._menu_open = False

    def run(self) -> Exit:
        """Watch until there is a reason to leave. Raises FlowerClientError, or KeyboardInterrupt to leave at once."""
        with ctrl_c(self._on_ctrl_c, leaves=lambda: self._menu_open or not self._listening):
            self._ask_server()  # first, so that no question is known before the events that led to it are shown
            if self._keyboard:
                self._note(HINT, "cyan")
                self._keyboard.start()
            self._feed.start()
            try:
                while (code := self._handle(self._queue.get())) is None:
                    pass
                return code
            finally:
                self._screen.no_prompt()
                self._feed.stop()
                self._asker.stop()
                if self._keyboard:
                    self._keyboard.stop()

    def _handle(self, item: Item) -> Exit | None:
        """Act on one thing that happened; the exit code when it is the last."""
        match item:
            case Page():
                return self._on_page(item)
            case Notice():
                self._on_notice(item)
            case Line():
                self._screen.entered()
                return self._on_line(item)
            case InputClosed():
                return self._on_input_closed()
            case CtrlC():
                self._open_menu()
            case OracleAnswer():
                self._on_oracle(item)
            case FlowerClientError():
                self._note(f"the oracle was not asked, or not heard. {item.advice}", "red")
            case Ended():
                if item.error:
                    raise item.error
        return None

    # --- events ---

    def _on_page(self, page: Page) -> Exit | None:
        for event in page.events:
            self._questions.see(event)
            self._standing.see(event)
        current = page.pending == 0 and not page.final
        for event in page.events:
            if self._options.as_json:
                self._screen.lines([json_line(event.raw)])
            elif not (current and self._prompts_for(event)):
                self._screen.lines(self._renderer.event(event))
            self._drop_settled()  # so that what is typed once this line is seen is for the inbox
        if page.final:
            return self._finish(page)
        code = self._attend() if current else None
        self._tell_standing()
        return code

    def _prompts_for(self, event: Event) -> bool:
        """Whether ``event`` is a question that will be shown with a prompt, below everything else."""
        ask = Ask.from_event(event)
        return self._options.on_ask == "prompt" and bool(ask and ask.waiting and self._questions.get(ask.id))

    def _tell_standing(self) -> None:
        """From time to time say how the run stands, but not into what somebody types, nor to programs."""
        if self._options.as_json or self._screen.prompting or not self._standing.due():
            return
        with contextlib.suppress(FlowerClientError):  # it is not worth a word, and the next page will tell
            run = self._client.run(self.run_id)
            self._screen.note(self._renderer.style(f"· {self._standing.line(run)}", dim=True))

    def _finish(self, page: Page) -> Exit:
        try:
            run = self._client.run(self.run_id)
        except Unreachable as error:  # the events have told the state already; only the details are missing
            self._note(f"{error}; the details are missing", "red")
            run = Run(id=self.run_id, state=page.state)
        losses = self._feed.watch.losses
        self._screen.no_prompt()
        if self._options.as_json:
            self._screen.lines([json_line(run.raw)])
        else:
            self._screen.lines(self._renderer.summary(run, losses))
        return for_run(run, lost=bool(losses))

    def _on_notice(self, notice: Notice) -> None:
        if notice.kind == "outage":
            self._note(f"{notice.text}; trying again until the server is back", "yellow")
            return
        self._asked_server = False  # who knows what was asked and answered meanwhile
        if notice.kind == "loss":  # a journal out of a backup: what was answered there may wait again
            self._questions, self._announced = Questions(), set()
        self._note(notice.text, "red" if notice.kind == "loss" else "green")

    # --- questions ---

    def _attend(self) -> Exit | None:
        """See to the questions that wait, everything up to now having been shown."""
        if not self._asked_server:
            self._ask_server()
            self._drop_settled()
        waiting = self._questions.waiting()
        if waiting and self._options.exit_on_ask:
            self._announce(waiting)
            return Exit.AT_ASK
        if self._options.on_ask in ("first", "decline"):
            for ask in waiting:
                self._settle(ask, first_option(ask) if self._options.on_ask == "first" else DECLINE)
        elif self._options.on_ask == "prompt" and self._listening:
            self._prompt_for(waiting)
        else:
            self._announce(waiting)
        return None

    def _ask_server(self) -> None:
        """Learn of questions whose events are not among those read, and forget those settled unseen."""
        with contextlib.suppress(Unreachable):  # then at the next page
            self._questions.set_waiting(self._client.asks(self.run_id))
            self._asked_server = True

    def _announce(self, waiting: list[Ask]) -> None:
        for ask in waiting:
            if ask.id not in self._announced:
                self._announced.add(ask.id)
                self._note(f"{ask.id} waits for an answer: flower-client answer {self.run_id} {ask.id} TEXT", "yellow")

    def _prompt_for(self, waiting: list[Ask]) -> None:
        if self._menu_open or self._current or not waiting:
            return
        self._current = waiting[0]
        self._screen.lines(self._renderer.question(self._current))
        picks = "a number picks an option, text answers" if self._current.options else "text answers"
        self._screen.lines([self._renderer.style(f"   {picks}, an empty line skips the question", dim=True)])
        self._show(self._current.id, f"{one_line(self._current.id, 40)}> ")

    def _drop_settled(self) -> None:
        """Take the prompt away when its question was settled by somebody else, or ran out of time."""
        if self._current and not self._questions.get(self._current.id):
            self._current = None
            if not self._menu_open:
                self._show("", "")

    def _settle(self, ask: Ask, choice: Choice) -> bool:
        """Send ``choice``. False when it could not be delivered and the question waits on."""
        outcome = settle(self._client, self.run_id, ask, choice)
        if isinstance(outcome.error, NotAllowed) and self._options.on_ask in ("first", "decline"):
            raise outcome.error  # nobody is here to see that no question will ever be answered
        if outcome.trouble:
            self._note(outcome.trouble, "red")
        if outcome.ask is None:
            return False
        self._questions.settle(ask.id, outcome.ask)
        return True

    # --- the keyboard ---

    def _on_line(self, line: Line) -> Exit | None:
        if line.unfit:
            if line.text.strip():
                self._note(f"not sent, as {line.unfit}: {one_line(line.text)}", "yellow")
            return None
        if line.about == MENU:
            return self._choose(line.text) if self._menu_open else None
        if line.about:
            self._answer(line.about, line.text)
            return self._attend()
        self._say(line.text)
        return None

    def _answer(self, ask_id: str, text: str) -> None:
        ask = self._questions.get(ask_id)
        if ask is None:
            settled = as_settled(self._questions.settled(ask_id) or Ask(ask_id))
            self._note(f"{one_line(settled)}; not sent: {one_line(text)}", "yellow")
            return
        choice = interpret(ask, text)
        if isinstance(choice, str):
            self._note(choice, "yellow")
        elif self._settle(ask, choice):
            self._drop_settled()

    def _say(self, text: str) -> None:
        """With no question on the screen, a line is for the agent's inbox; an event will show that it got there."""
        words = text.strip()
        if not words:
            return
        if words[0] in "?？":
            if question := words[1:].strip():
                self._note("asked on the side; the answer is shown here when it comes", "cyan")
                self._asker.ask(question)
            return
        try:
            self._client.say(self.run_id, words)
        except FlowerClientError as error:
            unsure = isinstance(error, Unreachable) and error.maybe_done
            self._note(f"{'perhaps ' if unsure else ''}not sent: {error.advice}", "red")

    def _on_oracle(self, found: OracleAnswer) -> None:
        if self._options.as_json:
            self._screen.note(json_line(found.raw))  # it is none of the run's events
            return
        self._screen.lines([self._renderer.style(f"?? {one_line(found.question, 1000)}", bold=True)])
        self._screen.lines(f"   {line}" for line in answer_lines(found))

    def _on_input_closed(self) -> Exit | None:
        self._listening = False
        if self._menu_open:
            return Exit.INTERRUPTED
        self._note("the input has ended: nothing more can be typed here, and Ctrl-C leaves at once", "yellow")
        if self._current:
            self._current = None
            self._screen.no_prompt()
            return self._attend()
        return None

    # --- Ctrl-C ---

    def _on_ctrl_c(self) -> None:
        """In the signal handler."""
        self._menu_open = True
        self._queue.put(CtrlC())  # a SimpleQueue may be put into from there

    def _open_menu(self) -> None:
        self._screen.no_prompt()
        self._screen.lines(MENU_LINES)
        self._show(MENU, "i/l/c> ")

    def _choose(self, text: str) -> Exit | None:
        choice = chosen(text)
        if choice is None:
            self._note("i, l, c or nothing", "yellow")
            return None
        self._menu_open, self._current = False, None  # the question is shown anew below
        self._show("", "")
        said, colour = carry_out(self._client, self.run_id, *choice)
        if said:
            self._note(said, colour)
        return Exit.INTERRUPTED if choice[0] == LEAVE else self._attend()

    def _show(self, about: str, prompt: str) -> None:
        """Have lines be about ``about`` from here on, then show ``prompt``; in this order, so none is mistaken."""
        self._screen.no_prompt()
        if self._keyboard:
            self._keyboard.show(about)
        if prompt:
            self._screen.prompt(prompt)

    def _note(self, text: str, colour: str) -> None:
        self._screen.note(self._renderer.style(one_line(text, 1000), fg=colour))
