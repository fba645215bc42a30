"""Style sheets with the URLs in them rewritten. The rest stays as it is, octet for octet."""

from skitter.export.replay.urls_in import References
from skitter.parse.css import rewritten


def sheet(content: bytes, references: References) -> bytes:
    """A style sheet for replay."""
    return text(content.decode("utf-8", "surrogateescape"), references).encode("utf-8", "surrogateescape")


def text(css: str, references: References) -> str:
    """The same for text: of a style element or attribute."""

    def change(href: str) -> str:
        """What is not UTF-8 cannot be a URL of ours."""
        return href if any(0xD800 <= ord(char) < 0xE000 for char in href) else references.url(href)

    return rewritten(css, change)
