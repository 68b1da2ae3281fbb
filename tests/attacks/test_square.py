"""Square: what a random search over windows promises beyond the contract."""

import pytest
import torch
from torch import Tensor, nn

import gamagat
from gamagat.attacks.combine import standing
from gamagat.attacks.core import ATTACKS
from gamagat.attacks.network import Network
from gamagat.attacks.square import SEARCHES, margin_of, sides
from gamagat.attacks.square_windows import (
    any_side,
    filled,
    halves,
    moved,
    odd_side,
    repainted,
    stripes,
    tiles,
    window_at,
)
from gamagat.errors import ConfigError
from gamagat.pieces.noise import Noise
from gamagat.pieces.threat import L2, LINF, ThreatModel
from helpers import images_like, seeded, tiny_network

THREATS = {"linf": ThreatModel(LINF, 0.1), "l2": ThreatModel(L2, 0.8)}

every_norm = pytest.mark.parametrize("threat", THREATS.values(), ids=THREATS.keys())


def noise_for(images: Tensor, seed: int = 0) -> Noise:
    return Noise.for_images(torch.arange(len(images)), seed)


def many_sides(count: int, side: int) -> Tensor:
    return torch.full((count,), side)


def unit_hills(side: int) -> Tensor:
    places = torch.arange(side)
    hills = halves(places[:, None], places[None, :], torch.tensor(side))
    return hills / hills.norm()


@pytest.fixture(scope="module")
def problem() -> tuple[nn.Module, Tensor, Tensor]:
    """One class wins by so much that no image falls: every query is made."""
    model, x = seeded(lambda: tiny_network(8)).double(), images_like(6).double()
    with torch.no_grad():
        model[3].bias[2] += 6.0
        return model, x, model(x).argmax(1)


# The run


@every_norm
def test_every_query_lies_in_the_ball(threat, problem):
    model, x, y = problem
    x = (x > 0.5).double()  # every pixel at an end of its range
    seen: list[Tensor] = []

    def spy(images: Tensor) -> Tensor:
        seen.append(images)
        return model(images)

    ATTACKS.make("square", queries=300)(spy, x, y, threat, noise_for(x))
    assert len(seen) == 300
    assert all(bool(threat.contains(images, x).all()) for images in seen)


@every_norm
def test_the_lowest_margin_of_all_queries_is_returned_and_costs_what_was_asked(threat, problem):
    model, x, y = problem
    margins: list[Tensor] = []

    def spy(images: Tensor) -> Tensor:
        logits: Tensor = model(images)
        margins.append(margin_of(logits, y, None))
        return logits

    outcome = ATTACKS.make("square", queries=200)(spy, x, y, threat, noise_for(x))
    returned = margin_of(model(outcome.images), y, None)
    assert torch.allclose(returned, torch.stack(margins).amin(0), atol=1e-12)
    assert (outcome.step == -1).all()
    assert (outcome.forwards == 200).all()
    assert (outcome.backwards == 0).all()


@every_norm
def test_more_queries_never_hurt(threat, problem):
    model, x, y = problem
    runs = [
        ATTACKS.make("square", queries=count)(model, x, y, threat, noise_for(x)) for count in (1, 20, 250)
    ]
    few, some, many = (margin_of(model(run.images), y, None) for run in runs)
    assert (some <= few + 1e-12).all()
    assert (many <= some + 1e-12).all()
    assert (many < few).all()


@every_norm
def test_every_proposal_starts_from_the_best_so_far(threat, problem):
    """Against a plain loop over one image."""
    model, x, y = problem
    ours = ATTACKS.make("square", queries=120)(model, x, y, threat, noise_for(x))
    search = SEARCHES[threat.norm.name]
    for place in range(len(x)):
        image, label, noise = x[[place]], y[[place]], noise_for(x)[torch.tensor([place])]
        best = search.start(image, threat, noise)
        lowest = margin_of(model(image + best), label, None)
        for proposal in range(119):
            noise = noise.fold(0)
            share = 0.8 / 2 ** sum(proposal > moment for moment in (10, 50))
            side = torch.tensor([search.side(share, 8, 8)])
            trial = search.propose(image, best, side, threat, noise)
            margin = margin_of(model(image + trial), label, None)
            if margin < lowest:
                best, lowest = trial, margin
        assert torch.allclose(ours.images[[place]], image + best, atol=1e-9)


