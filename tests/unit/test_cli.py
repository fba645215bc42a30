"""The command line as a contract: exit codes, one-line errors, help with working examples, and a fast start."""

import io
import json
import os
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from msgspec.structs import replace

import skitter
from skitter.cli import COMMANDS, main
from skitter.cli.pages import _line
from skitter.cli.usage import Exit, Parser
from skitter.ports import StateError
from skitter.runtime import extras
from tests.unit.crawled import ABOUT, COPY, ROOT, CrawledSource, crawled, page

HEAVY = ("numpy", "rocksdict", "pycurl", "selectolax", "uvloop", "asyncio")


def fresh(*words: str, cwd: Path | None = None, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run the command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "skitter", *words],
        capture_output=True,
        timeout=60,
        cwd=cwd,
        input=stdin,
        check=False,
    )


# ---------------------------------------------------------------------------------------------- the frame


def test_the_version_is_the_packages(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"skitter {skitter.__version__}\n"


@pytest.mark.parametrize(
    "words",
    [["--version"], ["--help"], ["url", "https://example.org/"], ["crawl", "--help"], ["why", "--help"], ["export", "--help"], ["search", "--help"], ["index", "--help"]],
)  # fmt: skip
def test_small_questions_load_no_engine(words):
    code = f"import sys; from skitter.cli import main; main({words!r}); print([m for m in {HEAVY!r} if m in sys.modules])"
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert answer.stdout.splitlines()[-1] == "[]"


def test_the_help_lists_every_command(capsys):
    assert main(["--help"]) == 0
    listed = capsys.readouterr().out
    assert all(f"  {name} " in listed for name in COMMANDS)


def test_without_a_command_the_help_goes_to_standard_error(capsys):
    assert main([]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "usage: skitter COMMAND" in captured.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["crwl"], "skitter: 'crwl' is not a command; did you mean crawl?\n"),
        (["https://example.org"], "did you mean: skitter crawl https://example.org?"),
        (["zzzzzz"], "commands are crawl, resume, status"),
        (["url"], "the following arguments are required: URL (see skitter url --help)"),
        (["pages", "d", "--status", "9"], "'9' is not a status; write for example 404 or 4xx"),
        (["pages", "d", "--limit", "0"], "--limit: write 1 or more"),
        (["export", "d", "--format", "xml"], "invalid choice: 'xml'"),
        (["search", "d"], "no search words; write skitter search DIR WORD"),
        (["search", "d", "!"], "no searchable word in '!'; write what a page should contain"),
        (["search", "d", "x", "--limit", "0"], "--limit: write 1 or more"),
        (["search", "d", "x", "--offset", "-1"], "--offset: write 0 or more"),
        (["search", "x", "--config", "none.toml"], "none.toml: cannot be read"),
        (["search", "x", "--config", os.devnull], "search.addresses names no server; write for example"),
        (["crawl"], "there is nothing to crawl; name a URL, a file of URLs with --seeds, or a sitemap"),
        (["crawl", "ftp://example.org"], "there is nothing to crawl: argument 1: ftp://example.org: not an http"),
        (["crawl", "ftp://example.org", "-o", "x"], "ftp://example.org: not an http or https URL"),
        (["crawl", "a.example", "--delay", "soon"], "--delay: politeness.delay: 'soon' is not a duration"),
        (["crawl", "a.example", "--set", "fetch.deadlin=1"], "--set: unknown key fetch.deadlin; did you mean fetch.deadline?"),
        (["crawl", "a.example", "--set", "fetch.deadline"], "--set: 'fetch.deadline' has no value"),
        (["crawl", "a.example", "--max-page", "1"], "unrecognized arguments: --max-page 1; did you mean --max-pages? (see"),
        (["crawl", "a.example", "--config", "none.toml"], "none.toml: cannot be read"),
        (["crawl", "--seeds", "none.txt"], "--seeds: none.txt: No such file or directory; name an existing file"),
        (["robots", "f", "--agent", "(", "/"], "has no product token"),
        (["robots", os.devnull, "private/x"], "'private/x' is not a URL; write for example https://example.org/a, or the path /a"),
        (["robots", os.devnull, "/", "notaurl"], "'notaurl' is not a URL"),
        (["robots", "no-such-file", "/"], "skitter: no-such-file: No such file or directory; name an existing file, or -"),
        (["crawl", "--seeds", os.devnull], "there is nothing to crawl"),
        (["crawl", "--seeds", os.devnull, "-o", "d"], "there is nothing to crawl; the seeds are empty"),
        (["crawl", "ftp://a.example", "--seeds", os.devnull, "-o", "d"], "there is nothing to crawl: argument 1: ftp://a.example: "),
        (["export", "d", "--format", "urls", "--respect-ai", "tdm"], "--respect-ai leaves out pages, and urls lists none"),
        (["help", "crwl"], "'crwl' is not a command; did you mean crawl?"),
    ],
)  # fmt: skip
def test_wrong_usage_is_exit_code_2_and_one_line(words, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in captured.err
    assert captured.err.startswith("skitter: ")
    assert captured.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_variable_is_exit_code_2(capsys, monkeypatch):
    monkeypatch.setenv("SKITTER_POLITENESS_DEALY", "1s")
    assert main(["url", "example.org"]) == 2
    assert "did you mean politeness.delay?" in capsys.readouterr().err


def test_a_directory_without_a_crawl_is_exit_code_4(capsys, tmp_path):
    assert main(["resume", str(tmp_path)]) == 4
    assert "holds no crawl" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["status"],
        ["pages"],
        ["why", "https://example.org/"],
        ["export", "--format", "csv"],
        ["search", "x"],
        ["index"],
    ],
)
def test_reading_where_no_crawl_is_is_exit_code_4(words, capsys, tmp_path):
    name, *more = words
    assert main([name, str(tmp_path / "nowhere"), *more]) == 4
    assert "nowhere holds no crawl" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_file_cannot_be_a_crawl_directory(capsys, tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text("mine")
    assert main(["crawl", "a.example", "-o", str(file)]) == 2
    assert capsys.readouterr().err == f"skitter: {file} is a file; choose another crawl directory with -o\n"
    assert file.read_text() == "mine"


def test_help_of_a_command_is_its_help(capsys):
    assert main(["help", "crawl"]) == 0
    asked = capsys.readouterr().out
    assert main(["crawl", "--help"]) == 0
    assert asked == capsys.readouterr().out
    assert main(["help"]) == 0
    assert "usage: skitter COMMAND" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("problem", "code"),
    [
        (StateError("in use"), 4),
        (KeyboardInterrupt(), 130),
        (PermissionError(13, "Permission denied", "d"), 4),
    ],
)
def test_expected_troubles_have_their_exit_codes(problem, code, monkeypatch, capsys):
    def fail(_arguments: object) -> int:
        raise problem

    monkeypatch.setattr("skitter.cli.url.run", fail)
    assert main(["url", "x"]) == code
    assert capsys.readouterr().err.startswith("skitter: ")


