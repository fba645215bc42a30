"""Redis, from the distribution's package."""

import socket

from .engine import Engine
from .install import need
from .place import LOOPBACK


class Redis(Engine):
    """One server that writes every change to its log before it answers, and never evicts."""

    name = "redis"
    about = "Redis, append-only, evicts nothing"

    @property
    def version(self) -> str:
        """From `Redis server v=7.0.15 sha=…`."""
        words = self.place.run(["redis-server", "--version"], self.home).split()
        return next(word[2:] for word in words if word.startswith("v="))

    @property
    def address(self) -> str:
        """Its first database."""
        return f"redis://{LOOPBACK}:{self.port}/0"

    def install(self) -> None:
        """The package."""
        need("redis-server", "redis-server")
        self.place.give(self.data)

    def command(self) -> list[str]:
        """An append-only file survives `kill -9` intact: it is written, if not yet synced, before the client
        gets its answer.
        """
        options = {
            "port": self.port, "bind": LOOPBACK, "dir": self.data, "appendonly": "yes", "save": "",
            "maxmemory-policy": "noeviction", "daemonize": "no",
        }  # fmt: skip
        return [
            "redis-server",
            *(word for key, value in options.items() for word in (f"--{key}", str(value))),
        ]

    def answers(self) -> bool:
        """PING; while it loads its file it answers -LOADING."""
        with socket.create_connection((LOOPBACK, self.port), timeout=5) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(64) == b"+PONG\r\n"
