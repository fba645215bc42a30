"""`skitter job` as people use it: what is refused and how, what is kept, and what is shown. No crawl runs here."""

import json
import shlex
from importlib import import_module

import pytest

from skitter.cli import main
from skitter.cli.job import parser
from skitter.cli.job_acting import crawl_of
from skitter.cli.options import resolve
from skitter.jobs.child import crawl_words

ADD = ["job", "add", "news", "https://example.org"]


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def said(capsys, *words: str, code: int = 0) -> str:
    assert main([*words]) == code
    captured = capsys.readouterr()
    return str(captured.out if not code else captured.err)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([*ADD, "--every", "0 0 30 2 *"], "'0 0 30 2 *' never comes true: no such day is in these months"),
        ([*ADD, "--every", "often"], "'often' is not a cron line; write five fields"),
        (
            [*ADD, "--every", "@daily", "--zone", "Europe/Berln"],
            "is not a time zone; did you mean Europe/Berlin?",
        ),
        (["job", "add", "../up", "https://example.org"], "'../up' is no name of a job"),
        (["job", "add", "news"], "there is nothing to crawl; name a URL"),
        (["job", "add", "news", "ftp://example.org"], "not an http or https URL"),
        ([*ADD, "--max-page", "5"], "did you mean --max-pages?"),
        ([*ADD, "--delay", "soon"], "politeness.delay: 'soon' is not a duration"),
        ([*ADD, "--set", "fetch.deadlin=1"], "did you mean fetch.deadline?"),
        ([*ADD, "--config", "none.toml"], "none.toml: cannot be read"),
        ([*ADD, "--seeds", "-"], "--seeds: -: name an existing file"),
        ([*ADD, "--seeds", "none.txt"], "--seeds: none.txt: name an existing file"),
        ([*ADD, "--kind", "weekly"], "invalid choice: 'weekly'"),
        ([*ADD, "--deadline", "late"], "'late' is not a duration"),
        ([*ADD, "--keep", "0"], "--keep: write 1 or more"),
        ([*ADD, "--keep", "3", "--kind", "continue"], "share one crawl, so there are no old ones"),
        ([*ADD, "--webhook", "ftp://example.org"], "--webhook: ftp://example.org: not an http or https URL"),
        (["job", "list"], "there are no jobs in skitter-jobs; add one with"),
        (["job", "run", "news"], "there are no jobs in skitter-jobs"),
        (["job", "serve", "--at-once", "0"], "--at-once: write 1 to 100"),
        (["job", "serve", "--lease", "0"], "--lease: write 1s or more"),
        (["job", "servve"], "invalid choice: 'servve'"),
        (["job"], "the following arguments are required: action"),
        (["job", "pause"], "the following arguments are required: NAME (see skitter job pause --help)"),
    ],
)
def test_what_cannot_be_is_exit_code_2_one_line_and_nothing_made(words, complaint, capsys, tmp_path):
    told = said(capsys, *words, code=2)
    assert complaint in told
    assert told.startswith("skitter: ")
    assert told.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_job_is_kept_as_it_was_given(capsys, tmp_path):
    (tmp_path / "urls.txt").write_text("https://example.org/a\n")
    (tmp_path / "crawl.toml").write_text("[crawl]\nmax_pages = 7\n")
    flags = "--seeds urls.txt --config crawl.toml --max-depth 3 --include a --include 'b\"c' --set fetch.deadline=9s --sitemap-only"
    when = '--every "0 3 * * 1" --zone Europe/Berlin --kind continue --overlap queue --deadline 6h'
    said(capsys, *ADD, *shlex.split(flags), *shlex.split(when))
    job = json.loads(said(capsys, "job", "show", "news", "--json"))
    assert job["crawl"] == {
        "urls": ["https://example.org"],
        "seeds": [str(tmp_path / "urls.txt")],
        "config": str(tmp_path / "crawl.toml"),
        "settings": {
            "scope.max_depth": "3",
            "scope.include": '["a", "b\\"c"]',
            "fetch.deadline": "9s",
            "scope.sitemaps": "only",
        },
        "folder": str(tmp_path),
    }
    assert (job["every"], job["zone"], job["kind"], job["overlap"], job["deadline"]) == (
        "0 3 * * 1", "Europe/Berlin", "continue", "queue", 21600,
    )  # fmt: skip
    assert job["next"].endswith((":00:00.000Z",))


