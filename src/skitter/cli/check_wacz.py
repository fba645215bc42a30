"""`skitter check FILE.wacz`: a WACZ file against its digests and its signature."""

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from skitter.cli.usage import Exit, UsageError
from skitter.reporting.format import as_json, counted, printable
from skitter.runtime.installing import install_line

if TYPE_CHECKING:
    from skitter.backends.warc.wacz_signature import Signed


def check(arguments: argparse.Namespace) -> Exit:
    """Read the whole file, and say what it is."""
    from skitter.compose.replaying import checked_wacz  # noqa: PLC0415  crawls are checked without

    if arguments.repair:
        raise UsageError("--repair: a WACZ file cannot be repaired; export the crawl again")
    path: Path = arguments.directory
    found = checked_wacz(path)
    if found.problem:
        fields = {"file": str(path), "sound": False, "problem": found.problem}
        return _told(arguments, fields, [found.problem])
    signed = found.signed
    wrong = "; ".join(_unexpected(signed, arguments.signed_by))
    fields = {"file": str(path), "sound": not wrong} | asdict(found) | {"problem": wrong}
    fields["signed"] = None if signed is None else signed._asdict()
    made = f"made {found.created}" if found.created else "made at an unknown time"
    lines = [
        f"{path} is {'whole' if not wrong else f'whole, but {wrong}'}",
        f"  {found.title}: {counted(found.answers, 'answer')}, {counted(found.pages, 'page')}, {made}",
        f"  {said_of(signed)}",
        *([f"  public key {signed.key}"] if signed is not None and signed.key else []),
    ]
    return _told(arguments, fields, lines)


def said_of(signed: "Signed | None") -> str:
    """Who signed it, in words."""
    if signed is None:
        return "not signed"
    if not signed.checked:
        return (
            f"signed, which is not checked: that needs a library; install it with: {install_line('identity')}"
        )
    if signed.domain:
        return (
            f"signed for {signed.domain} by the key {signed.fingerprint}; whether the domain's certificate and the time stamp are "
            "genuine is not checked"
        )
    return f"signed by the key {signed.fingerprint}"


def _unexpected(signed: "Signed | None", expected: str | None) -> Iterator[str]:
    """What keeps the answer from being yes."""
    if signed is not None and not signed.checked:
        yield "its signature could not be checked"
    elif expected is not None and (signed is None or expected not in (signed.fingerprint, signed.key)):
        yield "not signed" if signed is None else "signed by another key"


def _told(arguments: argparse.Namespace, fields: dict[str, object], lines: list[str]) -> Exit:
    print(as_json(fields) if arguments.json else "\n".join(map(printable, lines)))
    return Exit.DONE if fields["sound"] else Exit.NO
