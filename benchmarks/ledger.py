"""How long a large ledger takes: write, merge and report a million verdicts.

    python benchmarks/ledger.py [ROWS]

prints seconds and the peak of memory; the images of a fifth of the verdicts are stored, too.
"""

import resource
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np

from gamagat.engine.codec import encode
from gamagat.engine.ledger import CLEAN, Ledger, Verdict
from gamagat.engine.manifest import Manifest
from gamagat.engine.results import summarize
from gamagat.engine.run import read_run

IMAGES, CHUNK, RANKS, SHAPE = 50_000, 1000, 4, (3, 32, 32)


def manifest(runs: list[str]) -> Manifest:
    return Manifest(
        model="none",
        weights=None,
        weights_sha256="",
        data="none",
        data_dir=None,
        split="test",
        n=IMAGES,
        data_sha256="",
        norm="linf",
        eps_given="8/255",
        eps=8 / 255,
        attacks=[{"name": "gama-pgd", "spec": "gama-pgd", "runs": runs}],
        seed=0,
        chunk=CHUNK,
        shape=SHAPE,
        made={},
    )


def write(folder: Path, runs: list[str]) -> None:
    """Every run fools one image in a hundred of those that are left; four processes share the chunks."""
    manifest(runs).write(folder)
    image = encode(np.random.default_rng(0).random(SHAPE, np.float32))
    ledgers = [Ledger(folder / f"ledger-{rank}.sqlite", writable=True) for rank in range(RANKS)]
    for number, entry in enumerate([CLEAN, *runs]):
        for chunk in range(IMAGES // CHUNK):
            ids = range(chunk * CHUNK, (chunk + 1) * CHUNK)
            left = ids if entry == CLEAN else [id_ for id_ in ids if id_ % 100 >= number - 1]
            fell = set() if entry == CLEAN else {id_ for id_ in left if id_ % 100 == number - 1}
            verdicts = [
                Verdict(id_, id_ in fell, 1, 0.03, 5 if id_ in fell else -1, 101, 100) for id_ in left
            ]
            ledgers[chunk % RANKS].record(entry, chunk, verdicts, dict.fromkeys(fell, image), 0.1)
    for ledger in ledgers:
        ledger.__exit__()


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    runs = [f"gama-pgd#{number}" for number in range(1, max(2, round(rows / IMAGES / 0.89)))]
    with tempfile.TemporaryDirectory() as name:
        began = perf_counter()
        write(Path(name), runs)
        written = perf_counter()
        run = read_run(Path(name))
        merged = perf_counter()
        result = summarize(run)
        done = perf_counter()
        size = sum(path.stat().st_size for path in Path(name).iterdir())
    count = sum(int((table["fooled"] >= 0).sum()) for table in run.entries.values())
    print(f"{count} verdicts, {size / 2**20:.0f} MiB on disk, {result.standing.percent:.2f} % left")
    print(f"write {written - began:.1f} s, merge {merged - written:.1f} s, report {done - merged:.1f} s")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10:.0f} MiB")


if __name__ == "__main__":
    main()
