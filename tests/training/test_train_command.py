"""What train.py says to mistakes: one line, exit code 2, nothing changed."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from sevnet_jax.training.checkpoint import list_steps
from sevnet_jax.training.logs import Log, read_metrics


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--config.batch_sise=8"], ["batch_sise", "batch_size"]),
        (
            ["--config.batch_size=8"],
            ["'batch_size'; it is now data.batch_size"],
        ),
        (["--config.source=a"], ["'source'; it is now data.source"]),
        (["--config.validation_size=16"], ["it is now watch.size"]),
        (["--config.model.widht=8"], ["widht", "width"]),
        (["--config.data.batch_size=many"], ["batch_size", "many"]),
        (["--config.data.batch_size=0"], ["batch_size must be 1..1048576, got 0"]),
        (["--config.loss=l3"], ["unknown loss 'l3'", "charbonnier"]),
        (["--config.data.source=/no/such/photos"], ["no folder '/no/such/photos'"]),
        (["--config.watch.source=/none"], ["no folder '/none'"]),
        (["--config=configs/none.py"], ["configs/none.py"]),
        (["--workdri=x"], ["workdri", "workdir"]),
        (["extra"], ["unknown argument 'extra'"]),
        (["--coordinator=127.0.0.1:1"], ["--coordinator, --processes and --process"]),
    ],
)
def test_a_mistake_is_one_line(run_training, tmp_path, flags, words):
    workdir = tmp_path / "run"
    code, output = run_training(workdir, *flags)
    assert code == 2, output
    (line,) = output.strip().splitlines()
    assert line.startswith("train.py: ")
    for word in words:
        assert word in line
    assert not workdir.exists()


def test_fields_that_do_not_go_together_leave_no_trace(run_training, tmp_path):
    flags = ["--config.model.name=swinir_xs", "--config.model.heads=(5, 5)"]
    code, output = run_training(tmp_path / "run", *flags)
    assert code == 2
    assert "the fields of this SwinIR do not go together" in output.splitlines()[-1]
    assert "Traceback" not in output
    assert not (tmp_path / "run").exists()


def test_a_missing_package_is_one_line(start_training, tmp_path):
    (tmp_path / "tensorflow.py").write_text("raise ModuleNotFoundError('no such tf')")
    path = ("env", f"PYTHONPATH={tmp_path}")
    process = start_training(tmp_path / "run", wrapper=path)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 2, output
    assert output == 'train.py: no such tf; pip install "sevnet_jax[train]"\n'
    assert not (tmp_path / "run").exists()


def test_a_workdir_that_cannot_be_made_is_one_line(run_training, tmp_path):
    (tmp_path / "file").write_text("")
    code, output = run_training(tmp_path / "file" / "run")
    assert code == 2, output
    assert len(output.strip().splitlines()) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_an_unwritable_workdir_is_one_line(run_training, tmp_path):
    tmp_path.chmod(0o500)
    code, output = run_training(tmp_path / "run")
    assert code == 2, output
    assert "Permission denied" in output


def test_epochs_become_steps(run_training, tmp_path):
    """Four photos in batches of two are two steps an epoch."""
    flags = [
        "--config.epochs=3",
        "--config.data.batch_size=2",
        "--config.watch.log_every=1",
    ]
    code, output = run_training(tmp_path, *flags, "--config.loss=charbonnier")
    assert code == 0, output
    assert [r["step"] for r in read_metrics(tmp_path) if r["kind"] == "train"] == [
        *range(1, 7)
    ]
    config = json.loads((tmp_path / "config.json").read_text())
    assert (config["steps"], config["epochs"]) == (6, 0)
    assert config["loss"] == "charbonnier"


def test_divergence_ends_a_run_with_the_last_good_state(run_training, tmp_path):
    """At an absurd learning rate the second-order network leaves the numbers."""
    code, output = run_training(
        tmp_path,
        "--config.model.gate=igm_unscaled",
        "--config.optimizer.learning_rate=1e8",
        "--config.optimizer.schedule=constant",
        "--config.optimizer.max_skipped=3",
    )
    assert code == 3, output
    assert "step 2: the loss or its gradient is not finite; skipped (1 in" in output
    assert "train.py: no finite gradient for 3 steps up to step 4" in output
    assert "Traceback" not in output
    assert not (tmp_path / "weights.safetensors").exists()


@pytest.mark.slow
def test_bfloat16_and_remat_train(run_training, tmp_path):
    code, output = run_training(
        tmp_path,
        "--config.model.dtype=bfloat16",
        "--config.model.remat=True",
        "--config.optimizer.accumulation=2",
        "--config.steps=4",
    )
    assert code == 0, output
    assert (tmp_path / "weights.safetensors").exists()


@pytest.mark.parametrize("steps", [pytest.param(1, marks=pytest.mark.slow), 18])
def test_a_profile_is_written(run_training, tmp_path, steps):
    code, output = run_training(tmp_path, f"--config.steps={steps}", "--profile")
    assert code == 0, output
    written = list((tmp_path / "profile").rglob("*.xplane.pb"))
    assert len(written) == (steps > 1)


def test_a_refused_change_changes_nothing(run_training, tmp_path):
    length = "--config.steps=2"
    assert run_training(tmp_path, length)[0] == 0
    before = (tmp_path / "config.json").read_text()
    code, output = run_training(
        tmp_path, length, "--config.model.width=8", "--accept_changes"
    )
    assert code == 2, output
    (line,) = output.strip().splitlines()
    assert "has another model or optimizer" in line
    assert (tmp_path / "config.json").read_text() == before
    assert run_training(tmp_path, length)[0] == 0


def test_data_that_goes_away_is_one_line_and_nothing_lost(
    run_training, tmp_path, monkeypatch
):
    photos = tmp_path / "photos"
    photos.mkdir()
    for index in range(3):
        noise = np.random.default_rng(index).integers(0, 256, (16, 16, 3), np.uint8)
        Image.fromarray(noise).save(photos / f"{index}.png")
    write = Log.scalars

    def write_and_remove(*args):
        write(*args)
        shutil.rmtree(photos, ignore_errors=True)

    monkeypatch.setattr(Log, "scalars", write_and_remove)
    code, output = run_training(
        tmp_path / "run",
        *(f"--config.data.source={photos}", "--config.data.cache_bytes=0"),
        *("--config.steps=100000", "--config.watch.log_every=1"),
    )
    assert code == 2, output
    assert "Traceback" not in output
    assert "train.py: the data cannot be read any more" in output
    last = read_metrics(tmp_path / "run")[-1]["step"]
    assert last in list_steps(tmp_path / "run" / "checkpoints")


def test_large_pages_are_asked_for_unless_somebody_has_set_them(project):
    """The program starts anew, once, with the same arguments."""
    code = (
        "import os, sys\n"
        "from sevnet_jax.training.command import use_huge_pages\n"
        "use_huge_pages()\n"
        "print(os.environ['GLIBC_TUNABLES'], sys.argv[1:])"
    )
    plain = {k: v for k, v in os.environ.items() if k != "GLIBC_TUNABLES"}
    for environment, expected in (
        (plain, "glibc.malloc.hugetlb=1"),
        ({**plain, "GLIBC_TUNABLES": ""}, ""),
    ):
        done = subprocess.run(
            [sys.executable, "-c", code, "--x", "a b"],
            cwd=project,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.stdout.strip() == f"{expected} ['--x', 'a b']".strip()


def test_a_run_without_its_checkpoints_is_not_begun_anew(run_training, tmp_path):
    flags = ("--config.steps=2", "--config.watch.log_every=1")
    assert run_training(tmp_path, *flags)[0] == 0
    shutil.rmtree(tmp_path / "checkpoints")
    names = ("config.json", "metrics.jsonl", "weights.safetensors")
    before = [(tmp_path / name).read_bytes() for name in names]
    code, output = run_training(tmp_path, *flags)
    assert code == 2, output
    (line,) = output.strip().splitlines()
    assert "has weights.safetensors and a log up to step 2, but no checkpoint" in line
    assert [(tmp_path / name).read_bytes() for name in names] == before
    (tmp_path / "weights.safetensors").unlink()  # as if stopped before the end
    assert "has a log up to step 2, but no" in run_training(tmp_path, *flags)[1]
