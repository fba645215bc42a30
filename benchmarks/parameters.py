"""The parameter web: how many requests its duplicates cost, and which parameters were learned to be needless.

A site whose URLs have forty kinds of parameters (`skitter.testing.learnable.parameters`), judged by the server's own log
and the web's own table of truth; with learning and without it, in one run.

    python -m benchmarks.parameters
    python -m benchmarks.parameters --pages 6000 --duplicates 0.4 --noise
"""

import argparse
import tempfile
from pathlib import Path

from benchmarks.learning import crawl, of, switched
from skitter.testing.learnable import Judged, ParameterWeb, judged, serving


def measure(web: ParameterWeb, *, learning: bool, kept: Path | None = None) -> Judged:
    """One crawl, judged by the log."""
    with serving(web) as server, tempfile.TemporaryDirectory(prefix="skitter-params-") as folder:
        where = (kept or Path(folder)) / ("learning" if learning else "plain")
        crawl(server.seeds, where, *of(server), *switched(learning=learning))
        return judged(web, server.log())


def main() -> None:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.parameters",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--pages", type=int, default=2400, help="distinct pages")
    parser.add_argument("--duplicates", type=float, default=0.25, help="their share of all URLs")
    parser.add_argument("--noise", action="store_true", help="every answer has a number of its own")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave the crawls there, to look at them")
    options = parser.parse_args()
    web = ParameterWeb(pages=options.pages, duplicates=options.duplicates, noise=options.noise)
    plain, learned = (measure(web, learning=each, kept=options.keep) for each in (False, True))
    for name, found in ("without learning", plain), ("with learning", learned):
        print(
            f"{name}: {found.fetched} of {found.real} distinct pages in {found.requests:,} requests, "
            f"{found.wasted:,} of them for nothing new"
        )
    print(
        f"{1 - learned.requests / plain.requests:.1%} fewer fetches; at most {plain.wasted_share:.1%} are possible"
    )


if __name__ == "__main__":
    main()
