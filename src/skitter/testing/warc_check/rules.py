"""What WARC/1.1 (ISO 28500:2017) requires of a record's named fields, as a table and a few small functions.

Pure: fields in, problems out. Only what the standard says with "shall" is required; recommendations are
ignored, and unknown fields and record types are accepted, as it asks (5.5, 6.1).
"""

import ipaddress
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple


class Complaint(NamedTuple):
    """A violated rule, by its short name, and how."""

    rule: str
    detail: str


Fields = Mapping[str, str]  # names lower-cased; WARC-Concurrent-To, which may repeat, is kept apart

KNOWN = frozenset(
    {"warcinfo", "response", "resource", "request", "metadata", "revisit", "conversion", "continuation"}
)

# Field -> the record types it may occur in (5.2 to 5.19). Unlisted fields may occur in all.
ALLOWED = {
    "warc-concurrent-to": KNOWN - {"warcinfo", "conversion", "continuation"},
    "warc-ip-address": frozenset({"response", "resource", "request", "metadata", "revisit"}),
    "warc-refers-to": frozenset({"metadata", "revisit", "conversion"}),
    "warc-refers-to-target-uri": frozenset({"revisit"}),
    "warc-refers-to-date": frozenset({"revisit"}),
    "warc-target-uri": KNOWN - {"warcinfo"},
    "warc-warcinfo-id": KNOWN - {"warcinfo"},
    "warc-filename": frozenset({"warcinfo"}),
    "warc-segment-origin-id": frozenset({"continuation"}),
    "warc-segment-total-length": frozenset({"continuation"}),
}
# Field -> the record types that must have it.
DEMANDED = {
    "warc-target-uri": KNOWN - {"warcinfo", "metadata"},
    "warc-profile": frozenset({"revisit"}),
    "warc-segment-number": frozenset({"continuation"}),
    "warc-segment-origin-id": frozenset({"continuation"}),
}
EVERYWHERE = ("warc-record-id", "warc-date", "warc-type", "content-length")
HTTP = frozenset({"response", "request", "revisit"})  # the types whose block may be an HTTP message
BRACKETED = ("warc-record-id", "warc-refers-to", "warc-warcinfo-id", "warc-segment-origin-id")
BARE = ("warc-target-uri", "warc-refers-to-target-uri", "warc-profile")
IDENTICAL = re.compile(r"http://netpreserve\.org/warc/1\.[01]/revisit/identical-payload-digest")

