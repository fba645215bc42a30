"""The server of the synthetic web keeps a reliable log, wherever it runs, and leaves nothing behind."""

import asyncio
import contextlib
import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from skitter.testing.web import (
    Features,
    SyntheticWeb,
    gaps,
    overlaps,
    serve,
    serve_here,
    serve_process,
)
from skitter.testing.web.log import Request
from skitter.testing.web.pages import Reply
from skitter.testing.web.server import FLUSH_HOST, Served
from tests.unit.asking import (
    ask,
    hostile,
    raw,
    sent,
    wait_for,
)


@pytest.fixture(scope="module")
def web():
    return hostile()


@pytest.fixture(scope="module")
def server(web):
    with serve(web) as running:
        yield running


# ------------------------------------------------------------------------------------------------ the server and its log


def test_the_log_has_every_request_with_its_times_and_connection(server):
    before = len(server.log())
    at_first = time.time()
    ask(server, server.url("/p/1.html?utm_source=x"), User_Agent="skitter/0 (+mailto:me)")
    [request] = server.log()[before:]
    assert request.host == server.web.names[0]
    assert (request.path, request.page) == ("/p/1.html?utm_source=x", "/p/1.html")
    assert (request.status, request.agent, request.address) == (200, "skitter/0 (+mailto:me)", "127.0.0.1")
    assert (request.in_flight, request.whole) == (1, True)
    assert at_first <= request.start <= request.end <= time.time()


def test_one_connection_serves_many_requests(server):
    before = len(server.log())
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port)) as connection:
        for page in range(1, 5):
            connection.request("GET", f"/p/{page}.html", headers={"Host": server.web.names[0]})
            assert connection.getresponse().read()
    new = server.log()[before:]
    assert len(new) == 4
    assert len({request.connection for request in new}) == 1


def test_head_requests_get_the_head_only(server):
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port)) as connection:
        for _ in range(2):
            connection.request("HEAD", "/p/1.html", headers={"Host": server.web.names[0]})
            answer = connection.getresponse()
            assert answer.status == 200
            assert int(answer.headers["Content-Length"]) > 1000
            assert answer.read() == b""


def test_an_unknown_host_gets_an_error(server):
    status, _headers, body = ask(server, server.url(), Host="nobody.test")
    assert status == 404
    assert b"nobody.test" in body


def test_two_requests_in_flight_on_one_host_are_noticed_and_on_two_hosts_are_not():
    web = SyntheticWeb(1, 2, 5, Features())
    for hosts, expected in (((0, 0), 1), ((0, 1), 0)):
        with serve(web, latency=0.3) as server:
            askers = [
                threading.Thread(target=ask, args=(server, server.url("/p/1.html", host))) for host in hosts
            ]
            for thread in askers:
                thread.start()
            for thread in askers:
                thread.join()
            assert len(overlaps(server.log())) == expected
            assert max(request.in_flight for request in server.log()) == 1 + expected


def logged(host, start, end, *, whole=True):
    return Request(host, "/", "/", "127.0.0.1", 1, start, end, 200, "", 1, whole)


def test_gaps_run_from_the_end_of_a_response_to_the_next_request_of_its_host():
    log = [logged("b", 5.0, 6.0), logged("a", 0.0, 1.0), logged("a", 3.0, 3.5), logged("a", 3.6, 3.7)]
    found = gaps(log)
    assert found["a"] == pytest.approx([2.0, 0.1])
    assert found["b"] == []


def test_overlaps_are_judged_by_intervals_and_an_abandoned_request_ends_a_little_earlier():
    assert overlaps([logged("a", 0.0, 2.0), logged("a", 1.0, 3.0), logged("b", 1.0, 3.0)])
    assert not overlaps([logged("a", 0.0, 1.0), logged("a", 1.0, 2.0)])
    assert not overlaps([logged("a", 0.0, 1.0, whole=False), logged("a", 0.9, 2.0)])
    assert overlaps([logged("a", 0.0, 1.0, whole=False), logged("a", 0.5, 2.0)])
    assert overlaps([logged("a", 0.0, None), logged("a", 9.0, 9.5)])


def test_a_client_that_leaves_is_logged_as_having_left():
    with serve(SyntheticWeb(1, 1, 2, Features(slow=True))) as server:
        raw(server, server.url("/slow/never.html"), seconds=0.1)
        wait_for(lambda: server.log()[0].end)
        [request] = server.log()
    assert (request.status, request.whole) == (0, False)
    assert request.end is not None
    assert request.end - request.start >= 0.09


