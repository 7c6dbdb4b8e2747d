"""One device, two, eight, two processes: the same training."""

import json
import signal
import socket
import time

import numpy as np
import pytest
from safetensors.numpy import load_file

from sevnet_jax.training.checkpoint import list_steps
from sevnet_jax.training.logs import read_metrics

# As this process compiles, which others are compared with.
QUICK = (
    "import runpy, sys\n"
    "from tests import compilation\n"
    "sys.argv[0] = 'train.py'\n"
    "runpy.run_path('train.py', run_name='__main__')"
)
LENGTH = (
    "--config.steps=6",
    "--config.watch.log_every=1",
    "--config.watch.checkpoint_every=3",
)


@pytest.fixture(scope="module")
def alone(run_elsewhere, tmp_path_factory):
    workdir = tmp_path_factory.mktemp("alone") / "run"
    code, output = run_elsewhere(workdir, *LENGTH, program=("-c", QUICK))
    assert code == 0, output
    return workdir


def assert_same_training(workdir, other):
    losses = [
        [r["loss"] for r in read_metrics(w) if r["kind"] == "train"]
        for w in (workdir, other)
    ]
    assert len(losses[0]) == 6
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)
    first, second = (load_file(w / "weights.safetensors") for w in (workdir, other))
    for name in first:
        # Adam turns a rounding error of a tiny gradient into a whole step of 2e-3.
        np.testing.assert_allclose(first[name], second[name], atol=2e-4, err_msg=name)


def start_two(start_training, workdir, *flags, second=()):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return [
        start_training(
            workdir,
            *flags,
            *(second if number else ()),
            f"--coordinator=127.0.0.1:{port}",
            "--processes=2",
            f"--process={number}",
            program=("-c", QUICK),
        )
        for number in (0, 1)
    ]


@pytest.mark.slow
def test_eight_devices_train_as_one(run_elsewhere, alone, tmp_path):
    code, output = run_elsewhere(tmp_path, *LENGTH, devices=8, program=("-c", QUICK))
    assert code == 0, output
    assert "training on 8 devices" in output
    assert_same_training(alone, tmp_path)


def test_two_processes_train_as_one(
    start_training, run_training, tmp_path, tmp_path_factory
):
    """As this one does, which has both devices."""
    processes = start_two(start_training, tmp_path, *LENGTH)
    alone = tmp_path_factory.mktemp("alone") / "run"
    code, output = run_training(alone, *LENGTH)
    assert code == 0, output
    assert "training on 2 devices" in output
    outputs = [process.communicate(timeout=300)[0] for process in processes]
    assert [p.returncode for p in processes] == [0, 0], "\n".join(outputs)
    assert "2 devices (cpu) on 2 hosts" in outputs[0]
    assert "step 6/6" in outputs[0]
    assert "step" not in outputs[1]
    assert len(list((tmp_path / "tensorboard").iterdir())) == 1
    manifest = json.loads((tmp_path / "checkpoints/6/manifest.json").read_text())
    assert manifest["step"] == 6
    assert_same_training(alone, tmp_path)


def test_a_batch_that_cannot_be_dealt_is_one_line(run_training, tmp_path):
    code, output = run_training(tmp_path, "--config.data.batch_size=5")
    assert code == 2
    assert output.strip() == (
        "train.py: batch_size 5 cannot be split over 2 devices; choose a multiple of 2"
    )
    assert not any(tmp_path.iterdir())


@pytest.mark.slow
def test_two_processes_stop_and_go_on_together(start_training, tmp_path):
    flags = ("--config.steps=100000", "--config.watch.log_every=1")
    processes = start_two(start_training, tmp_path, *flags)
    while len(read_metrics(tmp_path)) < 3:
        assert processes[0].poll() is None, processes[0].communicate()
        time.sleep(0.1)
    processes[1].send_signal(signal.SIGTERM)
    outputs = [process.communicate(timeout=60)[0] for process in processes]
    assert [p.returncode for p in processes] == [0, 0], "\n".join(outputs)
    (step,) = list_steps(tmp_path / "checkpoints")[-1:]
    flags = (
        f"--config.steps={step + 2}",
        "--config.watch.log_every=1",
        "--accept_changes",
    )
    processes = start_two(start_training, tmp_path, *flags)
    outputs = [process.communicate(timeout=100)[0] for process in processes]
    assert [p.returncode for p in processes] == [0, 0], "\n".join(outputs)
    assert f"resumed at step {step}" in outputs[0]


@pytest.mark.slow
def test_one_process_that_fails_ends_both(start_training, tmp_path):
    bad = ("--config.data.source=/no/such/photos",)
    processes = start_two(start_training, tmp_path, *LENGTH, second=bad)
    outputs = [process.communicate(timeout=100)[0] for process in processes]
    assert processes[1].returncode == 2, outputs
    assert "no folder '/no/such/photos'" in outputs[1]
    assert processes[0].returncode != 0
    assert "another process has stopped" in outputs[0], outputs[0]
