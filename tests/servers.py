"""Servers from Debian on loopback, for tests of logins, certificates, HTTP/2 and proxies: nginx, tinyproxy, microsocks.

Where a program is missing a test is skipped and says so; with SKITTER_TEST_REQUIRE=1 (as in CI) it fails.
"""

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGES = {
    "nginx": "nginx-light",
    "tinyproxy": "tinyproxy",
    "microsocks": "microsocks",
    "openssl": "openssl",
}
ROLES = ("open", "basic", "bearer", "cookie", "key", "cert", "thief", "plain", "short")
USER, PASSWORD = "anna", "correct-horse-battery"
BEARER = "eyJhbGciOi.tokentoken.c2lnbmF0dXJl"
SESSION = "5e55101d-for-anna"
API_KEY = "k-9f3c-api"
PROXY_USER, PROXY_PASSWORD = "crawler", "proxy-pass-7731"
# As they are in files, and as they are on the wire.
SECRETS = (PASSWORD, BEARER, SESSION, API_KEY, PROXY_PASSWORD, "YW5uYTpjb3JyZWN0", "Y3Jhd2xlcjpwcm94eS")


def program(name: str) -> str:
    """The path of a program, or the end of this test."""
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if found is None:
        message = f"no {name}: apt-get install {PACKAGES[name]}"
        if os.environ.get("SKITTER_TEST_REQUIRE"):
            pytest.fail(message)
        pytest.skip(message)
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(*command: str, port: int, log: Path) -> Iterator[None]:
    """A server until the end of the block."""
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file)
    try:
        for _ in range(600):
            with socket.socket() as probe:
                if process.poll() is None and probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            if process.poll() is not None:
                pytest.fail(f"{command[0]} did not start: {log.read_text()}")
            time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait(30)


# ------------------------------------------------------------------------------------------------ certificates


def _openssl(*arguments: str) -> None:
    subprocess.run([program("openssl"), *arguments], check=True, capture_output=True)


def make_certificates(folder: Path) -> None:
    """An authority (ca.pem), a certificate for *.site.test (server.*), and one for a client (client.*)."""
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    authority = folder / "ca.pem"
    _openssl(
        "req",
        "-x509",
        *key,
        "-keyout",
        str(folder / "ca.key"),
        "-out",
        str(authority),
        "-subj",
        "/CN=Test CA",
    )
    for name, alternative in (("server", "DNS:*.site.test"), ("client", "DNS:anna.client.test")):
        request, extensions = folder / f"{name}.csr", folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName={alternative}\n")
        files = ("-keyout", str(folder / f"{name}.key"), "-out", str(request), "-subj", f"/CN={name}")
        _openssl("req", "-new", *key, *files)
        signed = ("-CA", str(authority), "-CAkey", str(folder / "ca.key"), "-CAcreateserial", "-days", "30")
        _openssl(
            "x509",
            "-req",
            "-in",
            str(request),
            *signed,
            "-extfile",
            str(extensions),
            "-out",
            str(folder / f"{name}.pem"),
        )
    (folder / "client.key").chmod(0o600)


# ------------------------------------------------------------------------------------------------ nginx


@dataclass(frozen=True)
class Nginx:
    """A site with a door of each kind: https://ROLE.site.test:TLS/, and http://plain.site.test:PORT/."""

    folder: Path
    port: int
    tls: int

    def url(self, role: str, path: str = "/") -> str:
        if role == "plain":
            return f"http://plain.site.test:{self.port}{path}"
        return f"https://{role}.site.test:{self.tls}{path}"

    @property
    def resolve(self) -> tuple[str, ...]:
        return tuple(f"{role}.site.test:127.0.0.1" for role in ROLES)

    @property
    def authority(self) -> str:
        return str(self.folder / "ca.pem")

    def log(self, role: str) -> list[dict[str, str]]:
        """What it was asked at one door."""
        lines = (self.folder / "access.log").read_text().splitlines()
        return [entry for line in lines if (entry := json.loads(line))["host"] == f"{role}.site.test"]

    def forget(self) -> None:
        (self.folder / "access.log").write_text("")


