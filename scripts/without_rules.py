"""Takes one rule of the frontier out at a time, and sees whether the contract notices on every store.

    python scripts/without_rules.py [RULE…] [--stores at-hand far rocksdb redis postgres]

A rule that is decided in `frontier/` holds on every store; one that a store decided would not be missed there. Each rule is
replaced while the tests run, in the process of the tests; nothing is written. Stores whose engine is not up are left out,
and that is said.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent

STORES = {
    "at-hand": "tests/contract/test_frontier.py::TestAtHand",
    "far": "tests/contract/test_frontier.py::TestFar",
    "rocksdb": "tests/contract/test_frontier.py::TestRocksFrontier",
    "redis": "tests/cluster/test_redis_store.py",
    "postgres": "tests/cluster/test_postgres_frontier.py",
}


def _robots_first(modules: Any) -> None:  # noqa: ANN401  the modules of the frontier
    """A page may be visited although the rules of its origin are not known."""
    known = modules.held.Rules(expires=float("inf"), access="all")
    for module in (modules.shard, modules.memory, modules.prefetch):
        module.rules_of = lambda _copy: known


def _untried_first(modules: Any) -> None:  # noqa: ANN401
    """A retry waits where it waited before."""
    modules.settling.retried = lambda queue: queue


def _suspects_alone(modules: Any) -> None:  # noqa: ANN401
    """A visit that may have killed the process is made beside others."""
    modules.crashes.suspected = lambda _crashes, _in_hand: False


def _crashers_given_up(modules: Any) -> None:  # noqa: ANN401
    """A visit that keeps killing the process is tried for ever."""
    modules.crashes.crash_reason = lambda _crashes, _in_hand: None


def _one_at_a_time(modules: Any) -> None:  # noqa: ANN401
    """A host gets any number of visits at once."""
    modules.shard.Shard.has_room = lambda _shard, _name: True


def _levels_by_weight(modules: Any) -> None:  # noqa: ANN401
    """The most urgent level always comes first."""
    modules.agenda.DRAW = [
        [((mask & -mask).bit_length() - 1, turn) for turn in range(len(modules.levels.RULER))]
        for mask in range(32)
    ]


def _clock_after_a_crash(modules: Any) -> None:  # noqa: ANN401
    """Hosts that were being visited when the process died are free at once."""
    recover = modules.recovery.recover
    modules.recovery.recover = lambda shard, leases, hand, _free_after, asked, now: recover(
        shard, leases, hand, float("-inf"), asked, now
    )


def _aside_refuses(modules: Any) -> None:  # noqa: ANN401
    """A host that is set aside is crawled all the same."""
    for module in (modules.settling, modules.aside):
        module.set_aside = lambda *_arguments: None


def _named_again(modules: Any) -> None:  # noqa: ANN401
    """A seed that is named again gets no other chance."""
    modules.adding.names_seed = lambda _link: False


def _moves_forward(modules: Any) -> None:  # noqa: ANN401
    """A waiting link that is wanted more urgently stays where it is."""
    modules.adding.better = lambda *_places: False


def _late_settlement(modules: Any) -> None:  # noqa: ANN401
    """Whoever settles a visit too late is listened to."""
    modules.settling._is_same = lambda _held, _visit: True  # noqa: SLF001


def _settings_both_ways(modules: Any) -> None:  # noqa: ANN401
    """Other settings change nothing of what is known."""
    modules.judging.concerns = lambda _row: False


def _shortest_way(modules: Any) -> None:  # noqa: ANN401
    """A URL is as deep as the way on which it was found first, also where settings limit depths."""
    modules.depths.depths_of = lambda _settings: None


RULES: dict[str, Callable[[Any], None]] = {
    "robots-first": _robots_first,
    "untried-first": _untried_first,
    "suspects-alone": _suspects_alone,
    "crashers-given-up": _crashers_given_up,
    "one-at-a-time": _one_at_a_time,
    "levels-by-weight": _levels_by_weight,
    "clock-after-a-crash": _clock_after_a_crash,
    "aside-refuses": _aside_refuses,
    "named-again": _named_again,
    "moves-forward": _moves_forward,
    "late-settlement": _late_settlement,
    "settings-both-ways": _settings_both_ways,
    "shortest-way": _shortest_way,
}


def pytest_configure() -> None:
    """As a plugin of pytest: take the rule out that the environment names."""
    from skitter import frontier  # noqa: PLC0415
    from skitter.frontier import (  # noqa: F401, PLC0415
        adding,
        agenda,
        aside,
        crashes,
        depths,
        held,
        judging,
        leasing,
        levels,
        memory,
        prefetch,
        recovery,
        settling,
        shard,
    )

    RULES[os.environ["WITHOUT_RULE"]](frontier)


def missed(rule: str, store: str) -> bool | None:
    """Whether the contract notices on this store that a rule is missing; None when its engine is not up."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "not soak", "-p", "without_rules"]
    command += ["-p", "no:cacheprovider", "-k", "Frontier or AtHand or Far", STORES[store]]
    environment = os.environ | {"WITHOUT_RULE": rule, "PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=900
    )
    if done.returncode == 0:
        return None if " passed" not in done.stdout else False
    if " failed" not in done.stdout:
        raise RuntimeError(done.stdout[-2000:] + done.stderr[-2000:])
    return True


def main(arguments: Sequence[str]) -> int:
    """Print a table, and exit with 1 if a rule is not missed somewhere."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rules", nargs="*", metavar="RULE", help=f"one of {', '.join(RULES)}; all by default")
    parser.add_argument("--stores", nargs="+", choices=STORES, default=list(STORES))
    options = parser.parse_args(arguments)
    words = {True: "noticed", False: "NOT NOTICED", None: "no engine"}
    unnoticed = 0
    print(f"{'taken out':22}" + "".join(f"{store:>14}" for store in options.stores))
    for rule in options.rules or RULES:
        told = [missed(rule, store) for store in options.stores]
        unnoticed += told.count(False)
        print(f"{rule:22}" + "".join(f"{words[one]:>14}" for one in told), flush=True)
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
