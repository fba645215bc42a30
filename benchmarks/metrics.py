"""What metrics cost: a finished visit, a look at a crawl, one scrape, and one look at the alert rules, in CPU time.

    python benchmarks/metrics.py

The cost of a crawl's page is that of docs/performance.md; a crawl makes at most two looks and texts a second (see
`control.exposing`), and one look at the rules every 15 seconds.
"""

import time
from collections.abc import Callable

from skitter.model import Counts, Exchange, Link, Settlement, State, Verdict, Visit
from skitter.reporting.alerting.history import Numbers
from skitter.reporting.alerting.rules import metrics_of, table
from skitter.reporting.alerting.standing import Alerts
from skitter.reporting.exposition import text
from skitter.reporting.measuring import Measuring
from skitter.reporting.observation import Observation, WorkerSeen
from skitter.runtime.metrics import Metrics, added_up
from skitter.settings.alerts import AlertsSettings


def cpu(work: Callable[[], object], times: int) -> float:
    """Microseconds of CPU, the least of seven rounds."""
    best = float("inf")
    for _ in range(7):
        before = time.process_time()
        for _ in range(times):
            work()
        best = min(best, time.process_time() - before)
    return best / times * 1e6


def main() -> None:
    measuring = Measuring()
    head = b"HTTP/1.1 200 OK\r\n" + b"".join(b"x-header-%d: some value\r\n" % n for n in range(12)) + b"\r\n"
    exchange = Exchange("http://h.test/", "192.0.2.1", 100.0, 100.2, b"", head, b"<html>" * 3000)
    link = Link(url="http://h.test/", key="http://h.test/", host="h.test")
    settlement = Settlement(
        visit=Visit(link, 1, 100.0),
        verdict=Verdict(state=State.CRAWLED, host_free=90.0),
        exchange=exchange,
        status=200,
    )
    print(
        f"a finished visit            {cpu(lambda: measuring.visited(settlement, exchange.body, 1.0), 20_000):8.2f} µs"
    )
    parts = [Metrics() for _ in range(5)]
    print(f"adding up five parts        {cpu(lambda: added_up(parts), 500):8.2f} µs")
    seen = Observation(
        at=1.0, counts=Counts(), metrics=Metrics(), workers=[WorkerSeen(str(n), up=True) for n in range(4)]
    )
    print(f"the text of one scrape      {cpu(lambda: text({'': seen}), 200):8.2f} µs")
    print(f"the same as OpenMetrics     {cpu(lambda: text({'': seen}, openmetrics=True), 200):8.2f} µs")
    rules = table(AlertsSettings())
    numbers, alerts, clock = Numbers(metrics_of(rules)), Alerts(rules), iter(range(1, 10**9))

    def look() -> None:
        numbers.note(
            Observation(at=15.0 * next(clock), counts=Counts(), metrics=seen.metrics, workers=seen.workers)
        )
        alerts.look(numbers)

    print(f"one look at the alert rules {cpu(look, 300):8.2f} µs")


if __name__ == "__main__":
    main()
