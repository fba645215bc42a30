"""A short form of `python -m benchmarks.freshness`: the frontier of a crawl, in virtual time, beside other schedules."""

from benchmarks import freshness
from benchmarks.freshness import Run, Told, World

SHORT = Run(pages=60, days=120, skipped=40, seeds=1)


def test_it_is_fresher_than_fixed_schedules_and_keeps_the_limit_of_every_day() -> None:
    row = freshness.measured(SHORT, pareto=True, rate=0.1, ours_too={"Skitter": None})
    fresh = row.freshness
    assert fresh["Skitter"] > max(fresh["uniform"], fresh["Nutch 0.4/0.2"], fresh["StormCrawler 0.5/0.5"])
    assert fresh["Skitter"] > 0.85 * fresh[freshness.KNOWN]
    assert row.most <= row.cap
    assert row.unmodified >= 0.95


def test_the_estimate_is_near_what_visits_drawn_by_lot_find() -> None:
    world = World.of(SHORT, 1, pareto=False)
    found = freshness.ours(world, SHORT, 0.5).again
    assert found["audits"] > 20
    assert abs(found["audits_fresh"] - found["audits_expected"]) / found["audits"] < 0.2


def test_a_sitemap_that_tells_most_changes_helps_and_one_that_lies_does_little_harm() -> None:
    run = Run(pages=60, days=160, skipped=60, seeds=1)
    fresh = {}
    for name, told in {"none": None, "true": Told(0.9, 0.9), "lies": Told(lies=True)}.items():
        world = World.of(run, 0, pareto=False)
        fresh[name] = world.freshness(freshness.ours(world, run, 0.2, told).visits, run)
    assert fresh["true"] > fresh["none"]
    assert fresh["lies"] > fresh["none"] - 0.04
