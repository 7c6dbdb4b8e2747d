"""Runs that are killed, stopped or filled up; the kills in real processes."""

import itertools
import random
import signal
import time

import numpy as np
import pytest
from safetensors.numpy import load_file

from sevnet_jax.training import checkpoint
from sevnet_jax.training.checkpoint import find_fault, list_steps, read_manifest
from sevnet_jax.training.logs import Log, read_metrics

# As the processes compile, which this one is compared with to the last bit.
pytestmark = pytest.mark.optimized
STEPS = 24
LENGTH = (
    f"--config.steps={STEPS}",
    "--config.watch.checkpoint_every=3",
    "--config.watch.validate_every=8",
    "--config.watch.log_every=4",
    "--config.watch.keep_last=2",
    "--config.optimizer.schedule=cosine",
)


@pytest.fixture(scope="module")
def undisturbed(run_training, tmp_path_factory):
    """A run in one go, on two devices as all of these."""
    workdir = tmp_path_factory.mktemp("undisturbed") / "run"
    code, output = run_training(workdir, *LENGTH)
    assert code == 0, output
    return workdir


def assert_same_run(workdir, other):
    """All that training computes is the same to the last bit."""
    first, second = (load_file(w / "weights.safetensors") for w in (workdir, other))
    assert first.keys() == second.keys()
    for name in first:
        np.testing.assert_array_equal(first[name], second[name], name)
    last = f"checkpoints/{STEPS}/state"
    states = [read_arrays(w / last) for w in (workdir, other)]
    assert states[0].keys() == states[1].keys()
    for name in states[0]:
        np.testing.assert_array_equal(states[0][name], states[1][name], name)
    metrics = [
        [{k: v for k, v in r.items() if k != "images_per_second"} for r in records]
        for records in (read_metrics(workdir), read_metrics(other))
    ]
    assert metrics[0] == metrics[1]


def read_arrays(path):
    import jax
    import orbax.checkpoint as ocp

    with ocp.StandardCheckpointer() as checkpointer:
        tree = checkpointer.restore(path)
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def test_a_run_leaves_what_it_should(undisturbed):
    assert list_steps(undisturbed / "checkpoints")[-2:] == [21, 24]
    scores = {
        step: read_manifest(undisturbed / "checkpoints" / str(step))["score"]
        for step in list_steps(undisturbed / "checkpoints")
    }
    best = max(r["psnr gaussian:20"] for r in read_metrics(undisturbed)
               if r["kind"] == "validation")  # fmt: skip
    assert best in scores.values()
    records = read_metrics(undisturbed)
    train = [r["step"] for r in records if r["kind"] == "train"]
    assert train == [4, 8, 12, 16, 20, 24]
    validation = [r for r in records if r["kind"] == "validation"]
    assert [r["step"] for r in validation] == [8, 16, 24]
    assert {"psnr gaussian:20", "ssim speckle:90", "psnr mixture"} <= {*validation[0]}
    assert list((undisturbed / "tensorboard").glob("events*"))


def kill_during_save(run_elsewhere, workdir, moment, count):
    script = workdir.parent / f"{moment}.py"
    script.write_text(SUICIDE.format(moment=moment, count=count))
    code, output = run_elsewhere(workdir, *LENGTH, program=(str(script),), devices=2)
    assert code == -signal.SIGKILL, output


def test_a_chain_of_kills_changes_nothing(
    start_training, run_elsewhere, run_training, undisturbed, tmp_path
):
    """While it trains, while it saves, while it deletes; then it goes on here."""
    workdir = tmp_path / "run"
    process = start_training(workdir, *LENGTH, devices=2)
    wait_for(workdir / "metrics.jsonl", process, lines=1)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    kill_during_save(run_elsewhere, workdir, "manifest", 2)
    kill_during_save(run_elsewhere, workdir, "deleting", 1)
    code, output = run_training(workdir, *LENGTH)
    assert code == 0, output
    assert 0 < int(output.split("resumed at step ")[1].split()[0]) < STEPS
    assert_same_run(undisturbed, workdir)


@pytest.mark.slow
def test_kills_at_random_moments_change_nothing(start_training, undisturbed, tmp_path):
    moments = random.Random(0)
    for lines in (1, 3, 5):  # of the log, to be sure that each kill hits the training
        process = start_training(tmp_path, *LENGTH, devices=2)
        wait_for(tmp_path / "metrics.jsonl", process, lines)
        time.sleep(moments.uniform(0, 0.2))
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL
    process = start_training(tmp_path, *LENGTH, devices=2)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    resumed = int(output.split("resumed at step ")[1].split()[0])
    assert 0 < resumed < STEPS
    assert_same_run(undisturbed, tmp_path)


