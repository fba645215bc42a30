"""Pages to work on: those of the *site* that whole crawls are measured on."""

from functools import cache

from benchmarks.webs import SITE

HOST = "127.0.0.1"
BASE = f"http://{HOST}/"
HEADERS = (("content-type", "text/html; charset=utf-8"), ("server", "made-up"), ("etag", '"abc"'))


@cache
def pages(count: int) -> list[tuple[str, bytes]]:
    """URL and body of the first pages."""
    web = SITE.description()
    made = []
    for number in range(1, count + 1):
        (answer,) = web.look_up(HOST, f"/p/{number}.html", 80).replies[0].steps
        assert isinstance(answer, bytes)
        made.append((f"{BASE}p/{number}.html", answer.partition(b"\r\n\r\n")[2]))
    return made
