"""Parameters that change nothing, in whole crawls: fewer requests, no page less, and `why` says which rule."""

import asyncio
import json
import subprocess
import sys

import pytest

from skitter.compose import open_reader
from skitter.schedule.learning.parameters import NEEDLESS
from skitter.testing.learnable import serving
from skitter.testing.web.graph import Answer, Resource
from skitter.testing.web.pages import reply
from skitter.testing.web.server import Served
from skitter.testing.web.words import dice, paragraphs
from tests.crawl.harness import crawl, crawl_with, settings_for

PAGES = 60


class Shop:
    """Pages that are linked plainly, and from every other page with the visitor's number. `ignored` says which
    parameters change nothing; the footer changes with every URL if `noise`.
    """

    domain = "shop.test"

    def __init__(self, *, ignored=("visitor",), noise=False):
        self.ignored, self.noise = ignored, noise

    def seeds(self, port):
        return [f"http://www.shop.test:{port}/"]

    def look_up(self, host, target, port):
        path, _, query = target.partition("?")
        shown = "&".join(pair for pair in query.split("&") if pair.partition("=")[0] not in self.ignored)
        if path == "/robots.txt":
            return Served(target, (reply(Resource(target), Answer(status=404, body=b""), str, port),))
        number = int(path.removeprefix("/item/") or 0) if path.startswith("/item/") else -1
        text = " ".join(paragraphs(dice(path, shown), 300))
        hrefs = [f"/item/{n}" for n in range(PAGES)] if number < 0 else []
        hrefs += [
            f"/item/{(number + step) % PAGES}?visitor={abs(number):04x}{step:08x}" for step in (1, 2, 3)
        ]
        links = "".join(f'<a href="{href}">item</a>' for href in hrefs)
        footer = f"<p>{sum(target.encode()) * 7919 % 10**6}</p>" if self.noise else ""
        body = f"<html><title>Item</title><p>{text}</p>{links}{footer}</html>".encode()
        return Served(f"{path}?{shown}", (reply(Resource(target), Answer(body=body), str, port),))


def crawled(tmp_path, web, workers=1, **settings):
    with serving(web) as server:
        wanted = settings_for(
            None,
            fetch__nameservers=(server.nameserver,),
            scope__kind="domain",
            **{"learning__patterns": False, "learning__parameters": True, **settings},
        )
        if workers == 1:
            result = crawl(tmp_path / "crawl", server.seeds, wanted)
        else:
            result = crawl_with(workers, tmp_path / "crawl", server.seeds, wanted)
        pages = [request.page for request in server.log() if request.page != "/robots.txt"]
    return result, pages


def learned(tmp_path):
    async def read():
        reader = open_reader(tmp_path / "crawl")
        try:
            return {row.name: row async for row in reader.frontier.all_learned()}
        finally:
            await reader.close()

    return asyncio.run(read())


@pytest.mark.parametrize("workers", [1, 2])
def test_what_repeats_a_page_is_not_requested_and_no_page_is_lost(tmp_path, workers):
    off, every = crawled(tmp_path / "off", Shop(), learning__parameters=False)
    on, pages = crawled(tmp_path / "on", Shop(), workers)
    assert set(pages) == set(every)
    assert len(set(pages)) == PAGES + 1
    assert len(every) == PAGES + 1 + 3 * (PAGES + 1)
    assert len(pages) < 0.5 * len(every)
    parameter = learned(tmp_path / "on")["www.shop.test"].parameters["visitor"]
    assert parameter.state == NEEDLESS
    assert on.report.exit_code == off.report.exit_code == 0
    repeated = on.report.counts.refused["repeat.parameter"]
    assert repeated == len(every) - len(pages)


def test_why_names_the_rule_and_its_counts(tmp_path):
    result, _ = crawled(tmp_path, Shop())
    url = next(
        record.url
        for record in result.records.values()
        if record.reason and record.reason.code == "repeat.parameter"
    )
    command = [sys.executable, "-m", "skitter", "why", str(tmp_path / "crawl"), url]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "the parameter visitor changes nothing here: 20 of 20 groups" in told
    assert f"without that it is {url.partition('?')[0]}" in told
    as_json = json.loads(subprocess.run([*command, "--json"], capture_output=True, check=True).stdout)
    assert as_json["record"]["reason"]["code"] == "repeat.parameter"


def test_patterns_shows_what_was_learned_of_parameters(tmp_path):
    crawled(tmp_path, Shop())
    command = [sys.executable, "-m", "skitter", "patterns", str(tmp_path / "crawl"), "www.shop.test"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "the parameter visitor changes nothing here: 20 of 20 groups" in told
    lines = subprocess.run(
        [*command, "--json"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    (parameter,) = [each for each in map(json.loads, lines) if "parameter" in each]
    assert (parameter["parameter"], parameter["needless"], parameter["groups"]) == ("visitor", True, 20)
    assert parameter["values"] is None  # it holds for any


def test_a_parameter_that_matters_costs_no_page(tmp_path):
    _, pages = crawled(tmp_path, Shop(ignored=()))
    assert len(pages) == len(set(pages)) == PAGES + 1 + 3 * (PAGES + 1)


def test_a_path_that_a_site_keeps_is_fetched_whatever_was_learned(tmp_path):
    _, pages = crawled(tmp_path, Shop(), learning__keep=("/item/*",))
    assert len(pages) == PAGES + 1 + 3 * (PAGES + 1)


def test_a_counter_on_every_page_does_not_hide_it(tmp_path):
    _, pages = crawled(tmp_path, Shop(noise=True))
    assert len(set(pages)) == PAGES + 1
    assert len(pages) < 0.8 * (PAGES + 1 + 3 * (PAGES + 1))
