"""What Scrapy does wrong, by `skitter audit`: a crawl of the synthetic web, judged by the log of its server.

    python -m benchmarks.audit_scrapy              with Scrapy's defaults
    python -m benchmarks.audit_scrapy --polite     with a delay, one request at a time, and robots.txt obeyed

Scrapy is installed by `make bench` into .venv-bench. The web has hosts with a Crawl-delay, with forbidden paths, and with
answers that ask for a pause.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from skitter.cli import main as skitter
from skitter.testing.web import Features, Request, SyntheticWeb, serve_process

PEERS = Path(__file__).resolve().parent.parent / ".venv-bench/bin/python"
POLITE = {"ROBOTSTXT_OBEY": True, "DOWNLOAD_DELAY": 1.0, "CONCURRENT_REQUESTS_PER_DOMAIN": 1}
KINDS = ("allow", "disallow", "crawl-delay", "later")

SPIDER = """
import json, sys
import scrapy
from scrapy.crawler import CrawlerProcess

plan = json.load(sys.stdin)

class Pages(scrapy.Spider):
    name = "pages"
    start_urls = plan["seeds"]
    allowed_domains = plan["hosts"]

    def parse(self, response):
        if isinstance(response, scrapy.http.HtmlResponse):
            yield from response.follow_all(css="a")

process = CrawlerProcess(plan["settings"] | {"LOG_LEVEL": "ERROR", "TELNETCONSOLE_ENABLED": False})
process.crawl(Pages)
process.start()
"""


def web() -> SyntheticWeb:
    features = Features(robots=True, later=True, crawl_delay=2.0, retry_after=3)
    return SyntheticWeb(
        seed=14, hosts=len(KINDS), pages_per_host=6, features=features, addressing="literal", robots=KINDS
    )


def crawled(folder: Path, settings: dict[str, Any]) -> list[str]:
    """Crawl with Scrapy; the words for `skitter audit`."""
    with serve_process(web()) as server:
        plan = {"seeds": server.seeds(), "hosts": list(server.web.names), "settings": settings}
        subprocess.run([str(PEERS), "-c", SPIDER], input=json.dumps(plan), text=True, check=True, timeout=300)
        log = server.log()
        texts = {name: robots_txt(f"http://{name}:{server.port}/robots.txt") for name in server.web.names}
        port = server.port
    words = [str(access_log(folder / "access.log", log, port)), "--agent", "Scrapy", "--delay", "1s"]
    for name, text in texts.items():
        file = folder / f"robots-{name}.txt"
        file.write_bytes(text)
        words += ["--robots", f"{name}={file}"]
    return words


def robots_txt(url: str) -> bytes:
    """As the owner of the site has it. One of the hosts is too busy at first."""
    try:
        with urllib.request.urlopen(url) as answer:
            return bytes(answer.read())
    except urllib.error.HTTPError as busy:
        busy.close()
        return robots_txt(url)


def access_log(path: Path, requests: Iterable[Request], port: int) -> Path:
    """The server's log in the combined format, with the name of the host before each line."""
    lines = []
    for request in requests:
        at = datetime.fromtimestamp(request.start, UTC).strftime("%d/%b/%Y:%H:%M:%S +0000")
        line = f'"GET {request.path} HTTP/1.1" {request.status} - "-" "{request.agent}"'
        lines.append(f"{request.host}:{port} 127.0.0.1 - - [{at}] {line}\n")
    path.write_text("".join(lines))
    return path


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--polite", action="store_true")
    if not PEERS.exists():
        print(f"{PEERS} is missing; `make bench` makes it", file=sys.stderr)
        return 2
    polite = parser.parse_args().polite
    with tempfile.TemporaryDirectory() as folder:
        return skitter(["audit", *crawled(Path(folder), POLITE if polite else {})])


if __name__ == "__main__":
    sys.exit(main())
