"""A password written into an address is never shown."""

import pytest

from skitter.cli import main
from skitter.ports import EngineError
from skitter.runtime.hiding import hidden
from skitter.settings import SettingsError
from skitter.settings.file import load


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://user:pw@host/a", "https://…@host/a"),
        ("'postgresql://user:pw@10.0.0.1:5432/db' is", "'postgresql://…@10.0.0.1:5432/db' is"),
        ("redis://:pw@h", "redis://…@h"),
        ("redis://:p/w@h", "redis://…@h"),
        ("http://user:p@ss@h", "http://…@h"),
        ("http://user:p#ss@h", "http://…@h"),
        ("http://user:1/2@h", "http://user:1/2@h"),  # host "user", port 1
        ("ghp_token lies in https://ghp_token@h/x", "ghp_token lies in https://…@h/x"),
        ("user:pw@10.0.0.1:5432", "…@10.0.0.1:5432"),
        ("['user:pw@h:1']", "['…@h:1']"),
        ("https:/user:pw@h", "https:/…@h"),
        ("https://example.org/@somebody", "https://example.org/@somebody"),
        ("https://example.org:8080/a:b@c", "https://example.org:8080/a:b@c"),
        ("write to me@example.org", "write to me@example.org"),
        ("no host", "no host"),
    ],
)
def test_credentials_before_a_host_are_hidden(text, shown):
    assert hidden(text) == shown


SECRET = "s3cr3tpw"


@pytest.mark.parametrize(
    "line",
    [
        f'postgres.addresses = ["postgresql://user:{SECRET}@127.0.0.1:5432/db"]',
        f'postgres.addresses = ["user:{SECRET}@127.0.0.1:5432"]',
        f'kafka.addresses = ["user:{SECRET}@127.0.0.1:9"]',
        f'redis.addresses = ["redis://:{SECRET}@127.0.0.1/0"]',
        f's3.endpoint = "http://key:{SECRET}@127.0.0.1:1"',
        f'search.addresses = ["http://u:{SECRET}@127.0.0.1:1"]',
        f'redis = "redis://:{SECRET}@127.0.0.1/0"',
        f'postgres.addresses = "postgresql://user:{SECRET}@127.0.0.1:5432/db"',
        f'redis.addresses = ["redis://:{SECRET}@127.0.0.1/0',
        f'postgres.password = "{SECRET}"',
    ],
)
def test_settings_with_a_secret_are_refused_without_showing_it(tmp_path, capsys, line):
    file = tmp_path / "cluster.toml"
    file.write_text(f'cluster.size = "full"\n{line}\n')
    with pytest.raises(SettingsError) as refused:
        load(file, {}, {})
    assert SECRET not in str(refused.value)
    for words in (["status"], ["cluster", "status"], ["doctor", "--json"], ["search", "x"]):
        assert main([*words, "--config", str(file)]) == 2
        said = capsys.readouterr()
        assert SECRET not in said.out + said.err


def test_engines_that_name_an_address_show_no_secret():
    assert SECRET not in str(EngineError(f"S3: http://key:{SECRET}@h does not answer"))


SEED = f"https://user:{SECRET}@exa mple.org/"


@pytest.mark.parametrize(
    "words",
    [
        ["crawl", SEED],
        [SEED],
        ["status", SEED],
        ["url", SEED],
        ["url", SEED, "--json"],
        ["url", f"https://user:{SECRET}@example.org/", "--json"],
        ["robots", SEED, "/"],
    ],
)
def test_commands_show_no_secret_of_a_url(tmp_path, monkeypatch, capsys, words):
    monkeypatch.chdir(tmp_path)
    main(words)
    said = capsys.readouterr()
    assert SECRET not in said.out + said.err


def test_a_crawl_keeps_no_secret_of_a_seed(tmp_path, capsys):
    seeds, directory = tmp_path / "seeds.txt", tmp_path / "c"
    seeds.write_text(f"{SEED}\nftp://user:{SECRET}@host/\nhttps://u:{SECRET}@127.0.0.1:1/\n")
    main(["crawl", "--seeds", str(seeds), "-o", str(directory), "--max-time", "20s"])
    main(["status", str(directory), "--json"])
    main(["export", str(directory), "--format", "urls"])
    assert main(["why", str(directory), f"ftp://user:{SECRET}@host/"]) == 0
    said = capsys.readouterr()
    assert SECRET not in said.out + said.err
    files = [path for path in directory.rglob("*") if path.is_file()]
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []
