"""The interface of an engine. `command` uses it."""

import signal
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from .place import LOOPBACK, PORTS, Place


class Engine(ABC):
    """One engine in one place."""

    name: ClassVar[str]
    about: ClassVar[str]
    purposes: ClassVar[Sequence[str]] = ("main",)  # the ports it needs
    choices: ClassVar[Sequence[int]] = PORTS
    politely: ClassVar[signal.Signals] = signal.SIGTERM  # asks it to exit cleanly

    def __init__(self, place: Place) -> None:
        self.place = place
        self.ports = place.ports(self.name, self.purposes, self.choices)
        self.port = self.ports[self.purposes[0]]

    @property
    def home(self) -> Path:
        """Its directory: configuration, log, process id, data."""
        return self.place.home(self.name)

    @property
    def data(self) -> Path:
        """Data that must survive a kill."""
        return self.home / "data"

    @property
    def address(self) -> str:
        """Its address for clients."""
        return f"http://{LOOPBACK}:{self.port}"

    @property
    @abstractmethod
    def version(self) -> str:
        """The installed version."""

    @abstractmethod
    def install(self) -> None:
        """Install what is missing, and prepare the data directory; returns at once if there is nothing to do."""

    @abstractmethod
    def command(self) -> list[str]:
        """What to execute."""

    @abstractmethod
    def answers(self) -> bool:
        """Whether a real request gets a real answer. OSError and HTTPException count as no."""

    def variables(self) -> dict[str, str]:
        """Its environment variables."""
        return {}

    def settings(self) -> dict[str, str]:
        """What a client must know besides the address."""
        return {}

    def write(self, name: str, text: str) -> Path:
        """A configuration file in its directory, written at every start."""
        path = self.home / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path


def get(url: str) -> tuple[int, bytes]:
    """One HTTP request; an error status is an answer."""
    # No proxy: the environment's is for the web, not for loopback.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=5) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()