def test_what_is_kept_is_read_back_by_the_command_that_crawls(capsys):
    """The words of the process are those of `skitter crawl`, and mean the same settings."""
    typed = shlex.split(
        "example.org --max-pages 5 --include a --include 'b,\"c' --resolve example.org:127.0.0.1 --assets --delay 3s --sitemap-only"
    )
    first = import_module("skitter.cli.crawl").parser().read(typed)
    again = import_module("skitter.cli.crawl").parser().read(crawl_words(crawl_of(first)))
    assert resolve(again, None) == resolve(
        import_module("skitter.cli.crawl").parser().read([*typed, "--set", "scope.sitemaps=only"]), None
    )
    assert again.url == first.url


def test_pause_continue_replace_and_remove(capsys):
    said(capsys, *ADD, "--every", "@daily")
    assert "there is a job news already" in said(capsys, *ADD, code=2)
    said(capsys, "job", "pause", "news")
    assert "paused" in said(capsys, "job", "list")
    said(capsys, *ADD, "--every", "@hourly", "--replace")
    job = json.loads(said(capsys, "job", "show", "news", "--json"))
    assert (job["every"], job["paused"], job["next"]) == ("0 * * * *", True, None)
    assert "add another job" in said(capsys, *ADD, "--kind", "continue", "--replace", code=2)
    assert "next" in said(capsys, "job", "continue", "news")
    assert "no run that is not over" in capsys_of(capsys, "job", "stop", "news", code=1)
    assert "news has never run" in said(capsys, "job", "log", "news")
    assert "is removed" in said(capsys, "job", "remove", "news")
    assert said(capsys, "job", "list") == "no jobs\n"
    assert "there is no job news; there are none yet" in said(capsys, "job", "show", "news", code=2)


def capsys_of(capsys, *words: str, code: int) -> str:
    assert main([*words]) == code
    return str(capsys.readouterr().out)


def test_a_run_is_queued_once(capsys):
    said(capsys, *ADD)
    assert "waits for a scheduler" in said(capsys, "job", "run", "news", "--queue")
    assert "is not over yet (waiting)" in said(capsys, "job", "run", "news", "--queue", code=4)
    run = json.loads(said(capsys, "job", "log", "news", "--json"))["runs"][0]
    assert (run["state"], run["by_hand"], run["tries"]) == ("waiting", True, 0)
    assert json.loads(said(capsys, "job", "stop", "news", "--json"))["state"] == "stopped"
    assert run["run"] in said(capsys, "job", "log", "news", "--run", run["run"])
    assert "has no run x" in said(capsys, "job", "log", "news", "--run", "x", code=2)
    assert "somebody stopped it" in said(capsys, "job", "log", "news")


def test_hostile_text_is_shown_harmlessly(capsys, tmp_path):
    said(capsys, *ADD, "--command", "mail \x1b]0;x\x07 \u202e me")
    for action in (("show", "news"), ("list",)):
        shown = said(capsys, "job", *action)
        assert "\x1b" not in shown
        assert "\u202e" not in shown


@pytest.mark.parametrize("action", parser().actions)
def test_every_action_has_help_with_examples_that_are_understood(action, capsys):
    shown = said(capsys, "job", action, "--help")
    made = parser().actions[action]()
    assert made.examples
    for example in made.examples:
        assert f"  {example}\n" in shown
        program, command, *words = shlex.split(example)
        assert (program, command, words[0]) == ("skitter", "job", action)
        assert parser().read(words).action == action
