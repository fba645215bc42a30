"""Answers that are not pages, not yet pages, or pages with robots directives."""

import datetime as dt
from email.utils import format_datetime

from skitter.testing.web.graph import PAGE, Anchor, Answer, Fate, Resource
from skitter.testing.web.site import Site, link

GONE = (404, 410)
DENIED = (400, 401, 403, 405, 406, 451)
STAYING_ERRORS = (500, 502)
# All dates in the web are relative to this, so that it does not depend on the day it is served.
DAY_ZERO = dt.datetime(2025, 1, 1, tzinfo=dt.UTC)


def statuses(site: Site) -> None:
    """Final statuses, links to missing pages, and permanent errors."""
    anchors = [link(site.url("/status/nothing-here.html")), link(site.url("/status/nor-here/"))]
    anchors += [_answering(site, status, Fate.GONE) for status in GONE]
    anchors += [_answering(site, status, Fate.DENIED) for status in DENIED]
    anchors += [_answering(site, status, Fate.FAILED) for status in STAYING_ERRORS]
    empty = Answer(status=204, media="", body=b"")
    anchors.append(link(site.add(Resource("/status/204.html", Fate.UNJUDGED, answers=(empty,)))))
    partial = Answer(status=206, headers=("Content-Range: bytes 0-1999/99999",))
    anchors.append(link(site.add(Resource("/status/206.html", Fate.UNJUDGED, answers=(partial,)))))
    changed = Answer(status=203)
    anchors.append(link(site.add(Resource("/status/203.html", answers=(changed,)))))
    site.hub("status", anchors)


def _answering(site: Site, status: int, fate: Fate) -> Anchor:
    headers = ('WWW-Authenticate: Basic realm="none"',) if status == 401 else ()
    answer = Answer(status=status, headers=headers)
    return link(site.add(Resource(f"/status/{status}.html", fate, words=40, answers=(answer,))))


def later(site: Site) -> None:
    """Temporary failures: the page comes with the second or third request."""
    seconds = site.web.features.retry_after
    # A date in the past: the client may retry at once, or use its own rules (RFC 9110 10.2.3).
    past = format_datetime(DAY_ZERO, usegmt=True)
    waiting = {
        "error-once": (Answer(status=500),),
        "error-twice": (Answer(status=500), Answer(status=502)),
        "unavailable": (Answer(status=503, headers=(f"Retry-After: {seconds}",)),),
        "unavailable-until": (Answer(status=503, retry_in=seconds),),
        "unavailable-past": (Answer(status=503, headers=(f"Retry-After: {past}",)),),
        "unavailable-unclear": (Answer(status=503, headers=("Retry-After: soon",)),),
        "too-many": (Answer(status=429, headers=(f"Retry-After: {seconds}",)),),
        "too-many-silent": (Answer(status=429),),
    }
    pages = [Resource(f"/later/{name}.html", answers=(*first, PAGE)) for name, first in waiting.items()]
    site.hub("later", [link(site.add(page)) for page in pages])


def directives(site: Site) -> None:
    """Pages that ask not to be indexed, or not to have their links followed."""
    cases = (
        ("noindex", '<meta name="robots" content="noindex">', "", False, True),
        ("nofollow", '<meta name="robots" content="nofollow">', "", True, False),
        ("none", '<META NAME="ROBOTS" CONTENT="NONE">', "", False, False),
        ("both", '<meta content="NOFOLLOW, noindex" name="Robots">', "", False, False),
        ("ours", f'<meta name="{site.web.features.agent}" content="nofollow">', "", True, False),
        ("theirs", '<meta name="otherbot" content="noindex, nofollow">', "", True, True),
        ("header-noindex", "", "X-Robots-Tag: noindex", False, True),
        ("header-nofollow", "", "X-Robots-Tag: nofollow", True, False),
        ("header-theirs", "", "X-Robots-Tag: otherbot: none", True, True),
    )
    anchors = []
    for name, head, header, index, follow in cases:
        onward = site.add(Resource(f"/wishes/after-{name}.html"))
        answer = Answer(headers=(header,) if header else ())
        page = Resource(
            f"/wishes/{name}.html",
            head=head,
            index=index,
            follow=follow,
            anchors=(link(onward),),
            answers=(answer,),
        )
        anchors.append(link(site.add(page)))
    site.hub("wishes", anchors)


def conditional(site: Site) -> None:
    """Pages with validators (ETag, Last-Modified)."""
    modified = format_datetime(DAY_ZERO - dt.timedelta(days=40), usegmt=True)
    pages = (
        Resource("/kept/strong.html", etag='"v1-7f3a"'),
        Resource("/kept/weak.html", etag='W/"v1-7f3b"'),
        Resource("/kept/dated.html", modified=modified),
        Resource("/kept/both.html", etag='"v1-7f3c"', modified=modified),
    )
    site.hub("kept", [link(site.add(page)) for page in pages])


def poison(site: Site) -> None:
    """A page with a text that a hook in the crawler looks for."""
    site.hub("poison", [link(site.add(Resource("/poison/page.html", phrase=site.web.features.poison)))])
