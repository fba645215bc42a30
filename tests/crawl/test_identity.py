"""Signed requests, verified as a site would: from what a real server received and from the published key alone."""

import base64
import hashlib
import json
import re
import shlex
import time
from pathlib import Path
from typing import Any

import pytest

from skitter.backends.warc import Reader
from skitter.cli import main
from skitter.cli.identity import parser
from skitter.fetch.request import user_agent
from skitter.settings import FetchSettings, SettingsError
from tests.crawl.harness import archives, crawl_on_this_loop, settings_for
from tests.fetching import ok, run, serving

pytest.importorskip("cryptography", reason="signing needs cryptography: pip install 'skitter[identity]'")
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from skitter.fetch.signing import Signer

AGENT = "https://bot.example.org"


@pytest.fixture
def identity(tmp_path, capsys) -> Path:
    folder: Path = tmp_path / "my-bot"
    assert main(["identity", "init", str(folder), "--url", AGENT + "/", "--contact", "bot@example.org"]) == 0
    capsys.readouterr()
    return folder


def published(folder: Path, name: str) -> Any:
    return json.loads((folder / "site" / name).read_text())


def test_the_card_and_the_page_name_the_user_agent_of_the_crawls_that_they_ask_for(identity):
    sent = user_agent(FetchSettings(contact=AGENT + "/", identity=str(identity)))
    card = published(identity, ".well-known/signature-agent-card")
    assert card["web_bot_auth"]["expected-user-agent"] == sent
    assert sent in (identity / "site" / "index.html").read_text()
    assert card["contacts"] == ["mailto:bot@example.org"]


# ------------------------------------------------------------------------------------------------ a verifier of its own


def parts(pattern: str, text: str) -> tuple[str, ...]:
    found = re.fullmatch(pattern, text)
    assert found is not None, text
    return found.groups()


def verified(head: str, directory: dict[str, Any], now: float) -> str:
    """What a site does with a request: RFC 9421 3.2, by the rules of Web Bot Auth. Returns the key's name, or raises."""
    fields = {}
    for line in head.split("\r\n")[1:]:
        name, colon, value = line.partition(":")
        if colon:
            fields[name.lower()] = value.strip()
    label, params = parts(r"([a-z]+)=(\(.*\);.*)", fields["signature-input"])
    covered = parts(r"\((.*?)\);.*", params)[0].split()
    said = dict(re.findall(r';(created|expires|keyid|tag)="?([^";]*)"?', params.partition(")")[2]))
    assert said["tag"] == "web-bot-auth"
    assert float(said["created"]) <= now < float(said["expires"])
    assert float(said["expires"]) - float(said["created"]) <= 86400
    members = dict(re.findall(r'([a-z]+)=("[^"]*")', fields["signature-agent"]))
    values = {'"@authority"': fields["host"].lower(), f'"signature-agent";key="{label}"': members[label]}
    assert set(covered) == set(values)
    lines = [f"{name}: {values[name]}" for name in covered] + [f'"@signature-params": {params}']
    signature = base64.b64decode(parts(rf"{label}=:(.*):", fields["signature"])[0])
    (jwk,) = [key for key in directory["keys"] if key["kid"] == said["keyid"]]
    public = base64.urlsafe_b64decode(jwk["x"] + "=")
    Ed25519PublicKey.from_public_bytes(public).verify(signature, "\n".join(lines).encode())
    return str(said["keyid"])


def crawled(path: Path, settings) -> list[str]:
    """The heads of the requests that a server received."""
    heard = []

    async def talk(server, reader, writer):
        while head := await server.hear(reader):
            heard.append(head.decode())
            missing = b"/robots.txt" in head
            page = ok(b"<a href='/1'>1</a> <a href='/2'>2</a>", b"Content-Type: text/html")
            writer.write(ok(b"", status=b"404 Not Found") if missing else page)

    async def go():
        async with serving(talk) as server:
            await crawl_on_this_loop(path, [server.url("/")], settings)

    run(go())
    return heard


def test_a_site_can_verify_every_request_with_the_published_key(identity, tmp_path):
    heard = crawled(tmp_path / "c", settings_for(fetch__identity=str(identity)))
    assert len(heard) == 4
    directory = published(identity, ".well-known/http-message-signatures-directory")
    for head in heard:
        assert verified(head, directory, time.time()) == directory["keys"][0]["kid"]
        assert f'Signature-Agent: sig="{AGENT}"' in head
    other = heard[0].replace("Host: 127.0.0.1", "Host: 127.0.0.2")
    with pytest.raises(InvalidSignature):  # it is for this host only
        verified(other, directory, time.time())


