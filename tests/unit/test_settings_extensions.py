"""Which files are not followed, by what is installed."""

import pytest

from skitter.links.scope import Scope
from skitter.parse import PARSERS, parser_of, sniff
from skitter.runtime import extras
from skitter.settings import ScopeSettings, SettingsError
from skitter.settings.extensions import READ_BY, skipped
from skitter.settings.file import load

MEDIA_TYPES = {
    "pdf": "application/pdf", "csv": "text/csv", "epub": "application/epub+zip", "jpg": "image/jpeg",
    "tif": "image/tiff", "ico": "image/x-icon",
}  # fmt: skip


@pytest.fixture
def without_extras(monkeypatch):
    for extra in extras.LIBRARIES:
        monkeypatch.setitem(extras.LIBRARIES, extra, ("no_such_library",))
    extras.is_there.cache_clear()
    yield
    monkeypatch.undo()
    extras.is_there.cache_clear()


def test_every_extension_that_counts_as_readable_has_a_parser():
    for extension, extra in READ_BY.items():
        kind = MEDIA_TYPES.get(extension) or sniff.BY_EXTENSION.get(extension) or f"image/{extension}"
        assert PARSERS[kind].extra == extra, extension


def test_what_installed_parsers_read_is_followed():
    assert "pdf" not in skipped(("auto",))
    assert {"zip", "mp4", "css", "js"} <= skipped(("auto",)).keys()


def test_without_extras_only_what_needs_none_is(without_extras):
    found = skipped(("auto",))
    assert (found["pdf"], found["png"], found["zip"]) == ("pdf", "images", "")
    assert "docx" not in found
    assert parser_of("application/pdf") is None
    reason = Scope(ScopeSettings(), ["http://a.test/"]).refusal("http://a.test/x.pdf", 1)
    assert reason.detail.startswith(".pdf is one of scope.skip_extensions; ")
    assert "the extra pdf would read it" in reason.detail


def test_waiting_links_are_judged_again_when_an_extra_is_installed(without_extras):
    before = Scope(ScopeSettings()).readers
    extras.LIBRARIES["pdf"] = ()
    extras.is_there.cache_clear()
    assert Scope(ScopeSettings()).readers != before
    assert Scope(ScopeSettings(skip_extensions=("zip",))).readers == ""


def test_a_list_is_taken_as_it_is_and_may_add_to_the_automatic_one():
    assert skipped(("pdf", ".HTM")).keys() == {"pdf", "htm"}
    assert {"htm", "zip"} <= skipped(("auto", "htm")).keys()
    assert load(None, {}, {"scope.skip_extensions": "auto"}).scope == ScopeSettings()
    assert load(None, {}, {"scope.skip_extensions": []}).scope.skip_extensions == ()
    with pytest.raises(SettingsError):
        load(None, {}, {"scope.skip_extensions": "a.b"})
