"""The HTTP message in a record's block: where its payload begins, and the payload without framing.

The message is kept as received, so HTTP's own rules are not enforced. But head and body must be consistent: a
head that announces chunks over a body without them was written by a tool that decoded one and kept the other
(WARC 1.1 6.3.2), and no reader can recover the payload.
"""

import re
from collections.abc import Iterator

from skitter.testing.warc_check.octets import PIECE, BrokenError, Octets

_HEAD = 1 << 20  # the longest head that is read
_STATUS_LINE = re.compile(rb"HTTP/\d(?:\.\d)? +(\d{3})(?: [^\r\n]*)?\r?\n")
_REQUEST_LINE = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+ [^\r\n]+\r?\n")
_CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]+)[ \t]*(?:;[^\r\n]*)?\r?\n")


class HttpMessage:
    """A message read from the start of a block. Its payload can be read once, with `payload`."""

    def __init__(self, block: Octets, kind: str) -> None:
        self._block = block
        first = block.line(_HEAD)
        pattern = _REQUEST_LINE if kind == "request" else _STATUS_LINE
        match = pattern.fullmatch(first)
        if match is None:
            raise BrokenError("http-message", f"the block does not begin like an HTTP {kind}: {first[:60]!r}")
        self.status = int(match[1]) if kind != "request" else 0
        self.fields = self._fields()
        codings = [coding.strip().lower() for coding in self.fields.get("transfer-encoding", "").split(",")]
        self.codings = [coding for coding in codings if coding not in ("", "identity")]

    def _fields(self) -> dict[str, str]:
        fields: dict[str, str] = {}
        last, left = "", _HEAD
        while (line := self._block.line(left)) not in (b"\r\n", b"\n"):
            left -= len(line)
            if not line.endswith(b"\n"):
                raise BrokenError("http-message", "the head of the HTTP message has no end")
            text = line.decode("latin-1")
            if text[0] in " \t" and last:
                fields[last] += " " + text.strip()
                continue
            name, _, value = text.partition(":")
            last = name.strip().lower()
            # Transfer codings of several fields are one list (RFC 9110 5.3); of other fields the first
            # counts.
            joined = f"{fields[last]}, {value.strip()}" if last in fields else value.strip()
            fields[last] = joined if last == "transfer-encoding" else fields.get(last, value.strip())
        return fields

    def payload(self) -> Iterator[bytes]:
        """The body, in pieces, without chunked framing. Raises if head and body are inconsistent."""
        if self.codings[-1:] == ["chunked"]:
            yield from self._chunks()
            return
        size = 0
        while piece := self._block.take(PIECE):
            size += len(piece)
            yield piece
        declared = self.fields.get("content-length", "")
        # Answers to HEAD and 304s declare the length of what they do not send.
        if not self.codings and declared.isascii() and declared.isdigit() and size not in (0, int(declared)):
            raise BrokenError("http-length", f"Content-Length says {declared}, the body has {size} octets")

    def _chunks(self) -> Iterator[bytes]:
        if not self._block.peek(1):  # the answer to a HEAD request
            return
        while True:
            line = self._block.line(PIECE)
            size = _CHUNK_LINE.fullmatch(line)
            if size is None:
                raise BrokenError(
                    "http-chunked", f"Transfer-Encoding is chunked, but this is no chunk: {line[:60]!r}"
                )
            left = int(size[1], 16)
            if not left:
                break
            while left:
                piece = self._block.take(min(left, PIECE))
                if not piece:
                    raise BrokenError("http-chunked", "the body ends inside a chunk")
                left -= len(piece)
                yield piece
            if self._block.line(2) not in (b"\r\n", b"\n"):
                raise BrokenError("http-chunked", "a chunk is longer than it says")
        while (line := self._block.line(PIECE)) not in (b"\r\n", b"\n"):
            if not line.endswith(b"\n"):
                raise BrokenError("http-chunked", "the trailer has no end")
        if self._block.peek(1):
            raise BrokenError("http-chunked", "the body does not end with its last chunk")
