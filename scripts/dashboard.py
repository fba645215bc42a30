"""The Grafana dashboard in deploy/grafana. `scripts/reference.py` writes it; a test asks a real Prometheus every query."""

import json
from typing import Any

RATE = "[$__rate_interval]"
ROWS: dict[str, list[tuple[str, str, dict[str, str]]]] = {
    "Crawl": [
        ("Pages a second", "ops", {"{{instance}}": f"rate(skitter_crawl_pages_total{RATE})"}),
        (
            "URLs by state",
            "short",
            {
                "waiting": "sum(skitter_crawl_queued)",
                "in flight": "sum(skitter_crawl_leased)",
                "answered": "sum(skitter_crawl_crawled)",
                "given up": "sum(skitter_crawl_failed)",
            },
        ),
        ("Queue by level", "short", {"{{level}}": "sum by (level) (skitter_crawl_levels)"}),
        ("Pages by depth", "short", {"{{depth}}": "sum by (depth) (skitter_crawl_depths_total)"}),
        (
            "Duplicates",
            "percentunit",
            {"of all pages": "sum(skitter_crawl_duplicates_total) / sum(skitter_crawl_pages_total)"},
        ),
        (
            "Time in the queue",
            "s",
            {
                "median": f"histogram_quantile(0.5, sum by (le) (rate(skitter_queue_wait_seconds_bucket{RATE})))",
                "95 %": f"histogram_quantile(0.95, sum by (le) (rate(skitter_queue_wait_seconds_bucket{RATE})))",
            },
        ),
    ],
    "Requests": [
        (
            "Answers a second",
            "reqps",
            {"{{class}}": f"sum by (class) (rate(skitter_requests_answers_total{RATE}))"},
        ),
        (
            "Failures a second",
            "reqps",
            {"{{reason}}": f"sum by (reason) (rate(skitter_requests_failures_total{RATE}))"},
        ),
        (
            "Time of a request",
            "s",
            {
                "median": f"histogram_quantile(0.5, sum by (le) (rate(skitter_requests_seconds_bucket{RATE})))",
                "95 %": f"histogram_quantile(0.95, sum by (le) (rate(skitter_requests_seconds_bucket{RATE})))",
            },
        ),
        ("Received", "Bps", {"{{instance}}": f"rate(skitter_requests_bytes_sum{RATE})"}),
        ("URLs refused", "short", {"{{reason}}": "sum by (reason) (skitter_crawl_refused)"}),
        (
            "Challenges a second",
            "reqps",
            {"{{vendor}}": f"sum by (vendor) (rate(skitter_challenge_pages_total{RATE}))"},
        ),
    ],
    "Politeness": [
        ("Hosts", "short", {"{{state}}": "sum by (state) (skitter_hosts)"}),
        ("Congestion", "short", {"{{instance}}": "skitter_congestion_ratio"}),
        (
            "Time that hosts are left alone",
            "s",
            {
                "median": f"histogram_quantile(0.5, sum by (le) (rate(skitter_politeness_wait_seconds_bucket{RATE})))"
            },
        ),
        ("Requests sent too soon", "short", {"must be 0": "sum(skitter_politeness_violations_total)"}),
        (
            "robots.txt",
            "reqps",
            {
                "visits denied": f"sum(rate(skitter_robots_denied_total{RATE}))",
                "fetched": f"sum(rate(skitter_robots_fetched_total{RATE}))",
                "failed": f"sum(rate(skitter_robots_failed_total{RATE}))",
            },
        ),
    ],
    "Caches": [
        (
            "Hits",
            "percentunit",
            {
                name: f"sum(rate(skitter_{group}_hits_total{RATE})) / (sum(rate(skitter_{group}_hits_total{RATE})) + sum(rate(skitter_{group}_misses_total{RATE})))"
                for name, group in (("DNS", "dns"), ("robots.txt", "rules"), ("links", "links"))
            },
        ),
        ("Set of URLs seen", "percentunit", {"in use": "max(skitter_seen_fill)"}),
        ("Its false positives", "percentunit", {"expected": "max(skitter_seen_false_positive_rate)"}),
    ],
    "Machines": [
        (
            "Processor",
            "percentunit",
            {"{{instance}} {{worker}}": f"rate(skitter_worker_cpu_seconds_total{RATE})"},
        ),
        ("Memory", "bytes", {"{{instance}} {{worker}}": "skitter_worker_resident_bytes"}),
        ("Workers up", "short", {"{{instance}}": "sum by (instance) (skitter_worker_up)"}),
        ("Disk", "bytes", {"free on {{instance}}": "skitter_disk_free_bytes"}),
        (
            "Since the last record in the archive",
            "s",
            {"{{instance}}": "time() - skitter_archive_last_write_timestamp_seconds > 0"},
        ),
        ("Clock", "s", {"{{instance}}": "skitter_clock_offset_seconds"}),
        ("Engines (0: works, 2: away)", "short", {"{{engine}}": "max by (engine) (skitter_engine_phase)"}),
        ("Messages that wait", "short", {"{{topic}}": "max by (topic) (skitter_lag_messages)"}),
        (
            "Alerts",
            "short",
            {"{{alertname}}": 'sum by (alertname) (ALERTS{alertname=~"Skitter.*",alertstate="firing"})'},
        ),
    ],
}
ONLY_IN_CLUSTERS = ("skitter_engine_phase", "skitter_lag_messages")
_SOURCE = {"type": "prometheus", "uid": "${source}"}
_WIDE, _HIGH, _ACROSS = 8, 7, 3


def dashboard() -> str:
    """The JSON that Grafana imports."""
    panels: list[dict[str, Any]] = []
    y = 0
    for title, charts in ROWS.items():
        panels.append(
            {"type": "row", "title": title, "gridPos": {"h": 1, "w": 24, "x": 0, "y": y}, "panels": []}
        )
        y += 1
        for number, chart in enumerate(charts):
            x, down = number % _ACROSS * _WIDE, number // _ACROSS * _HIGH
            panels.append(_chart(*chart) | {"gridPos": {"h": _HIGH, "w": _WIDE, "x": x, "y": y + down}})
        y += -(-len(charts) // _ACROSS) * _HIGH
    made = {
        "title": "Skitter",
        "uid": "skitter",
        "tags": ["skitter"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {
            "list": [{"name": "source", "label": "Data source", "type": "datasource", "query": "prometheus"}]
        },
        "panels": [{"id": number, **panel} for number, panel in enumerate(panels, start=1)],
    }
    return json.dumps(made, indent=2) + "\n"


def _chart(title: str, unit: str, queries: dict[str, str]) -> dict[str, Any]:
    return {
        "type": "timeseries",
        "title": title,
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": {"unit": unit, "min": None if title == "Clock" else 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + number), "datasource": _SOURCE, "expr": query, "legendFormat": legend}
            for number, (legend, query) in enumerate(queries.items())
        ],
    }
