"""A run goes on where it was broken off, and says all that its numbers depend on."""

import contextlib
import csv
import dataclasses
import io
import json
import math
import sys
import types

import numpy as np
import pytest
from PIL import Image

from sevnet_jax import config
from sevnet_jax.data import noise
from sevnet_jax.evaluation import methods, report, runs, scenes
from sevnet_jax.evaluation.methods import Method

NOISES = ("gaussian:20", "mixture")


class Counting:
    """A method that counts its calls and may fail at one of them."""

    def __init__(self, fail_at=None, factor=1.0):
        self.calls, self.fail_at, self.factor = 0, fail_at, np.float32(factor)

    def __call__(self, noisy, sigma):
        self.calls += 1
        if self.calls == self.fail_at:
            raise KeyboardInterrupt
        return noisy * self.factor

    def method(self):
        return Method("m", self, {"factor": float(self.factor)})


def run(photos, folder, counting, seed=0):
    found = scenes.from_folder(photos, NOISES, seed)
    return runs.run(found, [counting.method()], folder, seed)


def test_a_broken_run_goes_on_with_the_next_image(photos, tmp_path, capsys):
    whole = run(photos, tmp_path / "whole", Counting())
    with pytest.raises(KeyboardInterrupt):
        run(photos, tmp_path / "out", Counting(fail_at=4))
    again = Counting()
    resumed = run(photos, tmp_path / "out", again)
    assert again.calls == 2  # of four: one image was done
    assert resumed == whole
    assert "1 of 2 images were done already" in capsys.readouterr().err
    assert runs.describe(resumed) == runs.describe(whole)
    runs.write_files(resumed, tmp_path / "out", {"a.txt": "done"})
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["a.txt"]  # no trace


def test_nothing_is_lost_if_the_results_cannot_be_written(photos, tmp_path):
    result = run(photos, tmp_path / "out", Counting())
    (tmp_path / "out" / "table.txt").mkdir()
    with pytest.raises(OSError, match="directory"):
        runs.write_files(result, tmp_path / "out", {"table.txt": "text"})
    result.progress.close()
    again = Counting()
    run(photos, tmp_path / "out", again)
    assert again.calls == 0


