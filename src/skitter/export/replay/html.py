"""HTML for replay: the references in it rewritten, and a script added that does the same for what scripts ask for.

The source is changed tag by tag and otherwise kept, so that a browser builds the tree that it would have built. What could
get in the way of a replay or lead out of it is dropped: policies and referrer rules of the page, integrity digests of what
is rewritten too, hints to connect to other hosts.
"""

import re
from collections.abc import Callable
from html import escape

from skitter.export.replay import css
from skitter.export.replay.urls_in import SCRIPT, References
from skitter.parse import markup
from skitter.parse.charset import decode, of_html
from skitter.parse.html import in_encoding
from skitter.parse.refresh import refresh
from skitter.urls import whatwg

_URLS = {
    "a": ("href",),
    "area": ("href",),
    "audio": ("src",),
    "base": ("href",),
    "body": ("background",),
    "button": ("formaction",),
    "embed": ("src",),
    "form": ("action",),
    "frame": ("src", "longdesc"),
    "iframe": ("src", "longdesc"),
    "image": ("href", "xlink:href"),
    "img": ("src", "longdesc", "lowsrc", "dynsrc"),
    "input": ("src", "formaction"),
    "link": ("href",),
    "object": ("data", "codebase"),
    "script": ("src", "href", "xlink:href"),
    "source": ("src",),
    "table": ("background",),
    "td": ("background",),
    "th": ("background",),
    "tr": ("background",),
    "track": ("src",),
    "use": ("href", "xlink:href"),
    "feimage": ("href", "xlink:href"),
    "video": ("src", "poster"),
}
_SETS = {"img": ("srcset",), "source": ("srcset",), "link": ("imagesrcset",)}
_DROPPED = {"integrity", "ping", "manifest", "nonce", "attributionsrc"}
_CONNECTING = {"preconnect", "dns-prefetch", "prefetch", "prerender", "modulepreload"}
_POLICIES = {"content-security-policy", "content-security-policy-report-only", "x-frame-options"}
_CANDIDATE = re.compile(r"[\s,]*+(\S++)")
_DESCRIBED = re.compile(r"[^,(]*+(?:\([^)]*+\)?[^,(]*+)*+")

_Change = Callable[[str], str]


def page(content: bytes, charset: str, references: References, *, script: bool = True) -> bytes:
    """A page in UTF-8; with the script if it is a whole document, and not a piece that a script asked for."""
    encoding = of_html(content, charset)
    made = _Page(references, encoding).rewritten(decode(content, encoding), whole=script)
    return made.encode("utf-8", "replace")


class _Page:
    """One document that is being rewritten."""

    def __init__(self, references: References, encoding: str) -> None:
        self._urls = references
        self._encoding = encoding
        self._has_base = False

    def rewritten(self, source: str, *, whole: bool) -> str:
        out: list[str] = []
        done, added = 0, not whole
        for tag in markup.tags(source):
            if not added and (tag.text.strip() or tag.end or tag.name not in ("html", "")):
                inside = tag.name == "head" and not tag.end and not tag.text.strip()
                at = self._end_of(source, tag) if inside else tag.start - len(tag.text)
                out += (source[done:at], f'<script src="{SCRIPT}"></script>')
                done, added = at, True
            if tag.end or not tag.name:
                continue
            start = tag.start + 1 + len(tag.name)
            if start < done:
                continue
            written = self._attributes(tag)
            if written != tag.written:
                out += (source[done:start], written)
                done = start + len(tag.written)
            if tag.name == "style" and tag.content:
                at = start + len(tag.written) + 1
                out += (source[done:at], css.text(tag.content, self._urls))
                done = at + len(tag.content)
        return "".join([*out, source[done:]])

    def _end_of(self, source: str, tag: markup.Tag) -> int:
        return source.index(">", tag.start + 1 + len(tag.name) + len(tag.written)) + 1

    def _attributes(self, tag: markup.Tag) -> str:
        if not tag.written.strip():
            return tag.written
        found = list(markup.placed(tag.written))
        values = {name: value for name, value, _, _ in reversed(found)}
        changes = self._changes(tag.name, values)
        out, done = [], 0
        for name, value, start, end in found:
            if name in _DROPPED:
                out.append(tag.written[done:start])
                done = end
            elif (change := changes.get(name)) is not None and (new := change(value)) != value:
                out += (tag.written[done:start], f'{name}="{escape(new)}"')
                done = end
        return "".join([*out, tag.written[done:]])

    def _changes(self, name: str, values: dict[str, str]) -> dict[str, _Change]:
        """How each attribute of an element changes."""
        changes: dict[str, _Change] = dict.fromkeys(_URLS.get(name, ()), self._url)
        changes |= dict.fromkeys(_SETS.get(name, ()), self._set)
        changes["style"] = lambda value: css.text(value, self._urls)
        changes["target"] = changes["formtarget"] = self._urls.target
        if name == "base":
            changes["href"] = self._base
        elif name == "iframe":
            changes["srcdoc"] = lambda value: self.rewritten(value, whole=True)
        elif name == "link" and _CONNECTING.intersection(values.get("rel", "").lower().split()):
            changes["href"] = lambda _: ""
        elif name == "meta":
            changes |= self._meta(values)
        return changes

    def _meta(self, values: dict[str, str]) -> dict[str, _Change]:
        kind = values.get("http-equiv", "").strip().lower()
        if kind in _POLICIES:
            return {"http-equiv": lambda _: "x-archived"}
        if values.get("name", "").strip().lower() == "referrer":
            return {"name": lambda _: "x-archived"}
        return {"content": self._refresh} if kind == "refresh" else {}

    def _url(self, value: str) -> str:
        return self._urls.url(in_encoding(value, self._encoding))

    def _base(self, value: str) -> str:
        """The first base counts for what follows, as in a browser."""
        if not self._has_base and (base := whatwg(value, self._urls.base)):
            self._has_base = True
            new = self._urls.based(value)
            self._urls.base = base
            return new
        return self._urls.based(value)

    def _set(self, value: str) -> str:
        """The candidates of a srcset (HTML Standard, 4.8.4.3)."""
        parts, at = [], 0
        while candidate := _CANDIDATE.match(value, at):
            at, url = candidate.end(), candidate[1]
            described = None if url.endswith(",") else _DESCRIBED.match(value, at)
            parts.append(self._url(url.rstrip(",")) + (described[0].rstrip() if described else ""))
            at = described.end() if described else at
        return ", ".join(parts)

    def _refresh(self, value: str) -> str:
        found = refresh(value)
        if found is None or found[1] is None:
            return value
        return f"{found[0]}; url={self._urls.url(found[1])}"
