"""The history of runs as an RSS 2.0 feed, for people who want to hear of them in their feed reader. Pure."""

from collections.abc import Sequence
from email.utils import formatdate
from xml.sax.saxutils import escape

from skitter.jobs.model import Run
from skitter.jobs.words import in_words
from skitter.reporting.format import printable

NEWEST = 100


def feed(title: str, runs: Sequence[Run]) -> bytes:
    """The feed of runs that are over."""
    items = "".join(_item(run) for run in runs if run.final)
    text = (
        f'<?xml version="1.0" encoding="utf-8"?>\n<rss version="2.0">\n<channel>\n<title>{_text(title)}</title>\n<link></link>\n'
        f"<description>How the runs of jobs ended</description>\n{items}</channel>\n</rss>\n"
    )
    return text.encode("utf-8", "backslashreplace")


def _item(run: Run) -> str:
    return (
        f"<item>\n<title>{_text(f'{run.id}: {run.state}')}</title>\n"
        f'<guid isPermaLink="false">{_text(f"{run.id} {run.state}")}</guid>\n'
        f"<pubDate>{formatdate(run.ended_at or run.due, usegmt=True)}</pubDate>\n"
        f"<description>{_text(in_words(run))}</description>\n</item>\n"
    )


def _text(text: str) -> str:
    return escape(printable(text))
