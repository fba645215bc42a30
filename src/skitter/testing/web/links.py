"""Links in every HTML form, URLs in every spelling, and things that look like links but must not be followed."""

from skitter.testing.web.graph import ODD_PORT, PORT, Anchor, Answer, Refusal, Resource
from skitter.testing.web.site import Site, dead, link


def link_forms(site: Site) -> None:
    """One page per form, reachable only through that form."""
    url = site.url

    def page(name: str) -> str:
        return site.add(Resource(f"/forms/{name}.html"))

    head = [
        ("next", '<link rel="next" href="next.html">'),
        ("alternate", '<link rel="alternate" hreflang="de" href="/forms/alternate.html">'),
    ]
    body = [
        ("absolute", f'<a href="{url("/forms/absolute.html")}">a</a>'),
        ("rooted", '<a href="/forms/rooted.html">a</a>'),
        ("relative", '<a href="relative.html">a</a>'),
        ("dotted", '<a href="./x/../y/../../forms/./dotted.html">a</a>'),
        ("schemeless", f'<a href="//{site.name}{PORT}/forms/schemeless.html">a</a>'),
        ("unquoted", "<a href=unquoted.html>a</a>"),
        ("single", "<a href='single.html'>a</a>"),
        ("shouting", '<A HREF="shouting.html">a</A>'),
        ("spaced", '<a href="  spaced.html\t ">a</a>'),
        ("newline", '<a href="new\nline.html">a</a>'),
        ("backslash", '<a href="\\forms\\backslash.html">a</a>'),
        ("entity", '<a href="&#101;ntit&#x79;.html">a</a>'),
        ("area", '<map name="m"><area shape="rect" coords="0,0,1,1" href="area.html"></map>'),
        ("iframe", '<iframe src="iframe.html"></iframe>'),
        ("unclosed", '<p><b><a href="unclosed.html">a'),
        ("first", '<a href="first.html" href="/forms/second-attribute-does-not-count.html">a</a>'),
    ]
    anchors = [Anchor(page(name), markup, in_head=True) for name, markup in head]
    anchors += [Anchor(page(name), markup) for name, markup in body]
    query = site.add(Resource("/forms/query.html?a=1&b=2"))
    anchors.append(Anchor(query, '<a href="query.html?a=1&amp;b=2">a</a>'))
    site.hub("forms", [*anchors, *_pages_with_a_form(site)])


def _pages_with_a_form(site: Site) -> list[Anchor]:
    """Forms that need their own page: base, frames and refresh."""
    based = site.add(Resource("/forms/deep/based.html"))
    base = Resource(
        "/forms/base.html",
        head=f'<base href="{site.url("/forms/deep/")}"><base href="/forms/only-the-first-base-counts/">',
        anchors=(Anchor(based, '<a href="based.html">a</a>'),),
    )
    frames = Resource(
        "/forms/frames.html",
        anchors=(Anchor(site.add(Resource("/forms/frame.html")), ""),),
        answers=(Answer(body=b'<html><frameset cols="100%"><frame src="frame.html"></frameset></html>'),),
    )
    refresh = Resource(
        "/forms/refresh.html",
        anchors=(Anchor(site.add(Resource("/forms/refreshed.html")), ""),),
        head='<meta http-equiv="Refresh" content="5; URL=\'refreshed.html\'">',
    )
    return [link(site.add(resource)) for resource in (base, frames, refresh)]


def spellings(site: Site) -> None:
    """Many ways to write few URLs. All of them are the same pages."""
    host, url = site.name, site.url
    one = site.add(Resource("/spelt/one.html"))
    tilde = site.add(Resource("/spelt/~user/caf%C3%A9.html"))
    query = site.add(Resource("/spelt/list?item=7&lang=en"))
    ways = [
        (one, one),
        (one, url("/spelt/one.html#part")),
        (one, url("/spelt/one.html#")),
        (one, url("/spelt/one.html?utm_source=letter&utm_medium=email")),
        (one, url("/spelt/one.html?gclid=abc123")),
        (one, url("/spelt/./x/../one.html")),
        (one, url("/spelt/%6Fne.html")),
        (one, url("/spelt/%6fne%2Ehtml")),
        (one, url("/spelt/%2e%2e/spelt/one.html")),
        (one, f"HTTP://{host.upper()}{PORT}/spelt/one.html"),
        (one, f"http:\\\\{host}{PORT}\\spelt\\one.html"),
        (one, f"http://{host}{ODD_PORT}/spelt/one.html"),
        (tilde, tilde),
        (tilde, url("/spelt/~user/caf%c3%a9.html")),
        (tilde, url("/spelt/%7Euser/caf%C3%A9.html")),
        (tilde, url("/spelt/%7euser/café.html")),
        (query, query),
        (query, url("/spelt/list?item=7&lang=en&fbclid=xyz")),
        (query, url("/spelt/list?utm_campaign=x&item=7&lang=en#top")),
    ]
    site.hub("spelt", [link(meant, written) for meant, written in ways])


def unfollowed(site: Site) -> None:
    """Things in the source that look like links but are not, or that say not to be followed."""

    def hidden(name: str, markup: str) -> Anchor:
        return Anchor(site.add(Resource(f"/hidden/{name}.html")), markup, followed=False)

    anchors = [
        hidden("nofollow", '<a rel="nofollow" href="nofollow.html">a</a>'),
        hidden("nofollow-too", '<a href="nofollow-too.html" rel="external NoFollow noopener">a</a>'),
        hidden("comment", '<!-- <a href="comment.html">a</a> -->'),
        hidden("script", "<script>document.write('<a href=\"script.html\">a</a>')</script>"),
        hidden("style", '<style>/* <a href="style.html"> */</style>'),
        hidden("textarea", '<textarea><a href="textarea.html">a</a></textarea>'),
        hidden("escaped", '&lt;a href="escaped.html"&gt;a&lt;/a&gt;'),
        hidden("attribute", '<p title="<a href=attribute.html>">a</p>'),
        *(dead(url, Refusal.SCHEME) for url in OTHER_SCHEMES),
        *(dead(url, Refusal.BROKEN) for url in BROKEN),
        *(dead(url, Refusal.ADDRESS) for url in INSIDE),
        Anchor(site.url("/hidden/"), '<a href="">a</a>'),
        Anchor(site.url("/hidden/"), '<a href="#top">a</a>'),
    ]
    site.hub("hidden", anchors)


OTHER_SCHEMES = (
    "mailto:someone@example.test",
    "javascript:void(0)",
    "tel:+49301234567",
    "data:text/html,<a href=x>x</a>",
    "ftp://example.test/file",
    "file:///etc/passwd",
    "gopher://example.test/",
    "about:blank",
)
BROKEN = ("http://", "http://[::1::2]/", "http://exa mple.test/", "http://example.test:99999/", "http://%zz/")
INSIDE = (
    "http://169.254.169.254/latest/meta-data/",
    "http://10.0.0.1/",
    "http://[::ffff:192.168.0.1]/",
)