@every_norm
def test_the_seed_decides(threat, problem):
    model, x, y = problem
    attack = ATTACKS.make("square", queries=30)
    first, again, other = (attack(model, x, y, threat, noise_for(x, seed)).images for seed in (4, 4, 5))
    assert torch.equal(first, again)
    assert all(not torch.equal(*pair) for pair in zip(first, other, strict=True))


def test_a_target_is_what_the_margin_looks_at(problem):
    model, x, y = problem
    attack, target = ATTACKS.make("square", queries=200), (y + 3) % 8
    aimed = attack(model, x, y, THREATS["linf"], noise_for(x), target).images
    free = attack(model, x, y, THREATS["linf"], noise_for(x)).images
    for rival, better, worse in ((target, aimed, free), (None, free, aimed)):
        assert margin_of(model(better), y, rival).mean() < margin_of(model(worse), y, rival).mean()
    assert (margin_of(model(aimed), y, target) < margin_of(model(x), y, target)).all()


@pytest.mark.parametrize("width", [2, 5])
def test_images_that_the_judge_does_not_confirm_walk_on(width):
    model, x = seeded(tiny_network).double(), images_like(5).double()
    y = model(x).argmax(1)
    label, asked = int(y[0]), 0

    def stubborn(network: nn.Module, images: Tensor) -> Tensor:
        nonlocal asked
        asked += len(images)
        return torch.full((len(images),), -1 if asked > 40 else label)

    passes: list[int] = []
    y = torch.full_like(y, label)  # one for all, so that most images look fooled from the first query on
    network = Network(model, width, seen=passes.append, look=stubborn)
    outcome = ATTACKS.make("square", queries=60)(network, x, y, ThreatModel(LINF, 0.3), noise_for(x))
    assert asked > 40
    assert int(outcome.forwards.sum()) == sum(passes) + asked
    assert max(passes) <= width
    assert (outcome.step > 0).any()


def test_a_network_of_nothing_but_nan_is_walked_through():
    x, y = images_like(3), torch.zeros(3, dtype=torch.int64)
    outcome = ATTACKS.make("square", queries=5)(
        lambda images: torch.full((len(images), 4), float("nan")), x, y, THREATS["linf"], noise_for(x)
    )
    assert THREATS["linf"].contains(outcome.images, x).all()


@pytest.mark.parametrize("options", [{"queries": 0}, {"p": 0.0}, {"p": 1.5}])
def test_options_out_of_range_are_refused(options):
    with pytest.raises(ConfigError, match="must lie between"):
        ATTACKS.make("square", **options)


@every_norm
def test_no_images_at_all_are_no_trouble(threat, small_model):
    x, y = images_like(0), torch.zeros(0, dtype=torch.int64)
    assert len(ATTACKS.make("square", queries=3)(small_model, x, y, threat, noise_for(x)).images) == 0


@every_norm
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 2, 5), (1, 7, 3)])
def test_images_of_any_shape(threat, shape):
    x = torch.rand(4, *shape, generator=torch.Generator().manual_seed(0))
    size = x[0].numel()
    model = seeded(lambda: nn.Sequential(nn.Flatten(), nn.Linear(size, 3)))
    y = model(x).argmax(1).detach()
    outcome = ATTACKS.make("square", queries=40)(model, x, y, threat, noise_for(x))
    assert threat.contains(outcome.images, x).all()


# Starts and proposals


def test_the_start_in_linf_is_vertical_stripes():
    x = torch.full((5, 3, 8, 6), 0.5, dtype=torch.float64)
    delta = stripes(x, THREATS["linf"], noise_for(x))
    assert torch.allclose(delta.abs(), torch.full_like(x, 0.1))
    assert (delta == delta[:, :, :1]).all()
    columns = delta[:, :, 0].sign()
    assert len({tuple(image.flatten().tolist()) for image in columns}) == 5
    assert not torch.equal(columns[:, 0], columns[:, 1])  # channels differ


