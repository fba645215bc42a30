"""Real PDF files, read by the parser pool and by poppler: is the text all there, and how fast? `python -m benchmarks.pdf`

The files are those of Debian's documentation packages, fetched with `apt-get download` into a folder (`--folder`), or whatever
PDF files that folder already has. Each goes through a real parser process with its limits, and its words are compared with
those of `pdftotext`, and its links with those of `pdfinfo -url` (both of poppler-utils). The overlap of two texts is
2·|common words| / (|words of one| + |words of the other|), each word as often as it occurs.
"""

import argparse
import asyncio
import gzip
import hashlib
import random
import re
import resource
import statistics
import subprocess
import tempfile
import time
import unicodedata
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from skitter.model import Document
from skitter.parse.frames import Read, Trouble
from skitter.parse.pool import ParserPool
from skitter.settings import Settings

PACKAGES = (
    "debian-refcard",
    "developers-reference",
    "gnuplot-doc",
    "pari-doc",
    "r-doc-pdf",
    "texlive-lang-arabic",
    "texlive-lang-cjk",
    "texlive-lang-french",
    "texlive-lang-german",
    "texlive-latex-base-doc",
    "texlive-latex-recommended-doc",
    "texlive-metapost-doc",
)
_WORD = re.compile(r"\w+")
_PDF = [("content-type", "application/pdf")]
_PATIENCE = 120  # seconds for poppler


class Compared(NamedTuple):
    """One file."""

    name: str
    pages: int
    words: int
    other_words: int
    overlap: float
    links: int
    annotated: int  # links that a reader can click, by poppler
    found: int  # of these
    trouble: str


def words(text: str) -> Counter[str]:
    """The words of a text, and how often each occurs; however their letters are composed."""
    return Counter(_WORD.findall(unicodedata.normalize("NFKC", text).casefold()))


def overlap(one: Counter[str], other: Counter[str]) -> float:
    """How much two texts have in common, from 0 to 1."""
    total = one.total() + other.total()
    return 2 * (one & other).total() / total if total else 1.0


def fetched(folder: Path) -> None:
    """Download the packages and unpack them."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in PACKAGES:
        subprocess.run(["apt-get", "download", name], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    for package in folder.glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", package, folder / package.stem], check=True)


def files(folder: Path, number: int, seed: int) -> dict[str, bytes]:
    """Some of the PDF files in a folder, each content once."""
    found: dict[str, Path] = {}
    for path in sorted([*folder.rglob("*.pdf"), *folder.rglob("*.pdf.gz")]):
        if path.is_file() and not path.is_symlink():
            found.setdefault(hashlib.sha256(path.read_bytes()).hexdigest(), path)
    chosen = sorted(found.values())
    random.Random(seed).shuffle(chosen)
    return {str(path.relative_to(folder)): _content(path) for path in chosen[:number]}


def _content(path: Path) -> bytes:
    raw = path.read_bytes()
    return gzip.decompress(raw) if path.suffix == ".gz" else raw


def poppler(content: bytes, scratch: Path) -> tuple[str, list[str]]:
    """The text and the links of a file, by poppler."""
    scratch.write_bytes(content)
    text = subprocess.run(
        ["pdftotext", "-q", scratch, "-"], capture_output=True, timeout=_PATIENCE, check=False
    ).stdout
    listed = subprocess.run(
        ["pdfinfo", "-url", scratch], capture_output=True, timeout=_PATIENCE, check=False
    ).stdout
    lines = listed.decode("utf-8", "replace").splitlines()[1:]
    links = [line.split(maxsplit=2)[-1].strip() for line in lines if "http" in line]
    return text.decode("utf-8", "replace"), [link for link in links if link.startswith("http")]


def compared(name: str, content: bytes, answer: Read | Trouble, scratch: Path) -> Compared:
    """A file that was read, beside poppler."""
    document = answer.document if isinstance(answer, Read) else Document()
    text, annotated = poppler(content, scratch)
    ours, theirs = words(document.text), words(text)
    pages = (document.media or {}).get("pages", 0)
    return Compared(
        name=name,
        pages=(document.media or {}).get("pages_read", pages),
        words=ours.total(),
        other_words=theirs.total(),
        overlap=overlap(ours, theirs),
        links=len(document.links),
        annotated=len(set(annotated)),
        found=len(set(annotated) & set(document.links)),
        trouble=document.ignored if isinstance(answer, Read) else answer.detail,
    )


async def read(given: dict[str, bytes]) -> tuple[dict[str, Read | Trouble], float, float]:
    """What the pool says about each file, and the seconds and CPU seconds of all of them together."""
    parsers, answers = ParserPool(Settings()), {}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    try:
        for name, content in given.items():
            answers[name] = await parsers.read("http://a.test/a.pdf", _PDF, content)
    finally:
        await parsers.close()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return answers, time.perf_counter() - began, cpu


def told(rows: list[Compared], seconds: float, cpu: float, worst: int) -> None:
    """The figures."""
    texts = [row for row in rows if row.words or row.other_words]
    found = sum(bool(row.words) for row in texts)
    overlaps = sorted(row.overlap for row in texts)
    pages, links = sum(row.pages for row in rows), sum(row.links for row in rows)
    print(
        f"files           {len(rows)}, {pages} pages; {len(rows) - len(texts)} are drawings without any text"
    )
    print(f"with text       {found} of {len(texts)} ({100 * found / len(texts):.1f} %)")
    print(
        f"overlap         median {statistics.median(overlaps):.4f}, mean {statistics.mean(overlaps):.4f}, "
        f"a tenth is below {overlaps[len(overlaps) // 10]:.4f}"
    )
    print(f"links           {links} in {sum(bool(row.links) for row in rows)} files")
    print(
        f"links to click  {sum(row.found for row in rows)} of {sum(row.annotated for row in rows)} that poppler lists"
    )
    print(
        f"speed           {pages / seconds:.0f} pages/s, {pages / cpu:.0f} per CPU second, through the pool"
    )
    print(f"not read        {sum(bool(row.trouble) for row in rows)}")
    for row in sorted(rows, key=lambda row: row.overlap)[:worst]:
        print(
            f"  {row.overlap:.3f}  {row.words:7} {row.other_words:7} words  {row.name.rpartition('/')[2]}  {row.trouble}"
        )


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=Path("pdf-files"), help="where the files are, or go")
    parser.add_argument("--number", type=int, default=300, help="files to read")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--worst", type=int, default=5, help="how many of the worst to list")
    given = parser.parse_args()
    if not given.folder.is_dir():
        fetched(given.folder)
    found = files(given.folder, given.number, given.seed)
    answers, seconds, cpu = asyncio.run(read(found))
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder) / "a.pdf"
        rows = [compared(name, found[name], answer, scratch) for name, answer in answers.items()]
    told(rows, seconds, cpu, given.worst)


if __name__ == "__main__":
    main()
