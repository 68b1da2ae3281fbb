"""Which adversarial images are shown, and how."""

import base64
import io
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from gamagat.data.core import from_tensors
from gamagat.engine.codec import encode
from gamagat.engine.ledger import CLEAN, Ledger, Verdict
from gamagat.engine.manifest import Manifest
from gamagat.engine.run import read_run
from gamagat.reports.page.content import gather
from gamagat.reports.page.gallery import Fall, from_the_middle, make_gallery, soon, spread
from gamagat.reports.page.originals import find_originals
from gamagat.reports.page.pictures import data_uri, magnified
from gamagat.reports.page.render import as_html
from gamagat.reports.page.svg import nice_step, percent_axis


def pixels(uri: str) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2]))))


def fall(label: int, attack: str, number: int, distance: float = 1.0, step: int = 1) -> Fall:
    return Fall(attack, attack, label, number, 0, distance, step, False)


def test_examples_are_spread_over_classes_and_attacks():
    falls = [fall(label, attack, number) for label in range(10) for attack in "abcd" for number in range(50)]
    chosen = Counter((each.label, each.attack) for each in spread(falls, 200))
    assert set(chosen.values()) == {5}
    assert len(chosen) == 40


def test_with_more_classes_than_room_no_class_comes_twice_and_no_attack_wins():
    falls = [fall(label, attack, number) for label in range(500) for attack in "abcd" for number in range(2)]
    chosen = spread(falls, 200)
    assert len({each.label for each in chosen}) == 200
    assert set(Counter(each.attack for each in chosen).values()) == {50}


def test_what_is_rare_is_shown_and_the_rest_fills_up():
    falls = [fall(0, "a", number) for number in range(1000)] + [fall(1, "b", 5000)]
    chosen = spread(falls, 20)
    assert len(chosen) == 20
    assert fall(1, "b", 5000) in chosen


def test_the_fall_in_the_middle_comes_first_then_those_around_it():
    falls = [fall(0, "a", 10 + step, step=step) for step in (6, 0, 2, 4, 1, 3, 5)]
    assert [each.step for each in spread(falls, 7)] == [3, 1, 5, 0, 2, 4, 6]


def test_a_fall_that_was_seen_only_at_the_very_end_counts_as_late():
    falls = [fall(0, "a", number, step=step) for number, step in enumerate((-1, -1, 7, 3, 5))]
    assert next(from_the_middle(sorted(falls, key=soon))).step == 7
    assert [each.step for each in sorted(falls, key=soon)] == [3, 5, 7, -1, -1]


def test_without_steps_the_middle_is_that_of_the_distances():
    falls = [fall(0, "a", number, distance, -1) for number, distance in enumerate((0.9, 0.1, 0.4))]
    assert spread(falls, 1)[0].distance == 0.4


def test_the_filter_lists_attacks_in_the_order_of_the_plan(nameless, at_hand):
    at_hand()
    run = read_run(nameless)
    gallery = make_gallery(run, find_originals(run))
    plan = [name for name, _ in run.manifest.runs()]
    assert gallery.attacks == [name for name in plan if name in gallery.attacks]
    assert len(gallery.attacks) > 2
    # The first example is of another attack, or this would say nothing.
    examples = sorted(gallery.examples, key=lambda example: -plan.index(example.fall.attack))
    assert replace(gallery, examples=tuple(examples)).attacks == gallery.attacks


def test_the_first_examples_are_of_as_many_classes_and_attacks_as_there_are(digits):
    [part] = gather([digits]).runs
    gallery = part.gallery(1)
    first = gallery.examples[:24]
    assert {each.fall.label for each in first} == {number for number, _ in gallery.classes}
    assert {each.fall.attack for each in first} == set(gallery.attacks)


@pytest.mark.parametrize("channels", [1, 3])
def test_small_pictures_keep_every_pixel(channels):
    image = np.random.default_rng(0).integers(0, 256, (channels, 32, 32)).astype(np.float32) / 255
    shown = pixels(data_uri(image.astype(np.float32)))
    wanted = np.round(image * 255).astype(np.uint8)
    assert np.array_equal(shown, wanted[0] if channels == 1 else wanted.transpose(1, 2, 0))


def test_large_pictures_are_compressed_and_odd_channels_grey():
    assert data_uri(np.zeros((3, 224, 224), np.float32)).startswith("data:image/jpeg")
    assert pixels(data_uri(np.full((2, 8, 8), 0.5, np.float32))).shape == (8, 8)
    assert pixels(data_uri(np.full((1, 8, 8), np.nan, np.float32))).max() == 0


def test_the_difference_is_magnified_around_grey():
    clean = np.full((1, 4, 4), 0.4, np.float32)
    adversarial = clean.copy()
    adversarial[0, 0, 0] += 0.1
    adversarial[0, 0, 1] -= 0.05
    shown, factor = magnified(clean, adversarial)
    assert factor == pytest.approx(5)
    assert shown[0, 0, :3] == pytest.approx([1.0, 0.25, 0.5])
    assert magnified(clean, clean)[1] == 1.0


