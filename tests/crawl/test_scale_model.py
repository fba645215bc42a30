"""The scale model: the real frontier keeps its promises over hours of virtual time, and the arithmetic is right.

The model checks the crawler with books of its own; some tests here check the books, by making the crawler rude.
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.scale import __main__ as scale
from benchmarks.scale import arithmetic, document, picture, simulation
from benchmarks.scale.arithmetic import GB, TB, Inputs
from benchmarks.scale.books import Books
from benchmarks.scale.population import Kind, Plan, Population

DOCS = Path(__file__).resolve().parents[2] / "docs"
HOURS = 4
FEW = Plan("few", "30,000 hosts", hosts=30_000, shrink=2500, days=HOURS / 24)
ENOUGH = Plan("enough", "500,000 hosts", hosts=500_000, shrink=2500, days=HOURS / 24)

# ------------------------------------------------------------------------------------------------ the simulation


def test_with_enough_hosts_the_machine_is_the_limit():
    result = scale.simulate(ENOUGH)
    assert scale.wrong(result) == []
    assert all(hour.rate == pytest.approx(ENOUGH.model_capacity, rel=0.02) for hour in result.hours[1:])
    assert result.hours[-1].ready > ENOUGH.model_capacity * 13  # more than are needed wait to be asked


def test_with_few_hosts_politeness_is_the_limit_and_the_rate_is_as_predicted():
    result = scale.simulate(FEW)
    assert scale.wrong(result) == []
    last = result.hours[-1]
    assert last.rate < FEW.model_capacity / 2
    assert last.rate == pytest.approx(last.predicted, rel=0.03)
    assert last.queue > 0
    assert last.ready < last.working


def test_the_model_catches_a_crawler_that_is_not_polite(monkeypatch):
    monkeypatch.setattr(simulation, "DELAY", 0.5)  # what the crawler is told; hosts are still owed a second
    result = scale.simulate(replace(FEW, days=1 / 24))
    assert result.too_soon > 0
    assert any("sooner" in what for what in scale.wrong(result))


def test_the_model_catches_a_crawler_that_does_not_obey_robots(monkeypatch):
    monkeypatch.setattr("skitter.robots.in_force.InForce.refusal", lambda _self, _url: None)
    result = scale.simulate(replace(FEW, days=1 / 24))
    assert any("robots.txt" in what for what in scale.wrong(result))


@pytest.mark.soak
@pytest.mark.parametrize("plan", scale.PLANS, ids=lambda plan: plan.name)
def test_a_week(plan):
    result = scale.simulate(replace(plan, shrink=scale.SMALL))
    print(f"\n{document.checked(result.as_json())}")
    assert scale.wrong(result) == []


# ------------------------------------------------------------------------------------------------ books, population


def of_kind(population: Population, kind: Kind) -> int:
    return list(population.kinds).index(kind)


@pytest.mark.parametrize(("kind", "owed"), [(Kind.PLAIN, 10), (Kind.SLOW, 100)])
def test_the_books_know_every_hosts_delay(kind, owed):
    population = Population(FEW)
    host = of_kind(population, kind)
    books = Books(population, 1.0, 0.0)
    books.asked(host, 5.0)
    books.answered(host, 7.0)
    books.asked(host, 7.0 + owed)
    assert books.too_soon == 0
    books.answered(host, 8.0 + owed)
    books.asked(host, 7.9 + 2 * owed)
    assert books.too_soon == 1


def test_books_know_of_requests_in_flight_and_of_retry_after():
    books = Books(Population(FEW), 1.0, 0.0)
    books.asked(0, 5.0)
    books.asked(0, 5.5)
    assert books.too_soon == 1
    books.answered(0, 6.0, asks_for=1200.0)
    books.asked(0, 1205.0)
    assert books.too_soon == 2


def test_the_books_predict_the_hosts_total_rate_up_to_the_capacity():
    population = Population(FEW)
    paces = [1 / population.cycle(host) for host in (0, 1)]
    books = Books(population, capacity=1.5 * paces[0], start=0.0)
    books.found(0, 0)
    books.pass_to(100.0)
    assert books.predicted == pytest.approx(100 * paces[0])
    books.found(1, 0)
    books.pass_to(200.0)
    assert books.predicted == pytest.approx(100 * paces[0] + 100 * min(sum(paces), 1.5 * paces[0]))
    books.leased(0, page=True)
    books.settled(0, None, aside=False)
    books.leased(1, page=True)
    books.settled(1, None, aside=False)
    before = books.predicted
    books.pass_to(300.0)
    assert books.predicted == before


def test_hosts_follow_a_power_law_and_reveal_all_their_pages():
    population = Population(ENOUGH)
    sizes = sorted(population.sizes, reverse=True)
    assert sum(sizes[: len(sizes) // 100]) > sum(sizes) / 3
    host = next(host for host, size in enumerate(population.sizes) if size < 500)
    found, waiting = {0}, [0]
    while waiting:
        links = {page for at, page in population.links(host, waiting.pop()) if at == host}
        waiting += links - found
        found |= links
    assert found == set(range(population.sizes[host]))


# ------------------------------------------------------------------------------------------------ arithmetic, document

ROUND = Inputs(
    label="round",
    page=20_000,
    archive=5_000,
    log=200,
    cpu=0.001,
    polite=0.001,
    state_page=1_000,
    state_url=100,
    state_host=500,
    memory_url=10,
    memory_host=5,
    memory_worker=100e6,
    cycle=1.25,
    response=0.25,
    fingerprint_bits=56,
)


def values(rows: tuple[arithmetic.Row, ...]) -> dict[str, float]:
    return {row.name: row.value(ROUND) / row.by for row in rows}


def test_the_arithmetic_by_hand():
    rate, urls, whole = values(arithmetic.RATE), values(arithmetic.URLS), values(arithmetic.BYTES)
    assert rate["hosts with work, at every moment"] == 1250
    assert rate["cores"] == pytest.approx(2)
    assert rate["bandwidth"] == pytest.approx(160)
    assert rate["archive and log per day"] == pytest.approx(86.4e6 * 5200 / TB)
    assert urls["disk, all waiting"] == pytest.approx(1 + 0.05)
    assert urls["memory"] == pytest.approx(100 + 0.5)
    assert urls["time to visit them"] == pytest.approx(115.74, rel=1e-4)
    assert urls["URLs mistaken for another"] == pytest.approx(1e20 / 128 / 2**57)
    assert whole["pages"] == pytest.approx(5)
    assert whole["CPU"] == pytest.approx(1e7 / 3600)
    assert values(arithmetic.MONEY)["CPU"] == pytest.approx(1e7 / 3600 * 0.04)
    limits = {name: (much, machines) for name, _, much, machines in arithmetic.machine_limits(ROUND)}
    assert limits["pages/s, by its cores"] == pytest.approx((5_600, 1 / 5.6))
    by_memory = (64 * GB * 0.7 - 16 * 100e6) / 10
    assert limits["billion waiting URLs, by its memory"] == pytest.approx((by_memory / 1e9, 1e10 / by_memory))


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(0, "", "0"), (1.2345, "ms", "1.23 ms"), (1310.4, "", "1,310"), (0.00123, "TB", "0.00123 TB"), (86.4, "$", "$86.4")],
)  # fmt: skip
def test_figures_are_written_with_three_digits(value, unit, text):
    assert arithmetic.written(value, unit) == text


def test_the_document_is_current():
    kept = json.loads((DOCS / "scale.json").read_text())
    bench = DOCS / "performance.json"
    whole = json.loads(bench.read_text()) if bench.exists() else None
    page = (DOCS / "scale.md").read_text()
    again = "run: python -m benchmarks.scale --render"
    assert document.rendered(page, kept, whole) == page, again
    assert picture.draw(kept["runs"]) == (DOCS / "scale.svg").read_text(), again
