"""File names for URLs: readable, safe on every system, and different for different URLs.

    https://example.org/               example.org/index.html
    https://example.org/about          example.org/about.html           (an HTML page)
    https://example.org/a/b.css?v=2    example.org/a/b@v=2~9c1b3e.css

A name says what the URL says, as long as that is possible. Whatever has to be changed (characters that some system forbids, capital letters, names that are too long,
queries) gets a digest of the original behind a tilde, so that no two URLs meet in one file. Names that a page gets although no URL says so
(`index.html`, an added extension) could be the name of another page; `of_page` asks the crawl whether there is one.
"""

import re
import unicodedata
from collections.abc import Awaitable, Callable
from hashlib import blake2b
from posixpath import splitext
from urllib.parse import quote, unquote, urlsplit

from skitter.model import Page

_TYPES = {
    "text/html": ".html .htm",
    "application/xhtml+xml": ".xhtml .html .htm",
    "text/css": ".css",
    "text/javascript": ".js .mjs",
    "application/javascript": ".js .mjs",
    "application/json": ".json",
    "application/pdf": ".pdf",
    "text/plain": ".txt .md .rst .log",
    "text/markdown": ".md",
    "text/csv": ".csv",
    "text/xml": ".xml .rss .atom",
    "application/xml": ".xml .rss .atom",
    "application/rss+xml": ".rss .xml",
    "application/atom+xml": ".atom .xml",
    "image/svg+xml": ".svg",
    "image/jpeg": ".jpg .jpeg",
    "image/png": ".png",
    "image/gif": ".gif",
    "image/webp": ".webp",
    "image/avif": ".avif",
    "image/x-icon": ".ico",
    "image/vnd.microsoft.icon": ".ico",
    "font/woff": ".woff",
    "font/woff2": ".woff2",
    "font/ttf": ".ttf",
    "font/otf": ".otf",
    "video/mp4": ".mp4",
    "video/webm": ".webm",
    "audio/mpeg": ".mp3",
}
_EXTENSIONS = {kind: tuple(words.split()) for kind, words in _TYPES.items()}
_FORBIDDEN = frozenset('<>:"/\\|?*~')
_RESERVED = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\.|$)")  # by Windows
_LIKE_A_FILE = re.compile(r"\.[a-z][a-z0-9]{0,7}$")
_LONGEST = 80  # bytes of a part, without its digest
_LONGEST_PATH = 180  # bytes; a path of Windows has 260
_DEEPEST = 30  # folders
_INDEX = "index"


Stored = Callable[[str], Awaitable[Page | None]]
"""What is stored for a URL."""


async def of_page(page: Page, stored: Stored, media_type: str) -> str:
    """The name of a file of this type for a page; asks whether a page is stored that has this very name."""
    name, rivals = file_name(page.url, media_type)
    for rival in rivals:
        other = await stored(rival)
        if other is not None and other.key != page.key:
            return apart(name, page.url)
    return name


def apart(name: str, url: str) -> str:
    """Another name for a URL, which no other has."""
    stem, extension = splitext(name)
    return f"{stem}~{_digest(url)}{extension}"


def file_name(url: str, media_type: str) -> tuple[str, tuple[str, ...]]:
    """The name for a URL; and the URLs that have this name with more right, if that was made up."""
    parts = urlsplit(url)
    *folders, last = parts.path.split("/")[1:] or [""]
    host = _part(parts.netloc.replace(":", "+"))
    stem, extension = _stem_and_extension(last, media_type)
    file = (
        f"{_part(f'{stem}@{parts.query}', of=url)}{extension}" if "?" in url else f"{_part(stem)}{extension}"
    )
    name = "/".join([host, *(_folder(each) for each in folders), file])
    if len(folders) > _DEEPEST or len(name.encode()) > _LONGEST_PATH:
        return f"{host}/{_part(stem, of=url)}{extension}", ()
    if "?" in url or last == stem + extension:
        return name, ()
    folder = url[: len(url) - len(last)]
    return name, (f"{folder}{stem}{extension}",) if last else (f"{folder}{stem}{extension}", folder + stem)


def _stem_and_extension(last: str, media_type: str) -> tuple[str, str]:
    """The last part of a path, with an extension that opens it in the right program."""
    if not last:
        last = _INDEX
    stem, extension = splitext(last)
    fitting = _EXTENSIONS.get(media_type, ())
    if extension in fitting or (not fitting and _LIKE_A_FILE.fullmatch(extension)):
        return stem, extension
    return last, fitting[0] if fitting else ".bin"


def _folder(raw: str) -> str:
    """Files always end with an extension, so a folder that looks like one gets a line below: `a.js` and `a.js/b` both exist."""
    part = _part(raw)
    return f"{part}_" if _LIKE_A_FILE.search(part) or part.endswith("_") else part


def _part(raw: str, of: str = "") -> str:
    """A part of a path as a file name. With `of`, it always gets a digest of that."""
    text = unquote(raw, errors="replace")
    safe = "".join("_" if each in _FORBIDDEN or not each.isprintable() else each for each in text).strip(". ")
    safe = safe.encode()[:_LONGEST].decode("utf-8", "ignore").strip(". ")
    if _RESERVED.match(safe):
        safe = f"_{safe}"
    if not of and safe == text and _is_usual(text, raw):
        return safe
    return f"{safe}~{_digest(of or raw)}"


def _is_usual(text: str, raw: str) -> bool:
    """Whether the text gives back the raw form, also where case does not count: then nothing else has it."""
    if not text or text != unicodedata.normalize("NFKC", text).casefold():
        return False
    return raw in (text, quote(text), quote(text, safe="!$&'()*+,;=:@/"))


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
