"""A server in a process of its own, and a client that speaks to it."""

import http.client
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """Sends requests as a program would, with nothing but what is given."""

    def __init__(self, process: subprocess.Popen[str], link: str) -> None:
        self.process = process
        self.link = link
        self.port = int(link.split(":")[2].partition("/")[0])
        self.host = f"127.0.0.1:{self.port}"

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None and "Content-Type" not in fields:
            fields["Content-Type"] = "application/json"
        sent = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        try:
            connection.request(method, path, sent, fields)
            answer = connection.getresponse()
            return Reply(
                answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
            )
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Reply:
        return self.ask("GET", path, **headers)

    def post(self, path: str, body: object, **headers: str) -> Reply:
        return self.ask("POST", path, body, **headers)

    def events(self, path: str, number: int, after: str = "") -> list[dict[str, str]]:
        """The next events of a stream."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", path, headers={"Last-Event-ID": after} if after else {})
        answer = connection.getresponse()
        found: list[dict[str, str]] = []
        event: dict[str, str] = {}
        while len(found) < number:
            line = answer.readline().decode().rstrip("\n")
            if line:
                name, _, value = line.partition(": ")
                event[name] = value
            elif "data" in event:
                found.append(event)
                event = {}
            else:
                event = {}
        connection.close()
        return found


@contextmanager
def serving(root: Path | None, *words: str, port: int = 0) -> Iterator[Client]:
    """`skitter serve` of a folder, or of what is named, stopped at the end."""
    command = [
        sys.executable,
        "-m",
        "skitter",
        "serve",
        "--listen",
        f"127.0.0.1:{port}",
        *([] if root is None else ["--root", str(root)]),
        *words,
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        yield Client(process, process.stdout.readline().strip())
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
