"""SPSA against the true gradient and against a plain writing of it, one image at a time."""

import pytest
import torch

from gamagat.attacks.core import ATTACKS
from gamagat.errors import ConfigError
from gamagat.pieces.noise import Noise
from gamagat.pieces.starts import uniform
from gamagat.pieces.threat import LINF, ThreatModel


def margin(model, image, label):
    logits = model(image[None])[0]
    others = torch.cat([logits[:label], logits[label + 1 :]])
    return others.max() - logits[label]


def rewritten(model, image, label, threat, noise, steps, samples, rate=0.01, delta=0.01):
    """The iterates of one image; the noise is drawn as the attack draws it."""
    start = uniform(image[None], threat, noise)[0]
    moved, mean, square = start.clone(), torch.zeros_like(image), torch.zeros_like(image)
    keys = noise
    for step in range(1, steps + 1):
        if int(model((image + moved)[None]).argmax()) != label:
            return moved, step - 1
        keys = keys.fold(0)
        grad = torch.zeros_like(image)
        for sample in range(samples):
            way = keys.fold(sample).signs(image[None])[0]
            rise = margin(model, image + moved + delta * way, label) - margin(
                model, image + moved - delta * way, label
            )
            grad += rise / (2 * delta) * way / samples
        mean, square = 0.9 * mean + 0.1 * grad, 0.999 * square + 0.001 * grad**2
        move = (mean / (1 - 0.9**step)) / (square / (1 - 0.999**step)).sqrt()
        moved = (moved + rate * move).clamp(-threat.eps, threat.eps)
        moved = (image + moved).clamp(0, 1) - image
    return moved, -1


@torch.no_grad()
@pytest.mark.parametrize("eps", [0.02, 0.2])
def test_equals_a_plain_writing(eps, small_model, batch):
    x, y = batch
    x, model, threat = x.double(), small_model.double(), ThreatModel(LINF, eps)
    noise = Noise.for_images(torch.arange(12), 3)
    outcome = ATTACKS.make("spsa", steps=5, samples=6)(model, x, y, threat, noise)
    for place in range(4):
        moved, step = rewritten(model, x[place], int(y[place]), threat, noise[torch.tensor([place])], 5, 6)
        assert int(outcome.step[place]) == step
        assert torch.allclose(outcome.images[place], x[place] + moved, atol=1e-9)


def test_it_needs_no_gradient_at_all(small_model, batch):
    x, y = batch
    numbers = {key: value.numpy() for key, value in small_model.state_dict().items()}
    assert numbers

    def sealed(images):
        with torch.no_grad():
            return small_model(images)

    outcome = ATTACKS.make("spsa", steps=20, samples=32)(
        sealed, x, y, ThreatModel(LINF, 0.3), Noise.for_images(torch.arange(12))
    )
    assert (small_model(outcome.images).argmax(1) != y).float().mean() > 0.5
    assert int(outcome.backwards.sum()) == 0


@pytest.mark.parametrize("options", [{"samples": 0}, {"delta": 0.0}, {"rate": -1.0}, {"steps": 0}])
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(ConfigError):
        ATTACKS.make("spsa", **options)
