"""Real software that others wrote, with its own traps: a DokuWiki and a cgit, as packaged by Debian, without a robots.txt.

The wiki has 200 pages, a third of them with old revisions, and anybody may edit it; every page has links to its source,
its history, what links to it, a login. The repository is the history of a folder of this one: every commit leads to
trees, diffs, patches and old versions of every file. Both are served by nginx on loopback from a temporary folder, and
judged by its log: wiki pages seen and after how many requests; views of files and commits, and views that repeat them.
Breadth first without learning is beside learning in the same run. Default settings, except for delays: there are none.

    apt-get install --no-install-recommends nginx-light dokuwiki php-cgi php-xml fcgiwrap cgit
    python -m benchmarks.real_software
    python -m benchmarks.real_software --only wiki --most 1200
"""

import argparse
import contextlib
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.learning import crawl, switched
from benchmarks.software import Hit, repository, wiki


@dataclass(frozen=True)
class Seen:
    """What a crawl saw of what there is to see."""

    there: int
    found: int
    last: int  # requests until the last of them
    requests: int
    repeated: int  # requests that showed nothing for the first time


def seen(log: list[Hit], views: Callable[[Hit], str], there: set[str]) -> Seen:
    """Count each view once; `views` says which one a request shows, if any."""
    found: set[str] = set()
    last = 0
    for number, hit in enumerate(log, 1):
        view = views(hit)
        if view in there and view not in found:
            found.add(view)
            last = number
    return Seen(len(there), len(found), last, len(log), len(log) - len(found))


@contextlib.contextmanager
def _crawled(where: str, name: str, most: int, kept: Path | None, *, learning: bool) -> Iterator[str]:
    """Crawl it; how the crawl ended."""
    with tempfile.TemporaryDirectory(prefix="skitter-real-") as folder:
        path = (kept or Path(folder)) / f"{name}-{'learning' if learning else 'plain'}"
        ran = crawl([where], path, f"--max-pages={most}", *switched(learning=learning))
        yield "stopped at the limit" if ran.code else "came to its end"


def main() -> None:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.real_software",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", choices=("wiki", "repository"), help="measure one of them")
    parser.add_argument("--most", type=int, default=2000, help="pages at which a crawl is stopped")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave the crawls there, to look at them")
    options = parser.parse_args()
    for name, make in (("wiki", wiki.serving), ("repository", repository.serving)):
        if options.only not in (None, name):
            continue
        for learning in (False, True):
            with make() as served:
                with _crawled(served.seed, name, options.most, options.keep, learning=learning) as how:
                    found = seen(served.log(), served.view, served.views)
                print(
                    f"{name}, {'with' if learning else 'without'} learning: {found.found} of {found.there} {served.what}, "
                    f"the last with request {found.last:,}; {found.requests:,} requests in all, {found.repeated:,} of "
                    f"them for nothing new; the crawl {how}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
