"""The kinds of assets: what a page needs something for, which decides whether it is read for what it needs itself."""

from collections.abc import Mapping

ASSET = "asset"  # a picture, a font, a script: not read, unless its media type says that it refers to others
STYLE = "style"  # a style sheet
FRAME = "frame"  # a document inside the page
MODULE = "module"  # a script that may import others
MANIFEST = "manifest"  # of a web app


def told_kinds(kinds: Mapping[str, str]) -> dict[str, str] | None:
    """The kinds of those few hrefs that are more than an asset; None if all are just that."""
    return {href: kind for href, kind in kinds.items() if kind != ASSET} or None
