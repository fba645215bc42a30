"""TLS: the name is verified although the connection is pinned to an address. The openssl command creates the certificates."""

import asyncio
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from skitter.model import Failed, Fault, Fetched, Outcome
from skitter.settings import FetchSettings
from tests.fetching import LOOPBACK, Server, ok, run, serving, visit
from tests.fetching import fetching as open_fetcher

OPENSSL = shutil.which("openssl")
pytestmark = pytest.mark.skipif(OPENSSL is None, reason="no openssl command to make certificates with")


def openssl(*arguments: str) -> None:
    subprocess.run([str(OPENSSL), *arguments], check=True, capture_output=True)


def make(folder: Path, name: str, *more: str, alternative: bool = True) -> Path:
    """A self-signed certificate with its key in one PEM file."""
    key, cert, both = (folder / f"certificate.{end}" for end in ("key", "crt", "pem"))
    subject = ["-utf8", "-subj", f"/CN={name}"]
    if alternative:
        subject += ["-addext", f"subjectAltName=DNS:{name}"]
    kind = ("-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    openssl("req", *kind, "-keyout", str(key), "-out", str(cert), *subject, *more)
    both.write_bytes(key.read_bytes() + cert.read_bytes())
    return both


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def good(folder: Path) -> Path:
    return make(folder, "name.example", "-days", "30")


def server_side(pem: Path, seen: list[str | None] | None = None) -> ssl.SSLContext:
    side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    side.load_cert_chain(pem)
    if seen is not None:
        side.sni_callback = lambda _socket, name, _side: seen.append(name)
    return side


async def fetched_over(
    side: ssl.SSLContext, ca_file: str, host: str = "name.example"
) -> tuple[Outcome, list[bytes]]:
    settings = FetchSettings(
        allow_private=LOOPBACK,
        ca_file=ca_file,
        resolve=("name.example:127.0.0.1", "other.example:127.0.0.1"),
    )
    async with serving(ok(b"secure"), tls=side) as server, open_fetcher(settings) as fetcher:
        return await fetcher.fetch(visit(server.url(host=host))), server.requests


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_name_and_sni_stay_with_the_host_although_the_address_is_pinned(good: Path, loop: str):
    seen: list[str | None] = []
    outcome, requests = run(fetched_over(server_side(good, seen), str(good)), loop)
    assert isinstance(outcome, Fetched), outcome
    assert outcome.content == b"secure"
    assert outcome.exchange.address == "127.0.0.1"
    assert [outcome.exchange.request] == requests
    assert b"Host: name.example:" in requests[0]
    assert seen == ["name.example"]


def test_a_kept_connection_that_dies_on_our_request_is_not_replaced_under_tls_either(good: Path):
    async def closing_on_the_second(
        server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await server.hear(reader)
        writer.write(ok())
        await server.hear(reader)

    async def main() -> None:
        settings = FetchSettings(
            allow_private=LOOPBACK, ca_file=str(good), resolve=("name.example:127.0.0.1",)
        )
        async with (
            serving(closing_on_the_second, tls=server_side(good)) as server,
            open_fetcher(settings) as fetcher,
        ):
            first, second, third = [
                await fetcher.fetch(visit(server.url(host="name.example"))) for _ in "123"
            ]
            assert isinstance(first, Fetched)
            assert isinstance(second, Failed)
            assert second.fault is Fault.REUSE
            assert isinstance(third, Fetched)
            assert (len(server.requests), server.connections) == (3, 2)

    run(main())


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """A frame of HTTP/2 (RFC 9113 4.1)."""
    return len(payload).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + payload


HEADERS, RESET, SETTINGS, GOAWAY = 1, 3, 4, 7
REFUSING = {
    "refused stream": frame(RESET, 0, 1, (7).to_bytes(4)),
    "HTTP/1.1 required": frame(RESET, 0, 1, (13).to_bytes(4)),
    "going away": frame(GOAWAY, 0, 0, bytes(8)),
}


@pytest.mark.parametrize("refusal", REFUSING)
def test_a_server_that_refuses_requests_of_http2_is_a_failure_and_gets_http11_then(good: Path, refusal: str):
    """It was no reused connection, so the attempt counts: otherwise the page would be asked for without end."""

    async def refusing(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if writer.get_extra_info("ssl_object").selected_alpn_protocol() != "h2":
            await server.hear(reader)
            writer.write(ok(b"at last"))
            await server.hear(reader)
            return
        await reader.readexactly(24)
        writer.write(frame(SETTINGS, 0, 0))
        while True:
            head = await reader.readexactly(9)
            await reader.readexactly(int.from_bytes(head[:3]))
            if head[3] == SETTINGS and not head[4]:
                writer.write(frame(SETTINGS, 1, 0))
            if head[3] == HEADERS:
                server.requests.append(b"h2")
                writer.write(REFUSING[refusal])

    async def main() -> None:
        side = server_side(good)
        side.set_alpn_protocols(["h2", "http/1.1"])
        settings = FetchSettings(
            allow_private=LOOPBACK, ca_file=str(good), resolve=("name.example:127.0.0.1",)
        )
        async with serving(refusing, tls=side) as server, open_fetcher(settings) as fetcher:
            first, second = [await fetcher.fetch(visit(server.url(host="name.example"))) for _ in "12"]
            assert isinstance(first, Failed)
            assert (first.fault, first.detail) == (
                Fault.RESET,
                "the server refused the request on a new connection",
            )
            assert isinstance(second, Fetched)
            assert second.content == b"at last"
            assert second.exchange.protocol == ""
            assert [request[:3] for request in server.requests] == [b"h2", b"GET"]

    run(main())


def refused(outcome: Outcome, requests: list[bytes]) -> None:
    assert isinstance(outcome, Failed), outcome
    assert outcome.fault is Fault.TLS
    assert outcome.detail
    assert requests == []
    assert outcome.exchange is not None
    assert outcome.exchange.request == b""


def test_an_untrusted_certificate_is_refused(good: Path):
    refused(*run(fetched_over(server_side(good), "")))


def test_a_certificate_for_another_name_is_refused(good: Path):
    refused(*run(fetched_over(server_side(good), str(good), host="other.example")))


def test_a_certificate_for_a_name_is_none_for_its_address(good: Path):
    refused(*run(fetched_over(server_side(good), str(good), host="127.0.0.1")))


AUTHORITY = """
[ca]
default_ca = own
[own]
database = {folder}/index
serial = {folder}/serial
new_certs_dir = {folder}
default_md = sha256
policy = any
x509_extensions = names
[any]
commonName = supplied
[names]
subjectAltName = DNS:name.example
"""


def outdate(folder: Path, pem: Path) -> Path:
    """The same key and name in a certificate of long ago; `openssl req` makes none that is over."""
    (folder / "authority").write_text(AUTHORITY.format(folder=folder))
    (folder / "index").touch()
    (folder / "serial").write_text("01")
    request, old = folder / "request", folder / "old.pem"
    openssl("req", "-new", "-key", str(pem), "-subj", "/CN=name.example", "-out", str(request))
    dates = ("-startdate", "20200101000000Z", "-enddate", "20200102000000Z")
    signer = ("-config", str(folder / "authority"), "-keyfile", str(pem), "-selfsign", "-batch", "-notext")
    openssl("ca", *signer, *dates, "-in", str(request), "-out", str(old))
    old.write_bytes(pem.read_bytes().partition(b"-----BEGIN CERT")[0] + old.read_bytes())
    return old


@pytest.mark.parametrize("shift", range(4))
def test_a_failure_that_quotes_the_certificate_is_clean_text(tmp_path: Path, shift: int):
    """libcurl cuts its messages at 255 bytes, in the middle of a letter if need be."""
    odd = make(tmp_path, "a" * shift + "😀" * 60, "-days", "30", alternative=False)
    outcome, requests = run(fetched_over(server_side(odd), str(odd)))
    refused(outcome, requests)
    assert isinstance(outcome, Failed)
    assert "😀" in outcome.detail
    assert outcome.detail.encode().decode() == outcome.detail
    assert outcome.detail.isprintable()


def test_an_expired_certificate_is_refused(tmp_path: Path):
    old = outdate(tmp_path, make(tmp_path, "name.example", "-days", "30"))
    outcome, requests = run(fetched_over(server_side(old), str(old)))
    refused(outcome, requests)
    assert isinstance(outcome, Failed)
    assert "expired" in outcome.detail


def test_plain_http_on_a_tls_port_and_the_other_way_round_are_failures(good: Path):
    async def blurt(_server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(ok())

    async def main() -> tuple[Outcome, Outcome]:
        settings = FetchSettings(allow_private=LOOPBACK, resolve=("name.example:127.0.0.1",))
        async with (
            serving(blurt) as plain,
            serving(ok(), tls=server_side(good)) as tls,
            open_fetcher(settings) as fetcher,
        ):
            first = await fetcher.fetch(visit(plain.url(host="name.example").replace("http:", "https:")))
            second = await fetcher.fetch(visit(tls.url(host="name.example").replace("https:", "http:")))
            return first, second

    first, second = run(main())
    assert isinstance(first, Failed)
    assert first.fault is Fault.TLS
    assert isinstance(second, Failed)
    assert second.fault in (Fault.RESET, Fault.PROTOCOL)
