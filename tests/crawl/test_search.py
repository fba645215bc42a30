"""A crawl of the synthetic web, searched while it runs and afterwards, by the commands that people type."""

import asyncio
import json
import subprocess
import sys

from skitter.compose import open_reader
from skitter.export import reread
from skitter.testing.web import Features, SyntheticWeb, serve_process
from tests.crawl.harness import crawl, settings_for


def search(path, *words):
    command = [sys.executable, "-m", "skitter", "search", str(path), *words, "--json"]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


async def words_of(path):
    """For every page a word that no other page of the crawl has, if there is one."""
    reader = open_reader(path)
    texts = {}
    async for page in reader.frontier.pages():
        document = await reread.document(page, reader)
        assert document is not None
        texts[page.url] = set(f"{page.title} {document.text}".lower().replace(".", " ").split())
    await reader.close()
    homes = {}
    for url, words in texts.items():
        for word in words:
            homes.setdefault(word, set()).add(url)
    return homes


def test_every_page_is_found_by_its_unique_words_only(tmp_path):
    web = SyntheticWeb(5, 6, 12, Features())
    path = tmp_path / "crawl"
    during = []

    def watch(running):
        async def look():
            while running.local_shards.counts.pages < 10:
                await asyncio.sleep(0.01)
            during.append(await asyncio.to_thread(search, path, "zzz"))
            running.stop()

        tasks.append(asyncio.ensure_future(look()))

    tasks = []
    with serve_process(web) as server:
        slow = settings_for(server, scope__kind="any", politeness__delay="1s", crawl__shards="2")
        assert crawl(path, server.seeds(), slow, watch).report.outcome == "interrupted"
        fast = settings_for(server, scope__kind="any", crawl__shards="2")
        assert len(crawl(path, server.seeds(), fast).pages) == 72
    assert during[0].returncode == 1
    assert " pages indexed\n" in during[0].stderr

    homes = asyncio.run(words_of(path))
    alone = {next(iter(urls)): word for word, urls in homes.items() if len(urls) == 1 and word.isalpha()}
    assert len(alone) > 20
    for url, word in list(alone.items())[:5]:
        found = search(path, word)
        assert found.returncode == 0, found.stderr
        assert [hit["url"] for hit in json.loads(found.stdout)["results"]] == [url]
    common, urls = max(homes.items(), key=lambda each: len(each[1]))
    answer = json.loads(search(path, common, "--limit", "100").stdout)
    assert {hit["url"] for hit in answer["results"]} == urls
    assert answer["total"] == len(urls)