# A program that kills itself in the middle of the n-th save, before or after the
# manifest, or while an old checkpoint is deleted.
SUICIDE = """
import os, runpy, shutil, signal, sys
from sevnet_jax.training import checkpoint

moment, count = {moment!r}, {count}
target, name = {{
    "copying": (checkpoint.threading.Thread, "start"),
    "manifest": (checkpoint, "write_manifest"),
    "deleting": (shutil, "rmtree"),
}}[moment]
original = getattr(target, name)
calls = 0

def dying(*args, **kwargs):
    global calls
    mine = moment != "deleting" or ".part" in str(args[0]) and os.path.exists(args[0])
    mine &= moment != "copying" or "_finish" in str(getattr(args[0], "_target", ""))
    calls += mine
    if mine and calls == count:
        if moment == "deleting":
            os.remove(next(p for p in args[0].rglob("*") if p.is_file()))
        os.kill(os.getpid(), signal.SIGKILL)
    return original(*args, **kwargs)

setattr(target, name, dying)
sys.argv = ["train.py", *sys.argv[1:]]
runpy.run_path("train.py", run_name="__main__")
"""


@pytest.mark.slow
def test_kills_during_a_save_change_nothing(run_elsewhere, undisturbed, tmp_path):
    workdir = tmp_path / "run"
    for moment, count in [("copying", 2), ("manifest", 2), ("deleting", 1)]:
        kill_during_save(run_elsewhere, workdir, moment, count)
    code, output = run_elsewhere(workdir, *LENGTH, devices=2)
    assert code == 0, output
    assert "resumed at step" in output
    assert_same_run(undisturbed, workdir)


@pytest.fixture
def at_line(monkeypatch):
    """A function (number, action): `action` is done when the log has that line."""

    def arrange(number, action):
        write, lines = Log.scalars, itertools.count(1)

        def write_and_act(*args):
            write(*args)
            if next(lines) == number:
                action()

        monkeypatch.setattr(Log, "scalars", write_and_act)

    return arrange


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_run_cleanly(run_training, at_line, tmp_path, number):
    at_line(2, lambda: signal.raise_signal(number))
    code, output = run_training(tmp_path, "--config.steps=100000")
    assert_stopped_cleanly(code, output, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_process_cleanly(start_training, tmp_path, number):
    process = start_training(tmp_path, "--config.steps=100000")
    wait_for(tmp_path / "metrics.jsonl", process, lines=2)
    process.send_signal(number)
    output, _ = process.communicate(timeout=60)
    assert_stopped_cleanly(process.returncode, output, tmp_path)


def assert_stopped_cleanly(code, output, tmp_path):
    assert code == 0, output
    assert "stopped by a signal at step" in output
    assert "Traceback" not in output
    step = int(output.rsplit("at step ", 1)[1].split()[0])
    assert list_steps(tmp_path / "checkpoints")[-1] == step
    assert find_fault(tmp_path / "checkpoints" / str(step)) is None
    assert not (tmp_path / "weights.safetensors").exists()


def test_a_finished_run_does_nothing_more(run_training, undisturbed):
    file = undisturbed / "weights.safetensors"
    before, written = file.read_bytes(), file.stat().st_mtime_ns
    metrics = read_metrics(undisturbed)
    code, output = run_training(undisturbed, *LENGTH)
    assert code == 0, output
    assert f"resumed at step {STEPS}" in output
    assert file.read_bytes() == before
    assert file.stat().st_mtime_ns == written  # or other versions would be named
    assert read_metrics(undisturbed) == metrics


# No file may grow beyond 4 kB: the same kind of error as on a disk without room.
LIMITED = ("bash", "-c", 'trap "" XFSZ; ulimit -f 4; exec "$@"', "bash")


def test_a_save_that_fails_is_one_line_and_loses_nothing(
    run_training, tmp_path, monkeypatch
):
    """As on a disk without room, which is a slow test."""
    write = checkpoint.write_manifest

    def fail(path, step, *args):
        if step == 6:
            raise OSError(28, "No space left on device")
        write(path, step, *args)

    flags = ("--config.watch.checkpoint_every=3", "--config.steps=9")
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "write_manifest", fail)
        code, output = run_training(tmp_path, *flags)
    assert code == 2, output
    assert "Traceback" not in output
    assert "No space left" in output.strip().splitlines()[-1]
    assert output.strip().splitlines()[-1].startswith("train.py: "), output
    assert list_steps(tmp_path / "checkpoints") == [3]
    assert find_fault(tmp_path / "checkpoints" / "3") is None
    code, output = run_training(tmp_path, *flags)
    assert code == 0, output
    assert "resumed at step 3" in output


@pytest.mark.slow
def test_a_full_disk_is_one_line_and_loses_nothing(start_training, tmp_path):
    flags = (*LENGTH, "--config.steps=6")
    process = start_training(tmp_path, *flags)
    wait_for(tmp_path / "checkpoints" / "3" / "manifest.json", process)
    process.kill()
    process.communicate()
    process = start_training(tmp_path, *flags, wrapper=LIMITED)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 2, output
    assert "Traceback" not in output
    assert output.strip().splitlines()[-1].startswith("train.py: "), output
    assert 3 in list_steps(tmp_path / "checkpoints")
    assert find_fault(tmp_path / "checkpoints" / "3") is None
    process = start_training(tmp_path, *flags)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output


def wait_for(path, process, lines=0):
    for _ in range(1200):
        if path.exists() and path.read_text().count("\n") >= lines:
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)
    pytest.fail(f"{path} did not come")
