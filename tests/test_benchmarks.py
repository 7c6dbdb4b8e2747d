"""The benchmarks that train: a run that was stopped is not taken for a finished one."""

import types

import pytest

from benchmarks import dead_leaves


def test_no_training_starts_after_one_that_was_stopped(monkeypatch, tmp_path):
    started = []

    def train(recipe, workdir, **_):
        started.append(workdir.name)
        return types.SimpleNamespace(step=recipe.steps - 1)

    monkeypatch.setattr(dead_leaves, "train", train)
    folders = [f"--{name}={tmp_path}" for name in ("photos", "test", "workdir")]
    with pytest.raises(SystemExit, match="rerun the same command to resume"):
        dead_leaves.main(folders)
    assert started == ["photos"]
