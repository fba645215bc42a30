"""Requests in the order of their start, however many: sorted in parts, on disk."""

import heapq
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from skitter.reporting.audit.values import Request

_PART = 100_000  # requests in memory at a time, about 60 MB


def _order(request: Request) -> tuple[int, float, int, int]:
    return request.era, request.start, request.file, request.line


def in_order(requests: Iterable[Request], part: int = _PART) -> Iterator[Request]:
    """All requests, by the time of their start."""
    with tempfile.TemporaryDirectory(prefix="skitter-audit-") as folder:
        files: list[Path] = []
        held: list[Request] = []
        for request in requests:
            held.append(request)
            if len(held) >= part:
                files.append(_kept(Path(folder) / str(len(files)), held))
                held = []
        held.sort(key=_order)
        if not files:
            yield from held
            return
        yield from heapq.merge(*map(_read, files), held, key=_order)


def _kept(path: Path, requests: list[Request]) -> Path:
    requests.sort(key=_order)
    path.write_bytes(msgspec.json.Encoder().encode_lines(requests))
    return path


def _read(path: Path) -> Iterator[Request]:
    decode = msgspec.json.Decoder(Request).decode
    with path.open("rb") as lines:
        for line in lines:
            yield decode(line)