def test_the_archive_has_requests_as_they_were_sent_and_no_key(identity, tmp_path):
    heard = crawled(tmp_path / "c", settings_for(fetch__identity=str(identity)))
    (file,) = archives(tmp_path / "c")
    records = list(Reader(file.parent).records(file.name))
    sent = [record.block.decode() for record in records if record.fields["warc-type"] == "request"]
    assert sorted(sent) == sorted(head.removesuffix("\r\n\r\n") + "\r\n\r\n" for head in heard)
    secret = (identity / "key.pem").read_text().splitlines()[1]
    for path in (tmp_path / "c").rglob("*"):
        assert not path.is_file() or secret.encode() not in path.read_bytes()
    assert f'identity = "{identity}"' in (tmp_path / "c" / "crawl.toml").read_text()


def test_without_an_identity_nothing_is_signed(tmp_path):
    assert not [head for head in crawled(tmp_path / "c", settings_for()) if "ignature" in head]


# ------------------------------------------------------------------------------------------------ the files


def test_the_files_to_publish_name_each_other(identity):
    directory = published(identity, ".well-known/http-message-signatures-directory")
    (key,) = directory["keys"]
    canonical = json.dumps({"crv": key["crv"], "kty": key["kty"], "x": key["x"]}, separators=(",", ":"))
    digest = hashlib.sha256(canonical.encode()).digest()
    assert key["kid"] == base64.urlsafe_b64encode(digest).decode().rstrip("=")
    assert "d" not in key  # the private part
    card = published(identity, ".well-known/signature-agent-card")
    assert card["jwks_uri"] == f"{AGENT}/.well-known/http-message-signatures-directory"
    assert card["contacts"] == ["mailto:bot@example.org"]
    assert card["web_bot_auth"]["rfc9309-product-token"] == "skitter"
    assert published(identity, "ip-ranges.json")["prefixes"] == []  # for the user to fill in
    page = (identity / "site" / "index.html").read_text()
    assert 'rel="client-ranges"' in page
    assert "User-agent: skitter\nDisallow: /" in page


def test_only_its_owner_can_read_the_key(identity, tmp_path):
    key = identity / "key.pem"
    assert key.stat().st_mode & 0o777 == 0o600
    Signer(str(identity))
    key.chmod(0o640)
    with pytest.raises(SettingsError, match=r"can be read by others.*chmod 600"):
        Signer(str(identity))


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("key.pem", "nonsense", "is not a private key"),
        ("key.pem", None, "No such file"),
        ("identity.json", "{", 'has no "agent"'),
        ("identity.json", '{"agent": "http://a.test"}', 'has no "agent"'),
        ("identity.json", None, "skitter identity init"),
    ],
)
def test_a_damaged_identity_is_refused_before_anything_is_sent(identity, tmp_path, file, text, message):
    if text is None:
        (identity / file).unlink()
    else:
        (identity / file).write_text(text)
    with pytest.raises(SettingsError, match=message):
        crawled(tmp_path / "c", settings_for(fetch__identity=str(identity)))


def test_a_signature_serves_its_host_for_five_minutes(identity):
    signer = Signer(str(identity))
    first = signer.lines("a.test", 1000.0)
    assert signer.lines("a.test", 1299.0) is first
    assert signer.lines("a.test", 1301.0) != first
    assert signer.lines("b.test:8080", 1000.0)[2] != first[2]


def test_every_example_works(tmp_path, monkeypatch, capsys):
    for number, example in enumerate(parser().examples):
        (tmp_path / str(number)).mkdir()
        monkeypatch.chdir(tmp_path / str(number))
        assert main(shlex.split(example)[1:]) == 0
        assert "What to do" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["d", "--url", "http://bot.example", "--contact", "x@y.z"], "is not an https origin"),
        (["d", "--url", "https://bot.example/page", "--contact", "x@y.z"], "is not an https origin"),
        ([".", "--url", "https://bot.example", "--contact", "x@y.z"], "exists"),
        (["d", "--url", "https://bot.example"], "--contact"),
    ],
)
def test_wrong_usage_is_refused(tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    assert main(["identity", "init", *words]) == 2
    assert message in capsys.readouterr().err
