"""The robots.txt variants: what is served, and what it means for the host's pages.

A variant that forbids some paths comes with pages at these paths, linked like any other, with
`allowed=False`. The meaning is stated beside the file, not computed from it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from skitter.testing.web.features import Features
from skitter.testing.web.graph import PORT, Answer, Resource, Silent

TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class RobotsFile:
    """A host's robots.txt answer and its meaning."""

    kind: str
    answers: tuple[Answer, ...]
    delay: float = 0.0  # delay between two requests
    closed: bool = False  # nothing of the host may be fetched
    pages: tuple[tuple[str, bool], ...] = ()  # (target, allowed): pages that exist because of it
    elsewhere: str = ""  # target on its own host where a redirected file really is


def _text(text: str, **more: object) -> tuple[Answer, ...]:
    return (replace(Answer(media=TEXT, body=text.encode()), **more),)  # type: ignore[arg-type]


def _missing(_f: Features, _next: str) -> RobotsFile:
    return RobotsFile("missing", (Answer(status=404, media=TEXT, body=b"no such file\n"),))


def _allow(_f: Features, _next: str) -> RobotsFile:
    return RobotsFile("allow", _text("User-agent: *\nDisallow:\n"))


RULES = "\n".join((
    "Disallow: /private/",
    "Allow: /private/open/",  # the longer rule wins (RFC 9309 2.2.2)
    "Disallow: /*.secret$",
    "Disallow: /se%63tion/%7Eown/",  # percent-encoding is compared decoded (RFC 9309 2.2.2)
    "Disallow: /search?q=",
    "",
))  # fmt: skip
RULED_PAGES = (
    ("/private/", False),
    ("/private/1.html", False),
    ("/private/open/2.html", True),
    ("/private.html", True),
    ("/file.secret", False),
    ("/file.secret.html", True),
    ("/section/~own/3.html", False),
    ("/section/4.html", True),
    ("/search?q=5", False),
    ("/search", True),
)


def _rules(_f: Features, _next: str) -> RobotsFile:
    """The same rules on a host without any page they apply to: the usual case for most crawls."""
    return RobotsFile("rules", _text("User-agent: *\n" + RULES))


def _disallow(_f: Features, _next: str) -> RobotsFile:
    return RobotsFile("disallow", _text("User-agent: *\n" + RULES), pages=RULED_PAGES)


def _crawl_delay(f: Features, _next: str) -> RobotsFile:
    return RobotsFile(
        "crawl-delay", _text(f"User-agent: *\nCrawl-delay: {f.crawl_delay:g}\n"), delay=f.crawl_delay
    )


def _request_rate(f: Features, _next: str) -> RobotsFile:
    text = f"User-agent: *\nRequest-rate: 1/{f.request_interval}\nDisallow: /private/\n"
    return RobotsFile(
        "request-rate", _text(text), delay=f.request_interval, pages=(("/private/1.html", False),)
    )


def _groups(f: Features, _next: str) -> RobotsFile:
    text = (
        f"User-agent: {f.agent}-image\nDisallow: /\n\nUser-agent: otherbot\nUser-agent: thirdbot\nDisallow: /\n\n"
        f"User-agent: *\nDisallow: /stars/\n\nUser-agent: {f.agent.upper()}\nDisallow: /ours/\n\n"
        f"User-agent: {f.agent}\nDisallow: /also-ours/\n"
    )
    pages = (("/stars/1.html", True), ("/ours/2.html", False), ("/also-ours/3.html", False))
    return RobotsFile("groups", _text(text), pages=pages)


def _bom(_f: Features, _next: str) -> RobotsFile:
    return RobotsFile(
        "bom", _text("\ufeffUser-agent: *\r\n" + RULES.replace("\n", "\r\n")), pages=RULED_PAGES
    )


def _closed(_f: Features, _next: str) -> RobotsFile:
    return RobotsFile("closed", _text("User-agent: *\nDisallow: /\n"), closed=True)


def _later(f: Features, _next: str) -> RobotsFile:
    busy = Answer(status=429, media=TEXT, body=b"", headers=(f"Retry-After: {f.retry_after}",))
    return RobotsFile("later", (busy, *_text("User-agent: *\n" + RULES)), pages=RULED_PAGES)


