"""Secrets: where they come from, and where they never appear."""

import pytest

from skitter.settings import Settings, SettingsError
from skitter.settings.engines import SECRETS
from skitter.settings.file import load
from skitter.settings.secrets import secret
from skitter.settings.values import KEYS


def test_a_secret_comes_from_the_environment():
    assert (
        secret("redis.password_file", "", {"SKITTER_REDIS_PASSWORD": "open sesame "}) == "open sesame "
    )  # blanks are part of it
    assert secret("redis.password_file", "", {}) == ""


def test_a_file_wins_and_loses_its_last_line_break(tmp_path):
    file = tmp_path / "password"
    file.write_text("from a file\n")
    assert secret("redis.password_file", str(file), {"SKITTER_REDIS_PASSWORD": "other"}) == "from a file"


def test_a_file_that_is_not_there_is_named_with_its_setting(tmp_path):
    with pytest.raises(
        SettingsError, match=r"s3.secret_key_file: .*nowhere: No such file.* set SKITTER_S3_SECRET_KEY"
    ):
        secret("s3.secret_key_file", str(tmp_path / "nowhere"), {})


def test_the_variable_of_a_secret_is_not_a_setting():
    assert load(None, {"SKITTER_POSTGRES_PASSWORD": "x"}, {}) == Settings()
    assert not {key for key in KEYS if key.endswith((".password", ".secret_key"))}
    assert set(SECRETS) <= set(KEYS)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("redis.addresses", "redis://:secret@10.0.0.1:6379"),
        ("postgres.addresses", "10.0.0.1"),
        ("search.addresses", "http://admin:secret@10.0.0.1:9200"),
        ("cluster.name", "Mine!"),
        ("search.index", "_Pages"),
        ("cluster.size", "huge"),
    ],
)
def test_an_address_is_an_address_and_a_name_a_name(key, value):
    with pytest.raises(SettingsError, match=key):
        load(None, {}, {key: value})


def test_a_lease_outlives_a_lost_sign_of_life():
    with pytest.raises(SettingsError, match=r"cluster\.renew"):
        load(None, {}, {"cluster.renew": "10s"})
