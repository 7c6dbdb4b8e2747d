"""One device, eight devices, two processes: the same training."""

import json
import socket

import numpy as np
import pytest
from safetensors.numpy import load_file

from sevnet_jax.training.logs import read_metrics

LENGTH = ("--config.steps=6", "--config.log_every=1", "--config.checkpoint_every=3")


@pytest.fixture(scope="module")
def alone(run_training, tmp_path_factory):
    workdir = tmp_path_factory.mktemp("alone") / "run"
    code, output = run_training(workdir, *LENGTH)
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


def test_eight_devices_train_as_one(run_training, alone, tmp_path):
    code, output = run_training(tmp_path, *LENGTH, devices=8)
    assert code == 0, output
    assert "training on 8 devices" in output
    assert_same_training(alone, tmp_path)


def test_two_processes_train_as_one(start_training, alone, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes = [
        start_training(
            tmp_path,
            *LENGTH,
            f"--coordinator=127.0.0.1:{port}",
            "--processes=2",
            f"--process={number}",
        )
        for number in (0, 1)
    ]
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
    code, output = run_training(tmp_path, "--config.batch_size=6", devices=4)
    assert code == 2
    assert output.strip() == (
        "train.py: batch_size 6 cannot be dealt to 4 devices; choose a multiple of 4"
    )
    assert not any(tmp_path.iterdir())