def test_a_request_that_is_still_open_is_in_the_log():
    web = SyntheticWeb(1, 1, 2, Features(slow=True))
    with serve(web) as server, socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(b"GET /slow/never.html HTTP/1.1\r\nHost: h0000.site0000.test\r\n\r\n")
        wait_for(server.log)
        [request] = server.log()
        assert request.end is None


class LargeWeb(SyntheticWeb):
    """Answers with more than all socket buffers hold."""

    def look_up(self, _host, target, _port):
        return Served(
            target,
            (Reply(200, (b"HTTP/1.1 200 OK\r\nContent-Length: 50000000\r\n\r\n" + bytes(50_000_000),)),),
        )


def test_a_response_ends_when_its_last_byte_was_sent():
    with serve(LargeWeb()) as server, socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: h0000.site0000.test\r\n\r\n")
        wait_for(server.log)
        time.sleep(0.3)
        assert server.log()[0].end is None
        reading = time.time()
        left = 50_000_000
        while left > 0:
            left -= len(connection.recv(2**20))
        wait_for(lambda: server.log()[0].end)
        [request] = server.log()
    assert request.end is not None
    assert request.end > reading
    assert request.whole


def test_own_addresses_are_all_listened_on_and_logged():
    web = SyntheticWeb(1, 6, 3, Features(), addressing="own")
    assert sorted(web.resolve_map().values()) == [f"127.0.0.{n}" for n in range(1, 7)]
    with serve(web) as server:
        for host in range(6):
            assert ask(server, server.url("/", host))[0] == 200
        assert [request.address for request in server.log()] == [f"127.0.0.{n}" for n in range(1, 7)]


def test_literal_addresses_need_no_names_and_addresses_never_leave_loopback():
    web = SyntheticWeb(1, 1000, 1, Features(), addressing="literal")
    assert web.resolve_map() == {}
    assert len(set(web.names)) == 1000
    assert all(name.startswith("127.") and name.rpartition(".")[2] not in ("0", "255") for name in web.names)
    assert web.seeds(8080, 1) == ["http://127.0.0.1:8080/"]


def test_hosts_share_registrable_domains_as_configured():
    web = SyntheticWeb(1, 12, 1, Features(), hosts_per_domain=4)
    assert len({name.partition(".")[2] for name in web.names}) == 3
    assert web.names[5] == "h0005.site0001.test"


def test_a_server_on_the_running_loop():
    async def main():
        async with serve_here(SyntheticWeb(1, 1, 3, Features())) as server:
            status = (await asyncio.to_thread(ask, server, server.url()))[0]
            return status, [request.path for request in server.log()]

    assert asyncio.run(main()) == (200, ["/"])


def test_a_server_in_a_process_keeps_its_log_to_the_end():
    web = SyntheticWeb(9, 3, 5, Features.plain(slow=True))
    with serve_process(web) as server:
        for page in range(1, 5):
            _head, here = sent(web, f"/p/{page}.html", 1, server.port)
            assert ask(server, server.url(f"/p/{page}.html", 1))[2] == here
            assert len(server.log()) == page
        assert FLUSH_HOST not in {request.host for request in server.log()}
    assert [request.path for request in server.log()] == [f"/p/{page}.html" for page in range(1, 5)]


def test_stopping_ends_the_thread_and_every_open_connection():
    before = threading.active_count()
    with serve(SyntheticWeb(1, 1, 2, Features(slow=True))) as server:
        open_one = socket.create_connection(("127.0.0.1", server.port))
        open_one.sendall(b"GET /slow/never.html HTTP/1.1\r\nHost: h0000.site0000.test\r\n\r\n")
        ask(server, server.url())
    with open_one, contextlib.suppress(ConnectionResetError):
        assert open_one.recv(10) == b""
    assert threading.active_count() == before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port))


def test_a_port_in_use_is_an_error_in_the_caller():
    with (
        serve(SyntheticWeb()) as server,
        pytest.raises(OSError, match="in use"),
        serve(SyntheticWeb(), server.port),
    ):
        pass


def test_from_a_shell_it_says_when_it_is_ready_and_leaves_a_log(tmp_path):
    log = tmp_path / "requests.jsonl"
    command = [sys.executable, "-m", "skitter.testing.web", "--hosts", "2", "--pages", "5", "--seed", "7"]
    command += ["--addressing", "literal", "--preset", "none", "--feature", "slow", "--log", str(log)]
    command += ["--set", "page_words=900"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        assert ready["seed"] == f"http://127.0.0.1:{ready['port']}/"
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", ready["port"])) as connection:
            connection.request("GET", "/p/1.html")
            answer = connection.getresponse()
            assert answer.status == 200
            assert len(answer.read().split()) > 900
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
    [line] = log.read_text().splitlines()
    assert json.loads(line)["path"] == "/p/1.html"
