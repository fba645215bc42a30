"""A synthetic web for testing crawlers: deterministic, served on loopback, with a ground truth.

    web = SyntheticWeb(seed=7, hosts=20, features=Features.mixed())
    with serve(web) as server:
        ...  # crawl server.seeds() with web.resolve_map()
        server.truth().pages, server.log()

From a shell: `python -m skitter.testing.web --hosts 40 --pages 50 --preset plain` prints one line of JSON
with the port when it is ready. Start with `web.py`; `graph.py` has the data types, `site.py` one host,
`wings.py` the list of what can be switched on, `truth.py` what must be found, `server.py` and `log.py` the
server and its request log.
"""

from skitter.testing.web.features import Features
from skitter.testing.web.graph import Fate, Refusal, Trap
from skitter.testing.web.log import Request, crowds, gaps, overlaps
from skitter.testing.web.running import Server, serve, serve_here, serve_process
from skitter.testing.web.truth import Truth
from skitter.testing.web.web import SyntheticWeb, botcrawler_site

__all__ = [
    "Fate", "Features", "Refusal", "Request", "Server", "SyntheticWeb", "Trap", "Truth", "botcrawler_site", "crowds",
    "gaps", "overlaps", "serve", "serve_here", "serve_process",
]  # fmt: skip
