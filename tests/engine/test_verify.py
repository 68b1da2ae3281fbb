"""Verification finds whatever does not agree."""

import json
import shutil
import sqlite3
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_run import RowByRow, small_data, small_run
from torch import Tensor

from gamagat.engine.codec import decode, encode
from gamagat.engine.eight_bit import eight_bit
from gamagat.engine.run import read_run
from gamagat.engine.verify import Verification, verify, verify_folder
from gamagat.errors import RunError
from gamagat.pieces.threat import L2, LINF, ThreatModel
from helpers import images_like

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("verify") / "run"
    small_run(folder)
    return folder


@pytest.fixture
def run(whole, tmp_path) -> Path:
    """A copy to tamper with."""
    return Path(shutil.copytree(whole, tmp_path / "run"))


def check(folder: Path, model: RowByRow | None = None) -> Verification:
    return verify(folder, model or RowByRow(), small_data(), CPU)


def change(folder: Path, statement: str) -> int:
    base = sqlite3.connect(folder / "ledger-0.sqlite")
    count = base.execute(statement).rowcount
    base.commit()
    base.close()
    return count


def test_a_sound_run_is_sound(run):
    found = check(run)
    assert found.problems == []
    assert found.images > 20
    assert found.verdicts == sum(
        len(table) - (table["fooled"] == -1).sum() for table in read_run(run).entries.values()
    )
    assert found.standing.percent == json.loads((run / "result.json").read_text())["robust_accuracy"]
    assert found.eight_bit.count >= found.standing.count


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE verdicts SET fooled = 0 WHERE rowid_of_one", "was changed"),
        ("UPDATE verdicts SET prediction = prediction + 1 WHERE rowid_of_one", "the network now says"),
        ("UPDATE verdicts SET distance = distance + 0.001 WHERE rowid_of_one", "the distance is"),
        ("UPDATE verdicts SET step = step + 1 WHERE rowid_of_one", "was changed"),
        ("UPDATE verdicts SET forwards = forwards - 1 WHERE rowid_of_one", "was changed"),
        ("UPDATE verdicts SET fooled = 1 WHERE entry = 'fgsm' AND fooled = 0", "there is no image of it"),
        ("DELETE FROM verdicts WHERE rowid_of_one", "was changed"),
        ("DELETE FROM images WHERE entry = 'fgsm'", "there is no image of it"),
        (
            "UPDATE images SET image = (SELECT max(image) FROM images) WHERE entry = 'fgsm'",
            "outside the threat model",
        ),
        ("DELETE FROM finished WHERE entry = 'fgsm'", "was changed"),
        ("UPDATE verdicts SET entry = 'pgd' WHERE entry = 'fgsm'", "the manifest knows no pgd"),
        ("UPDATE verdicts SET id = 5 WHERE rowid_of_one", "not in the data"),
    ],
)
def test_a_ledger_that_was_tampered_with_is_caught(run, statement, words):
    one = "entry = 'fgsm' AND id = (SELECT min(id) FROM verdicts WHERE entry = 'fgsm' AND fooled = 1)"
    assert change(run, statement.replace("rowid_of_one", one)) >= 1
    problems = check(run).problems
    assert any(words in problem for problem in problems), problems


@pytest.mark.parametrize("place", [3, 0.5])
def test_a_ledger_that_is_damaged_as_a_file_does_not_hold(run, place):
    file = run / "ledger-0.sqlite"
    content = bytearray(file.read_bytes())
    start = place if isinstance(place, int) else int(place * len(content))
    content[start : start + 4096] = b"\xab" * 4096
    file.write_bytes(content)
    founds = [check(run), *([verify_folder(run)] if place == 3 else [])]  # which knows it before the data
    for found in founds:
        (problem,) = found.problems
        assert "ledger-0.sqlite is damaged" in problem
        assert "evaluate again with another --out" in problem
        assert "intact" not in problem


def test_of_an_attack_that_claims_too_much_the_part_is_named(run):
    claims = json.loads((run / "result.json").read_text())
    claims["attacks"][0]["robust_accuracy"] = 99.0
    (run / "result.json").write_text(json.dumps(claims))
    (problem,) = check(run).problems
    assert problem.startswith("result.json says attacks[0].robust_accuracy is 99.0, the ledgers say ")
    assert len(problem) < 120


