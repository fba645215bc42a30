"""Hides passwords in text that is about to be shown: those that somebody wrote into an address. Pure.

Settings and seeds with a password are refused, or used without it. Messages about them quote what was
written, so every such text passes through here first.
"""

import re

_SCHEME = r"(\b[a-z][a-z0-9+.-]*:/{1,3})"
_HIDDEN = (  # compiled when they are first needed: most commands never see one
    # RFC 3986 3.2.1: everything before the last @ of an authority.
    rf"{_SCHEME}[^\s'\"<>/?#]*@",
    # Passwords may also contain / ? #. What looks like a host and a port is not one.
    r"(\bhttps?:/{1,3})[^\s/?#@:'\"<>]+:(?!\d+(?:[/?#]|$))[^\s'\"<>]*@",
    rf"(?!https?:){_SCHEME}[^\s'\"<>]*@",
    # USER:PASSWORD@HOST alone, as in postgres.addresses; mailto: is followed by an address.
    r"((?:^|[\s'\"\[(,=]))(?!mailto:)[^\s'\"\[(,=@/:]+:[^\s'\"@/]+@(?=[\w\[.-])",
)


def hidden(text: str) -> str:
    """The text with … in place of every user name and password before a host."""
    if "@" not in text:
        return text
    for pattern in _HIDDEN:
        text = re.sub(pattern, r"\1…@", text, flags=re.IGNORECASE)
    return text
