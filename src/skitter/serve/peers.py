"""Whose process is at the other end of a connection on this machine? Linux tells, by the ports of both ends."""

import os
import socket
import sys
from pathlib import Path

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))


def is_own_user(client: tuple[str, int], server: tuple[str, int]) -> bool:
    """Whether a connection from this machine was made by a process of our own user; False if that is not known."""
    try:
        wanted = _written(*client), _written(*server)
    except (OSError, ValueError):
        return False
    for table in _TABLES:
        try:
            lines = table.read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            # local address, remote address, state (01: established) and user of the other end's socket
            if fields[1] in wanted[0] and fields[2] in wanted[1] and fields[3] == "01":
                return int(fields[7]) == os.geteuid()
    return False


def _written(address: str, port: int) -> set[str]:
    """An address as the kernel writes it: words of four bytes in the order of the machine; IPv4 also inside of IPv6."""
    version = socket.AF_INET6 if ":" in address else socket.AF_INET
    octets = socket.inet_pton(version, address.partition("%")[0])
    forms = {_words(octets)}
    if version == socket.AF_INET:
        forms.add(_words(b"\0" * 10 + b"\xff\xff" + octets))
    return {f"{form}:{port:04X}" for form in forms}


def _words(octets: bytes) -> str:
    words = (octets[at : at + 4] for at in range(0, len(octets), 4))
    return "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words)
