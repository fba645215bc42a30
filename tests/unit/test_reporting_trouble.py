"""Unreachable hosts: when waiting is useless, and what to type instead."""

import pytest

from skitter.reporting.trouble import explained, hopeless

A, B = "http://a.example", "http://b.example"


@pytest.mark.parametrize(
    ("received", "in_flight", "waiting", "failed", "expected"),
    [
        (0, 0, {A}, {A}, True),
        (0, 0, {A}, {A, B}, True),  # b was given up
        (0, 0, (), {A}, True),
        (0, 0, {A, B}, {A}, False),  # b was not tried in this run
        (0, 1, {A}, {A}, False),
        (1, 0, {A}, {A}, False),  # somebody has answered, perhaps long ago
        (0, 0, {A}, (), False),
    ],
)
def test_a_run_is_hopeless_when_everything_failed_and_no_host_ever_answered(
    received, in_flight, waiting, failed, expected
):
    assert hopeless(received=received, in_flight=in_flight, waiting=waiting, failed=failed) is expected


@pytest.mark.parametrize(
    ("origin", "problem", "parts"),
    [
        ("https://a.example", "tls: OpenSSL: wrong version number", ["try http://a.example/"]),
        (
            "https://a.example",
            "tls: SSL certificate problem: self-signed certificate",
            ["fetch.ca_file=FILE"],
        ),
        ("https://a.example", "tls: alert handshake failure", ["certificate", "http://a.example/"]),
        ("http://a.example:81", "connect: refused", ["port", "https://a.example:81/"]),
        ("https://a.example", "timeout: Connection timed out", ["port", "http://a.example/"]),
        ("http://a.example", "nxdomain: a.example: not found", ["spelling"]),
        ("http://a.example", "dns: a.example: no answer", ["fetch.nameservers"]),
        ("http://a.example", "reset: Empty reply", ["HTTP", "https://a.example/"]),
        ("http://a.example:22", "port 22 does not serve the web", ["Check the address"]),
    ],
)
def test_every_problem_comes_with_advice(origin, problem, parts):
    trouble = explained(origin, problem)
    assert trouble.problem == problem
    assert [part for part in parts if part not in trouble.remedy] == []


@pytest.mark.parametrize(
    ("origin", "problem", "remedy"),
    [
        ("http://localhost:8000", "localhost is a loopback address", "--allow-private 127.0.0.0/8"),
        ("http://app.localhost", "app.localhost is a loopback address", "--allow-private 127.0.0.0/8"),
        ("http://[::1]", "[::1] is a loopback address", "--allow-private ::1/128"),
        ("http://192.168.7.1", "not a public address: private", "--allow-private 192.168.0.0/16"),
        # What an internal name resolves to is not told.
        ("http://intra.example", "not a public address: private", "--allow-private NETWORK"),
    ],
)
def test_an_address_that_is_refused_comes_with_the_network_to_allow(origin, problem, remedy):
    trouble = explained(origin, "not a public address: private; allow it with --allow-private NETWORK")
    assert trouble.problem == problem
    assert trouble.remedy == f"Allow it with {remedy}"
