"""`skitter sql`: questions are answered, and reach nothing but the tables, whoever wrote them."""

import asyncio
import csv
import io
import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from benchmarks.synthetic import build

from skitter.cli import main
from skitter.cli.answers import aligned, cell, jsonable
from skitter.export.checks import checks
from skitter.export.checks.running import Finding, findings
from skitter.export.tables.asking import folder_database, tables_named
from tests.unit.test_cli_export import PATIENCE, here  # noqa: F401  a fixture

ENDLESS = "select count(*) from pages a, pages b, pages c, pages d where a.size < b.size + c.size + d.size"


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A crawl directory of hundreds of pages, and beside it the same as Parquet files."""
    folder = tmp_path_factory.mktemp("asked")
    build(folder / "crawl", 600)
    words = ["export", str(folder / "crawl"), "--format", "parquet", "-o", f"{folder / 'tables'}/", "-q"]
    assert main(words) == 0
    return folder / "crawl"


@pytest.fixture(params=["crawl", "tables"])
def asked(request: pytest.FixtureRequest, crawl: Path) -> str:
    """What questions are asked about: a crawl, or its Parquet files."""
    return str(crawl.parent / request.param)


def sql(*words: str) -> int:
    return main(["sql", *words, "-q"])


# ---------------------------------------------------------------------------------------------- answers


def test_the_three_forms_of_an_answer(asked, capsys):
    question = "select url_protocol as p, count(*) as n, null as nothing from pages group by p order by p"
    assert sql(asked, question, "--json") == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["p"] for row in found] == ["http", "https"]
    assert all(row["nothing"] is None for row in found)
    assert sql(asked, question, "--csv") == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [int(row["n"]) for row in rows] == [row["n"] for row in found]
    assert sql(asked, question) == 0
    head, line, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == ["p", "n", "nothing"]
    assert set(line) == {"─", " "}
    assert [each.split() for each in lines] == [[row["p"], str(row["n"])] for row in found]


def test_times_are_in_utc_and_numbers_exact(crawl, capsys):
    question = "select max(fetch_time) as at, 0.1::double as x, 12345678901234567890::ubigint as n, [1, null] as l from pages"
    assert sql(str(crawl), question, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["at"].endswith("Z")
    assert found["at"].startswith("2027-01-15T08:")
    assert (found["x"], found["n"], found["l"]) == (0.1, 12345678901234567890, [1, None])


def test_hostile_text_is_shown_as_escapes_and_no_formula(here, capsys):  # noqa: F811
    question = "select title from pages where starts_with(title, '=')"
    assert sql("../crawl", question) == 0
    assert "\\x1b[2J" in (shown := capsys.readouterr().out)
    assert "\x1b" not in shown
    assert sql("../crawl", question, "--csv") == 0
    assert "'=About" in (shown := capsys.readouterr().out)
    assert "\x1b" not in shown
    assert sql("../crawl", question, "--json") == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert json.loads(shown.splitlines()[0])["title"] == "=About ☃ us\x1b[2J"


def test_a_column_may_be_asked_for_twice(crawl, capsys):
    assert sql(str(crawl), "select 1 as a, 2 as a", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"a": 1, "a_2": 2}


def test_a_long_table_is_cut_and_says_so(crawl, capsys):
    assert sql(str(crawl), "select * from range(1001), hosts limit 1001") == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 1002
    assert "--csv" in err
    assert sql(str(crawl), "select range from range(1001)", "--csv") == 0
    assert len(capsys.readouterr().out.splitlines()) == 1002


def test_the_answer_fits_the_terminal(crawl):
    """Long addresses are cut in the middle on a terminal, and nowhere else."""
    master, slave = pty.openpty()
    words = [sys.executable, "-m", "skitter", "sql", str(crawl.parent / "tables")]
    question = "select url, url as again from pages limit 3"
    environ = os.environ | {"COLUMNS": "60"}
    process = subprocess.Popen([*words, question], stdout=slave, stderr=subprocess.DEVNULL, env=environ)
    os.close(slave)
    shown = b""
    while True:
        try:
            some = os.read(master, 4096)
        except OSError:
            break
        shown += some
    os.close(master)
    assert process.wait(PATIENCE) == 0
    lines = shown.decode().splitlines()
    assert len(lines) == 5
    assert all(len(line) <= 60 for line in lines)
    assert "…" in lines[2]


def test_columns_are_cut_evenly_and_numbers_never():
    head, rows = ["name", "n", "text"], [["x" * 50, "1234567", "y" * 30], ["short", "1", "z"]]
    lines = aligned(head, rows, [False, True, False], 50)
    assert max(map(len, lines)) <= 50
    assert "1234567" in lines[2]
    assert aligned(head, rows, [False, True, False], None)[2].startswith("x" * 50)


@pytest.mark.parametrize(
    ("value", "in_a_table", "as_json"),
    [
        (None, "", None),
        (True, "true", True),
        (0.1 + 0.2, "0.3", 0.1 + 0.2),
        (float("nan"), "nan", None),
        (["a", None, 1], "a, , 1", ["a", None, 1]),
        ({"a": 1}, "{'a': 1}", {"a": 1}),
        (b"\xff\0", "b'\\xff\\x00'", "ff00"),
    ],
)
def test_values_of_all_kinds(value, in_a_table, as_json):
    assert cell(value) == in_a_table
    assert jsonable(value) == as_json


# ---------------------------------------------------------------------------------------------- what is loaded


def test_only_the_tables_of_a_question_are_loaded():
    assert tables_named(["select links_count from html_pages"]) == ["pages"]
    assert tables_named(["SELECT * FROM Links JOIN urls ON true"]) == ["links", "urls"]
    assert tables_named(["show tables"]) == ["pages", "links", "urls", "requests", "hosts"]


def test_a_crawl_is_asked_while_it_runs(tmp_path, capsys):
    """Its owner has the store open, and goes on."""
    script = """
