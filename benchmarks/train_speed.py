"""How fast GAT is beside the published-style loop, and beside the machine's limit.

    python benchmarks/train_speed.py --model resnet18-gat --data cifar10 --data-dir D
    python benchmarks/train_speed.py --quick

Both train copies of one network on the same images in the same order with the same augmentation, rates and
batch, epoch about in one process; the fastest epoch of each counts. Afterwards GAMA-PGD says what accuracy is
left of either on test images. Packages that attack do not train by GAT, so there is no peer to compare with.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from gamagat.engine.bench.lesson import LessonRequest
from gamagat.engine.bench.rows import Bench
from gamagat.engine.bench.train import train_bench
from gamagat.errors import GamagatError
from gamagat.reports.bench import bench_json, bench_views
from gamagat.reports.terminal import onlooker, show

QUICK_EPOCHS = 10


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--model", default="digits-cnn", help="as in: gamagat list models")
    parser.add_argument("--weights", type=Path, help="to begin with; else fresh ones")
    parser.add_argument("--data", default="digits", help="as in: gamagat list data")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--eps", help="such as 0.3 or 8/255; by default the data set's usual one")
    parser.add_argument("--n", type=int, help="training images (default: all on a GPU, 2,000 on a CPU)")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--steps", type=int, help="of the GAMA-PGD that looks at the result (default: 20)")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--quick", action="store_true", help="the built-in digits, in seconds")
    parser.add_argument("--json", action="store_true", help="print JSON and nothing else")
    return parser.parse_args()


def measured(args: argparse.Namespace) -> Bench:
    """The benchmark that was asked for."""
    request = LessonRequest(
        args.model,
        args.weights,
        args.data,
        args.data_dir,
        args.n,
        args.eps,
        args.epochs,
        args.batch_size,
        args.device,
    )
    if args.quick:
        request = LessonRequest("digits-cnn", epochs=QUICK_EPOCHS, device=args.device)
    with onlooker(quiet=args.json) as watching:
        return train_bench(request, args.steps, onlooker=watching)


if __name__ == "__main__":
    try:
        options = arguments()
        bench = measured(options)
        show(bench_json([bench]), bench_views([bench]), options.json)
    except GamagatError as wrong:
        sys.exit(str(wrong))
