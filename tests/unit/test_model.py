"""The table of purposes, and values that earlier versions have written."""

import msgspec
import pytest
from msgspec import msgpack
from msgspec.structs import replace

from skitter.backends.postgres import columns
from skitter.frontier.rows import Extra, PageRow, UrlRow
from skitter.model import Directives, Hints, Link, Page, Purpose, Visit
from skitter.testing.contracts.owner import link
from skitter.testing.contracts.store import a_page, full_url


def test_every_purpose_has_a_meaning_and_only_pages_are_pages():
    told = {purpose: purpose.handling for purpose in Purpose}
    assert [purpose for purpose in told if told[purpose].counts] == [Purpose.PAGE]
    assert [purpose for purpose in told if told[purpose].parsed] == [Purpose.PAGE]
    assert [purpose for purpose in told if told[purpose].compared] == [Purpose.PAGE]
    assert [purpose for purpose in told if not told[purpose].asks_robots] == [Purpose.ROBOTS]


# The fields that each value had before; what was added since is at the end, with a default.
EARLIER = replace(
    a_page(1).page, purpose=Purpose.PAGE, statements=(), alternates=None, media=None, content=None
)
BEFORE = [
    (Link, link("https://a.example/1"), 13),
    (Visit, Visit(link("https://a.example/1"), 2, 5.5, alone=True, host_pages=3, host_free=4.5), 6),
    (UrlRow, replace(full_url(1), extra=None), 25),
    (Page, EARLIER, 31),
    (PageRow, replace(a_page(1), page=EARLIER), 5),
    (Directives, Directives(index=False, ai={"noai": "y"}), 3),
]


@pytest.mark.parametrize(("kind", "value", "fields"), BEFORE, ids=lambda it: getattr(it, "__name__", ""))
def test_what_was_written_before_a_field_was_added_is_read(kind, value, fields):
    written = msgspec.to_builtins(value, builtin_types=(bytes,))[:fields]
    assert len(written) == fields
    assert msgpack.decode(msgpack.encode(written), type=kind) == value


def test_a_url_of_an_earlier_postgresql_is_read_and_most_take_no_more_room():
    row = replace(full_url(1), extra=None)
    record = [0, *columns._url_values(row)]
    record[-1] = msgpack.encode((row.requested, row.hops, row.seed, row.meta, row.origin))  # as it was
    assert columns.url_row(record) == row
    plain = UrlRow(b"1" * 16, row.url, row.key, row.host, row.domain)
    assert columns._url_values(plain)[-1] is None
    told = replace(plain, extra=Extra(Hints(rel=("next",)), Purpose.PROBE))
    assert columns.url_row([0, *columns._url_values(told)]) == told


def test_a_later_version_may_add_fields_that_this_one_does_not_know():
    """Workers of a cluster are replaced one by one."""
    later = [*msgspec.to_builtins(link("https://a.example/1"), builtin_types=(bytes,)), {"new": 1}]
    assert msgpack.decode(msgpack.encode(later), type=Link) == link("https://a.example/1")