# RFC 3986: a scheme, then only allowed characters, with complete escapes.
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:(?:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2})+")
# W3CDTF as the standard narrows it (5.4): from the year to nine digits of a second, always UTC.
_DATE = re.compile(r"\d{4}(-\d\d(-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?Z)?)?)?")
_DATE_FORMATS = {4: "%Y", 7: "%Y-%m", 10: "%Y-%m-%d", 16: "%Y-%m-%dT%H:%M", 19: "%Y-%m-%dT%H:%M:%S"}
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_DIGEST = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[A-Za-z0-9+/=_\-]+")
_MEDIA_TYPE = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+/[!#$%&'*+\-.^_`|~0-9A-Za-z]+[ \t]*(;.*)?")


def complaints(version: str, fields: Fields, concurrent: Sequence[str]) -> Iterator[Complaint]:
    """All problems of a record's fields by themselves."""
    kind = fields.get("warc-type", "")
    for name in EVERYWHERE:
        if name not in fields:
            yield Complaint("mandatory-field", f"{name} is missing")
    present = {*fields, "warc-concurrent-to"} if concurrent else {*fields}
    if kind in KNOWN:
        for name, kinds in ALLOWED.items():
            if name in present and kind not in kinds:
                yield Complaint("field-not-allowed", f"{name} may not stand in a {kind} record")
        for name, kinds in DEMANDED.items():
            if name not in present and kind in kinds:
                yield Complaint("mandatory-field", f"{name} is missing from a {kind} record")
    yield from _uris(version, fields, concurrent)
    yield from _values(fields)
    if kind == "revisit":
        yield from _revisit(fields)


def _uris(version: str, fields: Fields, concurrent: Sequence[str]) -> Iterator[Complaint]:
    bracketed = [(name, fields[name]) for name in BRACKETED if name in fields]
    for name, value in [*bracketed, *(("warc-concurrent-to", value) for value in concurrent)]:
        if not (value.startswith("<") and value.endswith(">") and _URI.fullmatch(value[1:-1])):
            yield Complaint("uri", f"{name} is {value!r}, not a URI in angle brackets")
    for name in BARE:
        if name not in fields:
            continue
        value = fields[name]
        if version == "WARC/1.0":  # its grammar has angle brackets here, its examples do not
            value = value.removeprefix("<").removesuffix(">")
        if not _URI.fullmatch(value):
            yield Complaint("uri", f"{name} is {value!r}, not a URI (RFC 3986)")
    if fields.get("warc-record-id") in concurrent:
        yield Complaint("concurrent-to-self", "WARC-Concurrent-To names its own record")
    if len(set(concurrent)) < len(concurrent):
        yield Complaint("concurrent-to-twice", "WARC-Concurrent-To names a record more than once")


def _values(fields: Fields) -> Iterator[Complaint]:
    for name in ("warc-date", "warc-refers-to-date"):
        if name in fields and not is_date(fields[name]):
            yield Complaint(
                "date", f"{name} is {fields[name]!r}, not a UTC date such as 2026-01-02T03:04:05Z"
            )
    for name in ("warc-block-digest", "warc-payload-digest"):
        if name in fields and not _DIGEST.fullmatch(fields[name]):
            yield Complaint("digest-syntax", f"{name} is {fields[name]!r}, not algorithm:value")
    for name in ("warc-type", "warc-truncated"):
        if name in fields and not _TOKEN.fullmatch(fields[name]):
            yield Complaint("token", f"{name} is {fields[name]!r}, not one word")
    for name in ("content-type", "warc-identified-payload-type"):
        if name in fields and not _MEDIA_TYPE.fullmatch(fields[name]):
            yield Complaint("media-type", f"{name} is {fields[name]!r}, not a media type")
    for name in ("content-length", "warc-segment-number", "warc-segment-total-length"):
        if name in fields and length(fields[name]) is None:
            yield Complaint("number", f"{name} is {fields[name]!r}, not a number")
    if "warc-ip-address" in fields and not _is_address(fields["warc-ip-address"]):
        yield Complaint(
            "ip-address", f"WARC-IP-Address is {fields['warc-ip-address']!r}, not a numeric address"
        )
    yield from _message_type(fields)


def _message_type(fields: Fields) -> Iterator[Complaint]:
    kind, media_type = fields.get("warc-type"), fields.get("content-type", "").replace(" ", "").lower()
    wrong = {"response": "request", "request": "response", "revisit": "request"}.get(kind or "")
    if wrong and media_type.startswith("application/http") and f"msgtype={wrong}" in media_type:
        yield Complaint("message-type", f"a {kind} record cannot hold an HTTP {wrong}")


def _revisit(fields: Fields) -> Iterator[Complaint]:
    if IDENTICAL.fullmatch(fields.get("warc-profile", "")) and "warc-payload-digest" not in fields:
        yield Complaint("revisit", "an identical payload is claimed without its digest (6.7.2)")


def is_date(value: str) -> bool:
    """A date of the standard's form that exists."""
    if not _DATE.fullmatch(value):
        return False
    whole = value.partition(".")[0].removesuffix("Z")
    try:
        # Leap seconds exist, but datetime does not know them.
        datetime.strptime(whole.replace(":60", ":59"), _DATE_FORMATS[len(whole)])  # noqa: DTZ007  UTC by syntax
    except ValueError:
        return False
    return True


def length(value: str) -> int | None:
    """The number that a field of digits holds."""
    return int(value) if value.isascii() and value.isdigit() else None


def _is_address(value: str) -> bool:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return False
    return True
