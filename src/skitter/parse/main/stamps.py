"""What changes on a page at every visit, and says nothing: dates of updates and counts of visitors, in short lines of its text."""

import re

from xxhash import xxh3_64_digest

from skitter.model import Document

_STAMP_WORDS = 14  # a stamp is a short line
_MONTH = r"(?:jan|feb|m[aä]r|apr|ma[iy]|jun|jul|aug|sep|o[ck]t|nov|de[cz])[a-zäé]*\.?"
_DATE = re.compile(
    rf"\d{{4}}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?)?|\d{{1,2}}[./-]\d{{1,2}}[./-]\d{{2,4}}"
    rf"|\d{{1,2}}(?:st|nd|rd|th|\.)? {_MONTH},? \d{{4}}|{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?,? \d{{4}}"
    r"|\d{1,2}:\d\d(?::\d\d)?(?: ?[ap]\.?m\b\.?)?",
    re.IGNORECASE,
)
_AGO = re.compile(
    r"\b(?:an?|one|\d{1,4}) (?:second|sec|minute|min|hour|hr|day|week|month|year)s? ago\b|\bjust now\b|\byesterday\b",
    re.IGNORECASE,
)
_STAMPED = re.compile(
    r"\b(?:updated?|modified|changed|published|posted|created|generated|rendered|built|printed|retrieved|accessed|checked|"
    r"reviewed|fetched|copyright|as of|today|date|time|on|at|stand|aktualisiert|zuletzt)\b|©",
    re.IGNORECASE,
)
_COUNTED = re.compile(
    r"\b(?:views?|visits?|visitors?|hits|reads?|readers?|comments?|replies|likes?|shares?|votes?|points|downloads?|"
    r"followers?|subscribers?|members?|users?|guests?|online|stars|forks|watching|requests?|seconds|ms|besucher|aufrufe)\b",
    re.IGNORECASE,
)
MASK = "\x1a"  # SUBSTITUTE, which occurs in no text that we extract
_NUMBER = re.compile(r"\d[\d.,'\u00a0 ]*[kKmM]?")


def masked(text: str) -> str:
    """A text in which what changes every time is masked, to recognise it by."""
    return "\n".join(line for each in text.split("\n") if (line := masked_line(" ".join(each.split()))))


def masked_line(line: str) -> str:
    """The same of one line, with single spaces."""
    if len(line) > 400 or line.count(" ") >= _STAMP_WORDS:
        return _AGO.sub(MASK, line)
    line = _AGO.sub(MASK, line)
    if not any(map(str.isdigit, line)):
        return line
    dated = _DATE.sub(MASK, line)
    if dated != line and (_STAMPED.search(line) or not any(map(str.isalnum, dated))):
        line = dated
    return _NUMBER.sub(MASK, line) if _COUNTED.search(line) else line


def gist(document: Document) -> bytes:
    """A digest of what a document says, without boilerplate and stamps, to recognise it by; empty if it says nothing."""
    text = masked(document.content.main if document.content else document.text)
    return xxh3_64_digest(text.encode("utf-8", "surrogatepass")) if text else b""
