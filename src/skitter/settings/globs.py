"""Patterns of sites: `*.example.org/docs/*`. Matching takes time linear in the text, whatever the pattern. Pure.

A pattern is a host, perhaps with a scheme before it and a port and a path behind it. `*` stands for any characters, dots
and slashes too; every other character stands for itself, `?` as well, since it begins a query. Without a path a pattern
matches the whole site; with one, path and query must match from the first character to the last.
"""

import re

from msgspec import Struct

from skitter.settings.units import SettingsError

_PATTERN = re.compile(
    r"(?:(?P<scheme>https?)://)?(?P<host>\[[0-9A-Fa-f:.]+\]|[^\s/:?#@\[\]]+)(?::(?P<port>[0-9]{1,5}))?(?P<path>/\S*)?"
)
_LONGEST = 2000  # characters, as of a URL
_ANYTHING = "\0"  # stands for what `*` matches when two globs are compared; no URL contains it


class Glob(Struct, frozen=True):
    """A text with `*` for any characters, cut at them."""

    parts: tuple[str, ...]

    @property
    def is_anything(self) -> bool:
        """Whether it matches every text."""
        return self.parts == ("", "")

    def matches(self, text: str) -> bool:
        """Whether it matches the whole text. The parts are looked for from left to right; nothing is tried twice."""
        parts = self.parts
        first, last = parts[0], parts[-1]
        if len(parts) == 1:
            return text == first
        at, end = len(first), len(text) - len(last)
        if at > end or not text.startswith(first) or not text.endswith(last):
            return False
        for part in parts[1:-1]:
            found = text.find(part, at, end)
            if found < 0:
                return False
            at = found + len(part)
        return True

    def covers(self, other: "Glob") -> bool:
        """Whether it matches everything that another glob matches."""
        return self.matches(_ANYTHING.join(other.parts))


def glob(text: str) -> Glob:
    """A text with stars as a glob."""
    return Glob(tuple(re.sub(r"\*+", "*", text).split("*")))


class SitePattern(Struct, frozen=True):
    """A pattern of URLs; whatever it does not name may be anything."""

    host: Glob
    scheme: str = ""
    port: int | None = None
    path: Glob | None = None  # path and query

    @property
    def is_whole_host(self) -> bool:
        """Whether the host alone decides."""
        return not self.scheme and self.port is None and self.path is None

    def matches_site(self, scheme: str, host: str, port: int) -> bool:
        """Whether it matches URLs there, apart from their path."""
        return (
            self.scheme in ("", scheme)
            and (self.port is None or self.port == port)
            and self.host.matches(host)
        )

    def covers(self, other: "SitePattern") -> bool:
        """Whether it matches every URL that another pattern matches."""
        return (
            self.scheme in ("", other.scheme)
            and (self.port is None or self.port == other.port)
            and self.host.covers(other.host)
            and (self.path is None or self.path.covers(other.path or Glob(("/", ""))))
        )


def site_pattern(text: str) -> SitePattern:
    """Read the `match` of an overlay."""
    found = _PATTERN.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None or int(found["port"] or 1) not in range(1, 65536):
        raise SettingsError(
            f"{text!r} is not a pattern of sites; write a host and perhaps a path, as in *.example.org/docs/*"
        )
    path = found["path"]
    return SitePattern(
        host=host_glob(found["host"]),
        scheme=found["scheme"] or "",
        port=int(found["port"]) if found["port"] else None,
        path=None if path in (None, "/*") else glob(path),
    )


def host_glob(text: str) -> Glob:
    """A pattern of hosts as they are spelt in URLs: lower case, ASCII, without a dot at the end."""
    name = text.lower().removesuffix(".")
    if not name.isascii():
        try:
            name = ".".join(
                label if label.isascii() else label.encode("idna").decode() for label in name.split(".")
            )
        except UnicodeError:
            raise SettingsError(
                f"{text!r} is not a host pattern; write only a host name, as in www.example.org or *.example.org"
            ) from None
    return glob(name)
