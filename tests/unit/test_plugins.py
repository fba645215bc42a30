"""User code: what is imported, what is refused, and what a scorer that fails costs."""

import math
import signal
import subprocess
import sys
import textwrap
from fractions import Fraction
from pathlib import Path

import pytest

from skitter import plugins
from skitter.events import Event, Events, Warned
from skitter.links.scoring import UserScorer, failure_of
from skitter.plugins import FoundLink, PluginError
from skitter.settings import SettingsError
from skitter.settings.file import load

LINK = FoundLink(url="https://example.org/a", host="example.org", depth=1)


NOTE = "with open('{}', 'a') as log: log.write('x')"


def settings(strategy: str = "bfs", *names: Path | str):
    return load(None, {}, {"schedule.strategy": strategy, "crawl.plugins": [str(name) for name in names]})


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch):
    """Modules that a test has imported are gone after it."""
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


# ---------------------------------------------------------------------------------------------- how it is imported


def test_a_function_in_a_file_is_found_by_the_stem_of_the_file(tmp_path):
    file = written(tmp_path, "far_first.py", "def score(link): return link.depth * 10")
    chosen = settings("far_first:score", file)
    plugins.check(chosen)
    scorer = plugins.load(chosen).scorer("far_first:score")
    assert scorer is not None
    assert scorer(LINK) == 10


def test_a_function_in_a_module_needs_no_plugin(tmp_path, monkeypatch):
    (tmp_path / "house").mkdir()
    written(tmp_path / "house", "rules.py", "def score(link): return 7")
    monkeypatch.syspath_prepend(tmp_path)
    chosen = settings("house.rules:score")
    plugins.check(chosen)
    scorer = plugins.load(chosen).scorer("house.rules:score")
    assert scorer is not None
    assert scorer(LINK) == 7


def test_a_file_is_imported_once_in_a_process(tmp_path):
    file = written(tmp_path, "counted_import.py", NOTE.format(tmp_path / "log"))
    plugins.load(settings("bfs", file))
    plugins.load(settings("bfs", file))
    assert (tmp_path / "log").read_text() == "x"


def test_our_own_strategies_are_no_functions_of_the_user():
    assert plugins.load(settings("dfs")).scorer("dfs") is None


