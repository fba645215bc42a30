"""What a page says to robots and about its uses, as `skitter why` tells it."""

from skitter.export.canonicals import Canonical
from skitter.model import Page
from skitter.reporting.format import moment, printable
from skitter.robots import usage


def lines(page: Page, canonical: Canonical | None, respected: tuple[str, ...]) -> list[str]:
    """The lines for people; none for a page that says nothing."""
    told = []
    if page.robots.rules:
        told.append(f"    asks for {printable(', '.join(page.robots.rules))}")
    elif not (page.robots.index and page.robots.follow):  # stored by an earlier version
        asks = (("noindex", page.robots.index), ("nofollow", page.robots.follow))
        told.append(f"    asks for {' and '.join(word for word, said in asks if not said)}")
    if page.robots.unavailable_after is not None:
        told.append(f"    asks not to be indexed after {moment(page.robots.unavailable_after)}")
    if canonical is not None:
        named = printable(page.canonical)
        what = (
            "is merged into its canonical form"
            if canonical.merged
            else f"names {named} as canonical, and stays"
        )
        told.append(f"    {what}: {printable(canonical.why)}")
    if page.alternates:
        told.append(f"    is there in other languages: {printable(', '.join(page.alternates))}")
    return [*told, *_uses(page, respected)]


def _uses(page: Page, respected: tuple[str, ...]) -> list[str]:
    if not page.statements:
        return []
    found = usage.verdicts(page.statements)
    known = ", ".join(f"{use}={said}" for use, (said, _) in found.items()) or "nothing that is known here"
    told = [f"    about its uses it is said: {known}"]
    in_force = usage.in_force(page.statements)
    for one in page.statements:
        gone = "" if one in in_force else " (superseded)"
        told.append(f"      {one.source}: {printable(one.raw)} (read {moment(one.at)}){gone}")
    if objection := usage.objection(page.statements, respected):
        told.append(f"    is left out of exports and indexes: {printable(objection)}")
    return told
