"""Evaluations as tables."""

from dataclasses import replace

import pytest
from small_run import small_run

from gamagat.engine.distances import BOUND
from gamagat.engine.run import read_run
from gamagat.engine.share import Share
from gamagat.reports.page.charts import charts
from gamagat.reports.plots.sweeps import eps_picture
from gamagat.reports.tables import curve_lines, evaluation_table


@pytest.mark.parametrize(("of", "words"), [(60, ""), (12, " (12 of 60 images)"), (0, "")])
def test_a_figure_of_some_of_the_images_says_of_how_many(tmp_path, of, words):
    result = small_run(tmp_path / "run", specs=("fgsm",))
    attack = replace(result.attacks[0], standing=Share(of // 2, of))
    table = evaluation_table(replace(result, attacks=(attack,), standing=Share(of // 2, of)))
    assert list(table.columns[0].cells) == ["clean", f"fgsm{words}", f"worst case{words}"]


@pytest.mark.parametrize(("restarts", "told"), [(1, False), (2, True)])
def test_a_curve_below_eps_that_is_but_a_bound_is_called_one(tmp_path, restarts, told):
    spec = "fab:steps=8" if restarts == 1 else f"fab:steps=8,restarts={restarts}"
    result = small_run(tmp_path, specs=(spec,), eps=0.02)
    run = read_run(tmp_path)
    about = [chart.about for chart in charts(run, result) if chart.title.startswith("Accuracy against eps")]
    for words in (curve_lines(result)[-1], *about, eps_picture([run]).note):
        assert (BOUND in words) is told
    assert len(about) == 1


def test_with_several_runs_the_curve_below_eps_lies_above_one_that_looked_there():
    far, near = (
        small_run(None, specs=("fab-t:steps=8,top=3",), eps=eps).attacks[0].nearest for eps in (0.06, 0.02)
    )
    assert far.accuracy(0.02).count > near.accuracy(0.02).count
