"""The reference is generated: it names every setting, every flag and every reason, and it is up to date."""

import runpy
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import cast

import pytest

from skitter import reasons, schedule, scope
from skitter.cli import COMMANDS
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
