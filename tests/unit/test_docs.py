"""The reference is generated: it names every setting, every flag and every reason, and it is up to date."""

import itertools
import re
import runpy
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import cast

import pytest

from skitter import reasons, schedule
from skitter.cli import COMMANDS
from skitter.links import scope
from skitter.settings import SettingsError
from skitter.settings.values import KEYS, convert

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def pages() -> dict[Path, str]:
    script = runpy.run_path(str(ROOT / "scripts" / "reference.py"))
    return cast("Callable[[], dict[Path, str]]", script["pages"])()


def test_the_reference_is_current(pages):
    for path, text in pages.items():
        assert path.is_file(), f"run: python scripts/reference.py ({path.name} is missing)"
        assert path.read_text(encoding="utf-8") == text, (
            f"run: python scripts/reference.py ({path.name} is not current)"
        )


def test_every_setting_is_in_the_reference(pages):
    text = next(text for path, text in pages.items() if path.name == "settings.md")
    for key in KEYS.values():
        assert f"| `{key.name}` |" in text
        assert f"`{key.variable}`" in text


def test_every_flag_and_example_is_in_the_reference(pages):
    text = next(text for path, text in pages.items() if path.name == "commands.md")
    for name in COMMANDS:
        parser = import_module(f"skitter.cli.{name}").parser()
        chapter = text.partition(f"## skitter {name}\n")[2].partition("\n## ")[0]
        assert all(example in chapter for example in parser.examples)
        for flag in parser._option_string_actions:
            assert flag in chapter or flag in {"-h", "--help"}, f"{name} {flag}"


def test_the_reference_lists_every_reason_and_no_other(pages):
    text = next(text for path, text in pages.items() if path.name == "reasons.md")
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| `")]
    assert [row[0] for row in rows] == [f"| `{code}`" for code in reasons.TABLE]
    for (_, meaning, remedy), entry in zip(rows, reasons.TABLE.values(), strict=True):
        assert (meaning, remedy.removesuffix(" |").replace("`", "")) == (entry.meaning, entry.remedy)


@pytest.mark.parametrize(
    ("dotted", "words"), [("scope.kind", scope.KINDS), ("schedule.strategy", schedule.STRATEGIES)]
)
def test_the_settings_accept_exactly_the_known_values(dotted, words):
    for word in words:
        assert convert(KEYS[dotted], word) == word
        assert word in KEYS[dotted].doc
    with pytest.raises(SettingsError, match=f"is not one of {', '.join(words[:-1])} or {words[-1]}"):
        convert(KEYS[dotted], "something else")


# ------------------------------------------------------------------------------------------------ promises


def is_test(name: str, root: Path) -> bool:
    """Whether `tests/…/test_x.py::test_y` exists; a file alone stands for all of its tests."""
    file, _, function = name.partition("::")
    path = root / file
    return path.is_file() and (not function or f"def {function}(" in path.read_text(encoding="utf-8"))


_COMMENTS = re.compile(r"((?: ?<!-- \S+ -->)+)")
_NEXT_SENTENCE = re.compile(r"(?<=[.!?]) (?=[A-Z`*\[(])")


def promises(text: str) -> list[tuple[str, list[str]]]:
    """The sentences of a page, each with the tests that are named behind it; in a table, the rows.

    Headings, code and what introduces code promise nothing.
    """
    found: list[tuple[str, list[str]]] = []
    for block in re.split(r"\n\n|\n(?=- |\|)", text[text.index("\n## ") + 1 :]):
        if not re.match(r"(- |[A-Z*`]|\| )", block) or block.endswith(":") or block.startswith("| you write"):
            continue
        plain = " ".join(block.removeprefix("- ").split()).strip("| ")
        parts = _COMMENTS.split(plain)
        for words, names in itertools.zip_longest(parts[::2], parts[1::2], fillvalue=""):
            *unproven, last = _NEXT_SENTENCE.split(words.strip()) if not block.startswith("|") else [words]
            found += [(sentence, []) for sentence in unproven]
            if last:
                found.append((last, re.findall(r"<!-- (\S+) -->", names)))
    return found


def test_every_sentence_to_site_owners_names_tests_that_exist():
    found = promises((ROOT / "docs" / "politeness.md").read_text(encoding="utf-8"))
    assert len(found) > 60
    for sentence, names in found:
        assert names, (
            f"docs/politeness.md: name a test, as <!-- tests/FILE.py::NAME -->, on the same line behind: {sentence}"
        )
        for name in names:
            assert "::" in name, f"docs/politeness.md: {name} names no test"
            assert is_test(name, ROOT), f"docs/politeness.md: there is no {name}"


def test_a_sentence_without_a_test_is_found():
    named = "<!-- tests/unit/test_docs.py::test_a_sentence_without_a_test_is_found -->"
    page = (
        f"# Page\n\n## One\n\nIt waits. {named}\nIt never lies. It stops. {named}\n\n- **A**: yes. {named}\n  `b`: no.\n\n"
        f"| you write | it says |\n|---|---|\n| `x.` | One. Two {named} |\n| `y` | no |\n\nTo stop it:\n\n    Disallow: /\n"
    )
    assert [(sentence, bool(names)) for sentence, names in promises(page)] == [
        ("It waits.", True),
        ("It never lies.", False),
        ("It stops.", True),
        ("**A**: yes.", True),
        ("`b`: no.", False),
        ("`x.` | One. Two", True),
        ("`y` | no", False),
    ]
