"""Several processes train the network that one would train."""

import json
import socket
import subprocess
import sys

import pytest
import torch
from small_run import spawn
from training.small_training import (
    as_rank,
    metrics,
    otherwise,
    refused,
    tensors,
    trained,
    wanted,
    write_images,
)

from gamagat.engine.alone import LOCK, alone_in


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> str:
    return write_images(tmp_path_factory.mktemp("data"))


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def together(request, count, task=as_rank):
    port = free_port()
    group = [spawn(task, rank, count, port, request) for rank in range(count)]
    for process in group:
        process.join(60)
        assert process.exitcode == 0


@pytest.mark.parametrize(
    ("recipe", "count", "changes"),
    [
        ("gat", 2, {}),
        pytest.param("standard", 2, {}, marks=pytest.mark.slow),
        pytest.param("pgd-at", 3, {"batch": 36, "steps": 2, "ema": 0.9}, marks=pytest.mark.slow),
        ("gat", 2, {"n": 67, "optimizer": "adam", "rate": 0.003}),
    ],
)
def test_several_processes_train_the_weights_of_one(data, tmp_path, recipe, count, changes):
    # 150 images in batches of 32 leave 22, in batches of 36 leave 6; 67 leave three, one more for one of two.
    trained(data, tmp_path / "one", recipe, **changes)
    together(wanted(data, tmp_path / "several", recipe, **changes), count)
    ours, theirs = (tensors(tmp_path / name / "last.safetensors") for name in ("one", "several"))
    for key, value in ours.items():
        assert torch.allclose(theirs[key], value, rtol=1e-3, atol=1e-4), key
    assert len(metrics(tmp_path / "several")) == 4


def test_an_image_that_cannot_be_shared_is_left_out_and_nobody_waits(data, tmp_path):
    together(wanted(data, tmp_path / "run", n=65), 2)
    assert len(metrics(tmp_path / "run")) == 4


def test_statistics_of_batches_are_agreed_on(data, tmp_path):
    together(wanted(data, tmp_path / "run", "gat", "with_norm", ema=0.5), 2)
    trained(data, tmp_path / "one", "gat", "with_norm", ema=0.5)
    ours, theirs = (tensors(tmp_path / name / "last.safetensors") for name in ("one", "run"))
    # Each process has statistics of half the batch, so they agree roughly, not exactly.
    assert torch.allclose(ours["1.running_mean"], theirs["1.running_mean"], rtol=0.2, atol=0.05)


@pytest.mark.parametrize("on_collapse", ["stop", "rollback"])
def test_processes_that_see_the_network_differently_decide_alike(data, tmp_path, on_collapse):
    request = wanted(data, tmp_path / "run", on_collapse=on_collapse, epochs=2)
    together(request, 2, otherwise)
    assert [row["collapsed"] for row in metrics(tmp_path / "run")] == [False, False]


def test_a_folder_that_is_taken_is_refused_by_all(data, tmp_path):
    with alone_in(tmp_path / LOCK, lambda: pytest.fail("who else?")):
        together(wanted(data, tmp_path), 2, refused)


@pytest.mark.slow
def test_several_processes_go_on_where_they_were(data, tmp_path):
    request = wanted(data, tmp_path / "run", epochs=8)
    together(wanted(data, tmp_path / "whole", epochs=8), 2)
    port = free_port()
    group = [spawn(as_rank, rank, 2, port, request) for rank in range(2)]
    while not (tmp_path / "run" / "metrics.jsonl").exists() and group[0].is_alive():
        group[0].join(0.01)
    for process in group:
        process.kill()
        process.join()
    together(request, 2)
    ours, theirs = (tensors(tmp_path / name / "last.safetensors") for name in ("whole", "run"))
    assert all(torch.equal(ours[key], theirs[key]) for key in ours)


def torchrun(*words):
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    command += ["--master-port", str(free_port()), "-m", "gamagat", "train", "--device", "cpu", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_torchrun_trains_measures_and_reports_once(tmp_path):
    out = tmp_path / "run"
    words = [
        "gat",
        "--out",
        str(out),
        "--images",
        "130",
        "--set",
        "epochs=1",
        "--test-images",
        "20",
        "--json",
    ]
    done = torchrun(*words)
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("{")]
    assert json.loads(line)["figures"]["selected"]["images"] == 20
    assert json.loads((out / "training.json").read_text())["made"]["ranks"] == "2"


@pytest.mark.slow
def test_a_batch_that_processes_cannot_share_is_said_once(tmp_path):
    done = torchrun("gat", "--out", str(tmp_path / "run"), "--set", "batch=15")
    assert done.returncode != 0
    assert done.stderr.count("a batch of 15 cannot be shared equally by 2 processes") == 1
