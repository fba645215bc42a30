"""Unreachable hosts: what is wrong, and what to type instead."""

import pytest

from skitter.reporting.trouble import explained


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
