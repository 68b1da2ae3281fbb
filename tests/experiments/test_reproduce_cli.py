"""gamagat reproduce, as people and machines use it."""

import json

import pytest

from experiments.toy import GAT, NORMAL, QUICK, shop_at
from gamagat.experiments.cache import Cache
from gamagat.experiments.words import command_for, read_networks
from gamagat.models.core import BUNDLED

SETTINGS = [word for key, value in QUICK.items() for word in ("--set", f"{key}={value}")]
TWICE = ["--checkpoint", "GAT=a", "--checkpoint", "gat=b"]
WORDS = ["reproduce", "toy", "--device", "cpu", "--n", "40", *SETTINGS]


@pytest.fixture(autouse=True)
def tables(registered):
    """The toy tables can be named on the command line."""


def test_paper_and_ours_stand_side_by_side(command, filled):
    code, out, err = command(*WORDS, "--cache", filled, "--rows", "gat", "--columns", "Clean,FGSM")
    assert code == 0
    assert err == ""
    for words in ("paper", "ours", "95 % interval", "GAT", "Clean", "FGSM", "99.37", "97.11", " to ", "40"):
        assert words in out
    assert "Normal" not in out
    assert "PGD-40" not in out


def test_json_is_one_object_and_nothing_else(command, filled):
    code, out, err = command(*WORDS, "--cache", filled, "--rows", "GAT", "--json")
    result = json.loads(out)
    assert (code, err) == (0, "")
    assert (result["experiment"], result["stopped"], result["missing"]) == ("toy", None, 0)
    cell = result["cells"][1]
    assert (cell["row"], cell["column"], cell["status"], cell["n"]) == ("GAT", "FGSM", "measured", 40)
    assert cell["interval"][0] <= cell["ours"] <= cell["interval"][1]
    assert cell["command"] == "gamagat reproduce toy --n 40 --set epochs=1 --set probe=20"
    assert cell["changed"] == QUICK


def test_the_plan_says_what_is_missing_and_runs_nothing(command, tmp_path):
    code, out, _ = command(*WORDS, "--cache", tmp_path / "cache", "--plan", "--json")
    plan = json.loads(out)
    assert code == 0
    assert [item["kind"] for item in plan["items"]] == ["train"] * 2 + ["measure"] * 10
    assert plan["seconds"] > 0
    assert not (tmp_path / "cache").exists()
    code, out, _ = command(*WORDS, "--cache", tmp_path / "cache", "--plan", "--rows", "GAT")
    assert "gat, digits-cnn, digits" in out
    assert "1 epochs" in out


def test_time_that_is_over_is_told_with_what_is_left_and_the_same_command_goes_on(command, tmp_path):
    words = [*WORDS, "--cache", tmp_path / "cache", "--columns", "Clean", "--results", tmp_path / "results"]
    code, out, err = command(*words, "--max-seconds", "0.001")
    assert code == 3
    assert "not run" in out
    assert "the time that was given is over; 2 left; the same command goes on" in err
    code, out, err = command(*words)
    assert code == 0
    assert "not run" not in out
    assert [line for line in err.splitlines() if "ing " in line] == [
        "training standard, digits-cnn, digits", "measuring Normal, Clean",
        "training gat, digits-cnn, digits", "measuring GAT, Clean",
    ]  # fmt: skip
    code, _, _ = command(*words, "--max-seconds", "0.001", "--set", "batch=32")  # other networks, no time
    assert code == 3
    cells = json.loads((tmp_path / "results" / "toy.json").read_text())["cells"]
    assert [cell["status"] for cell in cells if cell["column"] == "Clean"] == ["measured"] * 2


@pytest.mark.parametrize(("few", "trial"), [(["--n", "40"], True), ([], False)])
def test_a_part_of_the_images_is_a_trial(command, filled, tmp_path, monkeypatch, few, trial):
    seen = []
    monkeypatch.setattr("gamagat.cli.reproduce.save_result", lambda *_, **how: seen.append(how))
    words = ["reproduce", "toy", *few, *SETTINGS, "--cache", filled, "--results", tmp_path, "--max-seconds"]
    command(*words, "0.001", "--columns", "Clean", "--rows", "GAT")
    assert seen == [{"trial": trial}]


def test_networks_only(command, filled):
    code, out, _ = command(*WORDS, "--cache", filled, "--networks-only", "--json")
    homes = {network.name: str(shop_at(filled).cache.home(network)) for network in (NORMAL, GAT)}
    assert code == 0
    assert json.loads(out) == {"networks": homes, "stopped": None}


def test_a_page_is_made_of_the_results(command, filled, tmp_path):
    words = [
        *WORDS,
        "--cache",
        filled,
        "--results",
        tmp_path / "results",
        "--markdown",
        tmp_path / "results" / "a.md",
    ]
    assert command(*words)[0] == 0
    again = ["reproduce", "--results", tmp_path / "results", "--markdown", tmp_path / "b.md"]
    code, out, _ = command(*again, "--json")
    assert (code, json.loads(out)) == (0, {"page": str(tmp_path / "b.md")})
    text = (tmp_path / "b.md").read_text()
    assert text == (tmp_path / "results" / "a.md").read_text()
    assert "10 of 10 figures are measured" in text
    assert str(tmp_path) not in text  # nothing about this machine's folders


def test_a_network_of_ones_own(command, tmp_path):
    mine = f"GAT=digits-cnn@{BUNDLED / 'digits-cnn.safetensors'}"
    words = [
        *WORDS,
        "--cache",
        tmp_path,
        "--rows",
        "GAT",
        "--columns",
        "Clean",
        "--checkpoint",
        mine,
        "--json",
    ]
    code, out, _ = command(*words)
    (cell,) = json.loads(out)["cells"]
    assert code == 0
    assert cell["recipe"] is None
    assert cell["ours"] > 90
    assert cell["command"].startswith("gamagat reproduce toy --columns Clean --n 40 ")
    assert cell["command"].endswith("--checkpoint GAT=digits-cnn@digits-cnn.safetensors")


