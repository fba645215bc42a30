"""How fresh a crawl is that fetches its pages again, in words and numbers: the estimate, and how it was checked."""

from typing import Any

from skitter.model import Again, Counts, UrlRecord, Watch
from skitter.reporting.format import counted, duration, moment


def as_fields(counts: Counts) -> dict[str, Any] | None:
    """The estimate and its check as an object; None if nothing is fetched again."""
    told = {what: counts.again.get(what.value, 0) for what in Again}
    if not counts.again:
        return None
    audits = told[Again.AUDITS]
    return {
        "pages": int(told[Again.PAGES]),
        "estimate": estimate(counts),
        "audits": int(audits),
        "audits_fresh": told[Again.AUDITS_FRESH] / audits if audits else None,
        "audits_expected": told[Again.AUDITS_EXPECTED] / audits if audits else None,
        "visits": int(told[Again.VISITS]),
        **{
            what.value: int(told[what])
            for what in (Again.UNMODIFIED, Again.SAME, Again.CHANGED, Again.GONE, Again.FAILED)
        },
        "validators_lied": int(told[Again.LIED]),
        "validators_restless": int(told[Again.RESTLESS]),
    }


def estimate(counts: Counts) -> float | None:
    """The part of the time in which the stored copy of a page is right, by importance; None: nothing was learnt."""
    weight = counts.again.get(Again.WEIGHT.value, 0.0)
    if not counts.again.get(Again.ALLOWED.value, 0.0) or weight <= 0:
        return None
    return min(1.0, max(0.0, counts.again.get(Again.FRESH.value, 0.0) / weight))


def lines(counts: Counts) -> list[str]:
    """The same for people; nothing if no page is fetched again."""
    told = as_fields(counts)
    if told is None:
        return []
    found = [f"{told[name]:,} {word}" for name, word in _WORDS if told[name]]
    said = ["", "Fetched again"]
    said.append(f"  {counted(told['pages'], 'page')} with a next visit")
    said.append(f"  {counted(told['visits'], 'visit')} so far{': ' if found else ''}{', '.join(found)}")
    if told["estimate"] is not None:
        said.append(
            f"  estimated freshness {100 * told['estimate']:.0f} %: the part of the time in which a stored copy is right, by "
            "importance, from how often each page was seen to change and when it is visited next"
        )
    if told["audits"]:
        said.append(
            f"  checked with {counted(told['audits'], 'visit')} drawn by lot: {100 * told['audits_fresh']:.0f} % of those copies "
            f"were right, {100 * told['audits_expected']:.0f} % was expected"
        )
    if told["validators_lied"]:
        said.append(
            f"  {counted(told['validators_lied'], 'page')} had changed under the same ETag or Last-Modified"
        )
    if told["validators_restless"]:
        said.append(f"  {counted(told['validators_restless'], 'ETag')} or dates changed without the page")
    return said


_WORDS = (
    ("unmodified", "not modified (304)"),
    ("same", "with the same content"),
    ("changed", "changed"),
    ("gone", "gone (404, 410)"),
    ("failed", "failed"),
)


def history(record: UrlRecord, changes_every: float | None) -> list[str]:
    """The visits of a page, as far as they are kept, and what is believed of it."""
    watch = record.watch or Watch()
    said = [f"  {moment(when)}  {what}" for when, what in watch.visits]
    if record.crawl_count > len(watch.visits):
        said.insert(
            0, f"  {counted(record.crawl_count - len(watch.visits), 'earlier visit')}: see `skitter why`"
        )
    if changes_every is not None:
        said.append(f"  changes about every {duration(changes_every)}, as far as its visits tell")
    if watch.gone:
        said.append(f"  gone, since {counted(watch.gone, 'visit')}")
    if record.next_crawl is not None:
        lot = ", drawn by lot to check the estimate" if watch.audit else ""
        said.append(f"  next visit {moment(record.next_crawl)}{lot}")
    return said
