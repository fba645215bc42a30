"""URLs that differ from a known one in parameters that change nothing there: learned from pages, refused when leased.

The rules are kept with the shard that owns the host, so links from everywhere meet them (`schedule.learning.parameters`
decides; this module reads and writes). A URL has its row under its own key, whatever is learned: if a rule is undone,
the URLs that it kept out are judged again, with those of a changed robots.txt (`new_rules`), and wait as before.
"""

from typing import TYPE_CHECKING

from skitter import reasons
from skitter.frontier.memory import Lacking
from skitter.frontier.rows import CRAWLED, QUEUED, PageRow, UrlRow
from skitter.model import Page, Purpose, Reason, Spent
from skitter.schedule.learning.parameters import SKETCH, Content, Lessons, is_retest, reduced, said, siblings

if TYPE_CHECKING:
    from skitter.frontier.shard import Shard

_LONGEST = 512  # characters of a key that is learned from: bounds what is kept to compare with


def repeats(shard: "Shard", row: UrlRow) -> Spent | None:
    """Why a waiting URL need not be fetched: its page is known under another URL. None if it is to be fetched."""
    if row.seed or row.crawl_count or row.attempts or row.hops or is_retest(row.id):
        return None
    if row.extra is not None and row.extra.purpose is not Purpose.PAGE:
        return None
    learned = shard.learned[row.host]
    if learned is None or not learned.parameters:
        return None
    key, dropped = reduced(row.key, learned.parameters)
    if not dropped or shard.is_kept(row.url, by="parameters"):
        return None
    known = shard.row(shard.id_of_key(row.host, key))
    is_known = known is not None and known.state in (QUEUED, CRAWLED)
    if not is_known and (shard.samples is None or not shard.samples.knows(key)):
        return None
    why = "; ".join(said(name, learned.parameters[name]) for name in dropped)
    return Spent(Reason(reasons.REPEAT_PARAMETER, f"{why}; without that it is {key}"))


def learn(shard: "Shard", page: Page) -> None:
    """Learn from a page that was fetched."""
    samples = shard.samples
    if samples is None or page.status != 200 or not page.digest or len(page.key) > _LONGEST:
        return
    if page.purpose is not Purpose.PAGE:
        return
    try:
        learned = shard.learned_of(page.host)
    except Lacking:  # nothing is loaded in the middle of a settlement
        return
    content = Content(page.digest, page.simhash, _sketch(page))
    stored = {}
    for key in siblings(page.key, learned.parameters):
        row = _stored(shard, page.host, key)
        if row is not None and row.page.status == 200:
            stored[key] = Content(row.page.digest, row.page.simhash)
    lessons = Lessons(page.host, learned.parameters, learned.wrong, samples)
    lesson = lessons.learn(page.key, content, stored)
    learned.wrong = lessons.wrong
    if learned.parameters:
        shard.learn(learned, decided=bool(lesson.learned or lesson.undone))
    if lesson.undone:
        shard.judge_all_again()


def _sketch(page: Page) -> bytes:
    if page.simhash is None:  # few words say little, and near-duplicates may not be wanted
        return b""
    from skitter.dedup.simhash import sketch  # noqa: PLC0415  numpy, which made the SimHash

    packed = sketch(page.text, SKETCH)
    return packed if len(packed) == 8 * SKETCH else b""


def _stored(shard: "Shard", host: str, key: str) -> PageRow | None:
    try:
        return shard.pages[shard.id_of_key(host, key)]
    except Lacking:
        return None


def need(shard: "Shard", page: Page) -> tuple[list[str], list[bytes]]:
    """The rows of learned things, and of pages, that learning from a page would look at and are not in memory."""
    if shard.samples is None or len(page.key) > _LONGEST:
        return [], []
    if page.host not in shard.learned:
        return [page.host], []
    learned = shard.learned[page.host]
    keys = siblings(page.key, learned.parameters if learned is not None else {})
    ids = (shard.id_of_key(page.host, key) for key in keys)
    return [], [id16 for id16 in ids if id16 not in shard.pages]
