"""A run survives whatever happens to it."""

import json
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from small_run import SPECS, RowByRow, as_rank, killed, rows, small_run, spawn
from torch import Tensor

from gamagat.engine.evaluate import INTERRUPTED
from gamagat.engine.ledger import Ledger, Verdict
from gamagat.engine.results import summarize
from gamagat.engine.run import read_run
from gamagat.engine.watch import Onlooker
from gamagat.errors import DamagedError, ModelError, RunError
from helpers import seeded, spoken_to, tiny_network


@pytest.fixture(scope="module")
def reference(tmp_path_factory) -> Path:
    """An uninterrupted run."""
    folder = tmp_path_factory.mktemp("reference") / "run"
    small_run(folder)
    return folder


def test_the_small_run_has_something_to_tell(reference):
    result = small_run(None)
    assert result.clean.count == 54
    assert 0 < result.standing.count < result.clean.count
    assert len(rows(reference)) > 200


def kill_and_resume(folder: Path, after: float, reference: Path) -> bool:
    """Kill a run, look at what it left, and let it go on to the end."""
    caught = killed(spawn(small_run, folder), after)
    expected = rows(reference)
    if folder.is_dir():
        assert set(rows(folder)) <= set(expected)
    small_run(folder)
    assert rows(folder) == expected
    return caught


def timed(folder: Path) -> float:
    began = time.perf_counter()
    spawn(small_run, folder).join()
    return time.perf_counter() - began


def killings(count: int, reference: Path, folder: Path) -> int:
    spawn(small_run, folder / "warm").join()  # starts the server that the others are forked from
    whole = min(timed(folder / f"timed-{number}") for number in range(3))  # the machine may be busy elsewhere
    moments = random.Random(count)
    return sum(
        kill_and_resume(folder / f"run-{number}", moments.uniform(0.02, whole), reference)
        for number in range(count)
    )


def test_a_run_killed_at_any_moment_ends_with_the_same_ledger(reference, tmp_path):
    assert killings(20, reference, tmp_path) >= 10  # the others had ended before their moment came


@pytest.mark.slow
def test_a_run_killed_at_a_hundred_moments_ends_with_the_same_ledger(reference, tmp_path):
    assert killings(100, reference, tmp_path) >= 50


def test_a_finished_run_is_not_made_again(reference):
    calls = []
    model = RowByRow()
    model.register_forward_hook(lambda *_: calls.append(1))
    before = rows(reference)
    small_run(reference, model=model)
    assert len(calls) == 4  # the check at the door, also of one image, and what it answers twice
    assert rows(reference) == before


def test_a_finished_run_is_left_as_it_lies(reference):
    """It may lie where nobody can write."""

    def files() -> dict[str, tuple[int, bytes]]:
        return {file.name: (file.stat().st_mtime_ns, file.read_bytes()) for file in reference.iterdir()}

    before, whole = files(), json.loads((reference / "result.json").read_text())
    assert small_run(reference).as_json() == whole
    assert files() == before
    (reference / "result.json").unlink()  # whoever did all of it was killed before it told
    small_run(reference)
    assert json.loads((reference / "result.json").read_text()) == whole


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"eps": 0.05}, "eps was 0.04 and is 0.05"),
        ({"seed": 3}, "seed was 0 and is 3"),
        ({"count": 50}, "n was 60 and is 50"),
        ({"specs": ("fgsm",)}, "attacks had gama-pgd:steps=12"),
        ({"specs": ("fgsm", "pgd:steps=3")}, "and is pgd:steps=3"),
        ({"specs": (*SPECS, "pgd:steps=3")}, "attacks has pgd:steps=3"),
        ({"specs": SPECS[::-1]}, "attacks came in another order"),
    ],
)
def test_other_settings_are_refused_and_named(reference, change, words):
    before = rows(reference)
    with pytest.raises(RunError) as caught:
        small_run(reference, **change)
    assert words in str(caught.value)
    assert rows(reference) == before


def test_other_weights_are_refused(reference):
    model = RowByRow()
    with torch.no_grad():
        model.first += 1e-3
    with pytest.raises(RunError, match="weights_sha256 was"):
        small_run(reference, model=model)


@pytest.mark.parametrize("size", [1, 7, 64, 500])
def test_the_batch_size_changes_no_row(reference, tmp_path, size):
    small_run(tmp_path / "run", size)
    assert rows(tmp_path / "run") == rows(reference)


