"""The figures of the order of visits: what the docs show is what was measured."""

import json

from benchmarks import curves, order


def test_page_and_chart_are_those_of_the_kept_figures():
    results = json.loads((order.DOCS / "order.json").read_text())
    page = (order.DOCS / "order.md").read_text()
    assert f"{order.BEGIN}\n\n{order.figures(results)}\n\n{order.END}" in page
    assert (order.DOCS / "order.svg").read_text() == curves.draw(results)


def test_the_kept_figures_keep_the_promise():
    results = json.loads((order.DOCS / "order.json").read_text())
    for web in results["many"]:
        assert web["crawls"]["opic"]["first"] >= 1.5 * web["crawls"]["bfs"]["first"]
    for web in (*results["many"], *results["few"]):
        assert web["crawls"]["opic"]["bound"]["highest"] <= 1
