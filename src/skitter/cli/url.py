"""`skitter url`: the fetched form, key, host and domain of a URL."""

import argparse
import os
from pathlib import Path
from typing import Any

from skitter import urls
from skitter.cli.usage import Exit, Parser
from skitter.reporting.format import as_json, printable
from skitter.runtime.hiding import hidden
from skitter.settings import UrlsSettings
from skitter.settings.file import load


def parser() -> Parser:
    """The flags of `skitter url`."""
    made = Parser(
        "url",
        "Show the form in which a URL is fetched, its key, host, registrable domain and origin, and its SURT, the key "
        "that web archives use. Exit code 1 if one of them is not an http or https URL.",
        [
            "skitter url 'HTTP://Example.org:80/a/../b?utm_source=x&z=1&a=2#top'",
            "skitter url --json example.org/?sid=1",
        ],
    )
    made.add_argument("url", nargs="+", metavar="URL", help="a URL; https is assumed if it has no scheme")
    made.add_argument(
        "--config", type=Path, metavar="FILE", help="settings file whose [urls] section applies"
    )
    made.add_argument("--shards", type=int, metavar="N", help="also show which of N shards owns the URL")
    made.add_argument("--json", action="store_true", help="one JSON object per line")
    return made


def run(arguments: argparse.Namespace) -> Exit:
    """Describe each URL."""
    rules = load(arguments.config, os.environ, {}).urls
    all_good = True
    for text in arguments.url:
        found = describe(text, rules, arguments.shards)
        all_good = all_good and found["key"] is not None
        if arguments.json:
            print(as_json(found))
        else:
            print("\n".join(_lines(found)))
    return Exit.DONE if all_good else Exit.NO


def describe(text: str, rules: UrlsSettings, shards: int | None) -> dict[str, Any]:
    """The URL in all its forms; None if it is not a usable URL."""
    url = urls.seed(text, rules)
    text = hidden(text)
    if url is None:
        return {"input": text, "fetched": None, "key": None}
    host = urls.host(url)
    domain = urls.registrable_domain(host)
    forms = {
        "input": text,
        "fetched": url,
        "key": urls.key(url, rules),
        "host": host,
        "domain": domain,
        "origin": urls.origin(url),
        "surt": urls.surt(url),
    }
    return forms if shards is None else forms | {"shard": urls.shard(domain, max(1, shards))}


def _lines(found: dict[str, Any]) -> list[str]:
    if found["key"] is None:
        return [f"{printable(found['input'])}: not an http or https URL"]
    return [f"{name:<8} {printable(str(value))}" for name, value in found.items() if name != "input"]
