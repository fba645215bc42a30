"""Main content beside other extractors: F1 and time on 91 article pages. `python -m benchmarks.extraction`

The pages and the text that belongs to them are not part of this repository (see tests/conformance/cases.py). The score is the
one that was published with them: shingles of four words, per page, normalised; F1 of mean precision and mean recall. Other
extractors are measured if they are installed: pip install trafilatura readability-lxml resiliparse turbohtml.
"""

import gzip
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from skitter.model import Content
from skitter.parse import parse
from skitter.settings import ParseSettings

_TOKEN = re.compile(r"\w+")
_HTML = [("content-type", "text/html; charset=utf-8")]
Extractor = Callable[[str, str], str]  # from HTML and URL to text


@dataclass(frozen=True)
class Case:
    """A page, and the text that belongs to it."""

    url: str
    html: str
    text: str


@dataclass(frozen=True)
class Score:
    """How near the texts are, and how long one takes."""

    f1: float
    precision: float
    recall: float
    milliseconds: float


def cases(folder: Path) -> Iterator[Case]:
    """The pages, in the order of the file that describes them."""
    truth = json.loads((folder / "ground-truth.json").read_text())
    for key, said in truth.items():
        html = gzip.decompress((folder / "html" / f"{key}.html.gz").read_bytes()).decode("utf-8", "replace")
        yield Case(said["url"], html, said["articleBody"])


def content(html: str, url: str, extractor: str) -> Content:
    """What Skitter extracts."""
    settings = ParseSettings(main=True, extractor=extractor)
    return parse(url, _HTML, html.encode(), settings).content or Content()


def measured(extract: Extractor, folder: Path) -> Score:
    """Score an extractor on all pages."""
    precisions, recalls, spent = [], [], 0.0
    for case in cases(folder):
        before = time.process_time()
        found = extract(case.html, case.url)
        spent += time.process_time() - before
        right, wrong, missed = _compared(_shingles(case.text), _shingles(found))
        precisions.append(right / (right + wrong) if right + wrong else float(not missed))
        recalls.append(right / (right + missed) if right + missed else 1.0)
    precision, recall = sum(precisions) / len(precisions), sum(recalls) / len(recalls)
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    return Score(f1, precision, recall, spent / len(recalls) * 1000)


def _shingles(text: str) -> Counter[tuple[str, ...]]:
    words = _TOKEN.findall(text)
    return Counter(tuple(words[start : start + 4]) for start in range(max(1, len(words) - 3)))


def _compared(
    expected: Mapping[tuple[str, ...], int], found: Mapping[tuple[str, ...], int]
) -> tuple[int, int, int]:
    right = wrong = missed = 0
    for shingle in expected.keys() | found.keys():
        wanted, got = expected.get(shingle, 0), found.get(shingle, 0)
        right += min(wanted, got)
        wrong += max(0, got - wanted)
        missed += max(0, wanted - got)
    return right, wrong, missed


# ------------------------------------------------------------------------------------------------ the others


def _trafilatura(html: str, url: str) -> str:
    import trafilatura  # noqa: PLC0415  it may be missing

    return trafilatura.extract(html, url=url, fast=True, include_comments=False) or ""


def _readability(html: str, _url: str) -> str:
    from lxml import html as lxml_html  # noqa: PLC0415  it may be missing
    from readability import Document  # noqa: PLC0415  it may be missing

    return str(lxml_html.fromstring(Document(html).summary()).text_content())


def _resiliparse(html: str, _url: str) -> str:
    from resiliparse.extract.html2text import extract_plain_text  # noqa: PLC0415  it may be missing

    return str(extract_plain_text(html, main_content=True))


def _turbohtml(html: str, _url: str) -> str:
    import turbohtml  # noqa: PLC0415  it may be missing

    return str(turbohtml.parse(html).main_text())


EXTRACTORS: Mapping[str, Extractor] = {
    "skitter, trafilatura": lambda html, url: content(html, url, "trafilatura").main,
    "skitter, fast": lambda html, url: content(html, url, "fast").main,
    "trafilatura": _trafilatura,
    "readability-lxml": _readability,
    "resiliparse": _resiliparse,
    "turbohtml": _turbohtml,
}


def main() -> None:
    """Measure all of them in one run."""
    from tests.conformance.cases import FOLDER  # noqa: PLC0415  it may be missing

    folder = FOLDER / "extraction"
    if not folder.is_dir():
        print(f"no pages at {folder}; name the folder of conformance cases in SKITTER_CONFORMANCE")
        return
    print(f"{'':22} {'F1':>6} {'precision':>10} {'recall':>7} {'ms':>6}")
    for name, extract in EXTRACTORS.items():
        try:
            score = measured(extract, folder)
        except ImportError as missing:
            print(f"{name:22} not installed ({missing.name})")
            continue
        print(
            f"{name:22} {score.f1:6.3f} {score.precision:10.3f} {score.recall:7.3f} {score.milliseconds:6.1f}"
        )


if __name__ == "__main__":
    main()
