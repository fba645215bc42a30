"""A WACZ file shown by a player that the user has: we serve the file and the player's folder, and nothing else.

Players are published under licences that do not allow us to ship them. What keeps pages in is then the player's affair.
"""

import mimetypes
from html import escape
from pathlib import Path
from urllib.parse import unquote

from skitter.export.replay.serving import Answer, FilePart, Request, plain

_WACZ = "/archive.wacz"
_INDEX = """<!doctype html><html lang="en"><meta charset="utf-8"><title>{name}</title>
<style>html,body,replay-web-page{{height:100%;margin:0;display:block}}</style>
<script src="/ui.js"></script><replay-web-page source="{wacz}" replayBase="/replay/"></replay-web-page></html>
"""


class PlayerSite:
    """Answers requests of a player."""

    def __init__(self, folder: Path, wacz: Path) -> None:
        self._folder = folder.resolve()
        self._wacz = wacz

    async def route(self, request: Request) -> Answer:
        """One answer."""
        if (
            request.headers.get("sec-fetch-site") == "cross-site"
            and request.headers.get("sec-fetch-dest") != "document"
        ):
            return plain(403, "other sites get nothing from here")
        path = unquote(request.path.partition("?")[0])
        closed = (("Cross-Origin-Resource-Policy", "same-origin"), ("Cache-Control", "no-store"))
        if path == _WACZ:
            body = FilePart(self._wacz, self._wacz.stat().st_size)
            return Answer(headers=(("Content-Type", "application/wacz"), *closed), body=body, ranges=True)
        if path in ("/", "/index.html", "/replay/", "/replay/index.html"):
            page = _INDEX.format(name=escape(self._wacz.name), wacz=_WACZ).encode()
            return Answer(headers=(("Content-Type", "text/html; charset=utf-8"), *closed), body=page)
        file = (self._folder / path.removeprefix("/replay").lstrip("/")).resolve()
        if not file.is_relative_to(self._folder) or not file.is_file():
            return plain(404, "there is no such file")
        kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
        return Answer(
            headers=(("Content-Type", kind), *closed), body=FilePart(file, file.stat().st_size), ranges=True
        )
