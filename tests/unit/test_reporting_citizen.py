"""`skitter doctor --citizen`: six MUSTs, honestly."""

import json

import pytest

from skitter.cli import main
from skitter.reporting.citizen import citizen
from skitter.settings.file import load
from tests.unit.test_docs import ROOT, is_test

URL = "https://bot.example.org/"


def judged(**settings):
    tree = load(None, {}, {name.replace("__", "."): value for name, value in settings.items()})
    return citizen(tree, f"Skitter/0 (+{tree.fetch.contact})" if tree.fetch.contact else "Skitter/0")


def unmet(**settings):
    return [number for number, must in enumerate(judged(**settings), start=1) if not must.met]


def identity(folder, prefixes):
    (folder / "site").mkdir(parents=True)
    (folder / "site" / "index.html").write_text("<p>hello")
    (folder / "site" / "ip-ranges.json").write_text(json.dumps({"prefixes": prefixes}))
    return str(folder)


def test_there_are_six_and_out_of_the_box_three_are_for_the_operator_to_do():
    assert len(judged()) == 6
    assert unmet() == [2, 5, 6]
    assert all(must.advice for must in judged() if not must.met)


def test_each_is_met_by_what_its_advice_says(tmp_path):
    assert unmet(fetch__contact=URL) == [5]
    full = identity(tmp_path / "a", [{"ipv4Prefix": "192.0.2.0/24"}, {"ipv6Prefix": "2001:db8::/32"}])
    assert unmet(fetch__contact=URL, fetch__identity=full) == []
    assert unmet(fetch__identity=full) == [2]


@pytest.mark.parametrize("prefixes", [[], [{"ipv4Prefix": "everywhere"}], "none", [5]])
def test_a_list_of_addresses_that_says_nothing_is_not_one(tmp_path, prefixes):
    assert unmet(fetch__contact=URL, fetch__identity=identity(tmp_path / "a", prefixes)) == [5]


@pytest.mark.parametrize("rude", [{"politeness__adaptive": False}, {"politeness__delay": "0s"}])
def test_rude_settings_are_told(rude):
    assert unmet(fetch__contact=URL, **rude) == [3, 5]


def test_every_proof_names_tests_that_exist():
    for must in judged():
        assert must.tests
        assert all(is_test(name, ROOT) for name in must.tests), must.tests


def test_the_command_says_which_are_not_met(capsys, tmp_path):
    assert main(["doctor", "--citizen", "--set", "fetch.contact=mailto:a@b.c"]) == 1
    said = capsys.readouterr().out
    assert "NOT MET  5. publish its IP addresses" in said
    assert "of six are not met" in said
    assert main(["doctor", "--citizen", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["ok"] is False
    assert main(["doctor", "--set", "fetch.contact=x"]) == 2
    assert main(["doctor", "--citizen", str(tmp_path / "nowhere")]) == 4
    assert "nowhere holds no crawl" in capsys.readouterr().err
