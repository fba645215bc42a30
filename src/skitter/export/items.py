"""The export `items`: what the answers of an API list, one JSON object per line, each with the URL it came from.

Which parts of an answer are items, `parse.items_json` says, for the whole crawl or for single sites. They are read from the
archive, so that the setting may be changed after the crawl.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from skitter.export.source import Source
from skitter.export.uses import Uses
from skitter.export.writing import TURN, Destination, Lines, Listener, turn
from skitter.model import Page
from skitter.reporting.format import escaped, moment
from skitter.settings import ParseSettings
from skitter.settings.sites import sites_of


async def write(source: Source, into: Destination, told: Listener) -> None:
    """One item per line."""
    told.expect(None, "item")
    encode, lines = msgspec.json.Encoder().encode, Lines(into, "items", ".jsonl")
    uses, sites, number = Uses(source), sites_of(source.settings), 0
    async for stored in source.frontier.pages():
        number += 1
        if not number % TURN:
            await turn()
        settings = (source.settings if sites is None else sites.of(stored.url)).parse
        if not 200 <= stored.status < 300 or not settings.items_json:
            continue
        page = await uses.joined(stored)
        if uses.objection(page):
            told.left_out(
                f"they say no to {', '.join(source.settings.export.respect_ai)} (export.respect_ai)"
            )
            continue
        for item in await _items(page, source, settings, told):
            record = {"url": page.url, "fetched_at": moment(page.fetched_at), "item": item}
            await lines.write(escaped(encode(record).decode()) + "\n", page.key)
            told.done()


async def _items(page: Page, source: Source, settings: ParseSettings, told: Listener) -> Iterator[Any]:
    from skitter.export import reread  # noqa: PLC0415  parsers are slow to import; few formats need them
    from skitter.parse import json, sniff  # noqa: PLC0415  the same

    try:
        answer = await reread.answer(page, source)
    except OSError as problem:
        told.remark(f"{page.url}: its items cannot be read: {problem}")
        return iter(())
    if answer is None:
        told.remark(f"{page.url}: its body is not in the archive")
        return iter(())
    body = sniff.body(page.url, answer.headers, answer.content)
    if not json.is_json(body.media_type):
        return iter(())
    try:
        found = json.decoded(body)
    except ValueError as problem:
        told.remark(f"{page.url}: {problem}")
        return iter(())
    return json.items(found, settings)
