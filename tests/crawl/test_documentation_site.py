"""On a real documentation site, a crawl finds what `wget --mirror` finds; every difference has a reason.

The site is Debian's python3-doc, served on loopback. The reasons are a closed list: an asset (picture, style sheet, script,
download), text inside a script, robots.txt, another spelling of a URL that was found. "Missed" is not among them.
"""

import http.server
import shutil
import subprocess
import threading
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from skitter import urls
from skitter.model import State
from tests.crawl.harness import crawl, settings_for

SITE = Path("/usr/share/doc/python3.11/html")

needs_site = pytest.mark.skipif(
    not SITE.is_dir() or shutil.which("wget") is None,
    reason="needs Debian's python3-doc and wget: apt-get install python3-doc wget",
)


class Listening(http.server.SimpleHTTPRequestHandler):
    """Serves files, and remembers who asked for what with which result."""

    protocol_version = "HTTP/1.1"

    def __init__(self, *args, heard, **kwargs):
        self.heard = heard
        super().__init__(*args, **kwargs)

    def send_head(self):
        self.media = self.guess_type(self.translate_path(self.path))
        return super().send_head()

    def log_request(self, code="-", size="-"):
        agent = (self.headers.get("User-Agent") or "").split("/")[0].lower()
        self.heard.append((agent, self.path, int(code), self.media))

    def log_message(self, *args):
        pass


@contextmanager
def served(folder):
    heard = []
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(Listening, directory=folder, heard=heard)
    )
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1], heard
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def found_by(agent, heard):
    return {
        (path, media)
        for who, path, status, media in heard
        if who == agent and status == 200 and path != "/robots.txt"
    }


def reason_for(url, media, result):
    """Why wget asked for something that is no page of ours, from the closed list; "missed" if none fits."""
    record = result.records.get(urls.key(url))
    if record is not None and record.state is State.REFUSED:
        return {"scope.extension": "asset", "robots": "robots"}.get(record.reason.code, "missed")
    if record is not None and record.state is State.CRAWLED:
        return "canonical spelling"
    # Never offered: what is no page is reached by src attributes and style sheets only, which are not followed.
    return "asset" if media not in ("text/html", "text/plain") else "missed"


@needs_site
def test_every_difference_to_wget_has_a_reason(tmp_path, capsys):
    with served(SITE) as (port, heard):
        base = f"http://127.0.0.1:{port}"
        settings = settings_for(politeness__per_host=4)
        result = crawl(tmp_path / "c", [f"{base}/index.html"], settings)
        subprocess.run(
            ["wget", "--mirror", "--quiet", "--no-proxy", "--execute", "robots=on", "--no-directories", "--delete-after",
             "--directory-prefix", str(tmp_path / "w"), f"{base}/index.html"],
            check=False, env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}, timeout=600,
        )  # fmt: skip
    theirs = found_by("wget", heard)
    ours = {urls.key(page.url) for page in result.pages if page.status == 200}
    differences = {
        base + path: reason_for(base + path, media, result)
        for path, media in theirs
        if urls.key(base + path) not in ours
    }
    extra = ours - {urls.key(base + path) for path, _ in theirs}
    counts = {reason: list(differences.values()).count(reason) for reason in set(differences.values())}
    with capsys.disabled():
        print(
            f"\nwget {len(theirs)} URLs, skitter {len(ours)} pages; only wget: {counts}; only skitter: {len(extra)}"
        )
    assert [url for url, reason in differences.items() if reason == "missed"] == []
    assert sorted(extra) == []
    assert len(ours) > 500
