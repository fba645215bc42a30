"""`skitter.ports.SearchIndex` on OpenSearch or Elasticsearch.

The id of a document is the hash of its key and its version the time it was fetched, so that any request may
be repeated and pages may arrive in any order. Of a bulk request, refused documents are returned to the
caller, those the engine is too busy for are sent again, and the rest is indexed.
"""

import json
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any
from urllib.parse import quote

import msgspec

from skitter.backends.opensearch import documents
from skitter.backends.opensearch.documents import Line
from skitter.backends.opensearch.http import Answer, Cluster, away, reason, told
from skitter.engines.breaker import BreakerRules, Guard
from skitter.export.search.text import Query, Results, entry_id
from skitter.ports import SEARCH_DEPTH, EngineError, Entry, Rejected
from skitter.settings.engines import SearchSettings

_LARGEST = 8 << 20  # bytes of a bulk request: engines advise 5 to 15 MB
_OLDEST = {"opensearch": 2, "elasticsearch": 8}
_MADE_BY = 1  # what `_meta.skitter` in template.json says
_encode = msgspec.json.Encoder().encode


class OpenSearchIndex:
    """The pages of a crawl in a cluster."""

    def __init__(
        self, settings: SearchSettings, password: str = "", rules: BreakerRules | None = None
    ) -> None:
        self._settings = settings
        self._cluster = Cluster(settings, password, rules)
        self._path = "/" + quote(settings.index, safe="")

    @property
    def guard(self) -> Guard:
        """The breaker of the cluster."""
        return self._cluster.guard

    async def open(self) -> None:
        """Check that the cluster is supported, and create the template and the index if they are missing."""
        await self._check_version()
        mapping = await self._cluster.ask("GET", f"{self._path}/_mapping")
        if mapping.status == 404:
            await self._make()
            mapping = await self._cluster.ask("GET", f"{self._path}/_mapping")
        self._done(mapping)
        if any(_maker(each) != _MADE_BY for each in mapping.body.values()):
            raise self._told(
                f"its index {self._settings.index} was made by somebody else, or by another version of Skitter",
                "name another index in search.index, or delete that one",
            )

    async def _check_version(self) -> None:
        answer = await self._cluster.ask("GET", "/", rounds=3)
        version = answer.body.get("version") if isinstance(answer.body, dict) else None
        number = version.get("number") if isinstance(version, dict) else None
        if answer.status != 200 or not isinstance(number, str):
            raise self._told("this is no OpenSearch or Elasticsearch", "mend search.addresses")
        name = version.get("distribution", "elasticsearch") if isinstance(version, dict) else ""
        major = number.partition(".")[0]
        if not major.isdigit() or int(major) < _OLDEST.get(name, 10**9):
            raise self._told(
                f"it is {name} {number}",
                "use OpenSearch 2 or later, or Elasticsearch 8 or later (search.addresses)",
            )

    async def _make(self) -> None:
        template = json.loads(resources.files(__package__).joinpath("template.json").read_text("utf-8"))
        template["index_patterns"] = [self._settings.index]
        for path, body in ((f"/_index_template{self._path}", _encode(template)), (self._path, b"{}")):
            made = await self._cluster.ask("PUT", path, body)
            if made.status == 400 and "resource_already_exists" not in reason(made.body):
                name = self._settings.index
                raise self._told(f"it makes no index {name!r}: {reason(made.body)}", "mend search.index")
            if made.status != 400:  # otherwise another worker was faster
                self._done(made)

    async def index(self, entries: Sequence[Entry]) -> list[Rejected]:
        """Index pages."""
        rejected: list[Rejected] = []
        for portion in documents.portions(
            [documents.line(e) for e in entries], self._settings.bulk, _LARGEST
        ):
            rejected += await self._bulk(portion)
        return rejected

    async def delete(self, gone: Mapping[str, float]) -> None:
        """Remove pages."""
        lines = [documents.deletion(key, at) for key, at in gone.items()]
        for portion in documents.portions(lines, self._settings.bulk, _LARGEST):
            for refused in await self._bulk(portion):
                raise self._told(f"a page cannot be deleted: {refused.reason}", "look at its log")

    async def _bulk(self, lines: Sequence[Line]) -> list[Rejected]:
        """Send lines until each is indexed or refused."""
        left, rejected = list(lines), list[Rejected]()

        async def send() -> bool:
            """Send the rest once. False: it is too large; EngineAway if the cluster is too busy for some of it."""
            nonlocal left
            body = b"".join(each.lines for each in left)
            answer = await self._cluster.once("POST", f"{self._path}/_bulk", body)
            if answer.status == 413:
                return False
            fates = [documents.fate(item) for item in self._done(answer).body["items"]]
            judged = list(zip(left, fates, strict=True))
            rejected.extend(
                Rejected(each.url, fate.refused) for each, fate in judged if fate.refused and not fate.again
            )
            left = [each for each, fate in judged if fate.again]
            if left:
                problem = next(fate.refused for fate in fates if fate.again)
                what = f"it takes no more pages: {problem}"
                raise away(self._cluster.address, what, "look at its disks and its load")
            return True

        fits = await self._cluster.tried(send)
        return rejected if fits else rejected + await self._halves(left)

    async def _halves(self, lines: Sequence[Line]) -> list[Rejected]:
        """Split an oversized request in halves, down to the page that is too large by itself."""
        if len(lines) == 1:
            size = len(lines[0].lines)
            return [
                Rejected(lines[0].url, f"too large for the engine: {size} bytes (http.max_content_length)")
            ]
        middle = len(lines) // 2
        return await self._bulk(lines[:middle]) + await self._bulk(lines[middle:])

    async def held(self, keys: Sequence[str]) -> Mapping[str, float]:
        """When the indexed pages were fetched, to the millisecond."""
        if not keys:
            return {}
        names = {entry_id(key): key for key in keys}
        body = _encode({"ids": list(names)})
        # The version is the time, so no document has to be read.
        answer = self._done(await self._cluster.ask("POST", f"{self._path}/_mget?_source=false", body))
        return {
            names[each["_id"]]: each["_version"] / 1000 for each in answer.body["docs"] if each.get("found")
        }

    async def search(self, query: Query, limit: int = 10, offset: int = 0) -> Results:
        """Search."""
        if not query.terms:
            return Results()
        body = _encode(documents.question(query, limit, min(offset, SEARCH_DEPTH)))
        answer = self._done(await self._cluster.ask("POST", f"{self._path}/_search", body))
        hits = answer.body["hits"]
        return Results(hits["total"]["value"], [documents.hit(found) for found in hits["hits"]])

    async def refresh(self) -> None:
        """Make everything indexed searchable."""
        self._done(await self._cluster.ask("POST", f"{self._path}/_refresh"))

    async def count(self) -> int:
        """Number of searchable pages."""
        return int(self._done(await self._cluster.ask("GET", f"{self._path}/_count")).body["count"])

    async def close(self) -> None:
        """Close the connections."""
        await self._cluster.close()

    def _done(self, answer: Answer) -> Answer:
        """The answer, if it is a success."""
        if answer.status == 404:
            raise self._told(f"there is no index {self._settings.index}", "start again, or mend search.index")
        if answer.status >= 300 or answer.body is None:
            said = away if answer.status >= 500 else told
            what = f"it says no ({answer.status}): {reason(answer.body)}"
            raise said(self._cluster.address, what, "look at its log")
        return answer

    def _told(self, what: str, fix: str) -> EngineError:
        return told(self._cluster.address, what, fix)


def _maker(mapping: Mapping[str, Any]) -> object:
    return mapping.get("mappings", {}).get("_meta", {}).get("skitter")
