"""The raw fetch floor: the same URLs with libcurl and nothing else. No parsing, no store, no politeness, no archive."""

import json
import sys

import pycurl


def fetch_all(urls: list[str], address: str, connections: int) -> int:
    """Fetch every URL over a number of kept connections; returns the bytes of all bodies."""
    multi = pycurl.CurlMulti()
    waiting = list(reversed(urls))
    received = 0

    def count(chunk: bytes) -> None:
        nonlocal received
        received += len(chunk)

    free = []
    for _ in range(connections):
        curl = pycurl.Curl()
        curl.setopt(pycurl.WRITEFUNCTION, count)
        curl.setopt(pycurl.CONNECT_TO, [f"::{address}:"])
        free.append(curl)
    busy = 0
    while waiting or busy:
        while waiting and free:
            curl = free.pop()
            curl.setopt(pycurl.URL, waiting.pop())
            multi.add_handle(curl)
            busy += 1
        multi.perform()
        more = 1
        while more:
            more, done, failed = multi.info_read()
            for curl in [*done, *(handle for handle, _, _ in failed)]:
                multi.remove_handle(curl)
                free.append(curl)
                busy -= 1
        multi.select(0.1)
    return received


if __name__ == "__main__":
    plan = json.load(sys.stdin)
    print(fetch_all(plan["urls"], plan["address"], plan["connections"]))