import asyncio, sys
from pathlib import Path
from benchmarks.synthetic import build
from skitter.backends.rocksdb import rocks_frontier
from skitter.crawl.directory import CrawlDirectory
from skitter.model import Link
build(Path(sys.argv[1]), 200)
async def own():
    directory = CrawlDirectory(Path(sys.argv[1]))
    with directory.locked():
        frontier = rocks_frontier(directory.state(0))
        await frontier.open(2e9)
        await frontier.add([Link(url="https://new.example/", key="https://new.example/", host="new.example")], [], 2e9)
        print("ready", flush=True)
        sys.stdin.read()
        await frontier.close(2e9)
asyncio.run(own())
"""
    words = [sys.executable, "-c", script, str(tmp_path / "crawl")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"ready\n"
        assert (
            sql(str(tmp_path / "crawl"), "select url, state from urls where state = 'queued'", "--json") == 0
        )
        assert json.loads(capsys.readouterr().out) == {"url": "https://new.example/", "state": "queued"}
        owner.communicate(timeout=PATIENCE)
    assert owner.returncode == 0


# ---------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    "question",
    [
        "select * from read_csv('/etc/passwd')",
        "select * from read_text('/etc/passwd')",
        "select * from '/etc/passwd'",
        "select * from glob('/etc/*')",
        "select * from sniff_csv('/etc/passwd')",
        "attach 'stolen.db'",
        "attach ':memory:' as other",
        "copy pages to 'stolen.csv'",
        "copy (select 1) to '/dev/stdout'",
        "export database 'stolen'",
        "import database '/tmp'",
        "install httpfs",
        "load httpfs",
        "select * from read_csv('http://127.0.0.1:1/x')",
        "set memory_limit = '100GB'",
        "set enable_external_access = true",
        "reset lock_configuration",
        "pragma enable_profiling",
        "pragma database_list",
        "create table x as select 1",
        "insert into pages select * from pages",
        "delete from pages",
        "drop view html_pages",
        "create secret s (type s3)",
        "select 1; select 2",
        "select 1; drop table pages",
        "select getenv('HOME')",
        "",
        "selec 1",
        "select nothing from pages",
    ],
)
def test_sql_reaches_nothing_but_the_tables(crawl, question, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert sql(str(crawl.parent / "tables"), question) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("skitter: ")
    assert "root:" not in err
    assert list(tmp_path.iterdir()) == []


def test_a_crawl_in_a_directory_is_locked_as_well(crawl, capsys):
    for question in (
        "select * from read_csv('/etc/passwd')",
        "copy pages to 'x'",
        "set threads = 99",
        "install httpfs",
    ):
        assert sql(str(crawl), question) == 2
    assert "root:" not in capsys.readouterr().err


def test_other_files_in_the_folder_are_not_readable(crawl, capsys):
    other = crawl.parent / "tables" / "other.parquet"
    other.write_bytes((crawl.parent / "tables" / "pages.parquet").read_bytes())
    assert sql(str(crawl.parent / "tables"), f"select count(*) from pages, read_parquet('{other}')") == 2
    assert "disabled" in capsys.readouterr().err


def test_a_question_without_end_is_given_up(crawl, capsys):
    began = time.monotonic()
    assert sql(str(crawl), ENDLESS, "--timeout", "1s") == 3
    assert "--timeout" in capsys.readouterr().err
    assert time.monotonic() - began < PATIENCE


def test_too_much_memory_is_an_error(crawl, capsys):
    question = "select list(a.url || b.url || c.url) from pages a, pages b, pages c"
    assert sql(str(crawl), question, "--memory", "64MB") == 4
    assert "memory" in capsys.readouterr().err


def test_ctrl_c_ends_a_question(crawl):
    words = [sys.executable, "-m", "skitter", "sql", str(crawl.parent / "tables"), ENDLESS]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        time.sleep(3)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out, err) == (130, b"", b"skitter: interrupted\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "skitter sql DIR broken-links"),
        (["DIR"], "skitter sql DIR broken-links"),
        (["DIR", "brokn-links"], "did you mean broken-links?"),
        (["DIR", "select 1", "--csv", "--json"], "choose one"),
        (["DIR", "select 1", "--timeout", "soon"], "--timeout"),
        (["DIR", "select 1", "--memory", "1KB"], "32MB or more"),
    ],
)
def test_wrong_usage_says_what_to_write(words, said, capsys):
    assert sql(*words) == 2
    assert said in capsys.readouterr().err


def test_a_folder_with_a_missing_file_says_so(crawl, tmp_path, capsys):
    (tmp_path / "pages.parquet").symlink_to(crawl.parent / "tables" / "pages.parquet")
    assert sql(str(tmp_path), "select count(*) from pages") == 0
    capsys.readouterr()
    assert sql(str(tmp_path), "select count(*) from links") == 4
    assert "no links.parquet" in capsys.readouterr().err


def test_a_truncated_parquet_file_is_an_error(crawl, tmp_path, capsys):
    octets = (crawl.parent / "tables" / "pages.parquet").read_bytes()
    (tmp_path / "pages.parquet").write_bytes(octets[: len(octets) // 2])
    assert sql(str(tmp_path), "select count(*) from pages") in (2, 4)
    assert "pages.parquet" in capsys.readouterr().err


def test_without_duckdb_one_line_says_how_to_get_it(crawl, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert sql(str(crawl), "select 1") == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "[tables]" in said
    assert main(["sql", "--list"]) == 0


# ---------------------------------------------------------------------------------------------- the library


def test_the_library_is_listed_and_shown(capsys):
    assert main(["sql", "--list"]) == 0
    listed = capsys.readouterr().out
    assert len(checks()) >= 30
    assert all(name in listed for name in checks())
    assert main(["sql", "--show", "broken-links"]) == 0
    assert capsys.readouterr().out.startswith("select ")


@pytest.mark.parametrize("name", checks())
def test_every_check_says_what_it_is(name):
    check = checks()[name]
    assert check.kind in ("problem", "overview")
    assert all(text.endswith(".") for text in (check.about, check.advice))
    assert not check.title.endswith(".")
    assert "order by" in check.sql  # the same crawl gives the same answer


def test_every_check_is_answered(crawl):
    async def answers() -> list[Finding]:
        questions = [check.sql for check in checks().values()]
        async with folder_database(crawl.parent / "tables", questions) as opened:
            return [each async for each in findings(opened, checks().values(), 5)]

    found = {each.check.name: each for each in asyncio.run(answers())}
    assert found.keys() == checks().keys()
    for each in found.values():
        assert set(each.check.chart[:2]) <= set(each.columns)
        assert len(each.rows) == min(5, each.total)
    assert sum(each.total > 0 for each in found.values()) > 30
