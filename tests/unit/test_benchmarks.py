"""The harness of `make bench`: its counts, comparisons and tables are correct."""

import json
import shutil
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from benchmarks import blocks, crawls, keep, manuals, picture, show, targets
from benchmarks.crawlers import CRAWLERS
from benchmarks.same import Record, in_common
from benchmarks.spending import spend
from benchmarks.webs import BROAD, DOCS, serving

BURN = "import time\nwhile time.process_time() < {}: pass"


def row(name, cpu, pages_per_second=100.0):
    return {
        "name": name, "label": f"The <{name}>", "pages": 9, "of": 10, "pages_per_second": pages_per_second, "cpu": cpu,
        "cpu_least": cpu * 0.9, "cpu_most": cpu * 1.2, "peak_mb": 50.0, "server_share": 0.1, "requests": 12,
        "connections": 3, "forbidden": 0, "same": None, "runs": [],
    }  # fmt: skip


@pytest.fixture
def results():
    rows = [row("skitter", 0.5, 900.0), row("scrapy", 3.0), row("wget", 0.4)]
    return {
        "measured": "2030-01-01", "rounds": 3, "machine": {"processor": "abacus", "cores": "2", "memory": "1 GB", "system": "none"},
        "versions": {"skitter": "9"}, "crawls": {"site": rows, "broad": rows}, "wide": None,
        "blocks": [{"name": "url", "now": 14.0, "calibration": 1.0, "baseline": 10.0, "ratio": 1.4}],
        "targets": [vars(each) for each in targets.compared({"site": rows, "broad": rows})],
    }  # fmt: skip


# ------------------------------------------------------------------------------------------------ spending


def test_the_cpu_of_a_commands_children_is_counted():
    child = [sys.executable, "-c", BURN.format(0.2)]
    parent = f"import subprocess; subprocess.run({child!r})"
    assert spend([sys.executable, "-c", parent]).cpu >= 0.2


def test_the_memory_of_all_processes_is_added_up():
    hold = "import time; held = b'x' * 50_000_000; time.sleep(0.7)"
    both = f"import subprocess, sys; other = subprocess.Popen([sys.executable, '-c', {hold!r}]); {hold}; other.wait()"
    assert 100 <= spend([sys.executable, "-c", both]).peak_mb < 200


def test_a_failing_command_ends_the_measurement_with_its_output():
    with pytest.raises(SystemExit, match="out of ink"):
        spend([sys.executable, "-c", "import sys; sys.exit('out of ink')"])


# ------------------------------------------------------------------------------------------------ crawls


@pytest.mark.parametrize("name", ["skitter", "skitter-exact", "skitter-2", "wget", "floor"])
def test_a_run_counts_every_page_that_was_stored_and_every_request(name):
    crawler = next(crawler for crawler in CRAWLERS if crawler.name == name)
    if crawler.missing():
        pytest.skip(crawler.missing())
    with serving(replace(BROAD, hosts=3, pages_per_host=4, robots="disallow", latency=0.0)) as served:
        crawls.crawl(CRAWLERS[-1], served)  # what came before is not counted
        run = crawls.crawl(crawler, served)
    assert len(served.pages) == 3 * (4 + 6)  # each host's own, those its robots.txt is about, and their hub
    # wget knows neither wildcards nor which rule wins, so it misses a page and fetches others that it must not.
    assert run.pages == len(served.pages) - (3 if name == "wget" else 0)
    assert run.forbidden == (6 if name == "wget" else 0)
    assert run.requests == run.pages + run.forbidden + (0 if name == "floor" else 3)
    assert run.cpu > 0


def test_missing_pages_does_not_make_a_crawler_cheaper():
    crawler = CRAWLERS[0]
    whole = crawls.Run(1000, 2.0, 1.0, 50, 0.1, 1001, 1, 0)
    half = replace(whole, pages=500)
    assert crawls.summed_up(crawler, 1000, [whole]).cpu == 1.0
    summary = crawls.summed_up(crawler, 1000, [half, half, whole])
    assert (summary.cpu, summary.cpu_least, summary.cpu_most) == (2.0, 1.0, 2.0)
    assert (summary.pages, summary.pages_per_second) == (500, 250.0)


def test_only_pages_that_were_read_alike_agree():
    ours = {url: Record("T", "some text", frozenset({"/a"})) for url in ("/1", "/2", "/3", "/4")}
    theirs = dict(ours) | {
        "/2": Record("t", "some text", frozenset({"/a"})),
        "/3": Record("T", "some text", frozenset()),
    }
    del theirs["/4"]
    assert in_common(ours, theirs) == 1


# ------------------------------------------------------------------------------------------------ comparisons


def test_a_target_is_a_ratio_of_two_lines_of_one_web():
    rows = [row("skitter", 0.5, 900.0), row("scrapy", 3.0), row("wget", 0.6), row("skitter-2", 0.6, 1350.0)]
    reached = {(each.web, each.what): each for each in targets.compared({"broad": rows, "fleet": rows})}
    assert {web for web, _ in reached} == {"broad", "fleet"}
    assert reached["broad", "CPU per page, Skitter to Scrapy"].met
    assert reached["broad", "… to wget"].met
    assert not reached["fleet", "CPU per page, two workers to one"].met  # 1.2
    assert not reached["fleet", "pages/s, two workers to one"].met  # 1.5


