"""Folders that are no runs."""

import pytest
from small_run import small_run

from gamagat.errors import RunError
from gamagat.reports.folders import run_in


def test_a_run_is_read(tmp_path):
    small_run(tmp_path / "run", specs=("fgsm",))
    assert run_in(tmp_path / "run").manifest.data == "small"


def test_a_training_without_an_evaluation_says_how_to_make_one(tmp_path):
    (tmp_path / "training.json").write_text("{}")
    with pytest.raises(RunError, match="is the folder of a training and holds no evaluation") as caught:
        run_in(tmp_path)
    assert f"gamagat evaluate {tmp_path} --out {tmp_path / 'evaluation'}" in str(caught.value)


def test_a_folder_of_runs_names_a_few_of_them(tmp_path):
    for number in range(7):
        (tmp_path / f"run{number}").mkdir()
        (tmp_path / f"run{number}" / "manifest.json").write_text("{}")
    with pytest.raises(
        RunError, match=r"is no run itself; give an evaluation in it: .*run0, .*\(and 2 more\)"
    ):
        run_in(tmp_path)


def test_a_diagnosis_alone_is_no_run(tmp_path):
    (tmp_path / "diagnosis.json").write_text("{}")
    with pytest.raises(RunError, match=f"holds a diagnosis but no run; .*evaluate MODEL --out {tmp_path}"):
        run_in(tmp_path)


def test_any_other_folder_holds_no_run(tmp_path):
    with pytest.raises(RunError, match=r"holds no run: there is no manifest\.json"):
        run_in(tmp_path)
    with pytest.raises(RunError, match="nowhere holds no run: there is no such folder"):
        run_in(tmp_path / "nowhere")
