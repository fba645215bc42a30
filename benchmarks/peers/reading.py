"""How every Python peer reads a page: title, text and links, directly from the lxml tree.

The peers' tutorials use selectors, item loaders and link extractors, which cost several times as much.
"""

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urljoin

from lxml import etree

UNREAD = ("script", "style", "noscript", "template")


class Plan(NamedTuple):
    """The task of a peer, given as JSON on standard input."""

    seeds: list[str]
    hosts: list[str]  # host:port; links to them are in scope
    connections: int
    per_host: int
    records: str  # the file that gets one line of JSON per page
    bare: bool = False  # for a framework: without its usual middlewares and exporters
    ending: str = ""  # links to paths with other endings are ignored


def plan() -> Plan:
    return Plan(**json.load(sys.stdin))


class Reader:
    """Turns pages into records, and returns their links not seen before."""

    def __init__(self, wanted: Plan) -> None:
        self._hosts = frozenset(wanted.hosts)
        self._seen = set(wanted.seeds)
        self._ending = wanted.ending
        self._records = Path(wanted.records).open("w", encoding="utf-8")  # noqa: SIM115  open as long as the crawl

    def read(self, url: str, body: bytes, encoding: str) -> list[str]:
        """Write the page's record; returns its new links in scope."""
        record, fresh = self.found(url, body, encoding)
        self._records.write(json.dumps(record) + "\n")
        return fresh

    def found(self, url: str, body: bytes, encoding: str) -> tuple[dict[str, Any], list[str]]:
        """The page's record, and its new links in scope."""
        tree = etree.fromstring(body, etree.HTMLParser(encoding=encoding))
        hrefs = (link.get("href") for link in tree.iter("a"))
        links = [urljoin(url, href).partition("#")[0] for href in hrefs if href]
        record: dict[str, Any] = {"url": url, "title": tree.findtext(".//title"), "links": links}
        etree.strip_elements(tree, *UNREAD, with_tail=False)
        record["text"] = " ".join(" ".join(tree.find("body").itertext()).split())
        fresh = []
        for link in links:
            if link in self._seen or not link.endswith(self._ending):
                continue
            if link.count("/") > 2 and link.split("/", 3)[2] in self._hosts:
                self._seen.add(link)
                fresh.append(link)
        return record, fresh

    def close(self) -> None:
        self._records.close()
