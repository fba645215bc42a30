"""Passwords in text that is about to be shown: what somebody wrote into an address where it does not belong. Pure.

Settings and seeds that hold one are refused, or used without it. What is wrong with them is said with the text that was
written, so every such text passes here on its way into a message.
"""

import re

_SCHEME = r"(\b[a-z][a-z0-9+.-]*:/{1,3})"
_HIDDEN = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        # RFC 3986 3.2.1: all before the last @ of an authority.
        rf"{_SCHEME}[^\s'\"<>/?#]*@",
        # Passwords are also written with / ? # in them. What looks like a host and a port is none.
        r"(\bhttps?:/{1,3})[^\s/?#@:'\"<>]+:(?!\d+(?:[/?#]|$))[^\s'\"<>]*@",
        rf"(?!https?:){_SCHEME}[^\s'\"<>]*@",
        # USER:PASSWORD@HOST alone, as in postgres.addresses; mailto: has an address behind it.
        r"((?:^|[\s'\"\[(,=]))(?!mailto:)[^\s'\"\[(,=@/:]+:[^\s'\"@/]+@(?=[\w\[.-])",
    )
)


def hidden(text: str) -> str:
    """The text with … in place of every name and password in front of a host."""
    if "@" not in text:
        return text
    for pattern in _HIDDEN:
        text = pattern.sub(r"\1…@", text)
    return text
