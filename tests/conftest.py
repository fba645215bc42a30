"""How the suite is shared out (see scripts/suite.py): what needs a real engine is marked."""

import pytest

import tests.engines


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
