"""Run as a program: flower-server with a service that only listens; what serve does around it is the real thing."""

from __future__ import annotations

import os
import socket
import sys

from flower_http.commands import make_cli
from flower_http.settings import SECRETS, Settings


class Listening:
    """Accepts connections and says nothing."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._socket = socket.socket()
        self.url = ""

    def start(self) -> None:
        self._socket.bind((self._settings.host, self._settings.port))
        self._socket.listen()
        host, port = self._socket.getsockname()
        self.url = f"http://{host}:{port}"

    def stop(self, deadline_s: float) -> None:
        self._socket.close()
        left = [name for name in SECRETS if name in os.environ]
        print(f"secrets not unset: {', '.join(left) or 'none'}", file=sys.stderr)
        print(f"stopped with {deadline_s:g} s to spare", file=sys.stderr)


if __name__ == "__main__":
    make_cli(Listening)()
