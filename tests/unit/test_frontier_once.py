"""Every rule of the frontier is written once: no store has a function of it, and no two stores share one."""

import ast
from itertools import combinations
from pathlib import Path

import skitter
from skitter.frontier import store

ROOT = Path(skitter.__file__).parent
STORES = {name: ROOT / "backends" / name / "store.py" for name in ("rocksdb", "postgres", "redis")}
DECIDING = (
    "adding",
    "ahead",
    "aside",
    "counting",
    "crashes",
    "judging",
    "leasing",
    "levels",
    "recovery",
    "settling",
)


def functions(*paths: Path) -> set[str]:
    """The names of all functions and methods in some files, without the underscore of private ones."""
    trees = (ast.parse(path.read_text()) for path in paths)
    nodes = (node for tree in trees for node in ast.walk(tree))
    names = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    return {name.lstrip("_") for name in names if not name.startswith("__")}


def port_verbs() -> set[str]:
    """The functions that stores must have: the verbs of their ports."""
    ports = (store.Store, store.AtHand, store.Outbox, store.Forwarding, store.Seen)
    return {name for port in ports for name in dir(port) if not name.startswith("_")}


def test_no_store_has_a_function_that_decides():
    deciding = functions(*(ROOT / "frontier" / f"{name}.py" for name in DECIDING))
    for name, path in STORES.items():
        again = (functions(path) & deciding) - port_verbs()
        assert again == set(), f"{name} has {again} of its own"


def test_stores_of_two_engines_share_only_the_verbs_of_their_port():
    of = {name: functions(path) - port_verbs() for name, path in STORES.items()}
    for one, other in combinations(STORES, 2):
        assert of[one] & of[other] == set(), f"{one} and {other} both have {of[one] & of[other]}"
