"""Settings of alerts: whom they are sent to, and from when on each rule speaks up (`reporting.rules`)."""

from typing import Annotated

from msgspec import Struct

from skitter.settings.units import Seconds


class AlertsSettings(Struct, frozen=True):
    """Messages when a crawl needs somebody, and when it no longer does. Thresholds of its rules."""

    webhook: Annotated[
        str, "URL that gets a POST with JSON when an alert begins and when it ends; nothing is sent if empty"
    ] = ""
    command: Annotated[
        tuple[str, ...],
        "program and arguments, run when an alert begins and when it ends, with the same JSON on its standard input",
    ] = ()
    secret_file: Annotated[
        str,
        "file with the secret that signs webhooks (HMAC-SHA256); or the variable SKITTER_ALERTS_SECRET; unsigned without",
    ] = ""
    allow_private: Annotated[tuple[str, ...], "private networks (CIDR) that webhooks may be sent to"] = ()
    rules: Annotated[tuple[str, ...], "names of the rules that are watched; all if empty"] = ()
    every: Annotated[Seconds, "time between two looks at the metrics"] = Seconds(15.0)
    queue_size: Annotated[int, "rule queue_large: more URLs waiting than this"] = 1_000_000
    error_share: Annotated[
        float, "rule error_rate: more than this part of the requests of ten minutes fail"
    ] = 0.05
    error_requests: Annotated[int, "rules error_rate and challenged: of at least this many requests"] = 100
    disk_share: Annotated[float, "rule disk_low: less than this part of the disk is free"] = 0.1
    disk_ahead: Annotated[Seconds, "rule disk_full_soon: the disk would be full within this time"] = Seconds(
        24 * 3600.0
    )
    stalled_after: Annotated[Seconds, "rule stalled: work waits, and no request has ended for this long"] = (
        Seconds(1800.0)
    )
    slow_rate: Annotated[float, "rule slow: fewer requests a second than this end, though hosts are free"] = (
        0.02
    )
    archive_age: Annotated[
        Seconds, "rule no_archive_record: pages come, and nothing was archived for this long"
    ] = Seconds(3600.0)
    lag_messages: Annotated[int, "rule lag: more forwarded messages of a topic wait than this"] = 100_000
    tls_failures: Annotated[int, "rule certificate_trouble: more TLS failures than this in half an hour"] = 20
    unheard_share: Annotated[
        float, "rule robots_trouble: more than this part of the robots.txt requests of half an hour fail"
    ] = 0.5
    challenge_share: Annotated[
        float, "rule challenged: more than this part of the answers of half an hour are challenges"
    ] = 0.1
    clock_skew: Annotated[Seconds, "rule clock_skew: clocks differ by more than this"] = Seconds(1.0)
    expected_pages: Annotated[
        int, "rule coverage: pages that the run before had; 0 if there is nothing to compare with"
    ] = 0
    coverage_share: Annotated[
        float, "rule coverage: the crawl ends with less than this part of `expected_pages`"
    ] = 0.8
