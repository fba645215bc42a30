"""`skitter identity`: an identity that sites can check: a key, and the pages to publish."""

import argparse
import html
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from skitter.cli.usage import Exit, Parser, UsageError
from skitter.fetch import signing
from skitter.fetch.request import user_agent
from skitter.robots import product_token
from skitter.runtime import durable
from skitter.settings import SettingsError
from skitter.settings.file import load

_DIRECTORY = ".well-known/http-message-signatures-directory"
_CARD = ".well-known/signature-agent-card"
_MEDIA = "application/http-message-signatures-directory+json"


def parser() -> Parser:
    """The flags of `skitter identity`."""
    made = Parser(
        "identity",
        "Make an identity that sites can check (Web Bot Auth): an Ed25519 key that signs requests, and what to publish at the URL of "
        "your crawler: the key directory, a card that describes the crawler, a page for site owners, and the list of your IP addresses, "
        "which you fill in. Requests are signed when fetch.identity names the directory. The key never leaves it.",
        [
            "skitter identity init my-bot --url https://bot.example.org --contact mailto:bot@example.org",
            "skitter identity init my-bot --url https://bot.example.org --contact bot@example.org --name ExampleBot",
        ],
    )
    made.add_argument("action", choices=["init"], help="init: make a new identity")
    made.add_argument("directory", type=Path, metavar="DIR", help="a new directory for the key and the files")
    made.add_argument(
        "--url", required=True, metavar="URL", help="https origin where the files will be published"
    )
    made.add_argument(
        "--contact", required=True, metavar="TEXT", help="a URL or e-mail address for site owners"
    )
    made.add_argument(
        "--name", default="", metavar="NAME", help="what the crawler is called (default: its product token)"
    )
    made.add_argument("--purpose", default="web crawling", metavar="TEXT", help="what the pages are used for")
    made.add_argument(
        "--user-agent",
        default="",
        metavar="TEXT",
        help="the fetch.user_agent of your crawls, if they set one",
    )
    return made


def run(arguments: argparse.Namespace) -> Exit:
    """Make the identity, and say what is left to do."""
    agent = arguments.url.rstrip("/")
    if not signing.is_agent(agent):
        raise UsageError(
            f"--url: {arguments.url!r} is not an https origin; write for example https://bot.example.org"
        )
    folder = arguments.directory
    if folder.exists():
        raise UsageError(f"{folder} exists; name a new directory (an identity is never overwritten)")
    load(None, {}, {"fetch.contact": arguments.contact})  # refuses one that no request could carry
    # The crawls name the page as their contact, so that is the user agent to expect.
    settings = load(None, {}, {"fetch.contact": f"{agent}/", "fetch.user_agent": arguments.user_agent})
    key = _new_key()
    sent = user_agent(settings.fetch)
    token = product_token(sent)
    name = arguments.name or token
    contact = (
        arguments.contact
        if "://" in arguments.contact or ":" in arguments.contact
        else f"mailto:{arguments.contact}"
    )
    jwk = signing.public_jwk(key.public_key())
    site = folder / "site"
    (site / ".well-known").mkdir(parents=True)
    durable.write_private(folder / signing.KEY_FILE, _pem(key))
    listed = jwk | {"kid": signing.thumbprint(jwk), "use": "sig", "alg": "EdDSA"}
    card = _card(agent, name, contact, sent, token, arguments.purpose)
    ranges = {"creationTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S"), "prefixes": []}
    for file, value in {
        site / _DIRECTORY: {"keys": [listed]},
        site / _CARD: card,
        site / "ip-ranges.json": ranges,
        folder / signing.ABOUT_FILE: {"agent": agent, "keyid": listed["kid"], "contact": contact},
    }.items():
        file.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
    (site / "index.html").write_text(_page(card, sent, token), encoding="utf-8")
    durable.sync_folder(folder)
    print("\n".join(_told(folder, agent)))
    return Exit.DONE


def _new_key() -> Any:  # noqa: ANN401  the type is that of an extra
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415  an extra
            Ed25519PrivateKey,
        )
    except ModuleNotFoundError:
        raise SettingsError(signing.lacking()) from None
    return Ed25519PrivateKey.generate()


def _pem(key: Any) -> bytes:  # noqa: ANN401  see above
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415  an extra

    written = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return bytes(written)


def _card(agent: str, name: str, contact: str, sent: str, token: str, purpose: str) -> dict[str, Any]:
    """The card of draft-meunier-webbotauth-registry."""
    return {
        "client_id": f"{agent}/{_CARD}",
        "client_name": name,
        "client_uri": f"{agent}/",
        "contacts": [contact],
        "jwks_uri": f"{agent}/{_DIRECTORY}",
        "web_bot_auth": {
            "expected-user-agent": sent,
            "rfc9309-product-token": token,
            "rfc9309-compliance": ["User-Agent", "Allow", "Disallow", "Crawl-delay", "Content-Usage"],
            "trigger": "crawler",
            "purpose": purpose,
            "rate-control": "429",
            "ips_uri": f"{agent}/ip-ranges.json",
        },
    }


def _page(card: dict[str, Any], sent: str, token: str) -> str:
    """The page for site owners: who this is, what for, and how to stop it."""
    about, say = card["web_bot_auth"], html.escape
    contact = say(card["contacts"][0])
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>{say(card["client_name"])}: information for site owners</title>
<link rel="client-ranges" type="application/json" href="/ip-ranges.json">
<h1>{say(card["client_name"])}</h1>
<p>This crawler visits web sites for: {say(about["purpose"])}. Its user agent is <code>{say(sent)}</code>.</p>
<h2>How to slow it down or block it</h2>
<p>It obeys robots.txt (RFC 9309), also Crawl-delay, and waits when a server answers 429 or 503. To block it:</p>
<pre>User-agent: {say(token)}
Disallow: /</pre>
<h2>How to recognise it</h2>
<p>Its requests are signed (Web Bot Auth); the keys are in <a href="/{_DIRECTORY}">its key directory</a>. It uses only
<a href="/ip-ranges.json">these IP addresses</a>.</p>
<h2>Contact</h2>
<p><a href="{contact}">{contact}</a></p>
</html>
"""


def _told(folder: Path, agent: str) -> list[str]:
    return [
        f"{folder} holds a new identity for {agent}",
        f"  {folder}/{signing.KEY_FILE}  the private key: keep a copy in a safe place, and give it to nobody",
        f"  {folder}/site/  to be published at {agent}/",
        "",
        "What to do",
        f"  1. write the addresses that your crawls come from into {folder}/site/ip-ranges.json, as",
        '     "prefixes": [{"ipv4Prefix": "192.0.2.0/24"}, {"ipv6Prefix": "2001:db8::/32"}]',
        f"  2. publish {folder}/site/ at {agent}/; /{_DIRECTORY} as {_MEDIA}",
        f"  3. crawl with: --set fetch.identity={folder} --contact {agent}/",
        f"  4. see what is still missing: skitter doctor --citizen --set fetch.identity={folder} --set fetch.contact={agent}/",
    ]