def _moved(_f: Features, _next: str) -> RobotsFile:
    moved = Answer(status=301, media=TEXT, body=b"", headers=("Location: /robots/real.txt",))
    return RobotsFile("moved", (moved,), pages=RULED_PAGES, elsewhere="/robots/real.txt")


def _moved_away(_f: Features, next_host: str) -> RobotsFile:
    """RFC 9309 2.3.1.2: the file may be on another authority, and applies to the host that was asked."""
    where = f"Location: http://{next_host}{PORT}/robots/for-a-neighbour.txt"
    return RobotsFile(
        "moved-away", (Answer(status=302, media=TEXT, body=b"", headers=(where,)),), pages=RULED_PAGES
    )


def _forbidden(_f: Features, _next: str) -> RobotsFile:
    """RFC 9309 2.3.1.3: 4xx means there is none."""
    return RobotsFile("forbidden", (Answer(status=403, media=TEXT, body=b"no\n"),))


def _error(_f: Features, _next: str) -> RobotsFile:
    """RFC 9309 2.3.1.4: 5xx means complete disallow."""
    return RobotsFile("error", (Answer(status=503, media=TEXT, body=b"down\n"),), closed=True)


def _silent(_f: Features, _next: str) -> RobotsFile:
    return RobotsFile("silent", (Answer(manner=Silent()),), closed=True)


def _loop(_f: Features, _next: str) -> RobotsFile:
    """More redirects than anybody follows: the file is unavailable, so everything is allowed (RFC 9309 2.3.1.2)."""
    return RobotsFile(
        "loop", (Answer(status=302, media=TEXT, body=b"", headers=("Location: /robots.txt?again",)),)
    )


def _huge(_f: Features, _next: str) -> RobotsFile:
    """RFC 9309 2.5: at least 500 KiB are read. The rules come first, noise follows up to a megabyte."""
    noise = "".join(f"# {n:07d} noise noise noise noise noise noise\n" for n in range(20_000))
    return RobotsFile("huge", _text("User-agent: *\n" + RULES + noise), pages=RULED_PAGES)


def _page(_f: Features, _next: str) -> RobotsFile:
    """A site that answers everything with its start page: no rules, so everything is allowed."""
    body = b"<!doctype html><html><head><title>Welcome</title></head><body><p>Hello: there</p></body></html>"
    return RobotsFile("page", (Answer(body=body),))


KINDS: dict[str, Callable[[Features, str], RobotsFile]] = {
    "missing": _missing, "allow": _allow, "rules": _rules, "disallow": _disallow, "crawl-delay": _crawl_delay,
    "request-rate": _request_rate, "groups": _groups, "bom": _bom, "closed": _closed, "moved": _moved,
    "moved-away": _moved_away, "forbidden": _forbidden, "later": _later, "page": _page,
    "error": _error, "silent": _silent, "loop": _loop, "huge": _huge,
}  # fmt: skip
EVERYDAY = (
    "disallow",
    "crawl-delay",
    "request-rate",
    "groups",
    "bom",
    "closed",
    "moved",
    "moved-away",
    "forbidden",
)
FAULTY = ("later", "page", "error", "silent", "loop", "huge")


def dealt(features: Features, hosts: int) -> list[str]:
    """The robots.txt variant of each host: special ones from the last host backwards, plain ones before them."""
    special = EVERYDAY * features.robots + FAULTY * features.robots_faults
    if len(special) >= hosts and special:
        raise ValueError(
            f"{len(special)} robots.txt variants need at least {len(special) + 1} hosts; there are {hosts}"
        )
    plain = ["allow" if index % 2 == 0 else "missing" for index in range(hosts - len(special))]
    return plain + list(reversed(special))


def resources(file: RobotsFile) -> list[Resource]:
    """The file itself, where it really is, and a copy for a neighbour that redirects here."""
    rules = _text("User-agent: *\n" + RULES)
    found = [
        Resource("/robots.txt", answers=file.answers),
        Resource("/robots/for-a-neighbour.txt", answers=rules),
    ]
    if file.elsewhere:
        found.append(Resource(file.elsewhere, answers=rules))
    if file.kind == "loop":
        found.append(Resource("/robots.txt?again", answers=file.answers))
    return found


def allows(file: RobotsFile, resource: Resource | None) -> bool:
    """Whether the file allows this resource; None for a path without one."""
    return not file.closed and (resource is None or resource.allowed)
