"""`skitter robots`: what a robots.txt says about URLs, and which line says it."""

import argparse
import sys
from pathlib import Path
from typing import Any

from skitter import urls
from skitter.cli.usage import Exit, Parser, UsageError
from skitter.model import Statement
from skitter.reporting.format import as_json, printable
from skitter.robots import RobotsRules, product_token, robots_rules


def parser() -> Parser:
    """The flags of `skitter robots`."""
    made = Parser(
        "robots",
        "Check URLs against a robots.txt, by the same RFC 9309 rules that the crawler obeys; show what it says about the uses "
        "of pages (Content-Usage, Content-Signal, License). Nothing is fetched. Exit "
        "code 1 if one of the URLs is disallowed.",
        [
            "skitter robots robots.txt --agent skitter https://example.org/ https://example.org/private/",
            "curl -s https://example.org/robots.txt | skitter robots - --agent Googlebot /search",
        ],
    )
    made.add_argument("file", metavar="FILE", help="the robots.txt, or - for standard input")
    made.add_argument(
        "url", nargs="+", metavar="URL", help="URLs of the origin the file belongs to, or paths from /"
    )
    made.add_argument(
        "--agent", default="skitter", metavar="TOKEN", help="product token or User-Agent (default: skitter)"
    )
    made.add_argument("--json", action="store_true", help="one JSON object")
    return made


def run(arguments: argparse.Namespace) -> Exit:
    """Print for each URL whether it may be fetched, and the deciding line."""
    token = product_token(arguments.agent)
    if not token:
        raise UsageError(
            f"--agent: {arguments.agent!r} has no product token; write for example --agent mybot"
        )
    for url in arguments.url:
        if not url.startswith("/") and urls.fetched_form(url) is None:
            raise UsageError(f"{url!r} is not a URL; write for example https://example.org/a, or the path /a")
    rules = robots_rules(_body(arguments.file), token)
    answers = [answer(rules, url) for url in arguments.url]
    if arguments.json:
        print(as_json(_summary(rules, token) | {"urls": answers}))
    else:
        _print(rules, token, answers)
    return Exit.DONE if all(found["allowed"] for found in answers) else Exit.NO


def _body(name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as problem:
        raise UsageError(
            f"{name}: {problem.strerror}; name an existing file, or - for standard input"
        ) from None


def answer(rules: RobotsRules, url: str) -> dict[str, Any]:
    """The answer for one URL; `line` is None if no line applies and the answer is the default."""
    line = rules.line(url)
    return {
        "url": url,
        "allowed": rules.allows(url),
        "line": None if line is None else {"number": line.number, "text": line.text},
        "statements": [
            {"source": one.source, "raw": one.raw, "uses": dict(one.uses)} for one in _said(rules, url)
        ],
    }


def _said(rules: RobotsRules, url: str) -> list[Statement]:
    """What is said about the uses of a page; nothing about one that may not be fetched."""
    return rules.said.statements(url) if rules.said is not None and rules.allows(url) else []


def _summary(rules: RobotsRules, token: str) -> dict[str, Any]:
    return {
        "agent": token,
        "crawl_delay": rules.crawl_delay,
        "request_rate": rules.request_rate,
        "sitemaps": list(rules.sitemaps),
    }


def _print(rules: RobotsRules, token: str, answers: list[dict[str, Any]]) -> None:
    for found in answers:
        line = found["line"]
        because = f"line {line['number']}: {printable(line['text'])}" if line else "no line applies"
        print(
            f"{'allowed' if found['allowed'] else 'disallowed':<10}  {printable(found['url'])}  ({because})"
        )
        for one in found["statements"]:
            uses = (
                ", ".join(f"{use}={said}" for use, said in one["uses"].items())
                or "nothing that is known here"
            )
            print(f"            says {uses}  ({one['source']}: {printable(one['raw'])})")
    if rules.delay is not None:
        print(f"{token} is asked to wait {rules.delay:g} s between requests")
    for sitemap in rules.sitemaps:
        print(f"sitemap: {printable(sitemap)}")
