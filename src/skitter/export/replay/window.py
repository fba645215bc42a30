"""A browser without a network, for pages that nobody should trust: it reaches the replay and nothing else.

In any browser an archived page gets no request out (see `site`). But two things obey no policy of a page: a hint to connect
(`rel=preconnect`), and WebRTC. Here the browser itself knows no address but ours.
"""

import shutil
from urllib.parse import urlsplit

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_NOWHERE = "http://127.0.0.1:9"  # a proxy that nobody runs: the port is that of `discard`


def found(named: str) -> str | None:
    """The program to start: the one that was named, or the first that is installed."""
    return next(filter(None, map(shutil.which, (named,) if named else PROGRAMS)), None)


def closed(*origins: str) -> list[str]:
    """The flags with which Chromium reaches these origins and nothing else."""
    places = [urlsplit(origin) for origin in origins]
    hosts = sorted({place.hostname or "" for place in places})
    return [
        f"--host-resolver-rules=MAP * ~NOTFOUND{''.join(f' , EXCLUDE {host}' for host in hosts)}",
        f"--proxy-server={_NOWHERE}",
        f"--proxy-bypass-list=<-loopback>;{';'.join(place.netloc for place in places)}",
        "--webrtc-ip-handling-policy=disable_non_proxied_udp",
        "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
        *(
            "--disable-quic",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
        ),
        *("--no-first-run", "--no-default-browser-check", "--disable-extensions"),
    ]
