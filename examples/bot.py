"""A chat bot for one run: tells a chat what happens, and takes what people say there back to the run.

    python examples/bot.py RUN_ID ROOM.txt       FLOWER_URL and FLOWER_TOKEN say where the server is

In the chat "q1 2" picks the second option of question q1, "q1 WORDS" answers it, "say WORDS" is for the agent.
"""

import json
import os
import sys
import threading
import uuid
from pathlib import Path

from flower_client import Ask, Event, FlowerClient, FlowerClientError, Notice
from room import Chat, Room

SERVER = os.environ.get("FLOWER_URL", "http://127.0.0.1:8420"), os.environ.get("FLOWER_TOKEN", "")


class Bot:
    """Brings a run into ``chat``. How far it has come in the run and in the chat is kept in ``folder``."""

    def __init__(self, run_id: str, chat: Chat, folder: Path) -> None:
        self.run_id, self.chat = run_id, chat
        self.told, self.relayed = folder / f"{run_id}.told", folder / f"{run_id}.relayed"

    def run(self) -> None:
        if not self.relayed.exists():
            keep(self.relayed, self.chat.newest())  # what was said before was about other runs
        threading.Thread(target=self.listen, daemon=True).start()
        place = json.loads(self.told.read_text()) if self.told.exists() else {}
        with FlowerClient(*SERVER) as client:
            watch = client.watch(self.run_id, **place, on_notice=self.notice)
            for event in watch:
                self.tell(event)
                keep(self.told, json.dumps({"after": event.seq, "epoch": watch.epoch}))  # never before it is told

    def notice(self, notice: Notice) -> None:
        if notice.kind == "loss":  # an outage ends by itself
            self.chat.post(notice.text)

    def tell(self, event: Event) -> None:
        ask = Ask.from_event(event)
        if ask and ask.waiting:
            options = [f"{number}) {option}" for number, option in enumerate(ask.options, 1)]
            self.chat.post(f"#{event.seq} {ask.id}: {' '.join([ask.question, *options])}")
        elif ask or event.kind in ("step", "error") or event.text == "run.finished":
            self.chat.post(f"#{event.seq} {f'{ask.id} {ask.state}: {ask.answer}' if ask else event.text}")

    def listen(self) -> None:
        with FlowerClient(*SERVER, attempts=1000) as client:  # one client a thread
            for name, text in self.chat.messages(self.relayed.read_text()):
                try:
                    self.relay(client, text, key=str(uuid.uuid5(uuid.NAMESPACE_URL, f"{self.run_id}/{name}")))
                except FlowerClientError as error:
                    self.chat.post(f"not done: {error.advice}")
                keep(self.relayed, name)

    def relay(self, client: FlowerClient, text: str, key: str) -> None:
        word, _, rest = text.partition(" ")
        ask = next((ask for ask in client.asks(self.run_id, state="all") if ask.id == word), None)
        if word == "say":
            client.say(self.run_id, rest, idempotency_key=key)  # the same message, the same key: done once
        elif ask:
            picked = {"option": int(rest)} if ask.options and rest.isdecimal() else {"text": rest}
            client.answer(self.run_id, word, **picked, idempotency_key=key)


def keep(path: Path, text: str) -> None:
    (new := path.with_suffix(".new" + path.suffix)).write_text(text)
    new.replace(path)  # whole or not at all


if __name__ == "__main__":
    Bot(sys.argv[1], Room(Path(sys.argv[2])), Path(sys.argv[2]).parent).run()
