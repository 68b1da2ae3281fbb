"""Training as people and machines ask for it, and what they do with the folder afterwards."""

import builtins
import hashlib
import json
import sys

import pytest
from safetensors.torch import load_file, save_file

from gamagat import cli
from gamagat.engine.training import course, run
from gamagat.engine.training.run import usual_model

QUICK = ["--device", "cpu", "--n", "70", "--set", "epochs=2", "--set", "probe=20"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What a training of a minute leaves, made in a moment: no test may change it."""
    out = tmp_path_factory.mktemp("trained") / "run"
    sys.argv, before = ["gamagat", "train", "gat", "--out", str(out), *QUICK, "--eps", "0.07",
                        "--test-images", "12"], sys.argv  # fmt: skip
    try:
        with pytest.raises(SystemExit) as stop:
            cli.main()
        assert not stop.value.code
    finally:
        sys.argv = before
    return out


def test_the_table_shows_the_selected_and_the_last_epoch(command, tmp_path, monkeypatch):
    accuracies = iter([30.0, 20.0])

    def look(self, model, posed=None):
        return dict.fromkeys(("clean", "fgsm", "pgd-10", "selection"), next(accuracies))

    monkeypatch.setattr(course.Probe, "look", look)
    code, out, err = command("train", "gat", "--out", tmp_path / "r", *QUICK, "--test-images", "5")
    assert code == 0
    for words in ("digits-cnn after gat on digits", "selected", "last", "clean", "fgsm", "ifgsm",
                  "pgd:steps=20", "gama-pgd", "worst case", "s of training"):  # fmt: skip
        assert words in out
    assert f"gamagat evaluate {tmp_path / 'r'}" in " ".join(out.split())
    assert err == ""  # nobody looks: nothing but the table
    left = {path.name for path in (tmp_path / "r").glob("[!.]*")}
    assert left == {
        "training.json", "checkpoint.safetensors", "sound.safetensors", "model.safetensors",
        "last.safetensors",
        "metrics.jsonl",
        "card.json", "README.md", "evaluation-selected-5", "evaluation-last-5",
    }  # fmt: skip


def test_json_is_one_object_and_nothing_else(command, tmp_path):
    out_folder = tmp_path / "r"
    words = ["train", "gat:epochs=1", "--out", out_folder, "--device", "cpu", "--n", "64", "--json"]
    code, out, err = command(*words, "--test-images", "5", "--seed", "3")
    card = json.loads(out, parse_constant=pytest.fail)
    assert code == 0
    assert err == ""
    assert card == json.loads((out_folder / "card.json").read_text())
    assert list(card) == [
        "format", "model", "weights", "file_sha256", "weights_sha256", "recipe", "data", "split", "norm",
        "eps", "seed", "selected_by", "selection", "selected_epoch", "epochs", "validation", "figures",
        "seconds", "made",
    ]  # fmt: skip
    assert (card["model"], card["data"], card["eps"], card["seed"]) == ("digits-cnn", "digits", 0.2, 3)
    assert card["recipe"].startswith("gat:weight=10,")
    assert set(card["figures"]["selected"]) == {
        "images",
        "clean",
        "fgsm",
        "ifgsm",
        "pgd:steps=20",
        "gama-pgd",
    }
    content = (out_folder / "model.safetensors").read_bytes()
    assert card["file_sha256"] == hashlib.sha256(content).hexdigest()
    # The hash of the tensors is the one that a run on this network has.
    manifest = json.loads((out_folder / "evaluation-selected-5" / "manifest.json").read_text())
    assert card["weights_sha256"] == manifest["weights_sha256"] != card["file_sha256"]
    assert (card["selected_by"], card["selection"]) == ("selection", "IFGSM-7")
    # The same command again finds everything done and says the same.
    again = json.loads(command(*words, "--test-images", "5", "--seed", "3")[1])
    assert {**again, "made": card["made"]} == card


def test_without_test_images_there_is_no_table(command, tmp_path):
    code, out, _ = command("train", "free", "--out", tmp_path / "r", *QUICK, "--test-images", "0")
    assert code == 0
    assert "selected" not in out
    assert "s of training" in out
    assert json.loads((tmp_path / "r" / "card.json").read_text())["figures"] == {}
    assert "|" not in (tmp_path / "r" / "README.md").read_text()


TRAIN = ["train", "gat", "--device", "cpu", "--n", "20", "--test-images", "0"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "gta"], "unknown recipe 'gta'; did you mean 'gat'?"),
        (["train", "gat:epochz=3"], "did you mean 'epochs'?"),
        (["train", "gat:epochs"], "cannot read 'epochs'"),
        ([*TRAIN, "--set", "epochs"], "--set takes key=value, got 'epochs'"),
        ([*TRAIN, "--set", "epochz=3"], "did you mean 'epochs'?"),
        ([*TRAIN, "--set", "model=resnet18"], "unknown option of recipe 'gat' 'model'"),
        ([*TRAIN, "--set", "rate=fast"], "gat:rate must be a number, at least 1e-12, got 'fast'"),
        ([*TRAIN, "--set", "epochs=abc"], "gat:epochs must be a whole number from 1 to 1,000,000, got 'abc'"),
        ([*TRAIN, "--set", "epochs=2.5"], "from 1 to 1,000,000, got '2.5'; such as --set epochs=100"),
        ([*TRAIN, "--set", "cycle=round"], "unknown value of gat:cycle 'round'; known: stepped, triangle"),
        (
            [*TRAIN, "--set", "drops=a+b"],
            "each a number from 0 to 1, got 'a+b'; such as --set drops=0.71+0.86",
        ),
        ([*TRAIN, "--set", "alternate=x"], "gat:alternate must be true or false, got 'x'"),
        ([*TRAIN, "--set", "weight=x"], "gat:weight must be a number, got 'x'; such as --set weight=10"),
        ([*TRAIN, "--set", "drops=0.5+2"], "drops must lie between 0 and 1, got 2"),
        ([*TRAIN, "--set", "epochs=0"], "epochs must lie between 1"),
        ([*TRAIN, "--model", "digits-cn"], "did you mean 'digits-cnn'?"),
        ([*TRAIN, "--model", "m-lenet"], "cannot take images of shape (16, 1, 8, 8)"),
        ([*TRAIN, "--data", "digit"], "did you mean 'digits'?"),
        ([*TRAIN, "--data", "arrays:/no/such.npz"], "/no/such.npz"),
        ([*TRAIN, "--precision", "fp8"], "precision must be auto or fp32, got 'fp8'"),
        ([*TRAIN, "--on-collapse", "panic"], "--on-collapse"),
        ([*TRAIN, "--preset", "cifar"], "unknown preset 'cifar'; did you mean 'cifar10'?"),
        ([*TRAIN, "--eps", "0"], "eps must be positive"),
        ([*TRAIN, "--eps", "big"], "eps must be a number"),
        ([*TRAIN, "--norm", "l0"], "unknown norm 'l0'"),
        ([*TRAIN, "--device", "tpu9"], "is not to be had here"),
        ([*TRAIN, "--n", "0"], "must be positive, got 0"),
        ([*TRAIN, "--test-images", "-1"], "--test-images"),
        ([*TRAIN, "--seed", "x"], "--seed"),
        ([*TRAIN, "--no-such-option"], "--no-such-option"),
        (["train"], "Missing argument"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_two(command, tmp_path, words, message):
    code, out, err = command(*words, "--out", tmp_path / "run")
    assert code == 2
    assert message in err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert out == ""
    assert not (tmp_path / "run" / "training.json").exists()  # so that the right words may follow


def test_a_training_without_a_folder_is_one_sentence(command):
    code, _, err = command("train", "gat")
    assert code == 2
    assert "--out" in err
    assert err.count("\n") == 1


def test_a_folder_that_cannot_be_written_is_one_sentence(command, tmp_path):
    (tmp_path / "file").write_text("no folder")
    for place in ("file", "file/run"):
        code, _, err = command(*TRAIN, "--out", tmp_path / place)
        assert code == 2
        assert "cannot make the folder" in err
        assert err.count("\n") == 1


def test_a_folder_of_another_training_is_one_sentence(command, folder):
    code, _, err = command("train", "gat", "--out", folder, *QUICK, "--eps", "0.08")
    assert code == 2
    assert "holds another training (eps was 0.07 and is 0.08)" in err
    assert err.count("\n") == 1


def test_tensorboard_without_the_package_is_one_sentence(command, tmp_path, monkeypatch):
    real = builtins.__import__

    def blocked(name, *arguments, **options):
        if "tensorboard" in name:
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", blocked)
    code, _, err = command(*TRAIN, "--out", tmp_path / "run", "--tensorboard")
    assert code == 2
    assert err == "error: --tensorboard needs the package tensorboard; install it or leave it out\n"


def test_tensorboard_is_told_every_number(tmp_path, monkeypatch):
    written = []

    class SummaryWriter:
        def __init__(self, place):
            self.place = place

        def add_scalar(self, *what):
            written.append(what)

        def flush(self):
            pass

    fake = type(sys)("torch.utils.tensorboard")
    fake.SummaryWriter = SummaryWriter
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", fake)
    run.tensorboard(tmp_path)({"epoch": 3, "train": {"loss": 1.0}, "val": {"clean": 2.0}})
    assert written == [("train/loss", 1.0, 3), ("val/clean", 2.0, 3)]


def test_a_long_training_without_a_gpu_is_said_to_be_long(command, tmp_path, monkeypatch):
    monkeypatch.setattr(course, "LONG", 0.0)
    words = ["train", "gat", "--device", "cpu", "--n", "70", "--set", "batch=10", "--set", "epochs=1"]
    code, out, err = command(*words, "--test-images", "0", "--out", tmp_path / "run", "--json")
    assert code == 0
    assert err.startswith("note: without a GPU this takes about ")
    assert err.count("\n") == 1
    json.loads(out)


def test_a_collapse_is_a_note(command, tmp_path, monkeypatch):
    def look(self, model, posed=None):
        return {"clean": 90.0, "fgsm": 80.0, "pgd-10": 1.0, "selection": 1.0}

    monkeypatch.setattr(course.Probe, "look", look)
    words = [*TRAIN, "--out", tmp_path / "run", "--on-collapse", "stop", "--json"]
    code, out, err = command(*words)
    assert code == 0
    assert err.startswith("note: epoch 0: catastrophic overfitting: FGSM accuracy 80.0 %")
    assert err.count("\n") == 1
    assert json.loads(out)["epochs"] == 1


EVALUATE = ["--n", "10", "--attack", "fgsm", "--json", "--device", "cpu", "--force"]


def test_the_folder_is_evaluated_on_its_data_with_its_eps(command, folder):
    code, out, _ = command("evaluate", folder, *EVALUATE)
    found = json.loads(out)
    assert code == 0
    assert (found["data"], found["norm"], found["eps"], found["n"]) == ("digits", "linf", 0.07, 10)
    card = json.loads((folder / "card.json").read_text())
    whole = json.loads(command("evaluate", folder, *EVALUATE[2:], "--n", "12")[1])
    assert whole["clean_accuracy"] == card["figures"]["selected"]["clean"]
    assert whole["attacks"][0]["robust_accuracy"] == card["figures"]["selected"]["fgsm"]


@pytest.mark.parametrize(
    ("words", "norm", "eps"),
    [
        (["--eps", "0.11"], "linf", 0.11),
        (["--data", "digits"], "linf", 0.2),  # other data, the usual eps of those
        (["--norm", "l2"], "l2", 0.5),  # another norm has another eps
        (["--norm", "l2", "--eps", "0.3"], "l2", 0.3),
    ],
)
def test_what_is_said_wins_over_the_card(command, folder, words, norm, eps):
    found = json.loads(command("evaluate", folder, *EVALUATE, *words)[1])
    assert (found["norm"], found["eps"]) == (norm, eps)


def test_other_data_win_over_the_card(command, folder, tmp_path):
    import numpy as np  # noqa: PLC0415

    images = np.random.default_rng(0).integers(0, 256, (6, 1, 8, 8), np.uint8)
    np.savez(tmp_path / "other.npz", images=images, labels=np.arange(6))
    words = ["--data", f"arrays:{tmp_path / 'other.npz'}", "--eps", "0.01"]
    found = json.loads(command("evaluate", folder, *EVALUATE, *words)[1])
    assert (found["n"], found["eps"]) == (6, 0.01)


def test_an_evaluation_of_the_folder_is_verified(command, folder, tmp_path, monkeypatch):
    code, *_ = command("evaluate", folder, *EVALUATE, "--out", tmp_path / "evaluation")
    assert code == 0
    monkeypatch.chdir(tmp_path)
    code, out, _ = command("verify", tmp_path / "evaluation", "--json")
    assert code == 0
    assert json.loads(out)["sound"]


def test_the_evaluations_that_training_made_are_verified(command, folder):
    runs = list(folder.glob("evaluation-*"))
    assert runs
    for made in runs:
        code, out, _ = command("verify", made, "--json")
        assert (code, json.loads(out)["problems"]) == (0, [])


def test_a_relative_folder_is_verified_from_elsewhere(command, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(folder.parent)
    assert command("evaluate", "run", *EVALUATE, "--out", tmp_path / "evaluation")[0] == 0
    monkeypatch.chdir(tmp_path)
    assert command("verify", "evaluation")[0] == 0


@pytest.fixture(scope="module")
def divided(tmp_path_factory):
    """A training on arrays without parts, named from the folder that it was made in, in l2."""
    import numpy as np  # noqa: PLC0415

    place, dice = tmp_path_factory.mktemp("arrays"), np.random.default_rng(0)
    np.savez(place / "a.npz", x=dice.integers(0, 256, (40, 1, 8, 8), np.uint8), y=np.arange(40) % 4)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        words = "train standard --data arrays:a.npz --out run --model digits-cnn --eps 0.2 --norm l2"
        patch.setattr(sys, "argv", ["gamagat", *words.split(), *QUICK])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        assert not stop.value.code
    return place / "run"


def test_images_that_were_trained_on_do_not_judge(command, divided, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "evaluation"
    found = json.loads(command("evaluate", divided, *EVALUATE[2:], "--out", out)[1])
    card = json.loads((divided / "card.json").read_text())
    assert found["n"] == card["figures"]["selected"]["images"] == 4
    assert found["clean_accuracy"] == card["figures"]["selected"]["clean"]
    for run_ in (out, *divided.glob("evaluation-*")):
        code, words, _ = command("verify", run_, "--json")
        assert (code, json.loads(words)["problems"]) == (0, [])


def test_a_split_that_is_said_wins_over_the_cards(command, divided):
    words = ["--split", "train", *EVALUATE[2:]]
    assert json.loads(command("evaluate", divided, *words)[1])["n"] == 40


@pytest.mark.parametrize(
    ("words", "norm", "eps", "told"),
    [
        ([], "l2", 0.2, "l2, eps 0.2 (as it was trained for)"),
        (["--eps", "0.2"], "l2", 0.2, "l2, eps 0.2 (as it was trained for)"),
        (["--eps", "0.1"], "l2", 0.1, "l2, eps 0.1\n"),
        (["--norm", "linf", "--eps", "0.1"], "linf", 0.1, "linf, eps 0.1\n"),
    ],
)
def test_the_folder_knows_its_norm(command, divided, words, norm, eps, told):
    found = json.loads(command("evaluate", divided, *EVALUATE, *words)[1])
    assert (found["norm"], found["eps"]) == (norm, eps)
    plain = [word for word in EVALUATE if word != "--json"]
    assert told in command("evaluate", divided, *plain, *words)[1]


def test_an_attack_that_knows_l2_alone_needs_no_word_about_it(command, divided, folder):
    words = ["--attack", "ddn:steps=2", "--n", "4", "--device", "cpu", "--force"]
    assert command("evaluate", divided, *words)[0] == 0
    code, _, err = command("evaluate", folder, *words)
    assert code == 2
    assert "ddn attacks in l2 alone, got linf; use --norm l2" in err


def test_the_page_beside_the_card_tells_nothing_of_the_machine(divided):
    card, page = json.loads((divided / "card.json").read_text()), (divided / "README.md").read_text()
    assert card["data"] == f"arrays:{divided.parent / 'a.npz'}"  # so that the folder finds it again
    assert str(divided.parent) not in page
    assert "trained with standard on arrays:a.npz" in page
    assert "`gamagat evaluate DIR` measures this network" in page


def test_classes_that_have_no_names_are_not_kept(divided):
    assert "classes" not in json.loads((divided / "card.json").read_text())


def test_the_card_keeps_the_names_of_the_classes(command, tmp_path):
    import numpy as np  # noqa: PLC0415
    from PIL import Image  # noqa: PLC0415

    dice = np.random.default_rng(0)
    for part in ("train", "val", "test"):
        for name in ("cat", "dog", "emu"):
            (tmp_path / "pictures" / part / name).mkdir(parents=True)
            for number in range(4):
                pixels = dice.integers(0, 256, (8, 8), np.uint8)
                Image.fromarray(pixels).save(tmp_path / "pictures" / part / name / f"{number}.png")
    data, out = f"folder:{tmp_path / 'pictures'}", tmp_path / "run"
    words = ["--model", "digits-cnn", "--eps", "0.1", "--set", "epochs=1", "--test-images", "0"]
    assert command("train", "standard", "--data", data, "--out", out, "--device", "cpu", *words)[0] == 0
    assert json.loads((tmp_path / "run" / "card.json").read_text())["classes"] == ["cat", "dog", "emu"]
    assert "\n- classes: cat, dog, emu\n" in (tmp_path / "run" / "README.md").read_text()


def copied(folder, place):
    place.mkdir()
    for name in ("card.json", "model.safetensors"):
        (place / name).write_bytes((folder / name).read_bytes())
    return place


def test_changed_weights_are_noticed_by_verify(command, folder, tmp_path):
    net = copied(folder, tmp_path / "net")
    assert command("evaluate", net, *EVALUATE, "--out", tmp_path / "evaluation")[0] == 0
    state = {key: value + 0.1 for key, value in load_file(net / "model.safetensors").items()}
    save_file(state, net / "model.safetensors")
    code, out, _ = command("verify", tmp_path / "evaluation", "--json")
    assert code == 1
    assert "the weights are not those of the run" in json.loads(out)["problems"][0]


def test_missing_weights_and_damaged_cards_are_one_sentence(command, folder, tmp_path):
    net = copied(folder, tmp_path / "net")
    (net / "model.safetensors").unlink()
    code, _, err = command("evaluate", net)
    assert code == 2
    assert "is not there; copy it back" in err
    assert err.count("\n") == 1
    for content in ("{", "[]", "{}", '{"weights": "card.json"}'):
        (net / "card.json").write_text(content)
        code, _, err = command("evaluate", net)
        assert code == 2
        assert "cannot read" in err
        assert err.count("\n") == 1


def test_a_folder_called_like_a_model_does_not_stand_for_it(command, folder, tmp_path, monkeypatch):
    copied(folder, tmp_path / "resnet18")
    (tmp_path / "digits-cnn").mkdir()
    monkeypatch.chdir(tmp_path)
    code, _, err = command("evaluate", "resnet18", *EVALUATE)
    assert code == 2
    assert "has no weights" in err
    assert json.loads(command("evaluate", "digits-cnn", *EVALUATE)[1])["eps"] == 0.2
    assert json.loads(command("evaluate", "./resnet18", *EVALUATE)[1])["eps"] == 0.07


def test_training_into_a_folder_called_like_its_model_works(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["train", "gat", *QUICK, "--out", "digits-cnn", "--test-images", "3"]
    for _ in range(2):
        code, out, _ = command(*words)
        assert code == 0
        assert "gamagat evaluate ./digits-cnn" in out


def test_the_readme_tells_what_the_card_tells(folder):
    page, card = (folder / "README.md").read_text(), json.loads((folder / "card.json").read_text())
    assert page.startswith("# digits-cnn trained with gat on digits\n")
    assert "`gamagat evaluate DIR`" in page
    assert "linf up to eps 0.07" in page
    assert f"`{card['recipe']}`" in page
    assert f"sha256 of the file model.safetensors: {card['file_sha256']}" in page
    assert f"weights_sha256 in the manifest of a run: {card['weights_sha256']}" in page
    assert f"selected: epoch {card['selected_epoch'] + 1} of 2, by its accuracy on validation images" in page
    assert "validation images, under IFGSM-7; seed 0" in page
    assert "| epoch | images | clean | fgsm | ifgsm | pgd:steps=20 | gama-pgd |" in page
    for which, figures in card["figures"].items():
        accuracies = [f"{value:.2f}" for name, value in figures.items() if name != "images"]
        assert f"| {which} | " + " | ".join([str(figures["images"]), *accuracies]) + " |" in page


def test_the_demo_tells_the_whole_story(command, monkeypatch, tmp_path):
    monkeypatch.setattr("gamagat.engine.training.demo.ATTACKS", ("fgsm", "pgd:steps=3"))
    monkeypatch.setattr("gamagat.engine.training.demo.RECIPES", ("standard:epochs=1", "gat:epochs=1"))
    code, out, err = command("demo", "--json")
    assert code == 0
    assert err == ""
    figures = json.loads(out)
    assert list(figures) == ["standard:epochs=1", "gat:epochs=1"]
    assert set(figures["gat:epochs=1"]) == {"images", "clean", "fgsm", "pgd:steps=3"}


def test_a_training_that_is_not_finished_is_no_network_yet(command, tmp_path):
    folder = tmp_path / "half"
    folder.mkdir()
    (folder / "training.json").write_text("{}")
    code, _, err = command("evaluate", folder, "--n", "5")
    assert code == 2
    assert "not finished" in err


def test_an_interrupted_training_says_so(command, monkeypatch, tmp_path):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("gamagat.cli.train.run_training", stop)
    code, _, err = command("train", "gat", "--out", tmp_path / "r")
    assert code == 130
    assert "the same command goes on" in err


def test_the_network_is_the_papers_unless_it_is_said(command, tmp_path):
    assert usual_model("mnist") == "m-lenet"
    code, _, err = command("train", "gat", "--data", "folder:nowhere", "--out", tmp_path / "r")
    assert code == 2
    assert "--model" in err
