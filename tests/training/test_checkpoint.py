"""Checkpoints: whole or not there, verified, and the right ones kept."""

import logging
import shutil

import chex
import jax
import jax.numpy as jnp
import pytest

from sevnet_jax.training import checkpoint
from sevnet_jax.training.checkpoint import Checkpoints, find_fault, list_steps
from sevnet_jax.training.step import TrainState, empty_tally


def make_state(step: int) -> TrainState:
    params = {"kernel": jnp.arange(600.0).reshape(20, 30) * step}
    return TrainState(
        step=jnp.asarray(step, jnp.int32),
        params=params,
        optimizer=(jax.tree.map(jnp.ones_like, params),),
        average=None,
        tally=jax.tree.map(jnp.asarray, empty_tally()),
    )


@pytest.fixture
def open_checkpoints(tmp_path):
    opened = []

    def open_(*keep, scored_on=""):
        folder, keep = tmp_path / "checkpoints", keep or (3,)
        opened.append(Checkpoints(folder, *keep, scored_on=scored_on))
        return opened[-1]

    yield open_
    for checkpoints in opened:
        checkpoints.close()


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "checkpoints"


def save(checkpoints, *steps, scores=None):
    for step in steps:
        checkpoints.save(step, make_state(step), (scores or {}).get(step))
        checkpoints.wait()


def test_what_was_saved_comes_back(open_checkpoints):
    save(open_checkpoints(), 5, 7)
    restored = open_checkpoints().restore(make_state(0))
    chex.assert_trees_all_equal(restored, make_state(7))
    chex.assert_trees_all_equal_dtypes(restored, make_state(7))


def test_checkpoints_may_lie_elsewhere(open_checkpoints, folder, tmp_path):
    (tmp_path / "disk" / "mine").mkdir(parents=True)
    folder.symlink_to(tmp_path / "disk" / "mine")
    save(open_checkpoints(), 5)
    assert (tmp_path / checkpoint.SAVED).exists()
    assert [path.name for path in (tmp_path / "disk").iterdir()] == ["mine"]
    (folder / "5" / "manifest.json").unlink()
    with pytest.raises(ValueError, match="undamaged") as caught:
        open_checkpoints().restore(make_state(0))
    assert f"or delete {str(tmp_path)!r} to start over" in str(caught.value)


def test_nothing_comes_back_from_nothing(open_checkpoints):
    assert open_checkpoints().restore(make_state(0)) is None


def test_step_zero_is_a_checkpoint_too(open_checkpoints):
    save(open_checkpoints(), 0)
    assert open_checkpoints().restore(make_state(3)) is not None


def test_a_state_given_up_while_saving_is_saved_as_it_was(open_checkpoints):
    """The next step overwrites the buffers before the files are written."""
    checkpoints = open_checkpoints()
    state = make_state(3)
    expected = jax.tree.map(lambda a: a.copy(), state)
    checkpoints.save(3, state)
    spoil = jax.jit(lambda s: jax.tree.map(lambda a: a + 1, s), donate_argnums=0)
    jax.block_until_ready(spoil(state))
    checkpoints.wait()
    chex.assert_trees_all_equal(open_checkpoints().restore(make_state(0)), expected)


@pytest.mark.parametrize(
    ("keep_last", "keep_every", "kept"),
    [(1, 0, [6]), (2, 0, [5, 6]), (1, 2, [2, 4, 6]), (2, 3, [3, 5, 6])],
)
def test_the_last_and_every_so_many_are_kept(
    open_checkpoints, folder, keep_last, keep_every, kept
):
    save(open_checkpoints(keep_last, keep_every), *range(1, 7))
    assert list_steps(folder) == kept


def test_the_best_is_kept(open_checkpoints, folder):
    save(open_checkpoints(1), 1, 2, 3, 4, scores={1: 20.0, 2: 30.0, 3: 25.0})
    assert list_steps(folder) == [2, 4]


def test_scores_of_another_validation_are_not_compared(open_checkpoints, folder):
    save(open_checkpoints(1, scored_on="weak"), 1, 2, scores={1: 40.0, 2: 39.0})
    scores = {3: 20.0, 4: 21.0, 5: 19.0}
    save(open_checkpoints(1, scored_on="strong"), 3, 4, 5, 6, scores=scores)
    assert list_steps(folder) == [1, 4, 6]