def test_every_byte_of_a_stored_image_matters(run):
    base = sqlite3.connect(run / "ledger-0.sqlite")
    entry, id_, image = base.execute("SELECT entry, id, image FROM images LIMIT 1").fetchone()
    pixels = decode(image, (1, 8, 8)).copy()
    pixels[0, 3, 3] = np.nextafter(pixels[0, 3, 3], np.float32(0.5))
    base.execute("UPDATE images SET image = ? WHERE entry = ? AND id = ?", (encode(pixels), entry, id_))
    base.commit()
    base.close()
    assert any("was changed" in problem for problem in check(run).problems)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("eps", 0.02, "outside the threat model"),
        ("norm", "l2", "the distance is"),
        ("weights_sha256", "0" * 64, "the weights are not those of the run"),
        ("data_sha256", "0" * 64, "the data is not that of the run"),
        ("chunk", 20, "was changed"),
        ("seed", 7, "was changed"),
        ("eps_given", "8/255", "was changed"),
    ],
)
def test_a_manifest_that_was_tampered_with_is_caught(run, key, value, words):
    manifest = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps(manifest | {key: value}))
    assert any(words in problem for problem in check(run).problems)


@pytest.mark.parametrize("key", ["clean_accuracy", "robust_accuracy", "ci95", "n", "eps", "attacks"])
def test_a_claim_that_was_tampered_with_is_caught(run, key):
    claims = json.loads((run / "result.json").read_text())
    (run / "result.json").write_text(json.dumps(claims | {key: 12.5}))
    assert any(f"result.json says {key} is 12.5" in problem for problem in check(run).problems)


class Overflowing(RowByRow):
    """Its answers are no numbers where one pixel is bright."""

    def forward(self, images: Tensor) -> Tensor:
        bright = images[:, 0, 3, 4] > 0.853
        return super().forward(images) * torch.where(bright, torch.nan, 1.0)[:, None]


def test_an_answer_that_is_no_number_is_no_class_the_second_time_either(tmp_path):
    small_run(tmp_path / "run", model=Overflowing())
    run = read_run(tmp_path / "run")
    assert (run.table("clean")["prediction"] == -1).any()
    assert any((run.table(entry)["prediction"] == -1).any() for entry in run.manifest.entries())
    found = check(tmp_path / "run", Overflowing())
    assert found.problems == []
    assert found.standing.percent == json.loads((tmp_path / "run/result.json").read_text())["robust_accuracy"]


@pytest.mark.parametrize("content", ["junk", "[1]", "7", "", "\x00"])
def test_a_claim_that_cannot_be_read_does_not_hold(run, content):
    (run / "result.json").write_text(content)
    assert any("result.json is damaged" in problem for problem in check(run).problems)
    (run / "result.json").unlink()
    small_run(run)
    assert check(run).sound


def test_other_weights_are_caught_twice(run):
    model = RowByRow()
    with torch.no_grad():
        model.second.neg_()
    problems = check(run, model).problems
    assert any("the weights are not those" in problem for problem in problems)
    assert any("the network now says" in problem for problem in problems)


WORDS = ["--attack", "fgsm", "--eps", "0.02", "--batch-size", "1", "--precision", "fp32", "--force"]


