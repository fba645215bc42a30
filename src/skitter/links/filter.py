"""Links that a program does not want: the `links=` of `skitter.crawl()`.

The filter is the caller's code. What it raises costs the link it was asked about, with the reason on record, and not the
crawl.
"""

import inspect
from collections.abc import Callable, Sequence

from skitter import model, reasons
from skitter.events import Events, Warned
from skitter.model import Document, Fetched, Link, Reason
from skitter.page import PageLink, links_of, made
from skitter.settings import Settings

Wanted = Callable[[PageLink], object]
"""Says of a link whether the crawl should follow it: anything that is true or false."""

REFUSED = Reason(reasons.FILTER, "refused by your filter")
_SAID = 10  # exceptions that are told one by one; the report counts all of them


class LinkFilter:
    """Asks the caller about every link that the crawl would follow."""

    def __init__(self, wanted: Wanted, settings: Settings, events: Events) -> None:
        self._wanted = wanted
        self._settings = settings
        self._events = events
        self._raised = 0

    def __call__(
        self, page: model.Page, fetched: Fetched, document: Document, links: Sequence[Link]
    ) -> tuple[list[Link], list[tuple[Link, Reason]]]:
        """The links of a page that are wanted, and the others with the reason."""
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
        except Exception as error:  # noqa: BLE001  the caller's code, not ours: it costs this link, and is told
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
    """The filter, if it is one."""
    if not callable(wanted):
        raise TypeError(
            f"links={wanted!r} is no function; write for example links=lambda link: 'blog' in link.url"
        )
    if inspect.iscoroutinefunction(wanted):
        raise TypeError("links must be a plain function: what an `async def` returns is always true")
    return wanted
