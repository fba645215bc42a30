"""Reason codes are a closed set: nothing is refused or given up for a reason that people cannot look up."""

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import skitter
from skitter import reasons
from skitter.cli import COMMANDS
from skitter.cli.options import FLAGS
from skitter.model import Fault
from skitter.settings.values import KEYS

ROOT = Path(skitter.__file__).parent
CONSTANTS = {
    name: value
    for name, value in vars(reasons).items()
    if name.isupper() and isinstance(value, str) and not name.startswith("_")
}
# Contracts store any code: a back end takes it for text. That shall stay so.
FREE = ("testing",)


def sources() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if name != "reasons.py" and not name.startswith(FREE):
            yield name, ast.parse(path.read_text(encoding="utf-8"))


def chosen(name: str, tree: ast.AST) -> Iterator[ast.expr]:
    """Every expression that becomes a code: what `Reason` is given, and what is counted where there is no Reason."""
    counts = name.startswith(("frontier/", "backends/"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "Reason":
            named = [keyword.value for keyword in node.keywords if keyword.arg == "code"]
            yield (node.args or named)[0]
        elif counts and isinstance(node, ast.IfExp) and ast.unparse(node.body).endswith(".code"):
            yield from [node.orelse] if ast.unparse(node.orelse) != "None" else []


def is_read_back(name: str, code: ast.expr) -> bool:
    """Whether a code was made elsewhere: another Reason's, a fault's, or what a back end finds in its store."""
    if isinstance(code, ast.Attribute):
        return code.attr == "code" or (name == "schedule/__init__.py" and code.attr == "value")
    return isinstance(code, ast.Name) and name.startswith("backends/")


def codes(tree: ast.AST, code: ast.expr) -> set[str]:
    """The codes in the table that an expression stands for; none if it is something else."""
    if isinstance(code, ast.Constant):
        literal = str(code.value)
        return {literal} if reasons.explained(literal) else set()
    written = ast.unparse(code)
    if isinstance(code, ast.Call) and written.startswith("reasons.http("):
        return {entry for entry in reasons.TABLE if entry.startswith("http.")}
    module, _, constant = written.rpartition(".")
    if module == "reasons" or (not module and constant in imported_constants(tree)):
        return {CONSTANTS[constant]} if constant in CONSTANTS else set()
    return set()


def imported_constants(tree: ast.AST) -> set[str]:
    return {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "skitter.reasons"
        for alias in node.names
    }


def undocumented(name: str, tree: ast.Module) -> list[str]:
    return [
        f"{name}:{code.lineno} makes a Reason from {ast.unparse(code)}, which is not in skitter.reasons"
        for code in chosen(name, tree)
        if not is_read_back(name, code) and not codes(tree, code)
    ]


def test_every_reason_that_is_made_is_in_the_table():
    assert [problem for name, tree in sources() for problem in undocumented(name, tree)] == []


def test_every_reason_in_the_table_is_made_somewhere():
    made = {code for name, tree in sources() for each in chosen(name, tree) for code in codes(tree, each)}
    made |= {
        fault.value
        for name, tree in sources()
        if name.startswith(("fetch/", "crawl/completing.py"))
        for fault in Fault
        if f"Fault.{fault.name}" in ast.unparse(tree)
    }
    assert set(reasons.TABLE) - made == set()


@pytest.mark.parametrize(
    ("made", "is_fine"),
    [
        ("Reason('robots', 'line 2')", True),
        ("Reason(reasons.ROBOTS)", True),
        ("model.Reason(code=reasons.ROBOTS)", True),
        ("from skitter.reasons import ROBOTS\nReason(ROBOTS)", True),
        ("Reason(reasons.http(503))", True),
        ("Reason(other.code, 'as before')", True),
        ("name = reason.code if reason else 'unknown'", True),
        ("stored = reason.code if reason else None", True),
        ("Reason('robot', 'line 2')", False),
        ("Reason(code='robot')", False),
        ("Reason(reasons.ROBOT)", False),
        ("Reason(f'http.{status}')", False),
        ("Reason(ROBOTS)", False),
        ("Reason(word)", False),
        ("name = reason.code if reason else 'none'", False),
    ],
)
def test_a_code_that_nobody_can_look_up_is_found_in_the_sources(made, is_fine):
    assert (undocumented("frontier/rules.py", ast.parse(made)) == []) is is_fine


def test_every_fault_is_a_reason():
    assert {fault.value for fault in Fault} <= set(reasons.TABLE)


def test_every_constant_is_the_code_of_an_entry_of_its_own():
    assert len(CONSTANTS) == len(set(CONSTANTS.values()))
    assert set(CONSTANTS.values()) <= set(reasons.TABLE)
    assert all(code == entry.code for code, entry in reasons.TABLE.items())


def test_a_status_is_explained_by_its_own_entry_or_by_that_of_all():
    told = {code: entry and entry.code for code in ("http.429", "http.503", "http.999") for entry in [reasons.explained(code)]}  # fmt: skip
    assert told == {"http.429": "http.429", "http.503": "http.NNN", "http.999": "http.NNN"}


@pytest.mark.parametrize("code", ["", "robot", "http.", "http.5000", "http.503x", "xhttp.503", "http.٥٠٣"])
def test_a_code_of_another_version_has_no_explanation(code):
    assert reasons.explained(code) is None


@pytest.mark.parametrize("entry", reasons.TABLE.values(), ids=lambda entry: entry.code)
def test_an_entry_is_one_sentence_on_what_it_means_and_one_on_what_to_do(entry):
    for sentence in (entry.meaning, entry.remedy):
        assert re.fullmatch(r"[A-Z].*[^.:;,]\.", sentence)
        assert ". " not in sentence
    assert len(entry.meaning) <= 80  # it stands beside a number in the report


@pytest.mark.parametrize("entry", reasons.TABLE.values(), ids=lambda entry: entry.code)
def test_a_remedy_names_only_settings_flags_and_commands_that_exist(entry):
    dotted = set(re.findall(r"\b[a-z]+\.[a-z_]+", entry.remedy)) - {"robots.txt"}
    assert dotted <= set(KEYS)
    assert set(re.findall(r"--[a-z-]+", entry.remedy)) <= set(FLAGS)
    for command in re.findall(r"skitter ([a-z]+) ", entry.remedy):
        assert command in COMMANDS
        assert import_module(f"skitter.cli.{command}").parser()


def test_the_codes_on_disk_keep_their_spelling():
    """Codes are stored with every URL: one that is renamed would mean nothing in every crawl made before."""
    released = (
        "address bomb budget.host busy connect crash crawl-delay dns filter filter.error headers http.429 http.NNN nofollow "
        "nofollow.page nxdomain parser port protocol redirect redirect.target redirects reset retry-after reuse robots "
        "robots.unknown robots.unreachable robots.wait scheme scope.depth scope.domain scope.exclude scope.extension scope.host "
        "scope.hosts scope.include scope.page scope.prefix scope.wait seed.unusable size timeout tls trap.calendar trap.depth "
        "trap.length trap.query trap.repeat trap.session unknown unstorable url"
    )
    assert set(released.split()) <= set(reasons.TABLE)
