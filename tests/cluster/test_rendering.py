"""Pages that need JavaScript in a cluster: each worker has a browser of its own, and what became of a page is read back."""

import asyncio
from collections import Counter

from tests.cluster.crawling import cluster
from tests.rendered import html, need_browser, script, serving

PAGES = {
    "/": html("<title>shell</title><body><script src=/app.js></script>"),
    "/app.js": script(
        "document.title = 'made'; for (let n = 0; n < 4; n++) document.body.innerHTML += `<a href=/p${n}>${n}</a>`"
    ),
    **{f"/p{n}": html(f"<title>shell</title><script>document.title = 'page {n}'</script>") for n in range(4)},
}


def test_workers_render_what_they_crawl(tmp_path):
    need_browser()
    with serving(PAGES) as one, serving(PAGES) as other:
        named = [
            each.address.replace("127.0.0.1", name) for each, name in ((one, "a.test"), (other, "b.test"))
        ]
        rendering = {"fetch__render": "always", "fetch__render_quiet": "200ms", "politeness__delay": "50ms"}
        resolve = ("a.test:127.0.0.1", "b.test:127.0.0.1")
        with cluster(tmp_path, None, "full", crawl__shards=2, fetch__resolve=resolve, **rendering) as crawl:
            workers = [crawl.work(), crawl.work()]
            crawl.until_shared(*workers)
            crawl.add([f"{start}/" for start in named])
            crawl.wait()
            pages, _ = asyncio.run(crawl.read_back())
    titles = Counter(page.title for page in pages)
    assert titles == Counter(2 * ["made", *(f"page {n}" for n in range(4))])
    for page in pages:
        assert page.archive is not None
        assert len(page.archive.beside) == 1, page.url
    assert Counter(one.paths()) == Counter(other.paths()) == Counter(list(PAGES))