def test_another_run_in_the_folder_does_no_harm(photos, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run(photos, tmp_path, Counting(fail_at=4))
    run(photos, tmp_path, Counting(factor=0.5)).progress.finish()
    again = Counting()
    run(photos, tmp_path, again)
    assert again.calls == 2


def test_the_same_run_twice_at_once_is_refused(photos, tmp_path):
    held = run(photos, tmp_path, Counting())
    with pytest.raises(ValueError, match="the same run is already active"):
        run(photos, tmp_path, Counting())
    held.progress.finish()


def test_an_image_that_changed_is_scored_again(photos, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run(photos, tmp_path, Counting(fail_at=4))
    pixels = np.zeros((16, 20, 3), np.uint8)
    Image.fromarray(pixels).save(photos / "a.png")
    again = Counting()
    run(photos, tmp_path, again)
    assert again.calls == 4


@pytest.mark.parametrize("changes", [{"factor": 0.5}, {"seed": 1}])
def test_what_another_run_left_is_not_used(photos, tmp_path, changes):
    with pytest.raises(KeyboardInterrupt):
        run(photos, tmp_path / "out", Counting(fail_at=4))
    again = Counting(factor=changes.get("factor", 1.0))
    run(photos, tmp_path / "out", again, changes.get("seed", 0))
    assert again.calls == 4


def test_parts_that_changed_are_scored_again(photos, tmp_path, monkeypatch):
    monkeypatch.setattr(noise, "FIXED", dict(noise.FIXED))
    for name in ("_loaded", "_owners"):
        monkeypatch.setattr(config, name, {})
    parts = tmp_path / "parts_of_this_test.py"
    parts.write_text("from sevnet_jax.data import noise\nnoise.FIXED['a'] = None")
    config.load_parts(parts)
    with pytest.raises(KeyboardInterrupt):
        run(photos, tmp_path / "out", Counting(fail_at=4))
    parts.write_text("from sevnet_jax.data import noise\nnoise.FIXED['a'] = 1")
    config.load_parts(parts)
    again = Counting()
    result = run(photos, tmp_path / "out", again)
    assert again.calls == 4
    assert parts.name in result.provenance["parts"]


def test_scores_of_another_version_of_the_code_are_not_used(
    photos, tmp_path, monkeypatch
):
    source = tmp_path / "package" / "inner" / "a.py"
    source.parent.mkdir(parents=True)
    source.write_text("1")
    monkeypatch.setattr(runs, "SOURCES", source.parents[1])

    def work(calls, **changes):
        runs._hash_file.cache_clear()  # as in another process
        counting = Counting(**changes)
        with contextlib.suppress(KeyboardInterrupt):
            run(photos, tmp_path / "out", counting).progress.close()
        assert counting.calls == calls

    work(4, fail_at=4)
    source.write_text("2")
    work(4, fail_at=4)
    work(2)


def test_what_is_edited_after_it_was_loaded_does_not_count(tmp_path, monkeypatch):
    source = tmp_path / "a.py"
    source.write_text("1")
    monkeypatch.setattr(runs, "SOURCES", tmp_path)
    (tmp_path / ".#a.py").symlink_to("lock of an editor")
    before = runs.hash_code()
    source.write_text("2")
    assert runs.hash_code() == before


def test_parts_of_a_users_method_that_changed_are_scored_again(
    photos, tmp_path, monkeypatch
):
    helper = tmp_path / "helper_of_this_test.py"
    helper.write_text("FACTOR = 1")
    (tmp_path / "mine_of_this_test.py").write_text(
        f"import {helper.stem}\ndef restore(noisy): return noisy"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    methods.open_classical("mine_of_this_test:restore")
    with pytest.raises(KeyboardInterrupt):
        run(photos, tmp_path / "out", Counting(fail_at=4))
    helper.write_text("FACTOR = 2")
    runs._hash_file.cache_clear()  # as in another process
    again = Counting()
    run(photos, tmp_path / "out", again)
    assert again.calls == 4


def test_scores_are_used_again_after_a_training_of_the_same_process(
    photos, tmp_path, monkeypatch
):
    """For its data, TensorFlow loads modules from files of random names."""
    with pytest.raises(KeyboardInterrupt):
        run(photos, tmp_path / "out", Counting(fail_at=4))
    file = tmp_path / "__autograph_generated_filex8k2.py"
    file.write_text("one = 1")
    module = types.ModuleType(file.stem)
    module.__file__ = str(file)
    monkeypatch.setitem(sys.modules, file.stem, module)
    again = Counting()
    run(photos, tmp_path / "out", again)
    assert again.calls == 2


def test_a_line_cut_short_by_a_kill_is_done_again(photos, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run(photos, tmp_path / "out", Counting(fail_at=4))
    (file,) = (tmp_path / "out").glob("*.jsonl")
    file.write_bytes(file.read_bytes()[:-9])
    again = Counting()
    resumed = run(photos, tmp_path / "out", again)
    assert again.calls == 4
    resumed.progress.close()
    assert resumed == run(
        photos, tmp_path / "out", Counting()
    )  # what was added is read


def test_skipped_images_are_named_and_counted(photos, tmp_path, capsys):
    (photos / "b.png").write_bytes(b"no image")
    result = run(photos, tmp_path, Counting())
    assert result.skipped == ("photos/b.png",)
    assert {score.image for score in result.scores} == {"a.png"}
    assert "skipped photos/b.png: cannot identify image" in capsys.readouterr().err
    assert runs.report_skipped(result) == 1
    result.progress.finish()
    (photos / "a.png").write_bytes(b"")
    with pytest.raises(ValueError, match="no image could be scored"):
        run(photos, tmp_path, Counting())


def test_one_set_given_twice_is_refused(photos, tmp_path):
    found = scenes.from_folder(photos, NOISES)
    with pytest.raises(ValueError, match="two sets are called 'photos'"):
        runs.run([*found, *found], [Counting().method()], tmp_path, 0)


def test_two_folders_of_one_name_are_not_averaged(photos, tmp_path):
    other = tmp_path / "other" / "photos"
    other.mkdir(parents=True)
    (photos / "b.png").rename(other / "b.png")
    found = [*scenes.from_folder(photos, NOISES), *scenes.from_folder(other, NOISES)]
    with pytest.raises(ValueError, match="two sets are called 'photos'"):
        runs.run(found, [Counting().method()], tmp_path, 0)


def test_csv_and_json_hold_every_score(photos, tmp_path):
    result = run(photos, tmp_path, Counting())
    values = {**result.scores[0].values, "psnr": math.nan}
    bad = dataclasses.replace(result.scores[0], values=values)
    result = dataclasses.replace(result, scores=(bad, *result.scores[1:]))
    rows = list(csv.DictReader(io.StringIO(runs.to_csv(result.scores))))
    assert [float(row["ssim"]) for row in rows] == [
        s.values["ssim"] for s in result.scores
    ]
    content = json.loads(report.format_json(runs.describe(result)))
    assert content["scores"][0]["psnr"] is None
    assert content["scores"][1]["psnr"] == result.scores[1].values["psnr"]
    assert content["methods"] == {"m": {"factor": 1.0}}
    assert content["protocol"] == "rgb8, whole images"
    assert "jax" in content["versions"]
    assert [mean["noise"] for mean in content["means"]] == list(NOISES)
