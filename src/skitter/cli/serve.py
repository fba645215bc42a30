"""`skitter serve`: crawls over HTTP, for people and programs."""

import argparse
import os
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from skitter.cli.options import SERVED_AT
from skitter.cli.usage import Exit, Parser, UsageError
from skitter.crawl.directory import CrawlDirectory
from skitter.ports import StateError
from skitter.reporting.format import printable
from skitter.runtime.extras import is_there

if TYPE_CHECKING:
    from skitter.serve.access import Access


def parser() -> Parser:
    """The flags of `skitter serve`."""
    made = Parser(
        "serve",
        "Serve crawls over HTTP, whether they run or not: a first page for people, kept live, and an API to read, steer and start "
        "crawls (/api/v1; its document is at /api/v1/openapi.json). On this machine only, unless --listen says otherwise; then, "
        "and for other users, tokens are needed (skitter token). Ctrl-C ends it; the crawls go on.",
        [
            "skitter serve skitter-example.org",
            "skitter serve --root crawls",
            "skitter serve --config cluster.toml --listen 127.0.0.1:9000",
            "skitter serve --root crawls --listen 0.0.0.0:8642 --name crawls.example.org --cert cert.pem --key key.pem",
        ],
    )
    made.add_argument("directory", nargs="*", type=Path, metavar="DIR", help="crawl directories")
    made.add_argument(
        "--root",
        type=Path,
        metavar="FOLDER",
        help="every crawl in this folder; new ones are made there (default without DIR and --config: this folder)",
    )
    made.add_argument(
        "--config",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="settings file of a cluster; repeatable",
    )
    made.add_argument(
        "--listen",
        default=SERVED_AT,
        metavar="ADDRESS:PORT",
        help=f"where to listen (default: {SERVED_AT}; port 0: a free one)",
    )
    made.add_argument(
        "--name",
        action="append",
        default=[],
        metavar="HOST",
        help="another name that clients use for this server; repeatable",
    )
    made.add_argument("--cert", type=Path, metavar="FILE", help="certificate for TLS, with --key")
    made.add_argument("--key", type=Path, metavar="FILE", help="private key for TLS")
    made.add_argument(
        "--always-token",
        action="store_true",
        help="programs of your own user on this machine need a token, too",
    )
    made.add_argument(
        "--allow-private",
        action="append",
        default=[],
        metavar="NETWORK",
        help="a private network (CIDR) that webhooks may be sent to; repeatable",
    )
    made.add_argument("-q", "--quiet", action="store_true", help="print nothing but the address")
    return made


def run(arguments: argparse.Namespace) -> int:
    """Serve until interrupted."""
    host, port = _address(arguments.listen)
    if (arguments.cert is None) != (arguments.key is None):
        raise UsageError("--cert and --key go together")
    for path in arguments.directory:
        CrawlDirectory(path).read_settings()
    root = arguments.root
    if root is None and not arguments.directory and not arguments.config:
        root = Path()
    if root is not None and not root.is_dir():
        raise UsageError(f"--root: {root} is no folder")
    for file in (arguments.cert, arguments.key, *arguments.config):
        if file is not None and not file.is_file():
            raise UsageError(f"{file}: there is no such file")
    return _serve(arguments, root, host, port)


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535 or not host:
        raise UsageError(f"--listen: {text!r} is no address; write for example {SERVED_AT}")
    return host.strip("[]"), int(port)


def _serve(arguments: argparse.Namespace, root: Path | None, host: str, port: int) -> int:
    if not is_there("serve"):
        from skitter.runtime.installing import install_line  # noqa: PLC0415  rarely needed

        raise UsageError(
            f"serving needs the libraries starlette and uvicorn; install them with: {install_line('serve')}"
        )
    from skitter.serve.access import Access  # noqa: PLC0415  slow to import; usage errors do not need it
    from skitter.serve.app import allowed_names  # noqa: PLC0415
    from skitter.serve.tokens import TokenFile  # noqa: PLC0415

    listening = _listening(host, port)
    host, port = listening.getsockname()[:2]
    folder = own_folder(root)
    names = allowed_names(host, port, arguments.name)
    access = Access(names, TokenFile(folder / "tokens.json"), always_token=arguments.always_token)
    scheme = "http" if arguments.cert is None else "https"
    shown = f"[{host}]" if ":" in host else host
    origin = f"{scheme}://{arguments.name[0] if arguments.name else shown}:{port}"
    code = access.sessions.code(time.time())
    print(f"{origin}/login?code={code}", flush=True)
    if not arguments.quiet:
        print("skitter: open that link in a browser (it works once); Ctrl-C ends the server", file=sys.stderr)
    return _work(arguments, root, access, folder, listening)


def _listening(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except OSError as problem:
        raise StateError(
            f"{host}:{port} cannot be used: {problem.strerror or problem}; choose another one with --listen"
        ) from None


def _work(
    arguments: argparse.Namespace, root: Path | None, access: "Access", folder: Path, listening: socket.socket
) -> int:
    import asyncio  # noqa: PLC0415  slow to import

    import uvicorn  # noqa: PLC0415  an extra

    from skitter.cli.stopping import cancelled_by_signals  # noqa: PLC0415  the same
    from skitter.fetch.address import Guard  # noqa: PLC0415  the same
    from skitter.serve.answers import Answers  # noqa: PLC0415
    from skitter.serve.app import Server  # noqa: PLC0415
    from skitter.serve.catalogue import Catalogue  # noqa: PLC0415
    from skitter.serve.reading import Reading  # noqa: PLC0415

    async def work() -> int:
        answers = Answers(Catalogue(arguments.directory, root, arguments.config), Reading())
        serving = Server(answers, access, folder, Guard(arguments.allow_private))
        config = uvicorn.Config(
            serving.app(),
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=5,
            limit_concurrency=1000,
            h11_max_incomplete_event_size=64 << 10,
            ssl_certfile=None if arguments.cert is None else str(arguments.cert),
            ssl_keyfile=None if arguments.key is None else str(arguments.key),
        )
        server = _Quiet(config)
        task = asyncio.create_task(server.serve([listening]))
        try:
            with cancelled_by_signals():
                await asyncio.shield(task)
        except asyncio.CancelledError:
            serving.end()
            server.should_exit = True
            await task
        return Exit.DONE

    class _Quiet(uvicorn.Server):
        """Leaves signals alone: they are ours."""

        def capture_signals(self):  # type: ignore[no-untyped-def]  # noqa: ANN202
            from contextlib import nullcontext  # noqa: PLC0415

            return nullcontext()

    return asyncio.run(work())


def own_folder(root: Path | None) -> Path:
    """Where a server keeps what is its own: tokens, and answers that are given once. Only its user can read it."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    folder = root / ".skitter" if root is not None else Path(state) / "skitter"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
    except OSError as problem:
        raise StateError(f"{printable(str(folder))}: {problem.strerror}") from None
    return folder
