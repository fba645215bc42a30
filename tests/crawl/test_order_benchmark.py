"""The order of visits on a web whose PageRank is known: the short form of `python -m benchmarks.order`."""

import random

import pytest
from benchmarks.linked_web import DAMPING, LinkedWeb, make, pagerank
from benchmarks.order import best, crawled, held, highest

from tests.crawl.virtual import MEMORY

PAGES, HOSTS = 1_500, 25


@pytest.fixture(scope="module")
def web():
    return make(PAGES, HOSTS, seeds=HOSTS // 4, dice=random.Random(1))


@pytest.fixture(scope="module")
def crawls(web, tmp_path_factory):
    path = tmp_path_factory.mktemp("order")
    return {name: crawled(web, name, path, store=MEMORY) for name in ("bfs", "opic", "larger-sites")}


def test_every_strategy_fetches_every_page_once(crawls):
    assert all(sorted(done.pages) == list(range(PAGES)) for done in crawls.values())


def test_the_first_tenth_by_opic_holds_half_as_much_again_as_breadth_first(web, crawls):
    first = {name: held(web, done).first for name, done in crawls.items()}
    assert 1.5 * first["bfs"] <= first["opic"] <= best(web)


def test_the_bound_is_never_above_the_truth(web, crawls):
    done = crawls["opic"]
    assert len(done.bounds) > PAGES / 10
    assert 0 < highest(done.bounds, held(web, done)) <= 1
    shares = [share for _, share in done.bounds]
    assert shares == sorted(shares)
    assert not crawls["bfs"].bounds


def test_pagerank_is_what_it_is_for_a_ring_and_a_star():
    ring = LinkedWeb(["a", "b", "c"], [[1], [2], [0]], [0])
    assert pagerank(ring).tolist() == pytest.approx([1 / 3] * 3)
    star = LinkedWeb(["a", "b", "c"], [[], [0], [0]], [0])
    top = pagerank(star)
    assert top.sum() == pytest.approx(1)
    assert top[0] / top[1] == pytest.approx(1 + 2 * DAMPING)
    assert pagerank(star, [1])[2] == 0