@pytest.mark.parametrize("size", [7, 500])
def test_the_batch_size_changes_no_verdict_of_a_convolution(tmp_path, size):
    found = []
    for width in (64, size):
        small_run(tmp_path / str(width), width, model=seeded(lambda: tiny_network(4, 1)), eps=0.02)
        found.append([row[:4] for row in rows(tmp_path / str(width))])
    assert found[0] == found[1]


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.mark.parametrize(("count", "size"), [(2, 7), (3, 64), (2, 500)])
def test_several_processes_write_the_same_rows(reference, tmp_path, count, size):
    port = free_port()
    group = [spawn(as_rank, rank, count, port, tmp_path / "run", size) for rank in range(count)]
    for process in group:
        process.join(60)
        assert process.exitcode == 0
    assert rows(tmp_path / "run") == rows(reference)
    assert len(list((tmp_path / "run").glob("ledger-*.sqlite"))) == count


def test_a_run_begun_by_two_processes_is_ended_by_one(reference, tmp_path):
    port = free_port()
    group = [spawn(as_rank, rank, 2, port, tmp_path / "run", 7) for rank in range(2)]
    killed(group[1], 0.35)
    killed(group[0], 0.0)
    small_run(tmp_path / "run")
    assert rows(tmp_path / "run") == rows(reference)


def test_a_process_whose_time_is_over_leaves_the_others_whole(reference, tmp_path):
    port = free_port()
    limits = (None, 0.0)
    group = [spawn(as_rank, rank, 2, port, tmp_path / "run", 7, limits[rank]) for rank in range(2)]
    for process in group:
        process.join(60)
        assert process.exitcode == 0
    assert json.loads((tmp_path / "run" / "result.json").read_text())["unfinished"]
    small_run(tmp_path / "run")
    assert rows(tmp_path / "run") == rows(reference)


class Interrupting(RowByRow):
    """A network during whose fiftieth pass somebody presses Ctrl-C."""

    calls = 0

    def forward(self, images: Tensor) -> Tensor:
        self.calls += 1
        if self.calls == 50:
            raise KeyboardInterrupt
        return super().forward(images)


def test_an_interrupted_run_tells_what_it_knows_and_goes_on(reference, tmp_path):
    part = small_run(tmp_path / "run", model=Interrupting())
    assert part.stopped == INTERRUPTED
    assert part.clean.of == 60
    assert part.unfinished
    known = read_run(tmp_path / "run")
    (fgsm, *_) = part.attacks
    assert fgsm.standing.of == 60
    assert part.as_json()["unfinished"] == f"{part.standing.of} of 60 images"
    assert part.as_json()["n"] == part.standing.of
    # What is told of an unfinished attack is what the finished run says of the same images.
    settled = set(known.ids[known.settled(["gama-pgd#1"])].tolist())
    whole = read_run(reference)
    left = whole.standing(["gama-pgd#1"])[np.isin(whole.ids, sorted(settled))]
    assert known.standing(["gama-pgd#1"])[known.settled(["gama-pgd#1"])].sum() == left.sum()
    small_run(tmp_path / "run")
    assert rows(tmp_path / "run") == rows(reference)


def test_a_killed_run_claims_nothing_that_an_earlier_stop_said(tmp_path):
    small_run(tmp_path / "run", model=Interrupting())
    assert (tmp_path / "run" / "result.json").exists()

    class Dying(Interrupting):
        def forward(self, images: Tensor) -> Tensor:
            try:
                return super().forward(images)
            except KeyboardInterrupt:
                raise SystemExit from None

    with pytest.raises(SystemExit):
        small_run(tmp_path / "run", model=Dying())
    assert not (tmp_path / "run" / "result.json").exists()


def test_time_that_is_over_ends_a_run_in_order(reference, tmp_path):
    part = small_run(tmp_path / "run", max_seconds=0.0)
    assert part.stopped == "the time that was given is over"
    assert part.clean.of == 0
    small_run(tmp_path / "run", max_seconds=600.0)
    assert rows(tmp_path / "run") == rows(reference)


class Cramped(RowByRow):
    """A network on a machine with room for three images."""

    def forward(self, images: Tensor) -> Tensor:
        if len(images) > 3 and images.requires_grad:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate")
        return super().forward(images)


def test_out_of_memory_halves_the_batch_says_so_and_goes_on(reference, tmp_path):
    said = []
    small_run(tmp_path / "run", model=Cramped(), onlooker=Onlooker(say=said.append))
    assert said == ["out of memory with 7 images at a time; going on with 3"]
    assert rows(tmp_path / "run") == rows(reference)


