"""The raw fetch floor: the same URLs with libcurl and nothing else. No parsing, no store, no politeness, no archive."""

import json
import sys

import pycurl


def fetch_all(urls: list[str], connections: int) -> int:
    """Fetch every URL over a number of persistent connections; returns how many were answered with 200."""
    multi = pycurl.CurlMulti()
    multi.setopt(
        pycurl.M_MAXCONNECTS, 1000
    )  # libcurl otherwise keeps 4 per handle: fewer than there are hosts
    waiting = list(reversed(urls))
    answered = 0
    free = []
    for _ in range(connections):
        curl = pycurl.Curl()
        curl.setopt(pycurl.WRITEFUNCTION, lambda _chunk: None)
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
            answered += sum(curl.getinfo(pycurl.RESPONSE_CODE) == 200 for curl in done)
            for curl in [*done, *(handle for handle, _, _ in failed)]:
                multi.remove_handle(curl)
                free.append(curl)
                busy -= 1
        multi.select(0.1)
    return answered


if __name__ == "__main__":
    plan = json.load(sys.stdin)
    if fetch_all(plan["urls"], plan["connections"]) != len(plan["urls"]):
        sys.exit("not every page was answered with 200")