@pytest.mark.parametrize(
    ("now", "calibration", "ratio"),
    [(10.0, 100.0, 1.0), (20.0, 200.0, 1.0), (20.0, 100.0, 2.0), (10.0, 200.0, 0.5)],
)
def test_a_slower_block_is_a_regression_but_a_slower_machine_is_not(now, calibration, ratio):
    stored = {"calibration": 100.0, "blocks": {"url": 10.0}}
    assert blocks.compared("url", now, calibration, stored).ratio == ratio


def test_a_new_block_has_nothing_to_be_compared_with():
    assert blocks.compared("new", 1.0, 1.0, {"calibration": 1.0, "blocks": {}}).ratio is None


def test_every_block_has_a_baseline():
    assert json.loads(blocks.BASELINE.read_text())["blocks"].keys() == blocks.BLOCKS.keys()


# ------------------------------------------------------------------------------------------------ what is shown


def test_the_tables_show_met_targets_and_slower_blocks(results):
    text = {caption: show.as_text(table) for caption, table in show.tables(results)}
    assert [line.split()[-1] for line in text["Ratios and targets"].splitlines()[1:]] == ["met", "met", "met"]
    assert next(text for caption, text in text.items() if "Blocks" in caption).endswith("1.40  slower")


def test_the_picture_has_a_bar_for_every_crawler_of_every_web(results):
    drawn = ET.fromstring(picture.draw(results["crawls"]))
    said = " ".join(drawn.itertext())
    assert said.count("The <scrapy>") == 2
    bars = [float(bar.get("width")) for bar in drawn.findall(".//{*}rect")][1:]
    assert bars[1] == pytest.approx(bars[0] * 6, abs=0.5)  # 3.0 and 0.5


def test_new_figures_take_the_place_of_the_old_ones(results):
    page = f"before\n{keep.BEGIN}\nold\n{keep.END}\nafter\n"
    once = keep.with_figures(page, results)
    assert once.startswith("before\n")
    assert once.endswith("\nafter\n")
    assert "old" not in once
    assert "| The <skitter> | 900 | 0.50 |" in once
    assert keep.with_figures(once, results) == once


def test_the_figures_in_the_documentation_are_those_of_its_json_file():
    kept = json.loads((keep.DOCS / "performance.json").read_text())
    page = (keep.DOCS / "performance.md").read_text()
    assert keep.with_figures(page, kept) == page
    assert (keep.DOCS / "performance.svg").read_text() == picture.draw(show.drawn(kept))


# ------------------------------------------------------------------------------------------------ real documentation


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """A small package of documentation: five pages that can be reached, and more files."""
    root = tmp_path / "python3-doc" / "html"
    (root / "sub").mkdir(parents=True)
    pages = {
        "index.html": '<a href="a.html#x">a</a> <a href="sub/b%20c.html">b</a> <a href="picture.png">p</a> <a href="gone.html">-</a>',
        "a.html": "<A class=x HREF='./index.html'>i</A> <a href='https://elsewhere.test/e.html'>e</a>",
        "sub/b c.html": '<a href="../../../d.html">up</a> <!-- <a href="/hidden.html">h</a> --> <a href="/sub/e.html">e</a>',
        "d.html": "<p>d",
        "sub/e.html": "<p>e",
        "hidden.html": "<p>h",
        "picture.png": "",
    }
    for name, text in pages.items():
        (root / name).write_text(text)
    monkeypatch.setattr(manuals, "SHELF", tmp_path)
    return root


def test_the_pages_of_documentation_are_those_that_can_be_reached(shelf):
    assert manuals.pages(shelf) == {"index.html", "a.html", "sub/b%20c.html", "d.html", "sub/e.html"}


@pytest.mark.parametrize("name", ["skitter", "wget", "scrapy"])
def test_every_crawler_stores_every_page_of_documentation(name, shelf):
    crawler = next(crawler for crawler in CRAWLERS if crawler.name == name)
    web = DOCS[0]
    if why := crawler.missing() or web.missing():
        pytest.skip(why)
    with serving(web) as served:
        run = crawls.crawl(crawler, served)
    assert (run.pages, len(served.pages)) == (5, 5)
    assert run.requests == 5 + 2  # robots.txt, and the link that leads nowhere


def test_missing_documentation_is_skipped_with_a_message(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(manuals, "SHELF", tmp_path)
    assert crawls.measure(DOCS[2], 1, []) == []
    assert "docs-java: not measured; it needs apt-get install openjdk-17-doc" in capsys.readouterr().err


def test_figures_that_were_not_measured_again_stay(results):
    real = {"crawls": {"docs-python": []}, "targets": [], "rounds": 3}
    nothing = {"crawls": {}, "wide": None, "blocks": [], "docs": {"crawls": {}, "targets": []}}
    kept = results | {"docs": real}
    assert keep.merged(results, nothing | {"docs": real}) == kept
    assert keep.merged(kept, results | {"docs": nothing["docs"]}) == kept
    assert keep.merged(kept, nothing) == kept
    more = {"crawls": {"docs-java": []}, "targets": [], "rounds": 1}
    both = {"crawls": {"docs-python": [], "docs-java": []}, "targets": [], "rounds": 3}
    assert keep.merged(kept, nothing | {"docs": more}) == results | {"docs": both}


def test_wget_is_optional(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    wget = next(crawler for crawler in CRAWLERS if crawler.name == "wget")
    assert wget.missing() == "wget is not installed"