class Tiny(RowByRow):
    def forward(self, images: Tensor) -> Tensor:
        if images.requires_grad:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return super().forward(images)


def test_memory_that_does_not_suffice_for_one_image_is_said_so(tmp_path):
    with pytest.raises(ModelError, match="does not suffice for a single image"):
        small_run(tmp_path / "run", model=Tiny())


def test_an_error_of_the_network_keeps_what_was_recorded(reference, tmp_path):
    class Failing(Interrupting):
        def forward(self, images: Tensor) -> Tensor:
            try:
                return super().forward(images)
            except KeyboardInterrupt:
                raise RuntimeError("a cable was pulled") from None

    with pytest.raises(ModelError, match="a cable was pulled"):
        small_run(tmp_path / "run", model=Failing())
    assert set(rows(tmp_path / "run")) < set(rows(reference))
    small_run(tmp_path / "run")
    assert rows(tmp_path / "run") == rows(reference)


def test_a_full_disk_is_one_sentence_and_the_ledger_is_intact(tmp_path):
    with Ledger(tmp_path / "ledger-0.sqlite", writable=True) as ledger:
        ledger.record("clean", 0, [Verdict(1, 0, 0, 0.0, -1, 1, 0)], {}, 0.1)
        ledger._base.execute("PRAGMA max_page_count = 12")
        with pytest.raises(RunError, match="disk is full; what is recorded there is intact"):
            ledger.record("pgd", 0, [Verdict(1, 1, 2, 0.1, 3, 4, 4)], {1: b"x" * 1_000_000}, 0.1)
    with Ledger(tmp_path / "ledger-0.sqlite") as ledger:
        assert [done.entry for done in ledger.finished()] == ["clean"]
        assert ledger.entries() == ["clean"]


@pytest.mark.parametrize(("kept", "level"), [(True, 2), (False, 0)])  # FULL and OFF, as SQLite counts
def test_only_a_run_that_is_kept_waits_for_the_disk(tmp_path, monkeypatch, kept, level):
    levels, whole = [], Ledger.record

    def record(ledger: Ledger, *arguments: object) -> None:
        levels.append(*ledger._base.execute("PRAGMA synchronous").fetchone())
        whole(ledger, *arguments)

    monkeypatch.setattr(Ledger, "record", record)
    small_run(tmp_path / "run" if kept else None, specs=("fgsm",))
    assert set(levels) == {level}


@pytest.mark.parametrize(("width", "sizes"), [(7, [14, 14, 14, 14, 4]), (20, [40, 20]), (30, [60])])
def test_a_chunk_fills_the_width_twice(tmp_path, width, sizes):
    small_run(tmp_path / "run", batch_size=width, count=60, specs=("fgsm",))
    assert np.unique(read_run(tmp_path / "run").chunks, return_counts=True)[1].tolist() == sizes


def test_a_chunk_that_cannot_be_written_ends_the_run_and_the_others_are_kept(tmp_path, monkeypatch):
    whole = Ledger.record

    def record(ledger: Ledger, entry: str, chunk: int, *rest: object) -> None:
        if (entry, chunk) == ("fgsm", 1):
            raise RunError("the disk is full")
        whole(ledger, entry, chunk, *rest)

    monkeypatch.setattr(Ledger, "record", record)
    with pytest.raises(RunError, match="the disk is full"):
        small_run(tmp_path / "run", specs=("fgsm",))
    monkeypatch.undo()
    done = [(each.entry, each.chunk) for each in read_run(tmp_path / "run").finished]
    assert done == [*(("clean", number) for number in range(5)), ("fgsm", 0)]
    small_run(tmp_path / "run", specs=("fgsm",))
    small_run(tmp_path / "other", specs=("fgsm",))
    assert rows(tmp_path / "run") == rows(tmp_path / "other")


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(RunError, match="cannot make the run folder"):
        small_run(tmp_path / "file" / "run")


