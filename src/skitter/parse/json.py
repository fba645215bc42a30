"""JSON, JSON-LD and JSON lines: the strings as text, and the URLs in them as links.

Where settings say what is a link in the answers of an API (`parse.follow_json`, `parse.next_json`), these are the links, and
no other string is one.
"""

from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import msgspec

from skitter.model import Document
from skitter.parse import charset
from skitter.parse.findings import folded
from skitter.parse.making import known, made, short
from skitter.parse.patterns import urls_in_all
from skitter.parse.sniff import Body
from skitter.settings import ParseSettings
from skitter.settings.json_paths import values

_LINES = frozenset(("application/x-ndjson", "application/jsonl", "application/x-jsonlines"))
_LABELS = _LINES | {"application/json", "text/json"}
_TITLES = ("title", "headline", "name")
_LONGEST_CURSOR = 2_000  # characters


def parse(body: Body, settings: ParseSettings) -> Document:
    """Read JSON."""
    try:
        found = decoded(body)
    except ValueError as problem:
        text = charset.decode(body.content[: settings.max_input], charset.UTF_8)
        return made(
            body,
            settings,
            links=() if is_source(settings) else urls_in_all([text], settings.max_links),
            ignored=str(problem),
            media={"format": "json", "damaged": True},
        )
    texts = list(_strings(found, settings.max_text))
    links = _links(found, body, settings) if is_source(settings) else urls_in_all(texts, settings.max_links)
    title, description, author, language = _told(found)
    return made(
        body,
        settings,
        charset=charset.UTF_8,
        title=title,
        description=description,
        author=author,
        language=body.language or language,
        text=folded(" ".join(texts)),
        links=links,
        media=known({"format": "json", "items": _count(found, settings)}),
    )


def is_json(media_type: str) -> bool:
    """Whether this is how JSON is labelled."""
    return media_type in _LABELS or media_type.endswith("+json")


def is_source(settings: ParseSettings) -> bool:
    """Whether settings say what is a link."""
    return bool(settings.follow_json or settings.next_json or settings.items_json)


def decoded(body: Body) -> Any:  # noqa: ANN401  whatever JSON holds
    """The document; of JSON lines, a list. ValueError, in plain words, if it cannot be read."""
    raw = body.content
    marked, length = charset.mark(raw)
    if marked and marked != charset.UTF_8:
        raw = charset.decode(raw, marked).encode()
    elif marked:
        raw = raw[length:]
    try:
        if body.media_type in _LINES:
            return msgspec.json.Decoder().decode_lines(raw)
        return msgspec.json.decode(raw)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply to be read") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise ValueError(f"the JSON is damaged: {problem}") from None


def items(found: Any, settings: ParseSettings) -> Iterator[Any]:  # noqa: ANN401
    """The items of an answer, as `parse.items_json` says."""
    for path in settings.items_json:
        yield from values(found, path)


def _count(found: Any, settings: ParseSettings) -> int | None:  # noqa: ANN401
    if settings.items_json:
        return sum(1 for _ in items(found, settings))
    return len(found) if isinstance(found, list) else None


def _strings(found: Any, room: int) -> Iterator[str]:  # noqa: ANN401
    """All strings, in order, up to a number of characters. The nesting is as deep as the decoder allows."""
    waiting = [iter((found,))]
    while waiting:
        for value in waiting[-1]:
            if isinstance(value, str):
                yield value[:room]
                room -= len(value)
                if room <= 0:
                    return
            elif isinstance(value, dict | list):
                waiting.append(iter(value.values() if isinstance(value, dict) else value))
                break
        else:
            waiting.pop()


def _told(found: Any) -> tuple[str, str, str, str]:  # noqa: ANN401
    """Title, description, author and language, as JSON-LD and most others name them."""
    if not isinstance(found, dict):
        return "", "", "", ""
    title = next((found[name] for name in _TITLES if isinstance(found.get(name), str)), "")
    author = found.get("author")
    if isinstance(author, list) and author:
        author = author[0]
    if isinstance(author, dict):
        author = author.get("name")
    said = (title, found.get("description"), author, found.get("inLanguage"))
    return tuple(short(each) if isinstance(each, str) else "" for each in said)  # type: ignore[return-value]


# ------------------------------------------------------------------------------------------------ an API


def _links(found: Any, body: Body, settings: ParseSettings) -> list[str]:  # noqa: ANN401
    hrefs = [
        value for path in settings.follow_json for value in values(found, path) if isinstance(value, str)
    ]
    if settings.next_json:
        hrefs += (_next(value, body.url, settings) for value in values(found, settings.next_json))
    return [href for href in dict.fromkeys(hrefs) if href][: settings.max_links]


def _next(value: Any, url: str, settings: ParseSettings) -> str:  # noqa: ANN401
    """Where the next part of a list is: a URL, or a cursor that becomes a parameter of this one. Nothing at the end."""
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        return ""
    if not settings.next_param:
        return value if isinstance(value, str) else ""
    if len(str(value)) > _LONGEST_CURSOR:
        return ""
    parts = urlsplit(url)
    query = [(name, said) for name, said in parse_qsl(parts.query, True) if name != settings.next_param]  # noqa: FBT003
    return urlunsplit(
        parts._replace(query=urlencode([*query, (settings.next_param, str(value))]), fragment="")
    )
