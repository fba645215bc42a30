"""The Python API: `async for page in skitter.crawl(...)`."""

import asyncio

import pytest

import skitter
from skitter.ports import StateError
from skitter.settings import SettingsError
from skitter.testing.web import Features, SyntheticWeb, serve
from tests.crawl.harness import HASTY, keys, read_back


@pytest.fixture(scope="module")
def server():
    web = SyntheticWeb(seed=21, hosts=1, pages_per_host=60, features=Features(links_per_page=8))
    with serve(web) as running:
        yield running


def overrides(server):
    resolve = tuple(f"{host}:{address}" for host, address in server.web.resolve_map().items())
    return HASTY | {"fetch.resolve": resolve, "per_host": 8}


def assert_the_rest_is_found(server, path):
    """Go on with a crawl that was left: nothing was lost, and nothing counts as lost."""

    async def go_on():
        run = skitter.crawl(directory=path, **overrides(server))
        async for _page in run:
            pass
        return await read_back(path, run.report, [])

    left = asyncio.run(go_on())
    assert left.keys == keys(server.truth().pages)
    assert left.report.counts.lost == 0


def test_every_page_comes_once_with_its_text_and_the_report_at_the_end(server):
    async def main():
        run = skitter.crawl(server.seeds()[0], **overrides(server))
        with pytest.raises(RuntimeError, match="not started"):
            _ = run.report
        pages = [page async for page in run]
        return run, pages

    run, pages = asyncio.run(main())
    assert {page.key for page in pages} == keys(server.truth().pages)
    assert len(pages) == len({page.key for page in pages})
    assert all(page.text and page.title and page.archive for page in pages)
    assert run.report.outcome == "done"
    assert run.report.counts.pages == len(pages)


def test_max_pages_is_exact(server):
    async def main():
        run = skitter.crawl(server.seeds()[0], max_pages=17, **overrides(server))
        return [page async for page in run], run.report

    pages, report = asyncio.run(main())
    assert len(pages) == 17
    assert report.outcome == "limit"
    assert report.exit_code == 3


def test_leaving_the_loop_early_drains_and_the_crawl_can_go_on(server, tmp_path):
    async def first():
        run = skitter.crawl(server.seeds()[0], directory=tmp_path / "c", **overrides(server))
        async for _page in run:
            break
        await run.aclose()
        return run.report

    report = asyncio.run(first())
    assert report.outcome == "interrupted"
    assert report.counts.leased == 0

    assert_the_rest_is_found(server, tmp_path / "c")


def test_leaving_the_loop_stops_the_crawl_by_itself(server):
    async def main():
        polite = overrides(server) | {"politeness.delay": "100ms", "per_host": 1}
        run = skitter.crawl(server.seeds()[0], **polite)
        async for _page in run:
            break
        asked = len(server.log())
        await asyncio.sleep(1.0)
        return len(server.log()) - asked

    assert asyncio.run(main()) <= 1  # what was in flight


def test_a_program_may_end_right_after_leaving_the_loop(server, tmp_path, capfd):
    async def main():
        async for _page in skitter.crawl(server.seeds()[0], directory=tmp_path / "c", **overrides(server)):
            return

    asyncio.run(main())
    assert "Traceback" not in capfd.readouterr().err

    assert_the_rest_is_found(server, tmp_path / "c")


def test_async_with_waits_until_everything_is_saved(server):
    async def main():
        async with skitter.crawl(server.seeds()[0], **overrides(server)) as run:
            async for _page in run:
                break
        return run.report

    assert asyncio.run(main()).counts.leased == 0


def test_an_error_that_stops_the_crawl_is_raised_in_the_loop(server, tmp_path):
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "somebody.elses").touch()

    async def main():
        async for _page in skitter.crawl(server.seeds()[0], directory=tmp_path / "c", **overrides(server)):
            pass

    with pytest.raises(StateError, match="not empty"):
        asyncio.run(main())


@pytest.mark.parametrize(("wrong", "hint"), [("max_page", "max_pages"), ("frobnicate", "keywords are")])
def test_an_unknown_keyword_is_an_error_that_names_the_right_one(wrong, hint):
    with pytest.raises(SettingsError, match=hint):
        skitter.crawl("https://example.org", **{wrong: 3})


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [("link", "links"), ("deadline", "fetch_deadline"), ("fetch_dedline", "fetch_deadline"), ("dir", "keywords are directory")],
)  # fmt: skip
def test_so_is_the_nearest_setting_of_any_section(wrong, hint):
    with pytest.raises(SettingsError, match=hint):
        skitter.crawl("https://example.org", **{wrong: 3})


def test_one_setting_by_two_names_is_an_error():
    with pytest.raises(SettingsError, match="delay and politeness_delay are the same setting"):
        skitter.crawl("https://example.org", delay="1s", politeness_delay="2s")


def test_every_setting_is_a_keyword():
    run = skitter.crawl(
        "https://example.org", fetch_deadline="10s", dedup_near=False, scope_max_url_length=99
    )
    settings = run.settings
    assert (settings.fetch.deadline, settings.dedup.near, settings.scope.max_url_length) == (10.0, False, 99)
    assert "not started" in repr(run)


def test_nothing_to_crawl_is_an_error():
    with pytest.raises(ValueError, match="nothing to crawl"):
        skitter.crawl()


def test_a_slow_caller_pauses_the_crawl_and_loses_nothing(server, monkeypatch):
    monkeypatch.setattr("skitter.api.run._AHEAD", 4)

    async def main():
        seen = set()
        async for page in skitter.crawl(server.seeds()[0], **overrides(server)):
            await asyncio.sleep(0.002)
            seen.add(page.key)
        return seen

    assert asyncio.run(main()) == keys(server.truth().pages)


def test_a_misspelt_setting_is_an_error_that_names_the_right_one():
    with pytest.raises(SettingsError, match=r"politeness\.delay"):
        skitter.crawl("https://example.org", **{"politeness.dealy": "2s"})


def test_the_public_names_are_there():
    for name in skitter.__all__:
        assert getattr(skitter, name) is not None
    with pytest.raises(AttributeError):
        _ = skitter.no_such_name
    assert skitter.canonical("HTTP://Example.ORG:80/a/../b?utm_source=x#y") == "http://example.org/b"
    assert skitter.robots_rules(b"User-agent: *\nDisallow: /x", "skitter").allows("http://a.test/x") is False


def test_a_second_iteration_over_the_same_run_is_an_error_that_says_so(server):
    async def main():
        run = skitter.crawl(server.seeds()[0], max_pages=2, **overrides(server))
        assert len([page async for page in run]) == 2
        with pytest.raises(RuntimeError, match="once, and this one was"):
            _ = [page async for page in run]
        with pytest.raises(RuntimeError, match="once, and this one was"):
            _ = list(run)

    asyncio.run(main())


def test_a_directory_continues_with_its_own_settings(server, tmp_path):
    async def main(**more):
        run = skitter.crawl(*server.seeds(), directory=tmp_path / "c", **more)
        async for _page in run:
            pass
        return run.settings

    made = asyncio.run(main(max_pages=3, scope="domain", **overrides(server)))
    again = asyncio.run(main(max_pages=4))
    assert again.scope.kind == "domain"
    assert again.politeness == made.politeness
    assert again.crawl.max_pages == 4
