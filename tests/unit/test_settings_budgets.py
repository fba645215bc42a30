"""Windows and budgets that make no sense are refused at start, with the place and what to write."""

import pytest

from skitter.settings import SettingsError
from skitter.settings.file import load


def refused(tmp_path, text: str) -> str:
    path = tmp_path / "crawl.toml"
    path.write_text(text)
    with pytest.raises(SettingsError) as told:
        load(path, {}, {})
    return str(told.value).removeprefix(f"{path}:")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[politeness]\nwindow = "22:00-06:00"\n', "2: politeness.window: '22:00-06:00' names no time zone"),
        (
            '[politeness]\n\nwindow = "22:00-06:00 Mars/Olympus"\n',
            "3: politeness.window: '22:00-06:00 Mars/Olympus'",
        ),
        (
            '[politeness]\nwindow = "22:00-06:00 UTC, nights"\n',
            "2: politeness.window: 'nights' is not a window",
        ),
        ("[budget]\nhost_pages = 0\n", "2: budget.host_pages: 0 is too small; write 1 or more"),
        ("[budget]\ndomain_bytes = 0\n", "2: budget.domain_bytes: 0 is too small; write 1 or more"),
        ('[budget]\nhost_seconds = "0s"\n', "2: budget.host_seconds: 0"),
        ("[budget]\ndomain_requests_per_day = -1\n", "2: budget.domain_requests_per_day: -1 is too small"),
        ("[budget]\nbandwidth = 0\n", "2: budget.bandwidth: 0 is too small"),
        ('[budget]\nmemory = "1MiB"\n', "2: budget.memory: 1MiB is too small; write 64MiB or more"),
        ("[budget]\nhost_page = 10\n", "2: unknown key budget.host_page; did you mean budget.host_pages?"),
        ("[politeness]\nper_domain = 0\n", "2: politeness.per_domain: 0 is too small"),
        ("[politeness]\ndomain_delay = -1\n", "2: politeness.domain_delay: -1"),
        ('[group.cdn]\nhosts = ["*.cdn.test"]\nwindow = "22:00-06:00"\n', "3: "),
        ('[group.cdn]\nhosts = ["*.cdn.test"]\npages = 0\n', "3: "),
        ('[[site]]\nmatch = "a.test"\npoliteness.window = "22:00-06:00"\n', "3: "),
        ('[[site]]\nmatch = "a.test"\nbudget.host_pages = 0\n', "3: "),
    ],
)
def test_it_is_refused_with_its_place(tmp_path, text, said):
    assert refused(tmp_path, text).startswith(said)


def test_the_old_name_of_the_budget_of_a_host_is_read(tmp_path):
    path = tmp_path / "crawl.toml"
    path.write_text("[scope]\nmax_pages_per_host = 7\n")
    assert load(path, {}, {}).budget.host_pages == 7