@pytest.mark.parametrize("content", ['{"lines": [', '{"format": 1}'])
def test_results_that_cannot_be_added_to_are_refused_before_anything_runs(command, tmp_path, content):
    (tmp_path / "toy.json").write_text(content)
    code, out, err = command(*WORDS, "--cache", tmp_path / "cache", "--results", tmp_path)
    assert (code, out) == (2, "")
    assert "toy.json" in err
    assert not (tmp_path / "cache").exists()
    assert (tmp_path / "toy.json").read_text() == content


def test_a_network_may_be_brought_for_the_part_of_a_row_that_needs_one(command, tmp_path):
    """Rows of tables S7 to S10 have a network for each data set."""
    weights = BUNDLED / "digits-cnn.safetensors"
    words = ["reproduce", "tableS9", "--rows", "GAT", "--plan", "--cache", tmp_path, "--data-dir", tmp_path]
    words += ["--checkpoint", f"GAT=digits-cnn@{weights}", "--device", "cpu"]
    code, _, err = command(*words)
    assert code == 2
    assert "needs several networks" in err
    code, _, err = command(*words, "--columns", "MNIST Clean,MNIST Square", "--networks-only")
    assert "needs several networks" not in err


def test_a_folder_of_any_name_may_be_brought(tmp_path, monkeypatch):
    folder = tmp_path / "me@home"
    folder.mkdir()
    (network,) = read_networks([f"GAT={folder}"]).values()
    assert (network.model, network.weights) == (str(folder), None)
    monkeypatch.chdir(folder)
    assert command_for("table2", Cache(tmp_path), ["GAT=."], {}).endswith("--checkpoint GAT=me@home")


def test_of_a_folder_only_its_name_is_written_down(tmp_path):
    (tmp_path / "mine").mkdir()
    given = [f"GAT={tmp_path / 'mine'}", "FBF=hf:someone/net", "ATF=zoo:gat-m-lenet-mnist"]
    assert command_for("table2", Cache(tmp_path), given, {}) == (
        "gamagat reproduce table2 --checkpoint GAT=mine --checkpoint FBF=hf:someone/net "
        "--checkpoint ATF=zoo:gat-m-lenet-mnist"
    )


def test_of_columns_as_much_is_written_down_as_decides_figures(tmp_path):
    """In others a row may be of other data, for which the network that is given is none."""
    cache, given = Cache(tmp_path), ["GAT=zoo:gat-m-lenet-mnist"]
    wanted = "gamagat reproduce tableS9 --columns 'MNIST Square' --checkpoint GAT=zoo:gat-m-lenet-mnist"
    assert command_for("tableS9", cache, given, {}, ["MNIST Square"]) == wanted
    assert command_for("tableS9", cache, [], {}, ["MNIST Square"]) == "gamagat reproduce tableS9"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["reproduce", "tabel2"], "unknown experiment 'tabel2'; did you mean 'table2'?"),
        (["reproduce"], "which table or figure? Name one of"),
        (["reproduce", "--markdown", "x.md"], "--markdown needs --results DIR"),
        ([*WORDS, "--markdown", "x.md"], "--markdown needs --results DIR"),  # before hours of work
        ([*WORDS, "--markdown", "x.md", "--results", "r", "--networks-only"], "measures nothing that"),
        ([*WORDS, "--markdown", "no/x.md", "--results", "r"], "there is no folder no to write x.md into"),
        (["reproduce", "--markdown", "x.md", "--results", "nowhere"], "there are no results in nowhere"),
        ([*WORDS, "--rows", "GTA"], "unknown row of toy 'GTA'"),
        ([*WORDS, "--columns", "PDG-40"], "unknown column of toy 'PDG-40'; did you mean 'PGD-40'?"),
        ([*WORDS, "--set", "epoch=1"], "unknown option of recipe 'standard' 'epoch'"),
        ([*WORDS, "--set", "epochs"], "--set takes key=value"),
        ([*WORDS, "--checkpoint", "GAT"], "--checkpoint takes ROW=MODEL@FILE or ROW=FOLDER, got 'GAT'"),
        ([*WORDS, "--checkpoint", "GAT=digits-cnn@no.pt"], "there is no file no.pt"),
        ([*WORDS, *TWICE], "--checkpoint is given twice for 'gat'; a row has one network"),
        ([*WORDS, "--max-seconds", "0"], "the time must be positive"),
        ([*WORDS, "--rows", ","], "--rows takes names with commas between them, got ','"),
        ([*WORDS, "--precision", "half"], "precision must be auto or fp32, got 'half'"),
        ([*WORDS, "--precision", "half", "--plan"], "precision must be auto or fp32, got 'half'"),
        ([*WORDS, "--device", "gpu9"], "device 'gpu9' is not to be had here"),
        ([*WORDS, "--batch-size", "0"], "the batch size must be at least 1"),
        ([*WORDS, "--cache", __file__], "is a file and nothing can be kept in it; give another --cache"),
        (["reproduce", "toy", "--n", "0"], "Invalid value for '--n'"),
    ],
)
def test_mistakes_are_one_sentence_and_code_2(command, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    code, out, err = command(*words)
    assert (code, out) == (2, "")
    assert message in " ".join(err.split())
    assert "Traceback" not in err
    assert not (tmp_path / "runs").exists()


def test_experiments_are_listed(command):
    code, out, _ = command("list", "experiments")
    assert code == 0
    assert "table2" in out
    assert "Ten defences on CIFAR-10" in out
