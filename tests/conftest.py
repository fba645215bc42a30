"""How the suite is split (see scripts/suite.py), and the report on missing engines."""

import signal
from collections import Counter
from typing import Any

import pytest

import tests.engines

# A crawl leaves alone what nohup or a shell's "&" has set aside, and so would every crawl of a suite that was started so.
for _number, _handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _handler)

_WITHOUT = "without their engine"  # how pytest's last line counts them


def pytest_itemcollected(item: pytest.Item) -> None:
    """Tests of the real engines run one after the other, in one process: some of them kill an engine, or freeze it."""
    if _uses_engines(item):
        item.add_marker(pytest.mark.engines)


def _uses_engines(item: pytest.Item) -> bool:
    if {"cluster", "services"} & set(item.path.parts):
        return True
    module = getattr(item, "module", None)
    return module is not None and any(
        value is tests.engines or getattr(value, "__module__", "") in ("tests.engines", "tests.s3")
        for value in vars(module).values()
    )


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Take the tests whose engine is not there out of the list of skipped ones: there are hundreds."""
    stats = terminalreporter.stats
    skipped = stats.pop("skipped", [])
    without = [report for report in skipped if _missed(report)]
    for name, reports in (
        ("skipped", [each for each in skipped if each not in without]),
        (_WITHOUT, without),
    ):
        if reports:
            stats[name] = reports


def pytest_unconfigure(config: pytest.Config) -> None:
    """A line for each engine that was not there, at the very end."""
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:
        return
    missed = Counter(_missed(report) for report in reporter.stats.get(_WITHOUT, []))
    for name, count in sorted(missed.items()):
        tests_ = "1 test was" if count == 1 else f"{count} tests were"
        reporter.write_line(f"{name} was not there: {tests_} skipped; start it with `make services`")


def _missed(report: Any) -> str:
    """The engine for want of which a test was skipped; empty if it was for something else."""
    reason = str(report.longrepr[2]).removeprefix("Skipped: ") if isinstance(report.longrepr, tuple) else ""
    name = reason.partition(" ")[0]
    return name if name in tests.engines.NAMES and reason.endswith(tests.engines.MISSING) else ""
