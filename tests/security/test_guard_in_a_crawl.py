"""The address guard in a whole crawl: no connection to an address that was not allowed, whatever leads there."""

import socket
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from skitter.model import State
from skitter.settings.file import load
from tests.crawl.harness import HASTY, crawl

FORBIDDEN = "127.0.0.77"


@contextmanager
def listening(address, port=0):
    """Counts connections; says nothing."""
    server = socket.create_server((address, port))
    server.settimeout(0.05)
    count, stop = [0], threading.Event()

    def accept():
        while not stop.is_set():
            try:
                connection, _ = server.accept()
            except TimeoutError:
                continue
            count[0] += 1
            connection.close()

    thread = threading.Thread(target=accept)
    thread.start()
    try:
        yield server.getsockname()[1], count
    finally:
        stop.set()
        thread.join()
        server.close()


@contextmanager
def site(pages):
    class Pages(BaseHTTPRequestHandler):
        def do_GET(self):
            status, headers, body = pages.get(self.path, (404, {}, b""))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_links_redirects_and_robots_redirects_to_refused_addresses_never_connect(tmp_path):
    with listening(FORBIDDEN) as (port, connections):
        inside = [
            f"http://{FORBIDDEN}:{port}/literal",
            f"http://{int.from_bytes(socket.inet_aton(FORBIDDEN), 'big')}:{port}/decimal",
            f"http://0x7f00004d:{port}/hex",
            f"http://[::ffff:{FORBIDDEN}]:{port}/mapped",
            f"http://internal.test:{port}/named",
            f"http://rebound.test:{port}/both",
        ]
        pages = {f"/moved/{n}": (302, {"Location": url}, b"") for n, url in enumerate(inside)}
        links = "".join(f'<a href="{url}">x</a><a href="/moved/{n}">y</a>' for n, url in enumerate(inside))
        pages["/"] = (200, {"Content-Type": "text/html"}, links.encode())
        with site(pages) as outside:
            overrides = HASTY | {
                "fetch.allow_private": ("127.0.0.1/32",),
                "fetch.resolve": (f"internal.test:{FORBIDDEN}", f"rebound.test:{FORBIDDEN}"),
                "scope.kind": "any",
            }
            result = crawl(tmp_path / "c", [f"http://127.0.0.1:{outside}/"], load(None, {}, overrides))
        assert connections == [0]
    refused = [record for record in result.records.values() if str(port) in record.url]
    assert len(refused) >= 4
    assert {record.state for record in refused} == {State.REFUSED}
    assert all("public" in record.reason.detail for record in refused)
    assert result.report.counts.pages == 1


def test_the_robots_txt_of_an_allowed_host_may_not_lead_to_a_refused_address(tmp_path):
    with listening(FORBIDDEN) as (port, connections):
        pages = {
            "/robots.txt": (301, {"Location": f"http://{FORBIDDEN}:{port}/robots.txt"}, b""),
            "/": (200, {"Content-Type": "text/html"}, b"<p>hello"),
        }
        with site(pages) as outside:
            overrides = HASTY | {"fetch.allow_private": ("127.0.0.1/32",)}
            result = crawl(tmp_path / "c", [f"http://127.0.0.1:{outside}/"], load(None, {}, overrides))
        assert connections == [0]
    assert result.report.counts.pages == 0  # its rules could not be fetched, so nothing is allowed
    assert result.report.outcome == "done"
