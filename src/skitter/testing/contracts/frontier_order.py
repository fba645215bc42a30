"""The order of hosts where it is not that of their first links: larger sites first, and hosts under pressure."""

from typing import Any

from msgspec.structs import replace

from skitter.schedule.hosts import FEW
from skitter.testing.contracts.owner import DAY, Ground, Owner, asynchronous, link


def _scheduled(ground: Ground, **chosen: Any) -> None:  # noqa: ANN401  see ScheduleSettings
    grounds: Any = ground
    grounds.settings = replace(grounds.settings, schedule=replace(grounds.settings.schedule, **chosen))


def _links(host: str, first: int, beyond: int) -> list[Any]:
    return [link(f"https://{host}/{number}", depth=1) for number in range(first, beyond)]


async def _hosts(owner: Owner, limit: int = 100) -> list[str]:
    """The hosts of the next visits, in order. Each of them is stored."""
    visits = await owner.lease_pages(limit)
    for visit in visits:
        await owner.store(visit)
    return [visit.link.host for visit in visits]


class HostOrderContract:
    """Needs a fixture `ground` with settings."""

    @asynchronous
    async def test_the_host_with_the_most_waiting_links_is_first(self, ground: Ground) -> None:
        _scheduled(ground, strategy="larger-sites")
        owner = await Owner.of(ground, delay=100.0)
        sizes = {"a.example": 3, "b.example": 1, "c.example": 7, "d.example": 5}
        for host, size in sizes.items():
            await owner.add(*_links(host, 0, size))
        assert await _hosts(owner) == ["c.example", "d.example", "a.example", "b.example"]
        owner.now += 200
        await owner.add(
            *_links("a.example", 3, 9), *_links("b.example", 1, 5)
        )  # found last, and not in front
        owner = await owner.killed()
        owner.now += 200
        assert await _hosts(owner) == ["a.example", "c.example", "d.example", "b.example"]

    @asynchronous
    async def test_within_a_site_larger_sites_first_is_breadth_first(self, ground: Ground) -> None:
        _scheduled(ground, strategy="larger-sites")
        owner = await Owner.of(ground, delay=0.0)
        await owner.add(
            link("https://a.example/deep", score=-3.0), link("https://a.example/near", score=-1.0)
        )
        assert await owner.crawl() == ["https://a.example/near", "https://a.example/deep"]

    @asynchronous
    async def test_a_host_whose_queue_outgrows_its_pages_sinks_by_a_level_and_rises_again(
        self, ground: Ground
    ) -> None:
        _scheduled(ground, pressure=FEW / 2)
        owner = await Owner.of(ground, delay=1.0)
        await owner.add(*_links("a.example", 0, FEW + 2))
        await owner.add(*_links("b.example", 0, 9))
        assert await _hosts(owner) == ["b.example", "a.example"]  # a was found first
        owner.now += 10
        assert await _hosts(owner) == ["b.example", "a.example"]
        owner = await owner.killed(after=DAY / 2)
        assert await _hosts(owner) == [
            "a.example",
            "b.example",
        ]  # 1,000 wait for 2 pages: not above 500 for each

    @asynchronous
    async def test_without_the_rule_no_host_sinks(self, ground: Ground) -> None:
        owner = await Owner.of(ground, delay=1.0)
        await owner.add(*_links("a.example", 0, FEW + 3))
        await owner.add(*_links("b.example", 0, 9))
        assert await _hosts(owner) == ["a.example", "b.example"]