def test_a_read_only_ledger_is_one_sentence(reference, tmp_path, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("attempt to write a readonly database")

    small_run(tmp_path / "run", specs=("fgsm",))
    monkeypatch.setattr("gamagat.engine.ledger.sqlite3.connect", refuse)
    with pytest.raises(RunError, match=r"cannot open the ledger .*readonly"):
        small_run(tmp_path / "run", specs=("fgsm",))


def test_two_runs_in_one_folder_at_a_time_are_one_too_many(tmp_path):
    small_run(tmp_path / "run", specs=("fgsm",))
    with Ledger(tmp_path / "run" / "ledger-0.sqlite", writable=True) as ledger:
        ledger.record("other", 0, [], {}, 0.0)
        with pytest.raises(RunError, match="another run is using it"):
            small_run(tmp_path / "run", specs=("fgsm",))


@pytest.mark.parametrize(
    "damage", [lambda attacks: attacks.insert(0, 1), lambda attacks: attacks[0].pop("runs")]
)
def test_a_manifest_with_something_else_for_an_attack_is_damaged(tmp_path, damage):
    small_run(tmp_path / "run", specs=("fgsm",))
    path = tmp_path / "run" / "manifest.json"
    content = json.loads(path.read_text())
    damage(content["attacks"])
    path.write_text(json.dumps(content))
    with pytest.raises(DamagedError, match="it is damaged"):
        read_run(tmp_path / "run")


@pytest.mark.parametrize("cut", [100, 5_000, 20_000, 10**9])
def test_a_ledger_that_lost_its_end_is_damaged(tmp_path, cut):
    """SQLite reads what is missing of a page as nothing; of an empty file it says that it has no tables."""
    small_run(tmp_path / "run", specs=("fgsm",))
    ledger = tmp_path / "run" / "ledger-0.sqlite"
    ledger.write_bytes(ledger.read_bytes()[:-cut])
    with pytest.raises(DamagedError, match=r"the ledger .*ledger-0.sqlite is damaged: .*; evaluate again"):
        summarize(read_run(tmp_path / "run"))


@pytest.mark.parametrize("content", ["", "{", '{"model": "x"}', "[]"])
def test_a_damaged_manifest_is_one_sentence(tmp_path, content):
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(DamagedError, match=r"cannot read .* is damaged.*evaluate again with another --out"):
        read_run(tmp_path)


@pytest.mark.parametrize("change", [{"format": 2}, {"of_tomorrow": 1}])
def test_a_manifest_of_another_version_is_not_called_damaged(tmp_path, change):
    small_run(tmp_path / "run", specs=("fgsm",))
    path = tmp_path / "run" / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(RunError, match="is of another version of gamagat; use that one") as caught:
        read_run(tmp_path / "run")
    assert not isinstance(caught.value, DamagedError)


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_the_command_stopped_by_a_signal_goes_on_where_it_was(tmp_path, sent):
    words = ["evaluate", "digits-cnn", "--n", "64", "--batch-size", "8"]
    words += ["--attack", "gama-pgd:steps=9000", "--restarts", "20", "--out", str(tmp_path / "run"), "--json"]
    process = spoken_to(words)
    patience = time.monotonic() + 60
    while not list((tmp_path / "run").glob("ledger-0.sqlite")) and time.monotonic() < patience:
        time.sleep(0.1)
    time.sleep(1.0)
    process.send_signal(sent)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "stopped: it was interrupted; the same command goes on from here" in err
    assert '"n": 64' in out


def test_torchrun_starts_two_processes_that_report_once(tmp_path):
    words = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    words += ["--master-port", str(free_port()), "-m", "gamagat", "evaluate", "digits-cnn", "--images", "64"]
    words += ["--attack", "gama-pgd:steps=5", "--device", "cpu", "--out", str(tmp_path / "run"), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True)
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("{")]
    assert json.loads(line)["n"] == 64
    assert len(list((tmp_path / "run").glob("ledger-*.sqlite"))) == 2
    found = subprocess.run(
        [sys.executable, "-m", "gamagat", "verify", str(tmp_path / "run")],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "holds: " in found.stdout


class StoppedLate(Interrupting):
    """Stopped in the last run of the last attack."""

    def forward(self, images: Tensor) -> Tensor:
        self.calls += 1
        if self.calls == self.last:
            raise KeyboardInterrupt
        return RowByRow.forward(self, images)

    last = 10**9


def test_the_finished_runs_of_an_unfinished_attack_are_told(tmp_path):
    specs, whole = ("gama-pgd:steps=3,restarts=3",), StoppedLate()
    expected = small_run(None, model=whole, specs=specs).attacks[0].curve
    late = StoppedLate()
    late.last = whole.calls - 1
    part = small_run(tmp_path / "run", model=late, specs=specs)
    assert part.unfinished
    assert part.attacks[0].name == "gama-pgd:steps=3,restarts=3 (2 of 3 runs)"
    assert part.attacks[0].standing.of == 60
    assert part.attacks[0].curve == expected[:2]
