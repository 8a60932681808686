"""The other end: many kept-open connections from one thread, in a process of its own.

    python -m bench.load

Commands: ``run PORT CONNECTIONS SECONDS TOKEN TARGET`` gives requests a second, and the median and 99th percentile of
the time of one, in milliseconds. ``hold PORT CONNECTIONS TOKEN TARGET`` sends one request on each connection;
``collect`` gives the clock (time.monotonic) when the first and the last of them has its reply, then closes them.
"""

from __future__ import annotations

import selectors
import socket
import time
from dataclasses import dataclass, field

from bench.measuring import obey, percentile

_TIMEOUT_S = 60.0
_PIECE = 1 << 18


@dataclass(eq=False)
class Connection:
    """One connection and the reply it waits for."""

    socket: socket.socket
    request: bytes
    sent: float = 0.0
    got: bytearray = field(default_factory=bytearray)
    size: int = 0  # of the whole reply; 0 while its head is not there

    def send(self) -> None:
        """Ask again."""
        self.got.clear()
        self.size = 0
        self.sent = time.perf_counter()
        self.socket.sendall(self.request)

    def complete(self) -> bool:
        """Read what is there; whether the reply is complete. Raises SystemExit for anything but a good reply."""
        piece = self.socket.recv(_PIECE)
        if not piece:
            raise SystemExit("a connection was closed")
        self.got += piece
        if not self.size:
            end = self.got.find(b"\r\n\r\n")
            if end < 0:
                return False
            head = bytes(self.got[:end]).lower()
            if not head.startswith(b"http/1.1 200"):
                raise SystemExit(f"no good reply: {head[:200]!r}")
            self.size = end + 4 + int(head.partition(b"content-length:")[2].split(b"\r\n")[0])
        return len(self.got) >= self.size


def connect(port: str, count: str, token: str, target: str) -> list[Connection]:
    """``count`` connections to the server at ``port``, nothing sent yet."""
    request = f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
    return [
        Connection(socket.create_connection(("127.0.0.1", int(port)), timeout=_TIMEOUT_S), request)
        for _ in range(int(count))
    ]


def run(port: str, count: str, seconds: str, token: str, target: str) -> list[float]:
    """As fast as replies come, each connection asking again once it has its reply, for ``seconds``."""
    times: list[float] = []
    with selectors.DefaultSelector() as selector:
        connections = connect(port, count, token, target)
        for connection in connections:
            selector.register(connection.socket, selectors.EVENT_READ, connection)
            connection.send()
        started = time.perf_counter()
        until = started + float(seconds)
        while (now := time.perf_counter()) < until:
            for key, _ in selector.select(1.0):
                if key.data.complete():
                    now = time.perf_counter()
                    times.append(now - key.data.sent)
                    key.data.send()
    for connection in connections:
        connection.socket.close()
    return [len(times) / (now - started), percentile(times, 50) * 1000, percentile(times, 99) * 1000]


class Held:
    """Connections whose requests a server holds."""

    def __init__(self) -> None:
        self._connections: list[Connection] = []

    def hold(self, port: str, count: str, token: str, target: str) -> None:
        """Send one request on each of ``count`` connections."""
        self._connections = connect(port, count, token, target)
        for connection in self._connections:
            connection.send()

    def collect(self) -> list[float]:
        """When the first and the last reply was there."""
        seen: list[float] = []
        with selectors.DefaultSelector() as selector:
            for connection in self._connections:
                selector.register(connection.socket, selectors.EVENT_READ, connection)
            deadline = time.monotonic() + _TIMEOUT_S
            while len(seen) < len(self._connections):
                if time.monotonic() > deadline:
                    raise SystemExit(f"{len(self._connections) - len(seen)} readers got no reply")
                for key, _ in selector.select(1.0):
                    if key.data.complete():
                        seen.append(time.monotonic())
                        selector.unregister(key.fileobj)
        for connection in self._connections:
            connection.socket.close()
        return [seen[0], seen[-1]]


if __name__ == "__main__":
    held = Held()
    obey({"run": run, "hold": held.hold, "collect": held.collect})
