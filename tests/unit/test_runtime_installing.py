"""The suggested install commands work."""

from importlib import metadata
from pathlib import Path

import pytest

from skitter.runtime.installing import install_line, line_for

CLONE = Path(__file__).parents[2]


def test_a_clone_is_installed_from_its_directory(tmp_path, monkeypatch):
    origin = {"url": CLONE.as_uri(), "dir_info": {"editable": True}}
    monkeypatch.chdir(tmp_path)
    assert line_for("cluster", origin) == f"pip install -e '{CLONE}[cluster]'"
    monkeypatch.chdir(CLONE)
    assert line_for("cluster", origin) == "pip install -e '.[cluster]'"


@pytest.mark.parametrize(
    ("origin", "line"),
    [
        ({}, "pip install 'skitter[s3]', or in a clone of Skitter: pip install '.[s3]'"),
        ({"url": "file:///no/such/folder", "dir_info": {}}, "in a clone of Skitter: pip install '.[s3]'"),
        (
            {"url": "https://code.example/skitter", "vcs_info": {"vcs": "git"}},
            "pip install 'skitter[s3] @ git+https://code.example/skitter'",
        ),
    ],
)
def test_other_origins(origin, line):
    assert line_for("s3", origin) == line


def test_the_line_of_this_installation_names_an_extra_that_there_is():
    provided = metadata.metadata("skitter").get_all("Provides-Extra") or []
    for extra in ("cluster", "s3", "redis"):
        assert extra in provided
        assert f"[{extra}]'" in install_line(extra)


def test_texts_name_no_package_that_no_index_has():
    """Skitter is in no package index yet: whoever reads the docs has a clone."""
    for text in (CLONE / "README.md", *(CLONE / "docs").glob("*.md")):
        assert "pip install 'skitter[" not in text.read_text(encoding="utf-8"), text
