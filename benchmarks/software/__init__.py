"""Software of others, started from Debian's packages in a temporary folder and stopped by its process id."""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ADDRESS = "127.77.0.2"
_NGINX = """
daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
    include /etc/nginx/mime.types;
    log_format asked '$status $request_uri';
    access_log {folder}/access.log asked;
    keepalive_requests 1000000;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    server {{ listen {address}:{port}; {server} }}
}}
"""


@dataclass(frozen=True)
class Hit:
    """A request, as in the server's log."""

    status: int
    target: str


@dataclass(frozen=True)
class Software:
    """Something that is served: where, what there is to see, and which request shows what of it."""

    seed: str
    what: str
    views: set[str]
    view: Callable[[Hit], str]
    _access: Path

    def log(self) -> list[Hit]:
        """Every request so far."""
        lines = (line.split(" ", 1) for line in self._access.read_text().splitlines())
        return [Hit(int(status), target) for status, target in lines]


def needed(*paths: str) -> None:
    """Stop if a file of a package is not there."""
    if missing := [path for path in paths if not Path(path).exists()]:
        raise SystemExit(
            f"{', '.join(missing)}: not installed; "
            "apt-get install --no-install-recommends nginx-light dokuwiki php-cgi php-xml fcgiwrap cgit"
        )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((ADDRESS, 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def running(command: Sequence[str], port: int, **environment: str) -> Iterator[None]:
    """A process for as long as it takes, from when it listens."""
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors, env={**os.environ, **environment},
            start_new_session=True,
        )  # fmt: skip
        try:
            _wait_for(port, process, command)
            yield
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 15)  # its own children too: the session is its own
            process.wait()


def _wait_for(port: int, process: "subprocess.Popen[bytes]", command: Sequence[str]) -> None:
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex((ADDRESS, port)) == 0:
                return
        if process.poll() is not None:
            break
        time.sleep(0.05)
    raise SystemExit(f"{command[0]} does not listen")


@contextlib.contextmanager
def nginx(folder: Path, port: int, server: str) -> Iterator[None]:
    """The web server, with what its one `server` block says."""
    configuration = folder / "nginx.conf"
    configuration.write_text(_NGINX.format(folder=folder, address=ADDRESS, port=port, server=server))
    program = shutil.which("nginx") or "/usr/sbin/nginx"
    needed(program)
    command = [program, "-c", str(configuration), "-p", str(folder), "-e", str(folder / "error.log")]
    with running(command, port):
        yield