@pytest.fixture
def home(command, tmp_path, monkeypatch) -> Path:
    """A folder with a program, arrays, and a run of both, made in there."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    images = images_like(12, channels=1)
    model = RowByRow().eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.save(torch.jit.script(model), "net.pt")
    np.savez("some.npz", images=images.numpy(), labels=model(images).argmax(1).numpy())
    assert command("evaluate", "net.pt", "--data", "arrays:some.npz", *WORDS, "--out", "run")[0] == 0
    monkeypatch.chdir(tmp_path)
    return home


def test_a_run_is_gone_on_with_and_verified_from_anywhere(command, home):
    code, out, _ = command("verify", home / "run")
    assert (code, "holds: 24 verdicts" in out) == (0, True)
    words = ["evaluate", "home/net.pt", "--data", f"arrays:{home / '../home/some.npz'}", *WORDS]
    assert command(*words, "--out", home / "run")[0] == 0


def test_a_run_that_names_its_files_from_where_it_was_made_goes_on_there(command, home, monkeypatch):
    """As those of earlier versions do."""
    kept = json.loads((home / "run" / "manifest.json").read_text())
    assert (kept["model"], kept["data"]) == (str(home / "net.pt"), f"arrays:{home / 'some.npz'}")
    kept |= {"model": "net.pt", "data": "arrays:some.npz"}
    (home / "run" / "manifest.json").write_text(json.dumps(kept))
    words = ["evaluate", home / "net.pt", "--data", f"arrays:{home / 'some.npz'}", *WORDS]
    code, _, err = command(*words, "--out", home / "run")
    assert (code, "holds another run (model was net.pt and is" in err) == (2, True)
    monkeypatch.chdir(home)
    assert command(*words, "--out", "run")[0] == 0


@pytest.fixture
def moved(home, tmp_path) -> Path:
    """Where all of it lies now."""
    return home.rename(tmp_path / "there")


def test_a_program_and_arrays_that_have_moved_are_named_anew(command, moved):
    code, _, err = command("verify", moved / "run")
    assert code == 2
    assert "there is no file" in err
    assert "with --data and --weights what lies elsewhere" in " ".join(err.split())
    words = ["--data", f"arrays:{moved / 'some.npz'}", "--weights", moved / "net.pt"]
    code, out, _ = command("verify", moved / "run", *words)
    assert (code, "holds: 24 verdicts" in out) == (0, True)
    assert verify_folder(str(moved / "run"), str(moved / "net.pt"), data=words[1]).sound


def test_other_data_in_its_place_is_caught(command, moved):
    np.savez(moved / "some.npz", images=np.zeros((12, 1, 8, 8), np.uint8), labels=np.zeros(12, int))
    words = ["--data", f"arrays:{moved / 'some.npz'}", "--weights", moved / "net.pt"]
    code, out, _ = command("verify", moved / "run", *words)
    assert (code, "the data is not that of the run" in out) == (1, True)


def test_a_run_made_in_python_says_how_it_is_verified(run):
    with pytest.raises(RunError, match=r"unknown data set 'small'.*goes to gamagat\.verify\(folder, model="):
        verify_folder(run)


def test_folders_are_named_as_text_as_well(run):
    assert read_run(str(run)).manifest == read_run(run).manifest
    with pytest.raises(RunError, match="holds no run"):
        verify_folder(f"{run}s")


def test_a_folder_without_a_run_is_said_so(tmp_path):
    with pytest.raises(RunError, match="holds no run"):
        check(tmp_path)


@given(st.integers(0, 2**32), st.sampled_from([(1, 8, 8), (3, 5, 7), (1, 1, 1)]))
def test_an_image_read_back_is_bit_identical(seed, shape):
    bits = np.random.default_rng(seed).integers(0, 2**32, shape, np.uint32)
    assert np.array_equal(decode(encode(bits.view(np.float32)), shape).view(np.uint32), bits)


@pytest.mark.parametrize("content", [b"", b"no zlib", encode(np.zeros((1, 4, 4), np.float32))])
def test_a_damaged_image_is_one_sentence(content):
    with pytest.raises(RunError, match="is damaged"):
        decode(content, (1, 8, 8))


@pytest.mark.parametrize(
    "threat", [ThreatModel(LINF, 8 / 255), ThreatModel(LINF, 0.031), ThreatModel(L2, 0.5)]
)
def test_images_in_eight_bits_are_levels_within_the_ball(threat):
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(256, (20, 3, 6, 6), generator=generator).float() / 255
    delta = threat.vertex(torch.randn(x.shape, generator=generator))
    images = (x + threat.project(delta, x)).clamp(0, 1)
    rounded = eight_bit(images, x, threat)
    assert threat.contains(rounded, x).all()
    assert torch.allclose((rounded * 255).round() / 255, rounded, atol=1e-7)
    if threat.eps == 8 / 255:
        assert torch.allclose(rounded, images, atol=1e-6)  # a corner of this ball is a PNG already