_CONF = """
user root;
worker_processes 1;
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 256; }}
http {{
  {temp}
  default_type text/html;
  log_format told escape=json '{{"host":"$host","protocol":"$server_protocol","status":"$status","uri":"$request_uri",'
    '"authorization":"$http_authorization","cookie":"$http_cookie","key":"$http_x_api_key","project":"$http_x_project",'
    '"accept":"$http_accept","certificate":"$ssl_client_s_dn","proxy":"$http_proxy_authorization","from":"$remote_port"}}';
  access_log {folder}/access.log told;
  ssl_certificate {folder}/server.pem;
  ssl_certificate_key {folder}/server.key;
  root {folder}/www;
  server {{ listen 127.0.0.1:{port}; server_name plain.site.test;
    location / {{ auth_basic door; auth_basic_user_file {folder}/passwd; }} location = /robots.txt {{ return 404; }} }}
  server {{ listen 127.0.0.1:{tls} ssl http2 default_server; server_name open.site.test;
    location /trailers/ {{ add_trailer X-Checksum abc; }} location = /sets {{ add_header Set-Cookie "visit=7; Path=/"; return 200 "ok"; }} }}
  server {{ listen 127.0.0.1:{tls} ssl http2; server_name thief.site.test; }}
  server {{ listen 127.0.0.1:{tls} ssl http2; server_name short.site.test; keepalive_requests 2; }}
  server {{ listen 127.0.0.1:{tls} ssl http2; server_name basic.site.test;
    location / {{ auth_basic door; auth_basic_user_file {folder}/passwd; }}
    location = /away.html {{ return 302 https://thief.site.test:{tls}/stolen.html; }} }}
  server {{ listen 127.0.0.1:{tls} ssl http2; server_name bearer.site.test;
    if ($http_authorization != "Bearer {bearer}") {{ return 401; }}
    location = /away.html {{ return 302 https://thief.site.test:{tls}/stolen.html; }} }}
  server {{ listen 127.0.0.1:{tls} ssl http2; server_name key.site.test;
    if ($http_x_api_key != "{api_key}") {{ return 403; }} }}
  server {{ listen 127.0.0.1:{tls} ssl http2; server_name cookie.site.test;
    if ($cookie_session != "{session}") {{ return 403; }}
    location = /away.html {{ return 302 https://thief.site.test:{tls}/stolen.html; }} }}
  server {{ listen 127.0.0.1:{tls} ssl http2; server_name cert.site.test;
    ssl_client_certificate {folder}/ca.pem; ssl_verify_client on; }}
}}
"""


@contextmanager
def nginx(folder: Path) -> Iterator[Nginx]:
    """A real nginx with its own authority."""
    command = program("nginx")
    make_certificates(folder)
    made = Nginx(folder, free_port(), free_port())
    www = folder / "www"
    (www / "trailers").mkdir(parents=True)
    (www / "trailers" / "t.html").write_text("<title>Trailers</title>")
    links = "".join(f'<a href="{name}">{name}</a> ' for name in ("a.html", "b.html", "away.html"))
    elsewhere = f'<a href="{made.url("thief", "/stolen.html")}">elsewhere</a>'
    (www / "index.html").write_text(f"<title>Door</title>{links}{elsewhere}")
    for name in ("a", "b", "away", "stolen"):
        (www / f"{name}.html").write_text(f"<title>Page {name}</title><p>A page called {name}.")
    (folder / "passwd").write_text(f"{USER}:{{PLAIN}}{PASSWORD}\n")
    temp = " ".join(
        f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    conf = _CONF.format(
        folder=folder,
        port=made.port,
        tls=made.tls,
        temp=temp,
        bearer=BEARER,
        api_key=API_KEY,
        session=SESSION,
    )
    (folder / "nginx.conf").write_text(conf)
    with running(
        command, "-p", str(folder), "-c", str(folder / "nginx.conf"), port=made.tls, log=folder / "nginx.out"
    ):
        yield made


# ------------------------------------------------------------------------------------------------ proxies


@contextmanager
def http_proxy(folder: Path, *more: str) -> Iterator[tuple[str, Path]]:
    """tinyproxy: its address and its log."""
    port = free_port()
    conf, log = folder / "tinyproxy.conf", folder / "tinyproxy.log"
    lines = [
        f"Port {port}",
        "Listen 127.0.0.1",
        "Timeout 60",
        f'LogFile "{log}"',
        "LogLevel Connect",
        "Allow 127.0.0.1",
    ]
    conf.write_text("\n".join([*lines, f"BasicAuth {PROXY_USER} {PROXY_PASSWORD}", *more]) + "\n")
    with running(program("tinyproxy"), "-d", "-c", str(conf), port=port, log=folder / "tinyproxy.out"):
        yield f"http://127.0.0.1:{port}", log


@contextmanager
def socks_proxy(folder: Path) -> Iterator[tuple[str, Path]]:
    """microsocks: its address and its log."""
    port = free_port()
    log = folder / "microsocks.log"
    login = ("-u", PROXY_USER, "-P", PROXY_PASSWORD)
    with running(program("microsocks"), "-i", "127.0.0.1", "-p", str(port), *login, port=port, log=log):
        yield f"socks5://127.0.0.1:{port}", log


# ------------------------------------------------------------------------------------------------ the other side


def private(path: Path, text: str) -> Path:
    """A file that only we can read."""
    path.touch(mode=0o600)
    path.write_text(text)
    path.chmod(0o600)
    return path


def secrets_file(folder: Path, site: Nginx) -> Path:
    """Every secret of the site."""
    return private(
        folder / "secrets.toml",
        f"""
[[site]]
match = "basic.site.test:{site.tls}"
user = "{USER}"
password = "{PASSWORD}"

[[site]]
match = "http://plain.site.test:{site.port}"
user = "{USER}"
password = "{PASSWORD}"

[[site]]
match = "bearer.site.test:{site.tls}"
bearer = "{BEARER}"

[[site]]
match = "key.site.test:{site.tls}/*"
headers = {{X-Api-Key = "{API_KEY}"}}

[[site]]
match = "cert.site.test:{site.tls}"
certificate = "{site.folder}/client.pem"
key = "{site.folder}/client.key"

[proxy]
user = "{PROXY_USER}"
password = "{PROXY_PASSWORD}"
""",
    )


def cookie_file(folder: Path) -> Path:
    line = "\t".join(("cookie.site.test", "FALSE", "/", "TRUE", "0", "session", SESSION))
    return private(folder / "cookies.txt", f"# Netscape HTTP Cookie File\n#HttpOnly_{line}\n")
