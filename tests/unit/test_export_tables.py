"""A crawl as tables: Parquet that other programs read, and SQLite; whole or not at all."""

import os
import signal
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import polars as pl
import pytest
from benchmarks.synthetic import build

from skitter.cli import main
from skitter.export.tables.languages import iso_639_3
from skitter.export.tables.shapes import HOSTS, LINKS, PAGES, REQUESTS, TABLES, URLS
from tests.unit.crawled import ABOUT, COPY, NOW
from tests.unit.test_cli_export import PATIENCE, export, here, started, until_written  # noqa: F401  fixtures

PAGES_MADE = 3_000


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A crawl directory with thousands of pages."""
    folder = tmp_path_factory.mktemp("large") / "crawl"
    build(folder, PAGES_MADE)
    return folder


@pytest.fixture(scope="module")
def tables(large: Path) -> Path:
    """The same as Parquet files."""
    folder = large.parent / "tables"
    assert main(["export", str(large), "--format", "parquet", "-o", f"{folder}/", "-q"]) == 0
    return folder


# ---------------------------------------------------------------------------------------------- what is in them


def test_a_page_is_one_row_with_common_crawls_columns_first(here):  # noqa: F811
    assert export("--format", "parquet", "-o", "out/", "-q") == 0
    found = pl.read_parquet("out/pages.parquet")
    assert found.columns == list(PAGES.columns)
    assert found.columns[:10] == [
        *("url_surtkey", "url", "url_host_name", "url_host_tld", "url_host_registered_domain"),
        *("url_protocol", "url_path", "url_query", "fetch_time", "fetch_status"),
    ]
    row = found.row(by_predicate=pl.col("url") == COPY, named=True)
    assert row["url_surtkey"] == "org,example)/copy"
    assert row["url_host_name"] == row["url_host_registered_domain"] == "example.org"
    assert row["url_host_tld"] == "org"
    assert row["url_path"] == "/copy"
    assert row["url_query"] is None
    assert row["fetch_time"] == datetime.fromtimestamp(NOW, UTC).replace(tzinfo=None)
    assert row["warc_record_offset"] == 300
    assert row["title"] == "=About ☃ us\x1b[2J"  # data, as it was: only people need escapes
    assert row["duplicate_of"] == ABOUT
    assert row["identical"] is True
    assert row["robots_index"] is False


def test_every_table_has_its_columns_types_and_order(tables):
    for table in TABLES.values():
        found = duckdb.sql(f"describe from '{tables / table.name}.parquet'").fetchall()
        assert {name: kind for name, kind, *_ in found} == dict(table.columns)
        order = ", ".join(table.order)
        keys = duckdb.sql(f"select {order} from '{tables / table.name}.parquet'").fetchall()
        assert keys
        assert keys == sorted(keys)
    codecs = duckdb.sql(
        f"select distinct compression from parquet_metadata('{tables}/pages.parquet')"
    ).fetchall()
    assert codecs == [("ZSTD",)]


def test_links_urls_and_requests_agree_with_the_records(large, tables, capsys):
    assert main(["export", str(large), "--format", "urls"]) == 0
    records = capsys.readouterr().out.splitlines()
    assert main(["export", str(large), "--format", "links"]) == 0
    links = sorted(capsys.readouterr().out.splitlines()[1:])
    assert pl.read_parquet(tables / "urls.parquet").height == len(records)
    found = pl.read_parquet(tables / "links.parquet")
    assert sorted(f"{source},{target}" for source, target in found.iter_rows()) == links
    assert pl.read_parquet(tables / "requests.parquet").height > PAGES_MADE


def test_a_redirect_names_its_target(tables):
    found = pl.read_parquet(tables / "urls.parquet").filter(pl.col("fetch_redirect").is_not_null())
    assert found.height > 10
    assert set(found["fetch_status"]) == {301}
    assert found["fetch_redirect"].str.starts_with("http").all()


def test_pandas_reads_them_too(tables):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    for table in TABLES.values():
        found = pandas.read_parquet(tables / f"{table.name}.parquet")
        assert list(found.columns) == list(table.columns)
        assert len(found) == pl.read_parquet(tables / f"{table.name}.parquet").height


def test_pages_that_say_no_to_a_use_are_left_out(here, capsys):  # noqa: F811
    assert export("--format", "parquet", "-o", "out/", "--respect-ai", "train-ai") == 0
    assert "written to out/ (5 files)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("tag", "code"),
    [
        ("en", "eng"),
        ("en-GB", "eng"),
        ("DE_at", "deu"),
        ("zh-Hant", "zho"),
        ("fra", "fra"),
        ("", None),
        ("x-klingon", None),
    ],
)
def test_languages_have_three_letters(tag, code):
    assert iso_639_3(tag) == code


# ---------------------------------------------------------------------------------------------- SQLite


def test_sqlite_holds_the_same_rows_with_indexes(large, tables, tmp_path):
    file = tmp_path / "crawl.sqlite"
    assert main(["export", str(large), "--format", "sqlite", "-o", str(file), "-q"]) == 0
    database = sqlite3.connect(file)
    try:
        assert database.execute("pragma integrity_check").fetchone() == ("ok",)
        for table in (PAGES, LINKS, URLS, REQUESTS, HOSTS):
            (rows,) = database.execute(f"select count(*) from {table.name}").fetchone()
            assert rows == pl.read_parquet(tables / f"{table.name}.parquet").height
        url, time, simhash = database.execute(
            "select url, fetch_time, simhash from pages order by url"
        ).fetchone()
        found = pl.read_parquet(tables / "pages.parquet")
        row = found.row(by_predicate=pl.col("url") == url, named=True)
        assert time == row["fetch_time"].isoformat(timespec="milliseconds") + "Z"
        assert simhash == f"{row['simhash']:016x}"
        plan = database.execute("explain query plan select * from links where target = 'x'").fetchall()
        assert "links_target" in str(plan)
    finally:
        database.close()


# ---------------------------------------------------------------------------------------------- whole or not at all


@pytest.mark.parametrize("words", [["parquet", "-o", "out/"], ["sqlite", "-o", "out.sqlite"]])
def test_a_full_disk_leaves_nothing_and_says_so(tmp_path, words):
    process = started(tmp_path, "--format", *words, limit=1_000)
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 4, said
    assert words[-1].rstrip("/") in said.decode()
    assert list((tmp_path / "here").iterdir()) == []


def test_a_damaged_disk_does_not_replace_what_was_there(tmp_path):
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "out.sqlite").write_text("before")
    process = started(tmp_path, "--format", "sqlite", "-o", "out.sqlite", limit=1_000)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 4
    assert [path.name for path in (tmp_path / "here").iterdir()] == ["out.sqlite"]
    assert (tmp_path / "here" / "out.sqlite").read_text() == "before"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["parquet"], "as in -o parquet/"),
        (["parquet", "-o", "x/", "--gzip"], "neither split nor compressed"),
        (["sqlite"], "name a file with -o"),
        (["sqlite", "-o", "x.sqlite", "--split", "1MB"], "neither split nor compressed"),
    ],
)
def test_wrong_words_are_refused_at_once(here, capsys, words, said):  # noqa: F811
    assert export("--format", *words) == 2
    assert said in capsys.readouterr().err
    assert list(here.iterdir()) == []


def test_a_pipe_cannot_hold_a_database(here, capsys):  # noqa: F811
    os.mkfifo("pipe")
    assert export("--format", "sqlite", "-o", "pipe") == 4
    assert "pipe: this format needs a file or a folder" in capsys.readouterr().err


def test_without_duckdb_one_line_says_how_to_get_it(here, capsys, monkeypatch):  # noqa: F811
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert export("--format", "parquet", "-o", "out/") == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "[tables]" in said
    assert list(here.iterdir()) == []
    assert export("--format", "sqlite", "-o", "out.sqlite") == 0


def test_an_interrupt_leaves_nothing(large, tmp_path):
    (tmp_path / "here").mkdir()
    words = ["export", str(large), "--format", "sqlite", "-o", str(tmp_path / "here" / "x")]
    process = subprocess.Popen([sys.executable, "-m", "skitter", *words], stderr=subprocess.PIPE)
    until_written(tmp_path, process)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE)
    left = [path.name for path in (tmp_path / "here").iterdir()]
    assert (process.returncode, left) in [(130, []), (0, ["x"])]  # it may have been faster
