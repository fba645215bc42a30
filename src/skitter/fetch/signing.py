"""Signed requests: Web Bot Auth, so that a site can tell this crawler from one that only claims its name.

A signature (RFC 9421, Ed25519) covers the authority of the request and the place where the public key is published; see
draft-meunier-webbotauth-httpsig-protocol. It says nothing about path or time beyond its few minutes, so one serves all
requests to a host for that long, and costs next to nothing.
"""

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from skitter.fetch.secrets import private_text
from skitter.settings import SettingsError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

KEY_FILE = "key.pem"
ABOUT_FILE = "identity.json"  # where the public part is published
LIFETIME = 600  # seconds; the draft allows a day, but whoever records a signature could use it for as long
_REUSED = 300.0  # seconds for which one is used
_MOST = 10_000  # hosts whose signature is kept
_LABEL = "sig"
_AGENT = re.compile(r"https://[a-z0-9.-]+(?::\d{1,5})?")


class Signer:
    """Signs requests with the key of an identity."""

    def __init__(self, folder: str) -> None:
        """Read the identity that `skitter identity init` made. SettingsError says what is wrong with it."""
        self._key = private_key(folder)
        self.keyid = thumbprint(public_jwk(self._key.public_key()))
        self.agent = _agent(folder)
        self._made: dict[str, tuple[float, tuple[str, ...]]] = {}

    def lines(self, authority: str, now: float) -> tuple[str, ...]:
        """The header lines of a request to this authority (host, and port if it is not the usual one)."""
        known = self._made.get(authority)
        if known is not None and 0 <= now - known[0] < _REUSED:
            return known[1]
        if len(self._made) >= _MOST:
            self._made.clear()
        lines = self._signed(authority, int(now))
        self._made[authority] = now, lines
        return lines

    def _signed(self, authority: str, created: int) -> tuple[str, ...]:
        agent = f'"{self.agent}"'
        covered = f'("@authority" "signature-agent";key="{_LABEL}")'
        params = f'{covered};created={created};expires={created + LIFETIME};keyid="{self.keyid}";tag="web-bot-auth"'
        base = (  # RFC 9421 2.5
            f'"@authority": {authority.lower()}\n'
            f'"signature-agent";key="{_LABEL}": {agent}\n'
            f'"@signature-params": {params}'
        )
        signature = base64.b64encode(self._key.sign(base.encode("ascii"))).decode()
        return (
            f"Signature-Agent: {_LABEL}={agent}",
            f"Signature-Input: {_LABEL}={params}",
            f"Signature: {_LABEL}=:{signature}:",
        )


def private_key(folder: str) -> "Ed25519PrivateKey":
    """The private key of an identity; only its owner may be able to read it."""
    file = str(Path(folder) / KEY_FILE)
    pem = private_text("fetch.identity", file)
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415  an extra, and slow to import
            Ed25519PrivateKey,
        )
        from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415  the same
    except ModuleNotFoundError:
        raise SettingsError(lacking()) from None
    try:
        key = load_pem_private_key(pem.encode(), None)
    except (ValueError, TypeError):
        raise SettingsError(
            f"fetch.identity: {file} is not a private key in PEM format without a password"
        ) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise SettingsError(
            f"fetch.identity: {file} is not an Ed25519 key; make one with: skitter identity init"
        )
    return key


def lacking() -> str:
    """What to do without the library."""
    from skitter.runtime.installing import install_line  # noqa: PLC0415  rarely needed

    return f"fetch.identity: signing needs the library cryptography, which is not installed; install it with: {install_line('identity')}"


def public_jwk(key: "Ed25519PublicKey") -> dict[str, str]:
    """The public key as a JSON Web Key (RFC 8037)."""
    return {"kty": "OKP", "crv": "Ed25519", "x": _base64url(key.public_bytes_raw())}


def thumbprint(jwk: dict[str, str]) -> str:
    """The name of a key (RFC 7638): the hash of its required members in the order of their names."""
    required = {name: jwk[name] for name in ("crv", "kty", "x")}
    return _base64url(hashlib.sha256(json.dumps(required, separators=(",", ":")).encode()).digest())


def is_agent(url: str) -> bool:
    """Whether a URL can name an identity: an https origin."""
    return _AGENT.fullmatch(url) is not None


def _agent(folder: str) -> str:
    file = Path(folder) / ABOUT_FILE
    try:
        agent = json.loads(file.read_text("utf-8"))["agent"]
    except OSError as problem:
        raise SettingsError(
            f"fetch.identity: {file}: {problem.strerror}; make one with: skitter identity init"
        ) from None
    except (ValueError, KeyError, TypeError):
        agent = None
    if not isinstance(agent, str) or not is_agent(agent):
        raise SettingsError(f'fetch.identity: {file} has no "agent" such as "https://bot.example"')
    return agent


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
