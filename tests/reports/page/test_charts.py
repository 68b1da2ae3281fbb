"""What the charts of a page draw."""

import re

import numpy as np
import pytest

from gamagat.engine.budget import NEVER, falling_costs
from gamagat.engine.ledger import CLEAN
from gamagat.engine.share import Share
from gamagat.reports.page.charts import class_chart
from gamagat.reports.page.classes import ClassRow
from gamagat.reports.page.content import gather
from gamagat.reports.page.render import as_html


def test_an_attack_looks_the_same_in_every_chart(digits):
    [part] = gather([digits]).runs
    looks = [set(re.findall(r'<g class="(s\d)"', chart.svg)) for chart in part.charts]
    assert looks == [{"s1", "s2"}, {"s0", "s1", "s2", "s3"}, {"s3"}]


def test_the_line_against_cost_steps_down_where_images_fall(digits):
    [part] = gather([digits]).runs
    chart = part.charts[1]
    [path] = re.findall(
        r'<g class="s1"><path class="line" d="([^"]+)"/>(<path class="point"[^>]+>)*</g>', chart.svg
    )
    falls = falling_costs(*tables_of(part.run, 1), "passes")
    costs = np.unique(falls[(falls > 0) & (falls < NEVER)])
    assert len(costs) > 2
    # A step for each cost at which something falls, and a flat end.
    assert path[0].count("V") - len(costs) in (0, 1)
    assert chart.svg.count('class="point"') == 4
    ends = [float(name.rpartition(" \u00b7 ")[2].removesuffix(" %")) for _, name in chart.legend]
    assert ends == sorted(ends, reverse=True)


def tables_of(run, number: int):
    _, runs = run.manifest.runs()[number]
    return run.table(CLEAN), [run.table(entry) for entry in runs]


def test_whiskers_share_one_scale_that_holds_them_all(digits):
    [part] = gather([digits]).runs
    low, high = part.scale
    assert low <= min(row.share.ci95[0] for row in part.rows)
    assert high >= max(row.share.ci95[1] for row in part.rows)
    places = [float(x) for x in re.findall(r'class="dot" cx="([\d.]+)"', as_html(gather([digits])))]
    wanted = [2 + 100 * (row.share.percent - low) / (high - low) for row in part.rows]
    assert places == pytest.approx(wanted, abs=0.06)


def test_of_very_many_classes_the_chart_shows_the_ends():
    found = [ClassRow(f"c{number}", Share(9, 10), Share(number, 999)) for number in range(1000)]
    chart = class_chart(found)
    assert chart is not None
    assert chart.svg.count('class="filled"') == 40
    assert [name for _, name in chart.legend] == ["clean", "worst case"]
    assert ">90 \u2192 100</text>" in chart.svg
    assert ">c0<" in chart.svg
    assert ">c999<" in chart.svg
    assert ">c500<" not in chart.svg
    assert class_chart([ClassRow("none", Share(0, 0), Share(0, 0))]) is None


def test_the_axis_names_what_the_runs_are(nameless):
    [part] = gather([nameless]).runs
    kinds = {name: len(runs) for name, runs in part.run.manifest.runs()}
    assert max(kinds.values()) > 1
    assert part.charts[0].title.startswith("Accuracy after each run")
    assert ">runs made</text>" in part.charts[0].svg
