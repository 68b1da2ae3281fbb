"""How fast GAMA-PGD is beside the published-style loop and other packages, and beside the machine's limit.

    pip install 'gamagat[bench]'
    python benchmarks/attack_speed.py --model resnet18-gat --weights gat.safetensors --data cifar10
    python benchmarks/attack_speed.py --quick

All get the same images, the same frozen network in single precision and the same eps and steps, in one
process; they take turns, and the fastest turn of each counts. One judge looks at what comes back, so that
"% left" is comparable; an image that the network gets wrong untouched is not left for anyone. A package that
is missing is a row that says so. --quick takes the small network that comes with the package, and ResNet-18:
with --weights on CIFAR-10, else with random weights and images, which measure speed and nothing else.

"% of limit" is the share of what a large matrix product reaches in the same run. The operations are those of
the plain convolution, zeros of the padding included: a kernel that skips these may pass 100 %.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from gamagat.engine.bench.attack import ROUNDS, attack_bench
from gamagat.engine.bench.rows import Bench
from gamagat.engine.request import EvaluationRequest
from gamagat.errors import GamagatError
from gamagat.reports.bench import bench_json, bench_views
from gamagat.reports.terminal import onlooker, show

QUICK_DIGITS, QUICK_CIFAR = (450, 100), (32, 10)  # images and steps


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument(
        "--model", help="as in: gamagat list models (default: digits-cnn; of --quick, resnet18)"
    )
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--data", help="as in: gamagat list data (default: digits; of --quick, cifar10)")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--eps", help="such as 0.3 or 8/255; by default the data set's usual one")
    parser.add_argument("--n", type=int, help="how many of the first images")
    parser.add_argument("--steps", type=int, help="by default 100 on a GPU and 20 on a CPU")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="everyone's turns; the fastest counts")
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--device", default="auto")
    parser.add_argument(
        "--quick", action="store_true", help="two networks on two cores in under three minutes"
    )
    parser.add_argument("--json", action="store_true", help="print JSON and nothing else")
    return parser.parse_args()


def measured(args: argparse.Namespace) -> Iterator[Bench]:
    """One benchmark, or the two of --quick."""
    with onlooker(quiet=args.json) as watching:
        request = EvaluationRequest(
            args.model or "digits-cnn",
            args.weights,
            args.data,
            args.data_dir,
            n=args.n,
            eps=args.eps,
            batch_size=args.batch_size,
            device=args.device,
        )
        if not args.quick:
            yield attack_bench(request, args.steps, rounds=args.rounds, onlooker=watching)
            return
        images, steps = QUICK_DIGITS
        digits = EvaluationRequest("digits-cnn", data="digits", n=images, device=args.device)
        yield attack_bench(digits, steps, rounds=args.rounds, onlooker=watching)
        images, steps = QUICK_CIFAR
        cifar = EvaluationRequest(
            args.model or "resnet18",
            args.weights,
            args.data or "cifar10",
            args.data_dir,
            n=args.n or images,
            eps=args.eps,
            batch_size=args.batch_size,
            device=args.device,
        )
        steps = args.steps or steps
        yield attack_bench(cifar, steps, rounds=2, blind=args.weights is None, onlooker=watching)


if __name__ == "__main__":
    try:
        options = arguments()
        benches = list(measured(options))
        show(bench_json(benches), bench_views(benches), options.json)
    except GamagatError as wrong:
        sys.exit(str(wrong))
