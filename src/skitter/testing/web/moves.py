"""Redirects: ordinary ones, loops, forbidden targets and targets that do not exist."""

from skitter.model import Fault
from skitter.testing.web.graph import Anchor, Answer, Fate, Resource
from skitter.testing.web.site import Site, link

STATUSES = (301, 302, 303, 307, 308)
# More hops than any sensible limit: the Fetch standard stops after 20.
CHAIN = 25


def moved(target: str, to: str, location: str = "", status: int = 302) -> Resource:
    """A redirect. `location` is the Location header, if it is not the target's URL."""
    answer = Answer(
        status=status, media="text/plain", body=b"moved\n", headers=(f"Location: {location or to}",)
    )
    return Resource(target, Fate.REDIRECT, to=to, answers=(answer,))


def redirects(site: Site) -> None:
    """Every status, relative and absolute, across hosts, and short chains."""
    anchors: list[Anchor] = []
    for status in STATUSES:
        end = site.add(Resource(f"/moved/to-{status}.html"))
        anchors.append(link(site.add(moved(f"/moved/from-{status}", end, status=status))))
    relative = site.add(Resource("/moved/relative.html"))
    anchors.append(link(site.add(moved("/moved/old/from-relative", relative, "../relative.html"))))
    schemeless = site.add(Resource("/moved/schemeless.html"))
    anchors.append(
        link(site.add(moved("/moved/from-schemeless", schemeless, schemeless.removeprefix("http:"))))
    )
    away = site.url("/", site.neighbour())
    anchors.append(link(site.add(moved("/moved/away", away, status=301))))
    last = site.add(Resource("/moved/chain-end.html"))
    for hop in range(4, 0, -1):
        last = site.add(moved(f"/moved/chain-{hop}", last))
    anchors.append(link(last))
    site.hub("moved", anchors)


def redirect_faults(site: Site) -> None:
    """Loops, endless chains, forbidden targets, missing and malformed Location."""
    url, add = site.url, site.add
    anchors = [
        link(add(moved("/lost/self", url("/lost/self")))),
        link(add(moved("/lost/loop-a", url("/lost/loop-b")))),
        link(add(moved("/lost/metadata", "http://169.254.169.254/latest/meta-data/"))),
        link(add(moved("/lost/inside", "http://10.0.0.1/admin"))),
        link(add(moved("/lost/decimal", "http://167772161/admin"))),
        link(add(moved("/lost/file", "file:///etc/passwd"))),
        link(add(moved("/lost/script", "javascript:alert(1)"))),
        link(add(moved("/lost/ftp", "ftp://example.test/file"))),
        link(add(moved("/lost/chain-1", url("/lost/chain-2")))),
    ]
    add(moved("/lost/loop-b", url("/lost/loop-a")))
    for hop in range(2, CHAIN + 1):
        add(moved(f"/lost/chain-{hop}", url(f"/lost/chain-{hop + 1}")))
    add(Resource(f"/lost/chain-{CHAIN + 1}"))
    for name, headers in (
        ("nowhere", ()),
        ("broken", ("Location: http://[::bad/",)),
        ("empty", ("Location: ",)),
    ):
        answer = Answer(status=302, media="text/plain", body=b"moved\n", headers=headers)
        anchors.append(link(add(Resource(f"/lost/{name}", Fate.UNJUDGED, Fault.PROTOCOL, answers=(answer,)))))
    site.hub("lost", anchors)