def test_a_bug_is_loud(monkeypatch):
    def fail(_arguments: object) -> int:
        raise ZeroDivisionError

    monkeypatch.setattr("skitter.cli.url.run", fail)
    with pytest.raises(ZeroDivisionError):
        main(["url", "x"])


def test_a_closed_pipe_is_not_a_failure():
    many = [f"https://example.org/{n}" for n in range(3000)]
    words = [sys.executable, "-m", "skitter", "url", *many]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 0


# ---------------------------------------------------------------------------------------------- help and examples


def parser_of(name: str) -> Parser:
    made = import_module(f"skitter.cli.{name}").parser()
    assert isinstance(made, Parser)
    return made


@pytest.mark.parametrize("name", COMMANDS)
def test_every_help_ends_with_its_own_examples(name, capsys):
    assert main([name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert "examples:\n" in shown
    assert parser_of(name).examples
    for example in parser_of(name).examples:
        assert f"  {example}\n" in shown
        assert f"skitter {name}" in example


def commands(example: str) -> list[str]:
    """The words of the skitter command in an example, which may be part of a pipeline."""
    parts = " ".join(shlex.quote(word) for word in shlex.split(example)).split(" '|' ")
    (words,) = [shlex.split(part)[1:] for part in parts if part.startswith("skitter ")]
    return words


CONTROL = ("pause", "continue", "block", "unblock", "retry", "add", "reload")
EXAMPLES = [(name, example) for name in COMMANDS for example in parser_of(name).examples]


@pytest.mark.parametrize(("name", "example"), EXAMPLES)
def test_every_example_is_understood(name, example):
    command, *words = commands(example)
    assert command == name
    parser_of(name).read(words)


@pytest.mark.parametrize(
    "example",
    [
        example
        for name, example in EXAMPLES
        # `check` and `audit` read real files: their examples are in tests/crawl/test_check.py and test_audit.py. For those that control a crawl one has
        # to run: their examples are in tests/crawl/test_control.py and test_reload.py. `replay` and a WACZ need an archive: tests/crawl/test_replay.py
        # and test_wacz.py
        if name not in {"crawl", "plan", "resume", "index", "check", "audit", "identity", "replay", *CONTROL}
        and "wacz" not in example
        and "--follow" not in example
        and "curl" not in example
        and "--config" not in example
    ],
)
def test_every_example_that_needs_no_network_works(example, skitter_example_org, capsys):
    (skitter_example_org / "robots.txt").write_text("User-agent: *\nDisallow: /private/\n")
    expected = {
        "robots": 1,
        "export": 1 if "--format jsonl" in example else 0,
        "doctor": int("--citizen" in example),
    }
    words = commands(example)
    assert main(words) == expected.get(words[0], 0)
    assert capsys.readouterr().out or "-o" in words


# ---------------------------------------------------------------------------------------------- reading a crawl


class Opened(CrawledSource):
    async def close(self) -> None:
        pass


@pytest.fixture
def skitter_example_org(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory holds a crawl, which the reading commands find."""
    folder = tmp_path / "skitter-example.org"
    folder.mkdir()
    source = crawled(folder)

    async def open_source(_paths: object, _config: object) -> Opened:
        return Opened(source.frontier, source.archive, source.directory)

    monkeypatch.setattr("skitter.compose.open_source", open_source)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_status_shows_the_numbers(skitter_example_org, capsys):
    assert main(["status", "skitter-example.org"]) == 0
    shown = capsys.readouterr().out
    assert "Pages fetched" in shown
    assert "example.org" in shown
    assert main(["status", "skitter-example.org", "--json", "--hosts", "1"]) == 0
    fields = json.loads(capsys.readouterr().out)
    assert fields["counts"]["pages"] == 3
    assert fields["counts"]["refused"]["scope.host"] == 1
    assert [host["host"] for host in fields["hosts"]] == ["example.org"]
    assert set(fields["rates"]) == {"pages_per_second", "requests_per_second", "bytes_per_second"}


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ([], {ROOT, ABOUT, COPY, "https://example.org/gone"}),
        (["--status", "404"], {"https://example.org/gone"}),
        (["--status", "4xx", "--status", "5XX"], {"https://example.org/gone"}),
        (["--status", "2xx", "--contains", "ABOUT"], {ABOUT, COPY}),
        (["--contains", "/gone"], {"https://example.org/gone"}),
        (["--host", "*.example"], set()),
        (["--host", "EXAMPLE.org", "--duplicates"], {COPY}),
    ],
)
def test_pages_are_filtered(flags, expected, skitter_example_org, capsys):
    assert main(["pages", "skitter-example.org", "--json", *flags]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {record["url"] for record in records} == expected
    assert not any("text" in record for record in records)


def test_pages_for_people_have_a_line_each(skitter_example_org, capsys):
    assert main(["pages", "skitter-example.org", "--contains", "about us", "--limit", "1"]) == 0
    assert main(["pages", "skitter-example.org", "--contains", "copy"]) == 0
    assert main(["pages", "skitter-example.org", "--limit", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"200  {COPY}  =About ☃ us\\x1b[2J  (repeats {ABOUT})"
    assert len(lines) == 3


def test_near_and_exact_duplicates_are_distinguished():
    near = page(COPY, duplicate_of=ABOUT, title="Copy")
    assert _line(near) == f"200  {COPY}  Copy  (is nearly {ABOUT})"
    assert _line(replace(near, identical=True)) == f"200  {COPY}  Copy  (repeats {ABOUT})"


def test_why_says_no_with_exit_code_1(skitter_example_org, capsys):
    assert main(["why", "skitter-example.org", ABOUT]) == Exit.DONE
    assert main(["why", "skitter-example.org", "https://example.org/unheard"]) == Exit.NO
    assert main(["why", "skitter-example.org", "mailto:x"]) == Exit.USAGE
    capsys.readouterr()
    assert main(["why", "skitter-example.org", ABOUT, "--json"]) == Exit.DONE
    assert json.loads(capsys.readouterr().out)["key"] == ABOUT


def test_an_export_file_is_complete(skitter_example_org, capsys):
    assert main(["export", "skitter-example.org", "--format", "urls", "-o", "urls.jsonl"]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = Path("urls.jsonl").read_text().splitlines()
    assert captured.err == f"skitter: {len(lines)} URLs written to urls.jsonl\n"
    assert {json.loads(line)["url"] for line in lines} >= {ROOT, "https://other.example/"}
    assert sorted(path.name for path in Path().iterdir()) == ["skitter-example.org", "urls.jsonl"]


def test_an_export_with_unreadable_pages_says_so(skitter_example_org, capsys):
    assert main(["export", "skitter-example.org", "--format", "jsonl", "-o", "pages.jsonl"]) == 1
    assert "https://example.org/gone: its text cannot be read" in capsys.readouterr().err
    assert main(["export", "skitter-example.org", "--format", "jsonl", "-o", "pages.jsonl", "-q"]) == 1
    assert capsys.readouterr().err == ""


def test_an_export_that_fails_leaves_the_old_file_and_nothing_else(skitter_example_org, monkeypatch):
    Path("urls.jsonl").write_text("old")
    monkeypatch.setattr("skitter.export.formats.url_record", lambda record: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(["export", "skitter-example.org", "--format", "urls", "-o", "urls.jsonl"])
    assert Path("urls.jsonl").read_text() == "old"
    assert sorted(path.name for path in Path().iterdir()) == ["skitter-example.org", "urls.jsonl"]


def test_an_export_that_cannot_be_written_names_the_file_that_was_asked_for(skitter_example_org, capsys):
    assert main(["export", "skitter-example.org", "--format", "csv", "-o", "nodir/x.csv"]) == 4
    assert capsys.readouterr().err == "skitter: nodir/x.csv: No such file or directory\n"


def test_an_export_may_go_to_a_device(skitter_example_org, capsys):
    assert main(["export", "skitter-example.org", "--format", "links", "-o", os.devnull]) == 0


def test_exports_go_to_standard_output_when_no_file_is_named(skitter_example_org, capsys):
    assert main(["export", "skitter-example.org", "--format", "links"]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("source,target\n")
    assert captured.err == ""


# ---------------------------------------------------------------------------------------------- small commands


def test_url_shows_every_form(capsys):
    assert main(["url", "HTTP://WWW.Example.co.uk:80/b/../a?utm_source=x&b=1&a=2#top", "--shards", "1"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "fetched  http://www.example.co.uk/a?b=1&a=2",
        "key      http://www.example.co.uk/a?a=2&b=1",
        "host     www.example.co.uk",
        "domain   example.co.uk",
        "origin   http://www.example.co.uk",
        "surt     uk,co,example)/a?a=2&b=1",
        "shard    0",
    ]


def test_url_obeys_the_settings(tmp_path, capsys):
    config = tmp_path / "c.toml"
    config.write_text("[urls]\nfold_www = true\n")
    assert main(["url", "--json", "--config", str(config), "www.example.org"]) == 0
    assert json.loads(capsys.readouterr().out)["key"] == "https://example.org/"


def test_url_rejects_what_is_not_a_url(capsys):
    assert main(["url", "mailto:me@example.org", "example.org"]) == 1
    assert "mailto:me@example.org: not an http or https URL" in capsys.readouterr().out


def test_robots_answers_with_the_deciding_line(tmp_path, capsys):
    file = tmp_path / "robots.txt"
    file.write_text(
        "User-agent: *\nDisallow: /\n\nUser-agent: mybot\nAllow: /a\nDisallow: /a/b\nCrawl-delay: 5\nSitemap: /s.xml\n"
    )
    urls = ["https://example.org/a/b/c", "/a", "/other"]
    assert main(["robots", str(file), "--agent", "MyBot/2.0", *urls]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "disallowed  https://example.org/a/b/c  (line 6: Disallow: /a/b)",
        "allowed     /a  (line 5: Allow: /a)",
        "allowed     /other  (no line applies)",
        "mybot is asked to wait 5 s between requests",
        "sitemap: /s.xml",
    ]
    assert main(["robots", str(file), "--agent", "mybot", "/a", "--json"]) == 0
    fields = json.loads(capsys.readouterr().out)
    assert fields["urls"] == [
        {"url": "/a", "allowed": True, "line": {"number": 5, "text": "Allow: /a"}, "statements": []}
    ]
    assert fields["crawl_delay"] == 5


def test_robots_tells_what_is_said_about_uses(tmp_path, capsys):
    file = tmp_path / "robots.txt"
    file.write_text("User-agent: *\nDisallow: /x\nContent-Usage: train-ai=n\nContent-Signal: what=ever\n")
    assert main(["robots", str(file), "/a", "/x"]) == 1
    told = capsys.readouterr().out.splitlines()
    assert told[1:3] == [
        "            says train-ai=n  (Content-Usage in robots.txt: train-ai=n)",
        "            says nothing that is known here  (Content-Signal in robots.txt: what=ever)",
    ]
    assert len(told) == 4
    assert main(["robots", str(file), "/a", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["urls"]
    assert [one["uses"] for one in found["statements"]] == [{"train-ai": "n"}, {}]


def test_robots_reads_standard_input():
    answer = fresh("robots", "-", "/x", stdin=b"User-agent: *\nDisallow: /x\n")
    assert answer.returncode == 1
    assert answer.stdout == b"disallowed  /x  (line 2: Disallow: /x)\n"


def test_the_doctor_finds_everything_here(capsys):
    assert main(["doctor", "--json"]) == 0
    fields = json.loads(capsys.readouterr().out)
    assert fields["ok"] is True
    names = {check["name"] for check in fields["checks"]}
    assert names >= {
        "Python",
        "msgspec",
        "pycurl",
        "rocksdict",
        "libcurl",
        "certificates",
        "names",
        "open files",
        "disk",
    }
    assert main(["doctor"]) == 0
    assert capsys.readouterr().out.endswith("everything required is present\n")


def test_the_doctor_asks_the_engines_of_a_cluster(capsys, tmp_path):
    file = tmp_path / "cluster.toml"
    file.write_text('cluster.size = "redis"\nredis.addresses = ["127.0.0.1:1"]\n')
    assert main(["doctor", "--json", "--config", str(file)]) == 1
    *_, check = json.loads(capsys.readouterr().out)["checks"]
    assert (check["name"], check["ok"], check["found"]) == ("Redis", False, "away")
    assert "no server that takes writes answers at 127.0.0.1:1" in check["advice"]
    file.write_text("")
    assert main(["doctor", "--config", str(file)]) == 2
    assert "cluster.size is none" in capsys.readouterr().err


def test_doctor_names_what_is_missing_and_how_to_install_it(capsys, monkeypatch):
    monkeypatch.setattr("skitter.cli.doctor.libraries", lambda: ["no-such-library"])
    assert main(["doctor"]) == 1
    shown = capsys.readouterr().out
    assert "MISSING  no-such-library" in shown
    assert "pip install no-such-library" in shown
    assert shown.endswith("something required is missing\n")


def test_doctor_tells_which_extras_are_there_and_how_to_install_the_others(capsys, monkeypatch):
    monkeypatch.setitem(extras.LIBRARIES, "pdf", ("no_such_library",))
    monkeypatch.setattr("shutil.which", lambda _name: None)
    extras.is_there.cache_clear()
    try:
        assert main(["doctor"]) == 0
    finally:
        extras.is_there.cache_clear()
    shown = capsys.readouterr().out
    (line,) = [line for line in shown.splitlines() if "extra pdf" in line]
    assert line.startswith("note ")
    assert "needed for reading PDF" in line
    assert "[pdf]" in line
    assert "ok       extra tables" in shown
    assert "note     tesseract" in shown


def test_advice_alone_does_not_fail_the_check(capsys, monkeypatch):
    monkeypatch.setattr("resource.getrlimit", lambda _: (10, 10))
    assert main(["doctor"]) == 0
    assert "note     open files         10 (at most 10); run `ulimit -n" in capsys.readouterr().out


def test_output_that_the_terminal_cannot_show_does_not_break_a_command(monkeypatch):
    narrow = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", narrow)
    assert main(["url", "https://example.org/", "--json"]) == 0
    assert main(["robots", os.devnull, "/☃"]) == 0
    narrow.flush()
    assert b"\\u2603" in narrow.buffer.getvalue()
