"""`make demo`: a small web on loopback, crawled while you watch.

Serves the synthetic web that the tests use, runs the real `skitter` command on it, and ends by itself.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from skitter.testing.web import Features, SyntheticWeb, serve_process

DEMO = Path("demo")
CRAWL = DEMO / "crawl"
SKITTER = ".venv/bin/skitter"


def main() -> int:
    """Serve, crawl, and print what to try next."""
    shutil.rmtree(DEMO, ignore_errors=True)
    DEMO.mkdir()
    features = Features(
        link_forms=True, spellings=True, robots=True, redirects=True, statuses=True, duplicates=True, charsets=True,
        directives=True, crawl_delay=0.4,
    )  # fmt: skip
    web = SyntheticWeb(seed=2, hosts=14, pages_per_host=12, features=features)
    settings = DEMO / "demo.toml"
    with serve_process(web) as server:
        pairs = ", ".join(f'"{host}:{address}"' for host, address in web.resolve_map().items())
        settings.write_text(
            "# The settings of the demonstration: hosts of a made-up web, all of them on loopback.\n"
            f'[fetch]\ncontact = "https://example.org/about-this-crawl"\nallow_private = ["127.0.0.0/8"]\nresolve = [{pairs}]\n\n'
            '[scope]\nkind = "any"\n\n[politeness]\ndelay = "200ms"\nper_address = "none"\n\n[robots]\nretry_after = ["200ms"]\n\n'
            '[schedule]\nretry_base = "200ms"\n\n[crawl]\nmin_free_disk = "10MiB"\n'
        )
        seeds = DEMO / "seeds.txt"
        seeds.write_text("".join(f"{seed}\n" for seed in server.seeds(1)))
        command = [
            sys.executable,
            "-m",
            "skitter",
            "crawl",
            "--seeds",
            str(seeds),
            "-o",
            str(CRAWL),
            "--config",
            str(settings),
        ]
        print(f"""
A made-up web of {len(web.names)} hosts is served on loopback: pages with links, redirects, robots.txt files, errors, copies and odd
charsets. Skitter now crawls it as it would crawl the real one, only with shorter waits; it takes about 20 seconds, and
nothing leaves this machine. Ctrl-C stops it and saves.

$ skitter crawl --seeds {seeds} -o {CRAWL} --config {settings}
""", flush=True)  # fmt: skip
        with subprocess.Popen(command) as crawl:
            try:
                code = crawl.wait()
            except KeyboardInterrupt:  # the crawl got the signal too, and is saving
                code = crawl.wait()
        forbidden = next(
            url for url in sorted(server.truth("any", 1).refused) if url.endswith("/private/1.html")
        )
    print(f"""
What to try next; these are lines to copy:

  {SKITTER} why {CRAWL} {forbidden}
                                # why it was not fetched: the line of robots.txt that forbids it
  {SKITTER} pages {CRAWL} --duplicates
                                # pages that repeat another one, exactly or nearly
  {SKITTER} export {CRAWL} --format jsonl -o {DEMO}/pages.jsonl
                                # every page with its text, a JSON object a line
  ls {CRAWL}/archive         # the WARC files, for any archive tool
  make crawl URL=https://…      # a real site, politely
""")
    return code


if __name__ == "__main__":
    sys.exit(main())
