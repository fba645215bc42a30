"""A few pages on loopback, given as a table, for tests that define a server's answers themselves."""

import http.server
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

Answers = Mapping[
    str, tuple[int, str, bytes]
]  # by path: status, content type, body (of a redirect: the target)


@contextmanager
def small_site(answers: Answers, robots: bytes = b"", waits: threading.Event | None = None) -> Iterator[str]:
    """Serve these answers; the value is the address, without a slash at its end. /slow is answered after `waits`."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            if waits is not None and self.path == "/slow":
                waits.wait()
            known = answers | {"/robots.txt": (200, "text/plain", robots)}
            status, kind, body = known.get(
                self.path,
                (200, "text/html", b"<title>Another</title>")
                if "?" in self.path
                else (404, "text/html", b""),
            )
            self.send_response(status)
            self.send_header("Content-Type", kind)
            if 300 <= status < 400:
                self.send_header("Location", body.decode())
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
