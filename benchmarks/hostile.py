"""The hostile web: how many of its real pages a crawl finds, and how many of its requests are wasted.

Six generators without end around 1,000 real pages (`skitter.testing.learnable.hostile`), judged by the server's own log:
a request is wasted if it fetched no real page for the first time. A crawl that does not end is stopped at `--most` pages.

    python -m benchmarks.hostile
    python -m benchmarks.hostile --workers 4
    python -m benchmarks.hostile --without-learning
"""

import argparse
import tempfile
from pathlib import Path

from benchmarks.learning import crawl, of, switched
from skitter.testing.learnable import HostileWeb, Judged, judged, serving


def measure(workers: int, most: int, *, learning: bool, kept: Path | None = None) -> tuple[Judged, str]:
    """One crawl; what the log says of it, and how it ended."""
    web = HostileWeb()
    with serving(web) as server, tempfile.TemporaryDirectory(prefix="skitter-hostile-") as folder:
        flags = [*of(server), f"--max-pages={most}", *switched(learning=learning)]
        ran = crawl(server.seeds, (kept or Path(folder)) / "crawl", *flags, workers=workers)
        how = "stopped at the limit" if ran.code else "came to its end"
        return judged(web, server.log()), f"{how} after {ran.seconds:.0f} s"


def said(found: Judged, how: str) -> str:
    """The crawl in a few lines."""
    kinds = ", ".join(f"{kind} {count}" for kind, count in found.by_kind.items())
    return (
        f"{found.fetched} of {found.real} real pages ({found.found_share:.1%}), the last with request {found.last:,}\n"
        f"{found.requests:,} requests, {found.wasted:,} wasted ({found.wasted_share:.1%}): {kinds}\n"
        f"the crawl {how}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.hostile",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--without-learning", action="store_true")
    parser.add_argument("--most", type=int, default=4000, help="pages at which the crawl is stopped")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave the crawl there, to look at it")
    parser.add_argument("--missed", action="store_true", help="list the real pages that were not fetched")
    options = parser.parse_args()
    found, how = measure(
        options.workers, options.most, learning=not options.without_learning, kept=options.keep
    )
    print(said(found, how))
    if options.missed:
        print(*sorted(f"{host}{target}" for host, target in found.missed), sep="\n")


if __name__ == "__main__":
    main()
