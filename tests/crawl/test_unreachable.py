"""A seed that cannot work: the crawl says what is wrong and ends, and keeps the seed for another try."""

import asyncio
import json
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from skitter import api
from skitter.testing.web import Features, SyntheticWeb, serve
from tests.fetching import NXDOMAIN, naming

PATIENCE = 120  # seconds: only a hang fails by it
CLOSED = "http://127.0.0.1:9990/"
# Soon, and often enough that a machine that is slow to stop does not give the host up.
PATIENT = f"robots.retry_after={['2s'] * 20}"


def skitter(cwd, *words):
    command = [sys.executable, "-m", "skitter", *words, "--allow-private", "127.0.0.0/8"]
    command += ["--set", "crawl.min_free_disk=1MiB"]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=PATIENCE, check=False)


def report(run):
    return json.loads(run.stdout)


@contextmanager
def answering(answer: bytes, context: ssl.SSLContext | None = None) -> Iterator[int]:
    """A port that says this to everybody, whatever they ask, and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve_all() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with suppress(OSError), secured(connection) as line:
                    line.recv(4096)
                    line.sendall(answer)

        def secured(connection: socket.socket) -> socket.socket:
            if context is None:
                return connection
            with connection:
                return context.wrap_socket(connection, server_side=True)

        threading.Thread(target=serve_all, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_wrong_port_ends_the_crawl_and_says_so(tmp_path, workers):
    run = skitter(tmp_path, "crawl", CLOSED, "http://127.0.0.2:9990/", "-o", "d", "--workers", workers)
    assert run.returncode == 1, run.stderr
    assert run.stdout.startswith("Crawl stopped: no host has answered")
    assert "http://127.0.0.1:9990: connect: " in run.stdout
    assert "http://127.0.0.2:9990: connect: " in run.stdout
    assert "check the port, or try https://127.0.0.1:9990/" in run.stdout
    assert run.stdout.endswith("Try again with: skitter resume d\n")


def test_from_python_it_ends_as_well(tmp_path):
    async def crawl():
        run = api.crawl(CLOSED, directory=tmp_path / "d", allow_private=["127.0.0.0/8"])
        assert [page async for page in run] == []
        return run.report

    found = asyncio.run(crawl())
    assert (found.outcome, found.exit_code) == ("unreachable", 1)
    assert [trouble.origin for trouble in found.unreachable] == ["http://127.0.0.1:9990"]


def test_plain_http_behind_an_assumed_https_is_named(tmp_path):
    with answering(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n") as port:
        run = skitter(tmp_path, "crawl", f"https://127.0.0.1:{port}", "-o", "d", "--json")
    assert run.returncode == 1, run.stderr
    (trouble,) = report(run)["unreachable"]
    assert trouble["remedy"] == f"The server does not speak https: try http://127.0.0.1:{port}/"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl command to make certificates with")
def test_a_certificate_of_ones_own_is_named_with_the_setting_that_trusts_it(tmp_path):
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    made += ["-keyout", str(key), "-out", str(certificate), "-subj", "/CN=127.0.0.1"]
    subprocess.run([*made, "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    answer = (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi"
    )
    with answering(answer, context) as port:
        url = f"https://127.0.0.1:{port}/"
        waits = ("-o", "d", "--json", "--delay", "0", "--set", PATIENT)
        run = skitter(tmp_path, "crawl", url, *waits)
        assert run.returncode == 1, run.stderr
        (trouble,) = report(run)["unreachable"]
        assert trouble["remedy"].endswith("--set fetch.ca_file=FILE.pem")
        again = skitter(tmp_path, "resume", "d", "--json", "--set", f"fetch.ca_file={certificate}")
    assert again.returncode == 0, again.stderr
    assert report(again)["counts"]["pages"] == 1


def test_a_dns_server_that_does_not_answer_is_named(tmp_path):
    quick = ("--set", "fetch.nameservers=127.0.0.1:9991", "--set", "fetch.connect_timeout=1s")
    run = skitter(tmp_path, "crawl", "http://name.example/", "-o", "d", "--json", *quick)
    assert run.returncode == 1, run.stderr
    (trouble,) = report(run)["unreachable"]
    assert "fetch.nameservers" in trouble["remedy"]


def test_a_name_that_does_not_exist_is_named(tmp_path):
    async def crawl():
        async with naming(lambda _name, _kind: NXDOMAIN) as (_, where):
            run = api.crawl("http://gone.example/", directory=tmp_path / "d", fetch_nameservers=[where])
            assert [page async for page in run] == []
            return run.report

    found = asyncio.run(crawl())
    assert found.exit_code == 1
    assert [trouble.remedy for trouble in found.unreachable] == [
        "The name does not exist: check its spelling"
    ]


def test_resume_retries_what_failed(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    flags = ("--json", "--delay", "0", "--set", PATIENT)
    first = skitter(tmp_path, "crawl", f"http://127.0.0.1:{port}/", "-o", "d", *flags)
    assert first.returncode == 1, first.stderr
    assert report(first)["counts"]["queued"] == 1
    second = skitter(tmp_path, "resume", "d", *flags)
    assert second.returncode == 1, second.stderr
    assert report(second)["counts"]["requests"] > report(first)["counts"]["requests"]
    web = SyntheticWeb(seed=3, hosts=1, pages_per_host=2, features=Features.plain(), addressing="literal")
    with serve(web, port=port) as server:
        third = skitter(tmp_path, "resume", "d", *flags)
        asked = [entry for entry in server.log() if entry.path == "/robots.txt"]
    assert len(asked) == 1
    assert third.returncode in {0, 1}, third.stderr
    assert report(third)["outcome"] == "done"


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_host_that_has_answered_is_waited_for_with_the_usual_patience(tmp_path, workers):
    sorry = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"
    with answering(sorry) as port:
        flags = ("-o", "d", "--workers", workers, "--allow-private", "127.0.0.0/8")
        command = [sys.executable, "-m", "skitter", "crawl", f"http://127.0.0.1:{port}/", CLOSED, *flags]
        with subprocess.Popen(
            command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stderr is not None
            missing = {f"127.0.0.1:{port} ", "127.0.0.1:9990 "}
            while missing and (line := process.stderr.readline()):
                missing -= {each for each in missing if f"no robots.txt from http://{each}" in line}
            time.sleep(1)  # several rounds in which it could be given up
            waiting = process.poll() is None
            process.terminate()
            process.stderr.read()
    assert not missing
    assert waiting
    assert process.returncode == 130
