"""Our own pages of a replay: search, the list of pages, the captures of a URL, and the frame that shows one.

They have an origin of their own, no script but one of our own, and text from the archive is only ever text in them.
"""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from urllib.parse import parse_qs, quote

from skitter.export.replay.answers import Held, Listed
from skitter.export.replay.captures import Capture
from skitter.export.replay.serving import Answer, Request, plain
from skitter.export.replay.urls_in import TOP, asked, replayed
from skitter.reporting.format import counted
from skitter.urls import seed

SHOWN = 50  # pages of a list at a time
_LATEST = "99991231235959"
_FILES = {"/screens.css": "text/css", "/screens.js": "text/javascript"}
_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<link rel="stylesheet" href="/screens.css">
{body}
</html>
"""


class Screens:
    """Answers requests for our own pages."""

    def __init__(self, held: Held, content: str) -> None:
        """`content` is the origin of archived content."""
        self._held = held
        self._content = content
        self._policy = (
            f"default-src 'none'; style-src 'self'; script-src 'self'; frame-src {content}; form-action 'self'; base-uri 'none'; "
            "frame-ancestors 'none'"
        )
        self._files = {path: (Path(__file__).parent / path[1:]).read_bytes() for path in _FILES}

    async def route(self, request: Request) -> Answer:
        """One answer."""
        headers = request.headers
        if headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-dest") != "document":
            return self._closed(plain(403, "other sites get nothing from here"))
        path = request.path.partition("?")[0]
        if path in self._files:
            kind = (("Content-Type", f"{_FILES[path]}; charset=utf-8"),)
            return self._closed(Answer(headers=kind, body=self._files[path]))
        return await self._page_at(path, request.path)

    async def _page_at(self, path: str, whole: str) -> Answer:
        asked_for = parse_qs(whole.partition("?")[2], errors="replace")
        if path == "/":
            return await self._home(_first(asked_for, "q"), _number(_first(asked_for, "from")))
        if path == "/open":
            return self._opened(_first(asked_for, "url"))
        if path == "/captures":
            return await self._captures(_first(asked_for, "url"))
        if path.startswith("/view/") and (wanted := asked(whole.removeprefix("/view"))):
            return await self._view(*wanted)
        return self._closed(plain(404, "there is no such page"))

    # -- search and lists --------------------------------------------------------------------------------------

    async def _home(self, words: str, after: int) -> Answer:
        name = self._held.name
        total, listed = await self._listed(words, after)
        rows = "".join([_row(one) for one in listed]) or "<li>Nothing found.</li>"
        more = ""
        if after:
            more += f'<a href="/?{_asked(words, max(0, after - SHOWN))}">earlier</a> '
        if len(listed) == SHOWN:
            more += f'<a href="/?{_asked(words, after + SHOWN)}">more</a>'
        told = f"{counted(total, 'page')} found" if total is not None else "Pages by URL"
        body = f"""<header><h1>{escape(name)}</h1><p>{counted(self._held.captures.count(), "answer")} in this archive</p>
