"""The origin of archived content. Nothing from here can reach the live web, nor our own pages.

- The policy of every answer allows loads, frames, forms and connections to this origin alone.
- A page is only served into the frame of our own page, whose policy allows frames of this origin alone: so a script that
  sets its location elsewhere gets nowhere. A page that is opened by itself is sent into that frame.
- The sandbox forbids new windows and navigation of our page. Service workers are refused: they would outlive the replay.
- Other sites get nothing from here: neither frames nor loads of theirs are answered.
"""

from calendar import timegm
from collections import OrderedDict
from collections.abc import Callable, Mapping
from email.utils import formatdate
from html import escape
from pathlib import Path
from time import strptime
from urllib.parse import urlsplit

from skitter.export.replay.answers import Held, Replayed, replay
from skitter.export.replay.serving import Answer, Request, plain
from skitter.export.replay.urls_in import SCRIPT, asked, replayed
from skitter.urls import whatwg

_MOST_MISSED = 10_000
_FRAMES = ("iframe", "frame", "embed", "object")
_POLICY = (
    "default-src 'self' data: blob: 'unsafe-inline' 'unsafe-eval'; form-action 'self'; base-uri 'self'; "
    "frame-ancestors 'self' {screens}; webrtc 'block'"
)
_SANDBOX = "; sandbox allow-scripts allow-same-origin allow-forms"
_MISSING = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Not in this archive</title>
<style>body{{font:16px/1.5 system-ui,sans-serif;max-width:40em;margin:3em auto;padding:0 1em}}code{{word-break:break-all}}</style>
<h1>{title}</h1><p><code>{url}</code></p><p>{text}</p>
"""


class ContentSite:
    """Answers requests for archived content."""

    def __init__(self, held: Held, screens: str, missed: Callable[[str], None]) -> None:
        """`screens` is the origin of our own pages; `missed` hears of each URL that is not in the archive, once."""
        self._held = held
        self._screens = screens
        self._missed = missed
        self._known_missing: OrderedDict[str, None] = OrderedDict()
        self._script = (Path(__file__).parent / "page.js").read_bytes()
        self.answered = 0

    @property
    def missing(self) -> int:
        """How many URLs were asked for in vain."""
        return len(self._known_missing)

    async def route(self, request: Request) -> Answer:
        """One answer."""
        dest = request.headers.get("sec-fetch-dest", "")
        if why := _unwelcome(request.headers, dest):
            return self._closed(plain(403, why))
        if request.path == SCRIPT:
            kind = (("Content-Type", "text/javascript; charset=utf-8"),)
            return self._closed(Answer(headers=kind, body=self._script))
        wanted = asked(request.path)
        if wanted is None:
            return self._by_referrer(request)
        stamp, named = wanted
        url = _cleaned(named)
        if url is None:
            return self._absent(named, dest, 400, "This is not a URL.")
        if dest == "document":
            return Answer(status=303, headers=(("Location", f"{self._screens}/view{replayed(stamp, url)}"),))
        return await self._archived(url, stamp, dest)

    def _by_referrer(self, request: Request) -> Answer:
        """A script asked for a path of its site: the page that it is on says which site, and when."""
        page = asked(urlsplit(request.headers.get("referer", "")).path)
        target = whatwg(request.path, page[1]) if page is not None else None
        if page is None or target is None:
            return self._absent(
                request.path,
                request.headers.get("sec-fetch-dest", ""),
                404,
                "It belongs to no archived page.",
            )
        return self._closed(Answer(status=307, headers=(("Location", replayed(page[0], target)),)))

    async def _archived(self, url: str, stamp: str, dest: str) -> Answer:
        why = await self._held.why_hidden(url)
        if why:
            return self._absent(url, dest, 403, f"It is in the archive, and is not shown: such pages {why}.")
        found = await replay(self._held, url, stamp, dest)
        if found is None:
            self._note(url)
            return self._absent(url, dest, 404, "The crawl has no answer for this URL.")
        self.answered += 1
        return self._shown(found)

    def _note(self, url: str) -> None:
        if url not in self._known_missing and len(self._known_missing) < _MOST_MISSED:
            self._known_missing[url] = None
            self._missed(url)

    def _shown(self, found: Replayed) -> Answer:
        at = timegm(strptime(found.capture.stamp, "%Y%m%d%H%M%S"))
        fields = (*found.headers, ("Memento-Datetime", formatdate(at, usegmt=True)))
        answer = Answer(status=found.status, headers=fields, body=found.body, ranges=True)
        # Browsers show a PDF by a viewer of their own, which they do not start in a sandbox.
        return self._closed(answer, sandboxed=found.media_type != "application/pdf")

    def _absent(self, url: str, dest: str, status: int, text: str) -> Answer:
        if dest in _FRAMES or not dest:
            title = "Not in this archive" if status == 404 else "Not shown"
            body = _MISSING.format(title=title, url=escape(url), text=escape(text)).encode("utf-8", "replace")
            kind = (("Content-Type", "text/html; charset=utf-8"),)
            return self._closed(Answer(status=status, headers=kind, body=body))
        return self._closed(plain(status, text))

    def _closed(self, answer: Answer, *, sandboxed: bool = True) -> Answer:
        """The answer with everything that keeps a page in."""
        policy = _POLICY.format(screens=self._screens) + (_SANDBOX if sandboxed else "")
        keeping = (
            ("Content-Security-Policy", policy),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Referrer-Policy", "same-origin"),
            ("X-DNS-Prefetch-Control", "off"),
            (
                "Permissions-Policy",
                "geolocation=(), camera=(), microphone=(), display-capture=(), usb=(), serial=(), payment=()",
            ),
            ("Cache-Control", "no-store"),
        )
        return Answer(
            status=answer.status, headers=(*answer.headers, *keeping), body=answer.body, ranges=answer.ranges
        )


def _unwelcome(headers: Mapping[str, str], dest: str) -> str:
    """Why a request is not answered."""
    if headers.get("sec-fetch-site") == "cross-site" and dest not in ("iframe", "frame", "document"):
        return "other sites get nothing from an archive"
    if dest == "serviceworker" or "service-worker" in headers:
        return "archived service workers are not run"
    return ""


def _cleaned(url: str) -> str | None:
    """A URL as a browser writes it, without credentials."""
    written = whatwg(url)
    if written is None or not written.startswith(("http://", "https://")):
        return None
    scheme, _, rest = written.partition("://")
    authority, slash, path = rest.partition("/")
    return f"{scheme}://{authority.rpartition('@')[2]}{slash}{path}".partition("#")[0]
