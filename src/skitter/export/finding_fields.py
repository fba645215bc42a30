"""What is known about a URL, as fields for programs."""

import time
from typing import Any

from msgspec import to_builtins

from skitter.export.findings import Findings
from skitter.reporting.records import (
    explained_reason,
    host_record,
    page_record,
    robots_record,
    url_record,
    window_fields,
)


def as_fields(found: Findings) -> dict[str, Any]:
    """The findings as one JSON object; unknown values are null."""
    page = None
    if found.page is not None:
        page = page_record(found.page, "")
        del page["text"]
        named = found.canonical
        page["canonical_verdict"] = None if named is None else {"merged": named.merged, "why": named.why}
    line = found.robots_line
    robots = None
    if found.robots is not None:
        robots = robots_record(found.robots) | {
            "allowed": found.robots_allow,
            "line": None if line is None else {"number": line.number, "text": line.text},
        }
    record, host = found.record, found.host_record
    return {
        "url": found.url,
        "key": found.key,
        "host": found.host,
        "known": found.known,
        "record": None if record is None else url_record(record) | {
            "reason": explained_reason(record.reason),
            "attempts": record.attempts,
            "crashes": record.crashes,
        },
        "found_on": [parent.url for parent in found.chain] or ([record.parent] if record and record.parent else []),
        "as_page": None if found.as_page is None else url_record(found.as_page),
        "as_asset": None if found.as_asset is None else url_record(found.as_asset),
        "scope": explained_reason(found.scope),
        "overlays": {
            dotted: {"value": overlay.site.values[dotted], "site": overlay.number, "match": overlay.site.match}
            for dotted, overlay in found.overlays.items()
        },
        "carries": found.carries,
        "unscored": found.unscored,
        "budgets": [to_builtins(each) for each in found.budgets],
        "keys": [to_builtins(key) | {"rate": key.rate} for key in found.keys],
        "pressed": found.pressed or None,
        "score": [{"points": number, "for": what} for number, what in found.terms],
        "requests": None if found.requests is None else [to_builtins(each) for each in found.requests],
        "page": page,
        "robots": robots,
        "windows_never_meet": explained_reason(found.never),
        "windows": [{"of": who} | window_fields(each, time.time()) for who, each in found.hours],
        "host_record": None if host is None else host_record(host) | {"set_aside": explained_reason(host.aside)},
    }  # fmt: skip
