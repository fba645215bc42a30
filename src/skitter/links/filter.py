"""The `links=` filter of `skitter.crawl()`: links that a program does not want.

The filter is the caller's code. If it raises, that link is dropped with a reason on record, and the crawl
continues.
"""

import inspect
from collections.abc import Callable, Sequence

from skitter import model, reasons
from skitter.events import Events, Warned
from skitter.links.page import PageLink, links_of, made
from skitter.model import Document, Fetched, Link, Reason
from skitter.settings import Settings

Wanted = Callable[[PageLink], object]
"""Says of a link whether the crawl should follow it: anything that is true or false."""

REFUSED = Reason(reasons.FILTER, "refused by your filter")
_SAID = 10  # exceptions reported one by one; the report counts all of them


class LinkFilter:
    """Asks the caller about every link that would be followed."""

    def __init__(self, wanted: Wanted, settings: Settings, events: Events) -> None:
        self._wanted = wanted
        self._settings = settings
        self._events = events
        self._raised = 0

    def __call__(
        self, page: model.Page, fetched: Fetched, document: Document, links: Sequence[Link]
    ) -> tuple[list[Link], list[tuple[Link, Reason]]]:
        """Split a page's links into wanted ones and refused ones with the reason."""
        source = made(page, fetched.exchange, self._settings)
        told = {link.url: link for link in links_of(source, document)}
        wanted: list[Link] = []
        refused: list[tuple[Link, Reason]] = []
        for link in links:
            reason = self._refusal(told.get(link.url) or PageLink(link.url, "", "", source))
            if reason is None:
                wanted.append(link)
            else:
                refused.append((link, reason))
        return wanted, refused

    def _refusal(self, link: PageLink) -> Reason | None:
        try:
            return None if self._wanted(link) else REFUSED
        except Exception as error:  # noqa: BLE001  the caller's code, not ours: this link is dropped and the error reported
            what = f"{type(error).__name__}: {error}"
            self._raised += 1
            if self._raised <= _SAID:
                self._events.emit(
                    Warned(
                        f"your filter raised {what} for {link.url}, a link on {link.page.url}; it is not followed"
                    )
                )
            return Reason(reasons.FILTER_ERROR, f"your filter raised {what}")


def checked(wanted: Wanted) -> Wanted:
    """The filter, if there is one."""
    if not callable(wanted):
        raise TypeError(
            f"links={wanted!r} is not a function; write for example links=lambda link: 'blog' in link.url"
        )
    if inspect.iscoroutinefunction(wanted):
        raise TypeError("links must be a plain function: what an `async def` returns is always true")
    return wanted