def test_paths_are_relative_to_the_settings_file_or_the_current_directory(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    file = tmp_path / "conf" / "crawl.toml"
    file.parent.mkdir()
    file.write_text('[crawl]\nplugins = ["scorer.py", "package.module", "/opt/x.py"]\n')
    assert load(file, {}, {}).crawl.plugins == (
        str(tmp_path / "conf" / "scorer.py"),
        "package.module",
        "/opt/x.py",
    )
    assert load(file, {}, {"crawl.plugins": ["./scorer"]}).crawl.plugins == (
        str(tmp_path / "here" / "scorer"),
    )
    assert load(None, {"SKITTER_CRAWL_PLUGINS": "s.py"}, {}).crawl.plugins == (
        str(tmp_path / "here" / "s.py"),
    )


@pytest.mark.parametrize("wrong", ["my scorer", "", "a..b", "3d"])
def test_a_name_that_is_neither_a_file_nor_a_module_is_refused(wrong):
    with pytest.raises(SettingsError, match="neither a file nor a module"):
        load(None, {}, {"crawl.plugins": [wrong]})


@pytest.mark.parametrize("wrong", ["scorer:", ":score", "a:b:c", "a b:c", "a:1"])
def test_a_strategy_that_is_no_module_and_function_is_refused(wrong):
    with pytest.raises(SettingsError, match="not module:function"):
        load(None, {}, {"schedule.strategy": wrong})


def test_a_strategy_without_a_function_says_how_to_write_one():
    with pytest.raises(
        SettingsError,
        match="bfs, dfs, depth, number, importance, features, opic or larger-sites, nor module:function",
    ):
        load(None, {}, {"schedule.strategy": "scorer"})


# ---------------------------------------------------------------------------------------------- entry points


def installed(folder: Path, points: str, module: str) -> None:
    """A tiny distribution: metadata and one module."""
    info = folder / "house_rules-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: house-rules\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(points)
    (folder / "house_rules.py").write_text(textwrap.dedent(module))


def test_an_entry_point_is_imported_and_names_its_module(tmp_path, monkeypatch):
    installed(
        tmp_path,
        "[skitter]\nhouse = house_rules:begin\n",
        f"""
        def begin(): ...
        def score(link): return 3
        {NOTE.format(tmp_path / "log")}
        """,
    )
    monkeypatch.syspath_prepend(tmp_path)
    chosen = settings("house:score")
    plugins.check(chosen)
    assert (tmp_path / "log").read_text() == "x"
    scorer = plugins.load(chosen).scorer("house:score")
    assert scorer is not None
    assert scorer(LINK) == 3


def test_a_broken_entry_point_is_named_with_its_distribution(tmp_path, monkeypatch):
    installed(tmp_path, "[skitter]\nhouse = house_rules\n", "\n1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(PluginError) as problem:
        plugins.check(settings())
    assert f"{tmp_path / 'house_rules.py'}:2: ZeroDivisionError" in str(problem.value)
    assert "uninstall house-rules" in str(problem.value)


def test_without_entry_points_their_library_is_not_even_imported():
    program = (
        "import sys; from skitter import plugins; from skitter.settings import Settings; "
        "plugins.check(Settings()); plugins.load(Settings()); print('importlib.metadata' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


# ---------------------------------------------------------------------------------------------- what is refused


BAD = {
    "syntax": ("def score(link):\n  return (", ":2: SyntaxError"),
    "raises": ("import os\n\nos.no_such_thing", ":3: AttributeError"),
    "lacks": ("import no_such_library_anywhere", ":1: ModuleNotFoundError"),
    "leaves": ("import sys\nsys.exit(3)", ":2: SystemExit"),
    "no_function": ("def other(link): return 1", "has no function score"),
    "no_function_at_all": ("score = 5", "score is not a function"),
    "coroutine": ("\nasync def score(link): return 1", ":2: score must be a plain function"),
    "null": ("\0", "when it was imported"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_plugin_is_one_line_with_its_file(tmp_path, kind):
    text, said = BAD[kind]
    file = written(tmp_path, f"bad_{kind}.py", text)
    with pytest.raises(PluginError) as problem:
        plugins.check(settings(f"bad_{kind}:score", file))
    message = str(problem.value)
    assert message.startswith(str(file))
    assert said in message or (kind == "null" and "SyntaxError" in message)
    assert "\n" not in message
    assert f"bad_{kind}" not in sys.modules


def test_a_plugin_that_is_gone_or_hides_a_module_is_refused(tmp_path):
    with pytest.raises(PluginError, match=r"gone\.py: the plug-in is not there; .*--with FILE"):
        plugins.check(settings("bfs", tmp_path / "gone.py"))
    hiding = written(tmp_path, "json.py", "")
    with pytest.raises(PluginError, match="there is a module json already"):
        plugins.check(settings("bfs", hiding))
    with pytest.raises(PluginError, match="there is no module no_such_module_anywhere"):
        plugins.check(settings("bfs", "no_such_module_anywhere"))
    with pytest.raises(PluginError, match="there is no module scorer_nowhere; name its file with --with"):
        plugins.check(settings("scorer_nowhere:score"))


def test_two_files_of_one_name_are_refused(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    files = [written(tmp_path / part, "twin_scorer.py", "") for part in "ab"]
    with pytest.raises(PluginError, match="rename"):
        plugins.check(settings("bfs", *files))


# With `re`, the interpreter is never let go of: the hang is in C.
HANGS = {"sleeps": "import time\ntime.sleep(600)", "holds": "import re\nre.match('(a*)*(a*)*b', 'a' * 60)"}


@pytest.mark.parametrize("kind", HANGS)
def test_a_plugin_that_hangs_at_import_is_given_up_with_its_line(tmp_path, kind, monkeypatch):
    monkeypatch.setattr(plugins, "DEADLINE", 2.0)
    file = written(tmp_path, f"hang_{kind}.py", HANGS[kind])
    with pytest.raises(PluginError, match=rf"hang_{kind}\.py:2: .* still being imported after 2 s"):
        plugins.check(settings("bfs", file))


def test_a_plugin_that_kills_its_process_is_named(tmp_path):
    file = written(tmp_path, "deadly.py", "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)")
    with pytest.raises(PluginError, match=r"deadly\.py: .* ended \(SIGSEGV\)"):
        plugins.check(settings("bfs", file))


def test_an_interrupt_while_plugins_are_tried_is_an_interrupt(tmp_path):
    text = f"import os, signal\nos.kill(os.getpid(), {int(signal.SIGINT)})\nimport time\ntime.sleep(600)"
    with pytest.raises(KeyboardInterrupt):
        plugins.check(settings("bfs", written(tmp_path, "interrupted.py", text)))


def test_what_a_plugin_prints_is_no_report(tmp_path):
    file = written(tmp_path, "chatty.py", """print('["done", ""]', flush=True)\n1 / 0""")
    with pytest.raises(PluginError, match=r"chatty\.py:2: ZeroDivisionError"):
        plugins.check(settings("bfs", file))


# ---------------------------------------------------------------------------------------------- a scorer that fails


def scorer_of(function, tmp_path: Path) -> tuple[UserScorer, list[Event]]:
    heard: list[Event] = []
    return UserScorer(function, Events(heard.append), tmp_path / "scorer.jsonl"), heard


def test_a_scorer_that_raises_costs_a_default_score_and_is_reported_once_per_kind(tmp_path):
    def score(link: FoundLink) -> float:
        return 1 / link.depth if link.depth < 5 else int(link.url)

    scorer, heard = scorer_of(score, tmp_path)
    for depth in (0, 0, 2, 7, 7):
        got = scorer.score(FoundLink(url=f"https://example.org/{depth}", host="", depth=depth), f"k{depth}")
        assert got == (0.5 if depth == 2 else 0.0)
    line = score.__code__.co_firstlineno + 1
    texts = [event.text for event in heard if isinstance(event, Warned)]
    assert [text.partition(": your scorer failed")[0] for text in texts] == [f"{__file__}:{line}"] * 2
    assert "ZeroDivisionError" in texts[0]
    assert "ValueError" in texts[1]
    assert scorer.failures == 4
    failure = failure_of(tmp_path / "scorer.jsonl", "k0")
    assert failure is not None
    assert failure["problem"] == "ZeroDivisionError: division by zero"
    assert failure["place"] == f"{__file__}:{line}"
    assert failure_of(tmp_path / "scorer.jsonl", "k2") is None


def hostile_repr():
    class Odd:
        def __repr__(self) -> str:
            raise RuntimeError("no repr either")

    return Odd()


@pytest.mark.parametrize(
    "value",
    [None, "3", math.nan, math.inf, -math.inf, True, 1j, [], 10**400, hostile_repr()],
    ids=lambda value: type(value).__name__,
)
def test_what_is_not_a_finite_number_counts_as_a_failure(tmp_path, value):
    scorer, heard = scorer_of(lambda _: value, tmp_path)
    assert scorer.score(LINK, "k") == 0.0
    assert scorer.failures == len(heard) == 1


@pytest.mark.parametrize("value", [3, 2.5, Fraction(1, 2)])
def test_any_real_number_is_a_score(tmp_path, value):
    scorer, _ = scorer_of(lambda _: value, tmp_path)
    score = scorer.score(LINK, "k")
    assert score == float(value)
    assert type(score) is float


def test_a_scorer_that_leaves_the_program_does_not(tmp_path):
    scorer, _ = scorer_of(lambda _: sys.exit(1), tmp_path)
    assert scorer.score(LINK, "k") == 0.0
    assert scorer.failures == 1


def test_an_exception_that_cannot_even_be_shown_is_named_by_its_type(tmp_path):
    class Unspeakable(Exception):  # noqa: N818
        def __str__(self) -> str:
            raise self

    def score(_: FoundLink) -> float:
        raise Unspeakable

    scorer, heard = scorer_of(score, tmp_path)
    assert scorer.score(LINK, "k") == 0.0
    assert isinstance(heard[0], Warned)
    assert "Unspeakable" in heard[0].text


def test_failures_are_counted_without_end_but_not_written_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr("skitter.links.scoring._WRITTEN", 5)
    scorer, heard = scorer_of(lambda _: None, tmp_path)
    for _ in range(50):
        scorer.score(LINK, "k")
    assert scorer.failures == 50
    assert len(heard) == 1
    assert len((tmp_path / "scorer.jsonl").read_text().splitlines()) == 5


def test_a_torn_line_of_the_scorers_log_is_skipped(tmp_path):
    scorer, _ = scorer_of(lambda _: None, tmp_path)
    scorer.score(LINK, "k")
    log = tmp_path / "scorer.jsonl"
    with log.open("ab") as file:
        file.write(log.read_bytes()[:-9])
    assert failure_of(log, "k") is not None
    assert failure_of(tmp_path / "none", "k") is None


def test_a_log_that_cannot_be_written_costs_nothing(tmp_path):
    scorer = UserScorer(lambda _: math.nan, Events(), tmp_path / "no" / "such" / "folder")
    assert scorer.score(LINK, "k") == 0.0
    assert list(tmp_path.iterdir()) == []
