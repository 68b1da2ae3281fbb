"""Train the small network that comes with the package: PGD adversarial training on the built-in digits.

    python experiments/train_digits.py [OUT]

writes digits-cnn.safetensors, by default where the package looks for it.
"""

import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn

import gamagat
from gamagat.models.core import BUNDLED, build_model
from gamagat.pieces.types import Images, Labels

EPOCHS, BATCH, EPS = 60, 64, 0.2


def train(seed: int = 0) -> nn.Module:
    """Minimise the cross-entropy on PGD-7 images made anew for every batch."""
    torch.manual_seed(seed)
    data = gamagat.load_data("digits", "train")
    model = build_model("digits-cnn").train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-3)
    rate = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=EPOCHS * -(-len(data) // BATCH))
    for epoch in range(EPOCHS):
        order = torch.randperm(len(data))
        for chosen in torch.split(order, BATCH):
            images, labels = data.batch(chosen)
            loss = F.cross_entropy(model(adversarial(model, images, labels, epoch)), labels)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            rate.step()
    return model.eval()


def adversarial(model: nn.Module, images: Images, labels: Labels, seed: int) -> Images:
    """PGD-7 on the cross-entropy; the radius grows over the first epochs, for a gentle start."""
    radius = EPS * min(1.0, (seed + 1) / 10)
    pgd = gamagat.attack("pgd", model, eps=radius, steps=7, rate=0.25, seed=seed, as_published=True)
    return pgd(images, labels)


def main() -> None:
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else BUNDLED / "digits-cnn.safetensors"
    out.parent.mkdir(parents=True, exist_ok=True)
    model = train()
    save_file(model.state_dict(), out)
    result = gamagat.evaluate(model, gamagat.load_data("digits"), ["fgsm", "pgd", "gama-pgd"], eps=EPS)
    print(
        f"{out}: clean {result.clean.percent:.2f} %, worst case {result.standing.percent:.2f} % at eps {EPS}"
    )


if __name__ == "__main__":
    main()
