"""Which pages match the filters that somebody has named."""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

from skitter.model import Page


def matches(
    page: Page,
    statuses: Sequence[str],
    host: str | None,
    contains: str | None,
    *,
    types: Sequence[str] = (),
    duplicates: bool,
    purpose: str | None = None,
) -> bool:
    """Whether a page matches all filters."""
    if purpose is not None and page.purpose != purpose:
        return False
    if statuses and not has_status(page.status, statuses):
        return False
    if host is not None and not fnmatchcase(page.host, host.lower()):
        return False
    if types and not any(is_type(page.content_type, each) for each in types):
        return False
    if duplicates and not page.duplicate_of:
        return False
    text = contains and contains.casefold()
    return not text or text in page.title.casefold() or text in page.url.casefold()


def is_type(content_type: str, wanted: str) -> bool:
    """Whether a media type matches: text/html, text/*, or a word of it such as pdf or xml."""
    kind, wanted = content_type.partition(";")[0].strip().lower(), wanted.lower()
    if "/" in wanted:
        return fnmatchcase(kind, wanted)
    return wanted in re.split(r"[/+.-]", kind) or fnmatchcase(kind, f"*/*{wanted}*")


def has_status(status: int, statuses: Sequence[str]) -> bool:
    """Whether a status is one of these, or of one of these classes."""
    return bool({str(status), f"{status // 100}xx"} & set(statuses))