def flip_a_bit(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def truncate(path):
    path.write_bytes(path.read_bytes()[:-1])


def delete(path):
    path.unlink()


def files_of(path):
    return sorted(p for p in path.rglob("*") if p.is_file())


@pytest.mark.parametrize("harm", [flip_a_bit, truncate, delete])
def test_harm_to_any_file_is_noticed(open_checkpoints, folder, tmp_path, harm):
    save(open_checkpoints(), 1)
    whole = folder / "1"
    assert find_fault(whole) is None
    for path in files_of(whole):
        if path.stat().st_size == 0:
            continue
        copy = tmp_path / "copy"
        shutil.copytree(whole, copy)
        harm(copy / path.relative_to(whole))
        assert find_fault(copy), f"{harm.__name__} {path.name}"
        shutil.rmtree(copy)


@pytest.mark.parametrize("text", ["[]", "{}", "3", '{"sha256": 1}'])
def test_a_manifest_of_anything_is_noticed(open_checkpoints, folder, text):
    save(open_checkpoints(), 1)
    (folder / "1" / "manifest.json").write_text(text)
    assert "manifest" in find_fault(folder / "1")


def test_a_changed_score_is_noticed(open_checkpoints, folder):
    save(open_checkpoints(), 1, scores={1: 20.0})
    path = folder / "1" / "manifest.json"
    path.write_text(path.read_text().replace("20.0", "99.0"))
    assert "manifest" in find_fault(folder / "1")


def test_a_file_too_many_is_noticed(open_checkpoints, folder):
    save(open_checkpoints(), 1)
    (folder / "1" / "state" / "extra").write_text("")
    assert "extra was added" in find_fault(folder / "1")


@pytest.mark.parametrize("harm", [flip_a_bit, truncate, delete])
def test_the_newest_good_one_is_used(open_checkpoints, folder, caplog, harm):
    save(open_checkpoints(), 1, 2, 3)
    harm(max(files_of(folder / "3" / "state"), key=lambda p: p.stat().st_size))
    with caplog.at_level(logging.WARNING, checkpoint.__name__):
        restored = open_checkpoints().restore(make_state(0))
    chex.assert_trees_all_equal(restored, make_state(2))
    assert sorted(p.name for p in folder.iterdir()) == ["1", "2", "3.damaged1"]
    assert len(caplog.messages) == 1
    assert "checkpoint 3 is damaged" in caplog.messages[0]


def test_a_bad_step_can_be_saved_anew_and_go_bad_again(open_checkpoints, folder):
    save(open_checkpoints(), 1)
    for count in (1, 2):
        save(open_checkpoints(), 2)
        truncate(folder / "2" / "manifest.json")
        assert int(open_checkpoints().restore(make_state(0)).step) == 1
        assert (folder / f"2.damaged{count}").is_dir()


def test_if_all_are_damaged_they_stay_and_are_named(open_checkpoints, folder):
    save(open_checkpoints(), 1, 2)
    for step in "12":
        truncate(folder / step / "manifest.json")
    with pytest.raises(
        ValueError, match=r"is undamaged \(step 2: its manifest .*step 1"
    ):
        open_checkpoints().restore(make_state(0))
    assert list_steps(folder) == [1, 2]


def test_what_was_being_saved_at_a_kill_is_not_used(open_checkpoints, folder):
    save(open_checkpoints(), 1, 2)
    (folder / "2").rename(folder / "2.part")
    assert int(open_checkpoints().restore(make_state(0)).step) == 1
    assert list_steps(folder) == [1]
    assert not (folder / "2.part").exists()


def test_a_failed_save_is_told_and_loses_nothing(open_checkpoints, monkeypatch):
    checkpoints = open_checkpoints()
    save(checkpoints, 1)

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "write_manifest", fail)
    checkpoints.save(2, make_state(2))
    with pytest.raises(OSError, match=r"could not save.*No space left"):
        checkpoints.wait()
    assert int(open_checkpoints().restore(make_state(0)).step) == 1


def test_a_checkpoint_of_another_model_is_refused(open_checkpoints, folder):
    save(open_checkpoints(), 1)
    other = make_state(0).replace(params={"kernel": jnp.zeros((20, 31))})
    with pytest.raises(ValueError, match="has another model or optimizer"):
        open_checkpoints().restore(other)
    assert list_steps(folder) == [1]
