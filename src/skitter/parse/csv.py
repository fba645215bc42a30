"""Tables as text (CSV, TSV): the cells, the names of the columns, and the URLs in them as links."""

import csv
import io

from skitter.model import Document
from skitter.parse import charset
from skitter.parse.findings import folded
from skitter.parse.making import known, made, short
from skitter.parse.patterns import urls_in
from skitter.parse.sniff import Body
from skitter.settings import ParseSettings

_SEPARATORS = ",;\t|"
_MOST_COLUMNS = 200  # named
_LONGEST_LINE = 10_000  # characters of the first line


def parse(body: Body, settings: ParseSettings) -> Document:
    """Read a table."""
    raw = body.content
    encoding = charset.mark(raw)[0] or charset.usable(body.http_charset) or charset.guess(raw)
    text = charset.decode(raw, encoding).removeprefix("\ufeff")
    first = text[:_LONGEST_LINE].partition("\n")[0]
    separator = "\t" if "tab" in body.media_type else max(_SEPARATORS, key=first.count)
    columns: list[str] = []
    links: dict[str, None] = {}
    rows, problem = 0, ""
    try:
        for row in csv.reader(io.StringIO(text), delimiter=separator):
            if not rows:
                columns = [short(cell) for cell in row[:_MOST_COLUMNS]]
            rows += bool(row)
            if len(links) < settings.max_links:
                links |= dict.fromkeys(url for cell in row for url in urls_in(cell))
    except csv.Error as error:
        problem = str(error)
    return made(
        body,
        settings,
        charset=encoding,
        text=folded(text),
        links=links,
        media=known({"format": "csv", "rows": rows, "columns": columns, "partly": problem}),
    )