def test_the_pictures_are_those_of_the_run(nameless, at_hand):
    at_hand()
    run = read_run(nameless)
    originals = find_originals(run)
    assert not isinstance(originals, str)
    gallery = make_gallery(run, originals)
    assert {example.fall.attack for example in gallery.examples} <= {name for name, _ in run.manifest.runs()}
    for example in gallery.examples[:10]:
        fall_ = example.fall
        stored = run.images(fall_.entry, [fall_.id])[fall_.id]
        clean = originals.images([fall_.id])[fall_.id]
        assert np.array_equal(pixels(example.adversarial), np.round(stored[0].clip(0, 1) * 255))
        assert np.array_equal(pixels(example.clean or ""), np.round(clean[0] * 255))
        assert np.abs(stored - clean).max() == pytest.approx(fall_.distance, abs=1e-6)
        place = int(np.searchsorted(run.ids, fall_.id))
        assert fall_.label == originals.labels[place]
        fooled = [any(run.fooled(each)[place] == 1 for each in runs) for _, runs in run.manifest.runs()]
        assert fall_.alone == (sum(fooled) == 1)


def test_a_gallery_fills_the_page_no_further_than_it_may(nameless, at_hand):
    at_hand()
    run = read_run(nameless)
    originals = find_originals(run)
    whole, half = make_gallery(run, originals), make_gallery(run, originals, size=3000)
    assert 0 < len(half.examples) < len(whole.examples)
    uris = [uri for each in half.examples for uri in (each.clean, each.adversarial, each.difference)]
    assert sum(len(uri or "") for uri in uris) <= 3000
    assert len(make_gallery(run, originals, most=5).examples) == 5
    assert len(make_gallery(run, originals, size=1).examples) == 1


def test_classes_of_the_same_name_stay_two(nameless, at_hand):
    at_hand(classes=("crane", "crane", "crane", "crane"))
    run = read_run(nameless)
    found = make_gallery(run, find_originals(run)).classes
    assert len(found) > 1
    assert {name for _, name in found} == {"crane"}


def large_run(folder: Path, data) -> Path:
    """10,000 images of noise, which no compression makes smaller, all fooled by each of four attacks."""
    count, chunk, names = len(data), 1000, ["a", "b", "c", "d"]
    attacks = [{"name": name, "spec": name, "runs": [name]} for name in names]
    manifest = Manifest(
        model="none", weights=None, weights_sha256="", data="noise", data_dir=None, split="test", n=count,
        data_sha256="", norm="linf", eps_given="8/255", eps=8 / 255, attacks=attacks, seed=0, chunk=chunk,
        shape=(3, 32, 32), made={},
    )  # fmt: skip
    folder.mkdir()
    manifest.write(folder)
    noise = encode(np.random.default_rng(0).random((3, 32, 32), np.float32))
    with Ledger(folder / "ledger-0.sqlite", True) as ledger:
        for entry in (CLEAN, *names):
            fooled = int(entry != CLEAN)
            for number in range(count // chunk):
                ids = range(number * chunk, (number + 1) * chunk)
                labels = data.labels[ids[0] : ids[-1] + 1].tolist()
                rows = [
                    Verdict(id_, fooled, (label + fooled) % 10, 0.03 * fooled, -1, 1, fooled)
                    for id_, label in zip(ids, labels, strict=True)
                ]
                # In each class those in the middle of all, of halves and of quarters: five of them are shown.
                images = {id_: noise for id_ in ids if fooled and id_ // 10 % 125 == 124}
                ledger.record(entry, number, rows, images, 0.1)
    return folder


def test_a_page_about_ten_thousand_images_stays_small(tmp_path, at_hand, request):
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (10_000, 3, 32, 32), generator=generator, dtype=torch.uint8)
    data = from_tensors(images, name="noise", labels=torch.arange(10_000) % 10)
    at_hand(data)
    page = as_html(gather([large_run(tmp_path / "large", data)]))
    assert len(page.encode()) < 5_000_000
    assert page.count("<li data-class") > 100
    assert "of 40,000 falls, spread evenly over classes and attacks; an image counts once for each" in page
    path = tmp_path / "large.html"
    path.write_text(page)
    browser = request.getfixturevalue("browser")
    assert min(browser.open(path) for _ in range(3)) < 2  # the machine may be busy with something else
    assert browser.run("[...document.images].every((image) => image.complete && image.naturalWidth > 0)")


def test_axes_are_round_and_hold_every_value():
    for low, high in ((69.56, 72.67), (0, 100), (50, 50), (99.9, 100), (3.2, 98)):
        (bottom, top), ticks = percent_axis([low, high])
        assert bottom <= low <= high <= top
        assert 2 <= len(ticks) <= 8
        assert 0 <= bottom < top <= 100
    assert [nice_step(span) for span in (6, 7, 20, 100)] == [1, 2, 5, 20]
