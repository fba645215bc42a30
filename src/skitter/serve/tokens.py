"""Tokens: who may read, steer or administer crawls through the API. Only their hashes are kept."""

import hashlib
import hmac
import json
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, flock
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from skitter.ports import StateError
from skitter.runtime import durable

SCOPES = ("read", "steer", "admin")
"""What a token allows; each allows what those before it do."""
PREFIX = "skt_"
_OCTETS = 32
_LONGEST_NAME = 64


class Token(Struct, frozen=True):
    """A token as it is kept."""

    name: str
    scope: str
    hash: str  # SHA-256, in hex. A token has 256 random bits, so a slow hash would protect nothing
    created: float
    expires: float | None = None

    def is_valid(self, now: float) -> bool:
        """Whether it has not expired."""
        return self.expires is None or now < self.expires


def allows(scope: str, wanted: str) -> bool:
    """Whether a scope covers another one."""
    return scope in SCOPES and SCOPES.index(scope) >= SCOPES.index(wanted)


class TokenFile:
    """The tokens of a server, in a file that only its user can read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read: tuple[float, list[Token]] = (0.0, [])

    def tokens(self) -> list[Token]:
        """Those that are kept; read again when the file has changed."""
        try:
            changed = self.path.stat().st_mtime_ns
        except FileNotFoundError:
            return []
        if changed != self._read[0]:
            self._read = changed, _decoded(self.path)
        return self._read[1]

    def scope_of(self, text: str, now: float) -> str:
        """What a token allows; empty if it is unknown or has expired."""
        hashed = hash_of(text)
        found = ""
        for token in self.tokens():  # all of them, so that the time taken says nothing
            if hmac.compare_digest(token.hash, hashed) and token.is_valid(now):
                found = token.scope
        return found

    def create(self, name: str, scope: str, lifetime: float | None, now: float | None = None) -> str:
        """A new token. This is the only time that it is seen."""
        now = time.time() if now is None else now
        text = PREFIX + secrets.token_urlsafe(_OCTETS)
        with self._changing() as tokens:
            if any(token.name == name for token in tokens):
                raise StateError(f"there is a token {name!r} already; revoke it, or choose another name")
            expires = None if lifetime is None else now + lifetime
            tokens.append(Token(name, scope, hash_of(text), now, expires))
        return text

    def revoke(self, name: str) -> bool:
        """Forget a token; False if there was none of that name."""
        with self._changing() as tokens:
            kept = [token for token in tokens if token.name != name]
            found = len(kept) < len(tokens)
            tokens[:] = kept
        return found

    @contextmanager
    def _changing(self) -> Iterator[list[Token]]:
        """The tokens, written back at the end of the block. One at a time, whoever does it."""
        durable.make_folder(self.path.parent)
        handle = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            flock(handle, LOCK_EX)
            tokens = _decoded(self.path) if self.path.exists() else []
            before = list(tokens)
            yield tokens
            if tokens != before:
                _write(self.path, tokens)
        finally:
            os.close(handle)


def hash_of(text: str) -> str:
    """What is kept of a token."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def name_problem(name: str) -> str:
    """Why a name cannot be used; empty if it can."""
    if not name or len(name) > _LONGEST_NAME or not name.isprintable():
        return f"a token's name has 1 to {_LONGEST_NAME} printable characters"
    return ""


def _write(path: Path, tokens: list[Token]) -> None:
    draft = path.with_name(f"{path.name}.new")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(json.dumps(msgspec.to_builtins(tokens), indent=1).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    durable.sync_folder(path.parent)


def _decoded(path: Path) -> list[Token]:
    if path.stat().st_mode & 0o077:
        raise StateError(f"{path} can be read by other users; change that with: chmod 600 {path}")
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[Token])
    except msgspec.DecodeError as problem:
        raise StateError(f"{path} is no list of tokens: {problem}") from None


def shown(token: Token, now: float) -> dict[str, object]:
    """A token without its hash."""
    fields: dict[str, object] = msgspec.to_builtins(replace(token, hash=""))
    del fields["hash"]
    return fields | {"valid": token.is_valid(now)}
