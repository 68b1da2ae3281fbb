"""What every registered table promises; a new table is tested by being registered."""

import json
from importlib.resources import files

import pytest

from gamagat.engine.plan import plan_attacks
from gamagat.engine.training.settings import make_plan
from gamagat.experiments import paper
from gamagat.experiments.core import EXPERIMENTS, find
from gamagat.models.core import MODELS
from gamagat.pieces.threat import norm_named
from gamagat.registry import parse_spec

FAMILIES = {"cifar10": "cifar10", "mnist": "mnist", "imagenet100": "imagenet"}

every_table = pytest.mark.parametrize("name", EXPERIMENTS.names())


@every_table
def test_it_is_called_what_it_is_registered_as(name):
    assert find(name).name == name
    assert EXPERIMENTS[name].summary


@every_table
def test_every_attack_can_be_read(name):
    for slot in find(name).slots:
        if slot.measure.attack is not None:
            family = FAMILIES[slot.network.data]
            plan_attacks([slot.measure.attack], family, norm=norm_named(slot.measure.norm))


@every_table
def test_every_recipe_makes_a_plan_and_every_network_has_a_name(name):
    for network in find(name).networks:
        if network.recipe is not None:
            make_plan(network.recipe, FAMILIES[network.data], network.model)
        assert parse_spec(network.model)[0] in MODELS
        assert not network.given


@every_table
def test_rows_and_columns_are_the_papers_or_declared_ours(name):
    table = find(name)
    known = (paper.rows(table.paper), paper.columns(table.paper)) if table.paper else ([], [])
    for names, published in zip((table.rows, table.columns), known, strict=True):
        assert set(names) - set(published) <= table.ours
    assert not table.ours & {*known[0], *known[1]}


@every_table
def test_every_place_that_is_not_ours_has_a_figure_in_the_paper(name):
    table = find(name)
    for place in (*table.slots, *table.derived):
        if not {place.row, place.column} & table.ours:
            assert table.published(place.row, place.column) is not None


@every_table
def test_no_place_is_filled_twice_and_names_can_be_listed(name):
    table = find(name)
    places = [(place.row, place.column) for place in (*table.slots, *table.derived)]
    assert len(set(places)) == len(places)
    assert not any("," in word for word in (*table.rows, *table.columns))  # --rows takes them with commas
    assert "all" not in table.rows  # which --checkpoint means by all=...


@every_table
def test_notes_are_about_something(name):
    table = find(name)
    for key in table.notes:
        assert key == "" or key in table.rows or key in table.columns or key.partition("/")[0] in table.rows


@pytest.mark.parametrize(
    "name", ["table1", "table2", *(f"tableS{number}" for number in range(2, 11)), "stability"]
)
def test_all_tables_of_the_paper_are_there_and_whole(name):
    table = find(name)
    assert not set(paper.rows(name)) - set(table.rows)
    assert not set(paper.columns(name)) - set(table.columns)


def test_figures_of_the_paper_are_those_of_the_paper():
    """A few that were read off the paper once more."""
    assert paper.value("table2", "GAT", "PGD-500") == 53.08
    assert paper.value("table2", "TR-GAT WRN-34-10", "AA") == 53.32
    assert paper.value("table1", "Wang WRN-28-10", "GAMA-PGD-MT top5") == 56.54
    assert paper.value("tableS2", "PGD logit margin", "10-step x5") == 54.75
    assert paper.value("tableS6", "restarts", "MNIST b") == 92.2
    assert paper.value("tableS10", "lambda 100 over 50", "IN100 GAMA") == 29.3
    assert paper.value("text_numbers", "reruns", "value") is None  # six of them: no one figure
    assert paper.figure("fig3")["data"]["mnist"]["GAMA-PGD"][0] == 93.72
    runs = [paper.value("stability", f"run {number}", "PGD-100") for number in range(1, 7)]
    assert paper.value("stability", "mean", "PGD-100") == pytest.approx(sum(runs) / 6, abs=1e-3)


def test_the_guide_of_the_ablation_fades_in_a_hundred_steps_and_not_in_ten():
    """As the paper's section 5.1 says; GAMA-PGD differs from that row by its start alone."""
    slots = {(slot.row, slot.column): slot.measure.attack for slot in find("S2").slots}
    fades = {
        column: str(slots["PGD probability margin + l2", column]).count("fade=0.25") for _, column in slots
    }
    assert fades == {"100-step single": 1, "100-step x5": 1, "10-step single": 0, "10-step x5": 0}


def test_one_network_is_rfgsm_at_and_the_ablation_with_its_figures():
    ablation, defence = (
        find(name).only([row], ["Clean"]) for name, row in (("tableS3", "A4"), ("table2", "RFGSM-AT"))
    )
    assert ablation.networks == defence.networks
    assert make_plan(str(ablation.slots[0].network.recipe), "cifar10", "resnet18-gat").own["full"] is True
    assert [find(name).published(row, "AA") for name, row in (("tableS3", "A4"), ("table2", "RFGSM-AT"))] == [
        33.16
    ] * 2


def test_a_mean_of_runs_has_the_reason_that_its_runs_have():
    table = find("stability")
    assert table.notes["mean"] == table.notes["run 1"]


def test_the_data_of_the_paper_cite_it_and_repeat_no_row():
    content = json.loads(files("gamagat.experiments").joinpath("paper.json").read_text("utf-8"))
    assert "Guided Adversarial Attack for Evaluating and Enhancing Adversarial Defenses" in content["cite"]
    for table in content["tables"].values():
        names = [row["name"] for row in table["rows"]]
        assert len(set(names)) == len(names)
        assert all(set(row["values"]) <= set(table["columns"]) for row in table["rows"])


def test_attacks_of_the_columns_are_the_papers():
    """The settings that the paper states, by column."""
    measures = {(slot.row, slot.column): slot.measure for slot in find("table2").slots}
    assert measures["GAT", "IFGSM-7"].attack == "ifgsm:steps=7,as_published=true"
    assert measures["GAT", "PGD-500"].attack == "pgd:steps=500,as_published=true"
    assert measures["GAT", "AA"].attack == "autoattack"
    assert measures["GAT", "CW mean L2"].norm == "l2"
    eps = {slot.row: slot.network.eps for slot in find("table2").slots}
    assert eps.pop("TRADES WRN-34-10") == "0.031"
    assert set(eps.values()) == {None}  # the data's 8/255
    cut = {(slot.row, slot.column): slot.measure.n for slot in find("tableS6").slots}
    assert [place for place, n in cut.items() if n == 1000] == [
        ("restarts", f"{data} {letter}") for data in ("CIFAR-10", "ImageNet-100") for letter in "ab"
    ]
    adaptive = {(slot.row, slot.column): slot.measure.attack for slot in find("S10").slots}
    assert adaptive["lambda final", "IN100 GAMA"] == "gama-pgd:weight=140,fade=none,as_published=true"
    assert adaptive["lambda 50 over 100", "MNIST GA-CE"] == "ga-ce:weight=50,fade=1,as_published=true"


@pytest.mark.parametrize("word", ["tableS2", "tables2", "S2", "s2", " TableS2 "])
def test_a_table_is_found_by_any_of_its_names(word):
    assert find(word).name == "tableS2"
