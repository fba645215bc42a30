"""`skitter token`: who may use the API of `skitter serve`."""

import argparse
import time
from pathlib import Path

from skitter.cli.serve import own_folder
from skitter.cli.usage import Exit, Parser, UsageError
from skitter.reporting.format import as_json, moment, printable, table
from skitter.serve.tokens import SCOPES, Token, TokenFile, name_problem, shown
from skitter.settings import SettingsError
from skitter.settings.units import seconds

_VERBS = ("create", "list", "revoke")


def parser() -> Parser:
    """The flags of `skitter token`."""
    made = Parser(
        "token",
        "Tokens for the API of `skitter serve`. A token is shown once, when it is created; only its hash is kept. It goes into the "
        "header of requests (Authorization: Bearer TOKEN), never into a URL. Scopes: read; steer also pauses, blocks, adds and starts; "
        "admin also manages webhooks. A running server knows new and revoked tokens at once.",
        [
            "skitter token create grafana --scope read --expires 90d --root crawls",
            "skitter token list --root crawls",
            "skitter token revoke grafana --root crawls",
        ],
    )
    made.add_argument("verb", choices=_VERBS, help="what to do")
    made.add_argument("name", nargs="?", help="name of the token")
    made.add_argument("--root", type=Path, metavar="FOLDER", help="as given to `skitter serve`")
    made.add_argument("--scope", choices=SCOPES, default="read", help="what it allows (default: read)")
    made.add_argument(
        "--expires", default="90d", metavar="TIME", help="how long it is valid, or never (default: 90d)"
    )
    made.add_argument("--json", action="store_true", help="list: one JSON object a line")
    return made


def run(arguments: argparse.Namespace) -> int:
    """Create, list or revoke."""
    if arguments.verb != "list" and arguments.name is None:
        raise UsageError(f"name a token: skitter token {arguments.verb} NAME")
    if arguments.root is not None and not arguments.root.is_dir():
        raise UsageError(f"--root: {arguments.root} is no folder")
    file = TokenFile(own_folder(arguments.root) / "tokens.json")
    match arguments.verb:
        case "create":
            return _create(file, arguments)
        case "revoke":
            found = file.revoke(arguments.name)
            print("revoked" if found else f"there is no token {printable(arguments.name)!r}")
            return Exit.DONE if found else Exit.NO
        case _:
            return _list(file, json=arguments.json)


def _create(file: TokenFile, arguments: argparse.Namespace) -> Exit:
    if problem := name_problem(arguments.name):
        raise UsageError(problem)
    print(file.create(arguments.name, arguments.scope, _lifetime(arguments.expires)))
    return Exit.DONE


def _lifetime(text: str) -> float | None:
    if text == "never":
        return None
    try:
        found = seconds(text)
    except (ValueError, SettingsError) as problem:
        raise UsageError(f"--expires: {problem}") from None
    if found <= 0:
        raise UsageError("--expires: write a time such as 90d, or never")
    return found


def _list(file: TokenFile, *, json: bool) -> Exit:
    now, tokens = time.time(), file.tokens()
    if json:
        for token in tokens:
            print(as_json(shown(token, now)))
    elif tokens:
        print(
            "\n".join(table(("token", "scope", "created", "expires"), [_row(token, now) for token in tokens]))
        )
    else:
        print("there are no tokens")
    return Exit.DONE


def _row(token: Token, now: float) -> tuple[str, str, str, str]:
    expires = "never" if token.expires is None else moment(token.expires)
    return (
        printable(token.name),
        token.scope,
        moment(token.created),
        expires if token.is_valid(now) else "expired",
    )
