"""Regular expressions that take exponential time are refused; those that people write are not."""

import re
import subprocess
import sys

import pytest

from skitter.settings import SettingsError
from skitter.settings.exploding import explodes
from skitter.settings.file import load

EXPLODING = [
    (r"(a+)+$", "a" * 40 + "!"),
    (r"(a*)*b", "a" * 40),
    (r"(a|a)*b", "a" * 40),
    (r"([a-z]+-?)+!", "a" * 40),
    (r"^/(\w+\s?)*\?$", "/" + "a" * 40 + "!"),
    (r"(.*a){20}", "a" * 60 + "!"),
    (r"(\d+|[0-9a-f]+)+g", "1" * 40),
    (r"(?i)(A1|a1)+b", "a1" * 40),
    (r"((a?)*c)*!", "c" * 40),
    (r"((ab)*|a?b?)*c", "ab" * 30),
    (r"x(?=(y+)+z)", "x" + "y" * 40),
    (r"(a+){30}b", "a" * 60),
    (r"((a{1,9}){1,9}){1,9}b", "a" * 60),
    (r"((a|aa){16}){16}b", "a" * 400),
    (r"(a+-?){1,12}b", "a" * 60),
    (r"(\?|&)(utm_\w+=[^&]*&?)+$", "?" + "utm_a=" * 40 + "&&"),  # a value may look like the next parameter
]
HARMLESS = [
    r"(/[^/]+)+/print$",
    r"^https?://[^/]+/(\w+\.)+html",
    r"(\d+)(?!.*\d)",
    r"/(19|20)\d{2}/\d{2}/",
    r"[0-9a-f]{32}",
    r"([0-9a-f]{2}:)*[0-9a-f]{2}",
    r"^.*/calendar/.*$",
    r"(\?|&)(utm_\w+=[^&]*&)+$",
    r"/(a|b|c)+/",
    r"(?:%[0-9A-F]{2})+",
    r"(?>a+)+b",
    r"(a++)+b",
    r"\b(logout|signout)\b",
    r"(/[a-z]{1,12}){0,20}$",
    r"(\d{1,3}\.){3}\d{1,3}",
    r"(/[^/]+){1,5}/print",
    r"([0-9a-f]{4}-){4}",
    r"([0-9a-f]{4}){16}",
    r"([?&](sort|order)=[^&]*){1,3}",
    r"",
]


@pytest.mark.parametrize(("pattern", "text"), EXPLODING)
def test_an_exponential_pattern_is_found(pattern, text):
    assert explodes(re.compile(pattern))


@pytest.mark.parametrize("pattern", HARMLESS)
def test_a_harmless_pattern_is_accepted(pattern):
    assert not explodes(re.compile(pattern))


@pytest.mark.parametrize(
    ("pattern", "text"),
    [EXPLODING[0], EXPLODING[2], EXPLODING[7], EXPLODING[8], EXPLODING[12], EXPLODING[-1]],
)
def test_such_a_pattern_really_takes_for_ever(pattern, text):
    """Python's matcher does not come back from it within any time that a test may take."""
    code = f"import re; re.search({pattern!r}, {text!r})"
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run([sys.executable, "-c", code], timeout=2, check=False)


def test_a_large_pattern_is_judged_in_time_or_not_at_all():
    words = "|".join(f"word{number}[a-z]*" for number in range(500))
    assert not explodes(re.compile(f"({words})+"))
    assert not explodes(re.compile(words))


@pytest.mark.parametrize("key", ["scope.include", "scope.exclude", "schedule.number_pattern"])
def test_it_is_refused_with_its_place_and_what_to_write(tmp_path, key):
    section, name = key.split(".")
    value = '"(a+)+$"' if name == "number_pattern" else '["/fine", "(a+)+$"]'
    path = tmp_path / "my.toml"
    path.write_text(f"[{section}]\n\n{name} = {value}\n")
    with pytest.raises(SettingsError) as caught:
        load(path, {}, {})
    assert str(caught.value).startswith(f"{path}:3: {key}: '(a+)+$' would take longer than anybody waits")
    assert "write it without one repetition inside another" in str(caught.value)


def test_it_is_refused_for_a_site_too(tmp_path):
    path = tmp_path / "my.toml"
    path.write_text('[[site]]\nmatch = "a.test"\nscope.exclude = ["(a|a)*b"]\n')
    with pytest.raises(SettingsError, match=r"my\.toml:3: site 1: scope\.exclude: .* would take longer"):
        load(path, {}, {})
