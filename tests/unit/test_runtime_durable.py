"""Durable files are synced: the file before its rename, then its folder."""

import os
from pathlib import Path

import pytest

from skitter.crawl.directory import CrawlDirectory
from skitter.reporting.log import RequestLog
from skitter.runtime import durable
from skitter.settings import Settings


@pytest.fixture
def synced(monkeypatch):
    """What was synced, in order: the name of each file or folder, and how many bytes a file had."""
    done = []

    def fsync(handle):
        path = Path(f"/proc/self/fd/{handle}").readlink()
        done.append((path, path.stat().st_size if path.is_file() else None))

    monkeypatch.setattr(os, "fsync", fsync)
    return done


def test_a_file_is_synced_before_its_rename_and_its_folder_after(tmp_path, synced):
    durable.write(tmp_path / "file", b"octets")
    assert synced == [(tmp_path / "file.new", 6), (tmp_path, None)]
    assert (tmp_path / "file").read_bytes() == b"octets"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_every_folder_that_was_made_is_synced_into_the_one_above_it(tmp_path, synced):
    durable.make_folder(tmp_path / "a" / "b" / "c")
    assert [path for path, _ in synced] == [tmp_path, tmp_path / "a", tmp_path / "a" / "b"]
    durable.make_folder(tmp_path / "a" / "b")
    assert len(synced) == 3


def test_a_crawl_directory_is_on_the_disk_before_anything_depends_on_it(tmp_path, synced):
    directory = CrawlDirectory(tmp_path / "made" / "c")
    directory.prepare()
    directory.make(Settings())
    names = [path.relative_to(tmp_path) for path, _ in synced]
    folders = [".", "made", "made/c", "made/c", "made/c"]
    files = ["made/c/scopes.txt.new", "made/c", "made/c/crawl.toml.new", "made/c"]
    assert names == [Path(name) for name in (*folders, *files, "made/c/state")]
    assert [size for path, size in synced if path.name == "crawl.toml.new"] == [
        directory.settings_file.stat().st_size
    ]


def test_roots_and_the_request_log_are_synced_with_the_entries_that_name_them(tmp_path, synced):
    directory = CrawlDirectory(tmp_path)
    directory.add_roots(["http://a.test/"])
    assert synced == [(directory.roots_file, 15), (tmp_path, None)]
    directory.add_roots(["http://b.test/"])
    assert synced[2:] == [(directory.roots_file, 30)]
    log = RequestLog(tmp_path / "requests")
    assert synced[3:] == [(tmp_path, None)]
    log.close()
    assert synced[4:] == [(tmp_path / "requests", 0)]
