"""The digest used in web archives: SHA-1 in base 32, with its label.

Each visit computes four of them, so base 32 is implemented here: 1.0 µs, where the library takes 2.2 because
it accepts input of any length.
"""

import hashlib
import struct
from collections.abc import Iterable
from itertools import product

_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"  # RFC 4648 6
_PAIRS = tuple(map(bytes, product(_ALPHABET, repeat=2)))  # the two characters for each ten-bit value
_WORDS = struct.Struct(">5I")  # SHA-1 has 160 bits


def sha1(*pieces: bytes) -> bytes:
    """The labelled digest of the concatenated pieces."""
    whole = hashlib.sha1(pieces[0], usedforsecurity=False)
    for piece in pieces[1:]:
        whole.update(piece)
    return _labelled(whole.digest())


def sha1_of(pieces: Iterable[bytes]) -> bytes:
    """The labelled digest of pieces that are not in memory together."""
    whole = hashlib.sha1(usedforsecurity=False)
    for piece in pieces:
        whole.update(piece)
    return _labelled(whole.digest())


def _labelled(digest: bytes) -> bytes:
    a, b, c, d, e = _WORDS.unpack(digest)
    pairs = _PAIRS
    return b"sha1:%b%b%b%b%b%b%b%b%b%b%b%b%b%b%b%b" % (
        pairs[a >> 22],
        pairs[a >> 12 & 1023],
        pairs[a >> 2 & 1023],
        pairs[a << 8 & 1023 | b >> 24],
        pairs[b >> 14 & 1023],
        pairs[b >> 4 & 1023],
        pairs[b << 6 & 1023 | c >> 26],
        pairs[c >> 16 & 1023],
        pairs[c >> 6 & 1023],
        pairs[c << 4 & 1023 | d >> 28],
        pairs[d >> 18 & 1023],
        pairs[d >> 8 & 1023],
        pairs[d << 2 & 1023 | e >> 30],
        pairs[e >> 20 & 1023],
        pairs[e >> 10 & 1023],
        pairs[e & 1023],
    )


def payload_digest(payload: bytes) -> str:
    """The digest of a payload as in the archive, as text."""
    return sha1(payload).decode()
