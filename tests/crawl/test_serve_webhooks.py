"""Webhooks of `skitter serve`: signed, through the address guard, at least once however often the server is killed."""

import hashlib
import hmac
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from skitter.control.history import History
from skitter.crawl.directory import CrawlDirectory
from skitter.events import Warned
from tests.crawl.controlled import HOSTS, Site, crawling, until
from tests.crawl.served import serving

A = HOSTS[0]
API = "/api/v1"
ALLOWED = ("--allow-private", "127.0.0.0/8")


class Receiver:
    """Takes deliveries, or refuses them."""

    def __init__(self) -> None:
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.status = 204
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.got.append(({name.lower(): value for name, value in self.headers.items()}, body))
                self.send_response(receiver.status)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/hook"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def texts(self) -> set[str]:
        return {json.loads(body)["happened"]["said"] for _, body in list(self.got)}


@pytest.fixture
def receiver():
    made = Receiver()
    try:
        yield made
    finally:
        made.server.shutdown()
        made.server.server_close()


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("root")
    site = Site(pages=3)
    try:
        with crawling(folder / "one", site, A, more=["--max-pages", "3"]) as running:
            running.process.wait()
    finally:
        site.close()
    return folder


def happen(root, text):
    """Something happens to the crawl, as its own process would write it."""
    History(CrawlDirectory(root / "one").history_file)(Warned(text))


def test_an_event_is_sent_signed_and_listed_and_can_be_sent_again(root, receiver):
    with serving(root, *ALLOWED) as client:
        made = client.post(f"{API}/webhooks", {"url": receiver.url, "events": ["warned"]}).json
        happen(root, "first")
        until(lambda: "first" in receiver.texts())
        fields, body = receiver.got[0]
        signed = f"{fields['skitter-timestamp']}.".encode() + body
        expected = hmac.new(made["secret"].encode(), signed, hashlib.sha256).hexdigest()
        assert fields["skitter-signature"] == f"sha256={expected}"
        assert json.loads(body)["crawl"] == "one"
        assert "secret" not in client.get(f"{API}/webhooks").json["items"][0]
        (sent,) = client.get(f"{API}/webhooks/{made['id']}/deliveries").json["items"]
        assert (sent["state"], sent["tries"]) == ("sent", 1)
        assert client.post(f"{API}/webhooks/{made['id']}/deliveries/{sent['id']}/replay", {}).status == 200
        until(lambda: len(receiver.got) == 2)
        assert receiver.got[1][0]["skitter-delivery"] == fields["skitter-delivery"]
        assert client.ask("DELETE", f"{API}/webhooks/{made['id']}").status == 200
        assert client.get(f"{API}/webhooks").json["items"] == []


def test_what_was_refused_is_sent_again_until_it_is_taken(root, receiver):
    receiver.status = 503
    with serving(root, *ALLOWED) as client:
        made = client.post(f"{API}/webhooks", {"url": receiver.url, "events": ["warned"]}).json
        happen(root, "refused at first")
        until(lambda: len(receiver.got) >= 2)
        (waits,) = client.get(f"{API}/webhooks/{made['id']}/deliveries").json["items"]
        assert (waits["state"], waits["problem"]) == ("waiting", "status 503")
        receiver.status = 200
        until(
            lambda: client.get(f"{API}/webhooks/{made['id']}/deliveries").json["items"][0]["state"] == "sent"
        )
        client.ask("DELETE", f"{API}/webhooks/{made['id']}")


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:1/",
        "http://localhost:1/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[::1]:1/",
        "http://0x7f.1/",
    ],
)
def test_loopback_and_metadata_are_refused_targets(root, receiver, url):
    with serving(root) as client:
        made = client.post(f"{API}/webhooks", {"url": url, "events": ["warned"]}).json
        happen(root, "for nobody")
        until(
            lambda: any(
                each["tries"] for each in client.get(f"{API}/webhooks/{made['id']}/deliveries").json["items"]
            )
        )
        sent = client.get(f"{API}/webhooks/{made['id']}/deliveries").json["items"][-1]
        assert sent["state"] == "waiting"
        assert "not a public address" in sent["problem"]
        client.ask("DELETE", f"{API}/webhooks/{made['id']}")


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "gopher://x/", "http://user:pw@example.org/", "x", "http://a b/"]
)
def test_what_is_no_address_for_a_webhook_is_refused(root, url):
    with serving(root) as client:
        assert client.post(f"{API}/webhooks", {"url": url}).status == 400


def _kills(root, receiver, rounds):
    """Events while the server is killed again and again; returns what was told."""
    told, port = set(), 0
    with serving(root, *ALLOWED) as client:
        port = client.port
        hook = client.post(f"{API}/webhooks", {"url": receiver.url, "events": ["warned"]}).json["id"]
    for number in range(rounds):
        with serving(root, *ALLOWED, port=port) as client:
            for part in range(2):
                told.add(f"event {number}.{part}")
                happen(root, f"event {number}.{part}")
            if number % 3:
                until(lambda: f"event {number - 1}.0" in receiver.texts() or not number)  # noqa: B023
            client.process.kill()
            client.process.wait()
    with serving(root, *ALLOWED, port=port) as client:
        until(lambda: told <= receiver.texts())
        client.ask("DELETE", f"{API}/webhooks/{hook}")
    return told


def test_every_event_arrives_though_the_server_is_killed(root, receiver):
    assert len(_kills(root, receiver, 8)) == 16


@pytest.mark.soak
def test_every_event_arrives_over_a_hundred_kills(root, receiver):
    assert len(_kills(root, receiver, 100)) == 200