<form action="/"><input name="q" value="{escape(words)}" placeholder="words of a page, or of its URL" autofocus><button>Search</button></form>
<form action="/open"><input name="url" placeholder="https://…"><button>Open</button></form></header>
<main><h2>{told}</h2><ol class="pages">{rows}</ol><p>{more}</p></main>"""
        return self._page(name, body)

    async def _listed(self, words: str, after: int) -> tuple[int | None, list[Listed]]:
        """Pages with these words in their text, if there is an index of it; otherwise in URL or title."""
        if words.strip():
            found = await self._held.search(words, SHOWN, after)
            if found is not None:
                return found
        pages = self._held.captures.pages(words.split()[:10], SHOWN, after)
        shown = [page for page in pages if not await self._held.why_hidden(page.url)]
        return None, [
            Listed(url=page.url, stamp=page.stamp, title=await self._held.title(page.url)) for page in shown
        ]

    def _opened(self, typed: str) -> Answer:
        """What a person typed."""
        url = seed(typed) if typed.strip() else None
        if url is None:
            return self._page(
                "Not a URL", f"<main><h2>{escape(typed)} is not a URL</h2><p><a href='/'>Back</a></main>", 400
            )
        return self._closed(Answer(status=303, headers=(("Location", f"/view{replayed(_LATEST, url)}"),)))

    async def _captures(self, url: str) -> Answer:
        found = [] if await self._held.why_hidden(url) else self._held.captures.of(url)
        rows = "".join(
            f'<li><a href="{_view(one.stamp, one.url)}">{_when(one.stamp)}</a> {one.status or ""} {escape(one.mime)} '
            f"<code>{escape(one.url)}</code></li>"
            for one in reversed(found)
        )
        body = f"<main><h2>{counted(len(found), 'capture')} of <code>{escape(url)}</code></h2><ol>{rows}</ol><p><a href='/'>Search</a></main>"
        return self._page(f"Captures of {url}", body)

    # -- one page ----------------------------------------------------------------------------------------------

    async def _view(self, stamp: str, url: str) -> Answer:
        found = [] if await self._held.why_hidden(url) else self._held.captures.nearest(url, stamp)
        shown = found[0] if found else None
        source = self._content + replayed(shown.stamp if shown else stamp, url)
        title = (await self._held.title(shown.url) if shown else "") or url
        body = f"""<body class="framed"><nav><a href="/">Search</a>
<form action="/open"><input name="url" id="url" value="{escape(url)}"></form>
<span id="when">{_when(shown.stamp) if shown else "not in this archive"}</span>
<a id="captures" href="/captures?url={quote(url, safe="")}">{_number_of(found)}</a></nav>
<iframe name="{TOP}" src="{escape(source)}" data-content="{escape(self._content)}"></iframe>
<script src="/screens.js"></script>"""
        return self._page(title, body)

    def _page(self, title: str, body: str, status: int = 200) -> Answer:
        text = _PAGE.format(title=escape(title), body=body)
        kind = (("Content-Type", "text/html; charset=utf-8"),)
        return self._closed(Answer(status=status, headers=kind, body=text.encode("utf-8", "replace")))

    def _closed(self, answer: Answer) -> Answer:
        keeping = (
            ("Content-Security-Policy", self._policy),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Cross-Origin-Opener-Policy", "same-origin"),
            ("Referrer-Policy", "no-referrer"),
            ("X-Content-Type-Options", "nosniff"),
            ("Cache-Control", "no-store"),
        )
        return Answer(status=answer.status, headers=(*answer.headers, *keeping), body=answer.body)


def _row(one: Listed) -> str:
    pieces, at = list[str](), 0
    for start, end in one.marks:
        pieces += (escape(one.snippet[at:start]), f"<mark>{escape(one.snippet[start:end])}</mark>")
        at = end
    snippet = "".join([*pieces, escape(one.snippet[at:])])
    return (
        f'<li><a href="{_view(one.stamp, one.url)}">{escape(one.title or one.url)}</a> '
        f'<small>{_when(one.stamp)} · <a href="/captures?url={quote(one.url, safe="")}">captures</a></small>'
        f"<br><code>{escape(one.url)}</code>{'<p>' + snippet + '</p>' if snippet else ''}</li>"
    )


def _view(stamp: str, url: str) -> str:
    return escape(f"/view{replayed(stamp, url)}")


def _when(stamp: str) -> str:
    return f"{stamp[:4]}-{stamp[4:6]}-{stamp[6:8]} {stamp[8:10]}:{stamp[10:12]}:{stamp[12:14]} UTC"


def _number_of(found: Sequence[Capture]) -> str:
    return counted(len(found), "capture")


def _first(asked_for: dict[str, list[str]], name: str) -> str:
    return asked_for.get(name, [""])[0]


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 10 else 0


def _asked(words: str, after: int) -> str:
    return escape(f"q={quote(words, safe='')}&from={after}")
