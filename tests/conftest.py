"""How the suite is shared out over processes (`make test` has one per core)."""

import pytest

import tests.engines


@pytest.hookimpl(tryfirst=True)  # before the groups are looked at
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of the real engines run one after the other, in one process: some of them kill an engine, or freeze it."""
    for item in items:
        if _uses_engines(item):
            item.add_marker(pytest.mark.xdist_group("engines"))


def _uses_engines(item: pytest.Item) -> bool:
    if {"cluster", "services"} & set(item.path.parts):
        return True
    names = vars(getattr(item, "module", None)) if getattr(item, "module", None) else {}
    return any(
        value is tests.engines or getattr(value, "__module__", "") in ("tests.engines", "tests.s3")
        for value in names.values()
    )