@pytest.mark.parametrize("ground", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("size", [1, 4, 10, 23, 28])
def test_the_start_in_l2_fills_the_ball(size, ground):
    x = torch.full((3, 2, size, size), ground)
    delta = tiles(x, ThreatModel(L2, 0.1), noise_for(x))
    full = torch.tensor(0.1) if size > 1 else L2.size(delta)  # all of one pixel may be cut off
    assert torch.allclose(L2.size(delta), full, rtol=2e-5)  # what rounding might add is left out


@pytest.mark.parametrize(
    ("height", "width", "side", "top", "left"),
    [(28, 28, 5, 1, 1), (32, 32, 6, 1, 1), (8, 8, 1, 0, 0), (23, 39, 4, 1, 1), (19, 15, 3, 0, 0)],
)
def test_the_start_in_l2_is_whole_tiles_in_the_middle(height, width, side, top, left):
    """Tile by tile: the pair of hills, upright or turned, of either sign, and nothing around them."""
    x = torch.full((4, 2, height, width), 0.5, dtype=torch.float64)
    delta = tiles(x, ThreatModel(L2, 0.1), noise_for(x))
    kinds, count = set(), (height // side) * (width // side)
    for row in range(top, top + height // side * side, side):
        for column in range(left, left + width // side * side, side):
            part = delta[:, :, row : row + side, column : column + side]
            upright, turned = (
                (part.abs() - (0.1 / (2 * count) ** 0.5) * hills.abs()).abs().amax((1, 2, 3)) < 1e-7
                for hills in (unit_hills(side), unit_hills(side).T)
            )
            assert (upright | turned).all()
            kinds |= {
                (bool(kind), bool(sign)) for kind, sign in zip(upright, part[:, 0, 0, 0] > 0, strict=True)
            }
            delta[:, :, row : row + side, column : column + side] = 0
    assert len(kinds) == (2 if side == 1 else 4)
    assert (delta == 0).all()


def test_what_the_pixel_range_cuts_off_goes_to_the_other_pixels():
    threat = ThreatModel(L2, 1.0)
    x = torch.tensor([0.0, 0.5, 1.0, 0.0]).view(1, 1, 2, 2)
    delta = torch.tensor([-0.8, 0.0, -0.36, 0.48]).view_as(x)
    assert torch.allclose(filled(delta, x, threat).flatten(), torch.tensor([0.0, 0.0, -0.6, 0.8]))
    assert torch.equal(filled(torch.zeros_like(x), x, threat), torch.zeros_like(x))
    assert torch.allclose(filled(-x, 1 - x, threat), torch.where(x == 0.5, -x, 0.0))  # no more room than that


@pytest.mark.parametrize("side", [1, 3, 8])
def test_a_proposal_in_linf_paints_one_square(side):
    x = torch.full((200, 3, 8, 8), 0.5, dtype=torch.float64)
    delta = repainted(x, torch.zeros_like(x), many_sides(200, side), THREATS["linf"], noise_for(x))
    painted = delta.abs() > 0
    assert (painted == painted[:, :1]).all()
    rows, columns = painted[:, 0].any(2), painted[:, 0].any(1)
    assert (rows.sum(1) == side).all()
    assert (columns.sum(1) == side).all()
    assert (painted[:, 0].sum((1, 2)) == side**2).all()
    assert torch.allclose(delta[painted].abs(), torch.tensor(0.1, dtype=torch.float64))
    assert torch.allclose(delta.sum((2, 3)).abs(), torch.tensor(0.1 * side**2).double())  # one sign a channel


def test_windows_reach_every_place_the_last_one_too_and_differ_between_images():
    x = images_like(1).expand(3000, -1, -1, -1)
    delta = repainted(x, torch.zeros_like(x), many_sides(3000, 3), THREATS["linf"], noise_for(x))
    tops = (delta != 0)[:, 0].any(2).int().argmax(1)
    lefts = (delta != 0)[:, 0].any(1).int().argmax(1)
    hits = torch.bincount(tops * 6 + lefts, minlength=36)
    assert len(hits) == 36
    assert hits.min() > 3000 / 36 / 2
    assert hits.max() < 3000 / 36 * 2


def test_a_corner_just_below_one_stays_inside():
    x, almost = torch.zeros(1, 1, 217, 217), torch.full((1, 2), 1 - 2.0**-24)
    window = window_at(almost, torch.tensor([1]), x)
    assert window.inside.sum() == 1
    assert window.inside[0, 0, -1, -1]


@pytest.mark.parametrize("channels", [1, 3])
def test_no_proposal_in_linf_repeats_the_image(channels):
    threat, x = THREATS["linf"], images_like(100, channels).round()
    delta = stripes(x, threat, noise_for(x))
    for query in range(20):
        trial = repainted(x, delta, many_sides(100, 1), threat, noise_for(x).fold(query))
        assert (trial != delta).flatten(1).any(1).all()
        delta = trial


@pytest.mark.parametrize("ground", [0.0, 0.5])
def test_a_proposal_in_l2_loses_nothing_of_the_budget(ground):
    threat, x = THREATS["l2"], torch.full((50, 3, 12, 12), ground)
    delta = tiles(x, threat, noise_for(x))
    for query in range(20):
        delta = moved(x, delta, many_sides(50, 5), threat, noise_for(x).fold(query))
        assert torch.allclose(L2.size(delta), torch.tensor(0.8))


def test_a_proposal_in_l2_moves_the_budget_between_two_windows():
    threat, x = THREATS["l2"], torch.full((50, 3, 12, 12), 0.5, dtype=torch.float64)
    delta = tiles(x, threat, noise_for(x))
    for query in range(20):
        trial = moved(x, delta, many_sides(50, 5), threat, noise_for(x).fold(query))
        changed = ((trial - delta).abs() > 1e-9)[:, 0].sum((1, 2))
        assert changed.max() <= 50
        assert (changed >= 25).float().mean() > 0.9  # a window that holds these very hills stays as it is
        delta = trial


def test_hills_over_their_own_opposite_in_l2_are_turned_round_not_made_of_rounding():
    threat, x = ThreatModel(L2, 0.4), torch.full((40, 1, 3, 3), 0.5)
    hills = 0.4 * unit_hills(3).expand_as(x)
    trial = moved(x, hills, many_sides(40, 3), threat, noise_for(x))
    opposite = (trial + hills).abs().amax((1, 2, 3)) < 1e-6
    assert opposite.any()
    assert torch.allclose(L2.size(trial), torch.tensor(0.4))


def test_hills_are_two_of_opposite_sign():
    three = halves(torch.arange(3)[:, None], torch.arange(3)[None, :], torch.tensor(3))
    low, high = 1 / 4, 1 + 1 / 4
    expected = torch.tensor([[low, high, low], [-low, -low, -low], [-low, -high, -low]])
    assert torch.allclose(three, expected, atol=1e-6)


@pytest.mark.parametrize("side", [1, 4, 5, 11, 25])
def test_hills_are_piles_of_growing_squares(side):
    expected, half = torch.zeros(side, side), side // 2
    for first, last, sign in ((0, half, 1.0), (half, side, -1.0)):
        peak = first + (last - first) // 2
        for k in range(1, half + 2):
            rows = slice(max(first, peak - k + 1), min(last, peak + k))
            expected[rows, max(0, half - k + 1) : half + k] += sign / k**2
    places = torch.arange(side)
    found = halves(places[:, None], places[None, :], torch.tensor(side))
    assert torch.allclose(found, expected, atol=1e-6)


def test_windows_shrink_when_the_paper_says():
    x = torch.zeros(1, 3, 32, 32)
    proposals = torch.tensor([0, 10, 11, 50, 51, 200, 201, 1001, 8000, 8001])
    found = sides(SEARCHES["linf"], 0.8, x)(proposals)
    assert found.tolist() == [29, 29, 20, 20, 14, 14, 10, 5, 2, 1]


@pytest.mark.parametrize(
    ("share", "height", "width", "any_", "odd"),
    [(0.8, 8, 8, 7, 7), (1.0, 8, 8, 8, 7), (0.01, 8, 8, 1, 3), (0.5, 4, 30, 4, 3), (0.5, 2, 2, 1, 1)],
)
def test_the_sides_of_windows(share, height, width, any_, odd):
    assert any_side(share, height, width) == any_
    assert odd_side(share, height, width) == odd


# A real network


@pytest.mark.parametrize(
    ("threat", "least"),
    [(ThreatModel(LINF, 0.2), 8), (ThreatModel(L2, 1.0), 40)],
    ids=["linf", "l2"],
)
def test_fools_a_trained_network_about_as_often_as_gradients_do(threat, least):
    model, data = gamagat.load_model("digits-cnn"), gamagat.load_data("digits").head(100)
    x, y = data.batch(torch.arange(100))
    outcome = ATTACKS.make("square", queries=300)(model, x, y, threat, Noise.for_images(data.ids))
    fallen = ~standing(model, outcome.images, y)
    assert torch.equal(fallen, outcome.step >= 0)
    assert int(fallen.sum()) >= least
    assert threat.contains(outcome.images, x).all()
