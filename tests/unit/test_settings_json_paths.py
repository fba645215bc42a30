"""Places in JSON documents."""

import pytest

from skitter.settings import SettingsError
from skitter.settings.file import load
from skitter.settings.json_paths import steps, values

DOCUMENT = {
    "items": [{"url": "a", "x.y": 1, "b/c": 2}, {"url": "b"}, 7],
    "next": None,
    "deep": {"er": [[1], [2]]},
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("$.items[*].url", ["a", "b"]),
        ("$['items'][0]['x.y']", [1]),
        ('$["items"][-1]', [7]),
        ("$.items[9].url", []),
        ("$.next", [None]),
        ("$.none", []),
        ("$.deep.*[*][0]", [1, 2]),
        ("$", [DOCUMENT]),
        ("/items/*/url", ["a", "b"]),
        ("/items/0/b~1c", [2]),
        ("/items/x", []),
    ],
)
def test_values_at_a_path(path, found):
    assert list(values(DOCUMENT, path)) == found


@pytest.mark.parametrize("path", ["items", "", "$items", "$..url", "$.items[", "$.items[?(@.a)]", "$.a b"])
def test_what_is_no_path_is_refused(path):
    with pytest.raises(SettingsError):
        steps(path)


def test_a_site_has_its_own():
    text = '[{match = "api.example/*", parse.follow_json = "$.items[*].url", parse.next_json = "/next"}]'
    (site,) = load(None, {}, {"site": text}).site
    assert site.values == {"parse.follow_json": ("$.items[*].url",), "parse.next_json": "/next"}


@pytest.mark.parametrize("key", ["follow_json", "next_json", "items_json"])
def test_a_setting_that_is_no_path_is_an_error(key):
    with pytest.raises(SettingsError, match="JSON document"):
        load(None, {}, {f"parse.{key}": "items"})
