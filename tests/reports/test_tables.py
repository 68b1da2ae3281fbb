"""Evaluations as tables."""

from dataclasses import replace

import pytest
from small_run import small_run

from gamagat.engine.share import Share
from gamagat.reports.tables import evaluation_table


@pytest.mark.parametrize(("of", "words"), [(60, ""), (12, " (12 of 60 images)"), (0, "")])
def test_a_figure_of_some_of_the_images_says_of_how_many(tmp_path, of, words):
    result = small_run(tmp_path / "run", specs=("fgsm",))
    attack = replace(result.attacks[0], standing=Share(of // 2, of))
    table = evaluation_table(replace(result, attacks=(attack,), standing=Share(of // 2, of)))
    assert list(table.columns[0].cells) == ["clean", f"fgsm{words}", f"worst case{words}"]
