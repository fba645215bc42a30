"""A crawl directory: its lock, its settings, its roots."""

import os
import signal
import subprocess
import sys

import pytest
from msgspec import structs

from skitter import crawl, seeds
from skitter.cli import main
from skitter.compose import opened
from skitter.crawl import directory as directories
from skitter.crawl.directory import END_OF_SETTINGS, FIXED, CrawlDirectory
from skitter.events import Events
from skitter.ports import StateError
from skitter.runtime.process import run
from skitter.settings import Settings, SettingsError, UrlsSettings
from skitter.settings.file import load


@pytest.fixture
def directory(tmp_path):
    made = CrawlDirectory(tmp_path / "c")
    made.prepare()
    return made


# ------------------------------------------------------------------------------------------------ lock


HOLD = """
import sys
from pathlib import Path
from skitter.crawl.directory import CrawlDirectory
with CrawlDirectory(Path(sys.argv[1])).locked():
    print("held", flush=True)
    sys.stdin.read()
"""


def test_the_lock_names_the_process_that_holds_it_and_goes_with_it_however_it_ends(directory):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(directory.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(StateError, match=rf"in use by process {holder.pid}\b.*-o"), directory.locked():
            pass
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    with directory.locked():
        assert (directory.path / "lock").read_text() == f"{os.getpid()}\n"


def test_a_lock_is_given_back(directory):
    for _ in range(2):
        with directory.locked(), pytest.raises(StateError), directory.locked():
            pass


def test_a_shorter_number_of_a_process_leaves_nothing_of_a_longer_one(directory):
    (directory.path / "lock").write_text("9" * 30 + "\n")
    with directory.locked():
        assert (directory.path / "lock").read_text() == f"{os.getpid()}\n"


# ------------------------------------------------------------------------------------------------ settings


def test_settings_are_read_back_as_they_were_written_and_no_draft_stays(directory):
    settings = load(
        None, {}, {"politeness.delay": "7s", "scope.exclude": ["/x$"], "fetch.contact": "a@b.test"}
    )
    assert not directory.exists
    directory.write_settings(settings)
    assert directory.exists
    assert directory.read_settings() == settings
    assert {path.name for path in directory.path.iterdir() if path.is_file()} == {"crawl.toml"}


def test_a_failed_write_leaves_the_old_settings(directory, monkeypatch):
    directory.write_settings(Settings())

    def full(_settings):
        raise OSError("no space left on device")

    monkeypatch.setattr(directories, "dump", full)
    with pytest.raises(OSError, match="no space"):
        directory.write_settings(load(None, {}, {"politeness.delay": "7s"}))
    assert directory.read_settings() == Settings()


def test_a_directory_without_a_crawl_says_how_to_start_one(directory):
    with pytest.raises(StateError, match=r"holds no crawl .* skitter crawl URL -o "):
        directory.read_settings()


def test_only_what_makes_keys_and_shards_may_not_change(directory):
    directory.write_settings(directory.fitted(Settings(), workers=3))
    for name in {field.name for field in structs.fields(Settings)} - {*FIXED, "crawl", "cluster"}:
        changed = structs.replace(Settings(), **{name: object()})
        assert getattr(directory.fitted(changed, workers=1), name) is getattr(changed, name)
    with pytest.raises(SettingsError, match=r"\[urls\] differ"):
        directory.fitted(structs.replace(Settings(), urls=UrlsSettings(fold_www=True)), workers=1)
    with pytest.raises(SettingsError, match=r"crawl\.shards = 2 differs"):
        directory.fitted(load(None, {}, {"crawl.shards": 2}), workers=1)


def test_the_number_of_shards_is_that_of_the_first_workers_unless_somebody_says_so(directory):
    assert directory.fitted(Settings(), workers=3).crawl.shards == 3
    assert directory.fitted(load(None, {}, {"crawl.shards": 8}), workers=3).crawl.shards == 8
    directory.write_settings(directory.fitted(Settings(), workers=3))
    assert directory.fitted(Settings(), workers=5).crawl.shards == 3
    assert directory.fitted(load(None, {}, {"crawl.shards": 3}), workers=5).crawl.shards == 3


def test_a_crawl_whose_keys_would_change_is_refused_and_left_as_it_was(directory):
    directory.write_settings(Settings())
    before = directory.settings_file.read_bytes()

    async def main():
        async with opened(directory.path, load(None, {}, {"urls.fold_scheme": True}), Events()):
            raise AssertionError("it was opened")

    with pytest.raises(SettingsError, match=r"\[urls\] differ .*crawl\.toml"):
        run(main())
    assert directory.settings_file.read_bytes() == before


@pytest.mark.parametrize("kept", [0.0, 0.5, 0.98])
def test_settings_that_have_lost_their_end_are_refused_with_a_way_out(directory, capsys, kept):
    directory.make(Settings())
    text = directory.settings_file.read_bytes()
    directory.settings_file.write_bytes(text[: int(len(text) * kept)])
    with pytest.raises(StateError, match=r"does not end with the line .*add that line.* -o"):
        directory.read_settings()
    for command in (["resume", str(directory.path)], ["crawl", "http://a.test/", "-o", str(directory.path)]):
        assert main(command) == 4
        assert capsys.readouterr().err.count("\n") == 1
    with pytest.raises(StateError, match="does not end with"):
        crawl(directory=directory.path)


def test_settings_may_be_changed_by_hand_and_those_of_another_making_once_their_last_line_is_there(directory):
    directory.make(Settings())
    text = directory.settings_file.read_text()
    directory.settings_file.write_text(text.replace('delay = "1s"', 'delay = "9s"') + "\n\n")
    assert directory.read_settings().politeness.delay == 9
    directory.settings_file.write_text(f'[politeness]\ndelay = "8s"\n{END_OF_SETTINGS}')
    assert directory.read_settings().politeness.delay == 8


@pytest.mark.parametrize("shards", [1, 4])
def test_settings_with_another_number_of_shards_than_the_state_are_refused(directory, shards):
    directory.make(load(None, {}, {"crawl.shards": 2}))
    (directory.state(0) / "CURRENT").touch()
    (directory.state(1) / "CURRENT").touch()
    assert directory.read_settings().crawl.shards == 2
    directory.write_settings(load(None, {}, {"crawl.shards": shards}))
    with pytest.raises(StateError, match=rf"crawl\.shards = {shards}, and .*state holds 00, 01; "):
        directory.read_settings()


def test_state_is_not_gone_on_with_when_its_settings_are_gone(directory):
    directory.make(Settings())
    (directory.state(0) / "CURRENT").touch()
    directory.settings_file.unlink()
    with pytest.raises(StateError, match=r"settings in .* are gone; bring them back, or .* -o"):
        directory.prepare()


@pytest.mark.parametrize("roots", [None, "", "http://a.te"])
def test_state_is_not_gone_on_with_when_its_roots_are_gone(directory, roots):
    async def begin(*starts):
        async with opened(directory.path, Settings(), Events()) as running:
            await running.seed(seeds.named(starts))

    run(begin())
    run(begin("http://a.test/"))  # before there is anything, nothing is missing
    directory.roots_file.unlink() if roots is None else directory.roots_file.write_text(roots)
    with pytest.raises(StateError, match=r"roots\.txt is empty or gone.* bring it back .* -o"):
        run(begin())


# ------------------------------------------------------------------------------------------------ roots, places


def test_roots_are_remembered_in_order(directory):
    assert directory.roots() == []
    directory.add_roots(["http://a.test/", "http://b.test/x?y=1"])
    directory.add_roots(iter(["http://c.test/"]))
    directory.add_roots([])
    assert directory.roots() == ["http://a.test/", "http://b.test/x?y=1", "http://c.test/"]


@pytest.mark.parametrize("torn", ["", "h", "http://evil.exam"])
def test_half_a_root_that_a_crash_left_is_no_root_and_spoils_no_other(directory, torn):
    directory.roots_file.write_text(f"http://a.test/\n{torn}")
    assert directory.roots() == ["http://a.test/"]
    directory.add_roots(["http://b.test/"])
    assert directory.roots() == ["http://a.test/", "http://b.test/"]


def test_a_file_of_half_a_root_is_empty(directory):
    directory.roots_file.write_text("http://a.te")
    assert directory.roots() == []
    directory.add_roots(["http://b.test/"])
    assert directory.roots() == ["http://b.test/"]


def test_every_shard_has_files_of_its_own(directory):
    assert directory.state(7) != directory.state(11)
    assert directory.state(7).name == "07"
    assert directory.request_log(7).name == "requests-07.jsonl"
    assert directory.request_log(0).parent.is_dir()


def test_settings_of_a_cluster_do_not_crawl_on_one_machine_by_mistake(tmp_path):
    settings = load(None, {}, {"cluster.size": "full"})
    with pytest.raises(SettingsError, match=r"cluster\.size is full.*skitter cluster add"):
        CrawlDirectory(tmp_path / "c").fitted(settings, workers=1)


def test_a_worker_does_not_touch_the_archive_of_another_crawl(tmp_path):
    directory = CrawlDirectory(tmp_path)
    directory.check_cluster("mine")  # nothing is there
    directory.prepare(state_elsewhere=True)
    cluster = structs.replace(Settings().cluster, size="redis", name="mine")
    directory.write_settings(structs.replace(Settings(), cluster=cluster))
    directory.check_cluster("other")  # nothing is in it
    (directory.archive / "00-20260101000000-00001.warc.gz").write_bytes(b"x")
    directory.check_cluster("mine")
    with pytest.raises(StateError, match="of the cluster mine, not of other"):
        directory.check_cluster("other")
    directory.write_settings(Settings())
    with pytest.raises(StateError, match="of a crawl on one machine"):
        directory.check_cluster("mine")
