"""Whose folder it is."""

import json

import pytest
from flax import linen as nn

from sevnet_jax.models import Network, base
from sevnet_jax.training import workdir
from sevnet_jax.training.recipe import from_mapping, make_config
from sevnet_jax.training.workdir import check_fresh, claim, save_config


def recipe(**keys):
    return from_mapping(make_config("sevnet_s", keys.pop("model", None), **keys))


def test_the_resolved_config_is_saved(tmp_path):
    with claim(tmp_path / "new" / "run", recipe(steps=7), {}):
        save_config(tmp_path / "new" / "run", recipe(steps=7), {})
        saved = json.loads((tmp_path / "new" / "run" / "config.json").read_text())
    assert saved["steps"] == 7
    assert saved["model"]["width"] == 48
    assert saved["loss"] == "l1"


def test_a_foreign_folder_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("dear")
    with (
        pytest.raises(ValueError, match="contains other files"),
        claim(tmp_path, recipe(), {}),
    ):
        pass
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(ValueError, match="is a file"),
        claim(tmp_path / "file", recipe(), {}),
    ):
        pass


def test_the_second_run_is_refused(tmp_path):
    with (
        claim(tmp_path, recipe(), {}),
        pytest.raises(ValueError, match="another run uses"),
        claim(tmp_path, recipe(), {}),
    ):
        pass
    with claim(tmp_path, recipe(), {}):
        pass  # and after the first has ended, not


def test_another_config_is_refused_with_its_fields(tmp_path):
    with claim(tmp_path, recipe(steps=7), {}):
        save_config(tmp_path, recipe(steps=7), {})
    other = recipe(steps=8, model={"width": 16})
    with (
        pytest.raises(ValueError, match="steps was 7, now 8") as caught,
        claim(tmp_path, other, {}),
    ):
        pass
    assert "model.width was 48, now 16" in str(caught.value)
    assert "loss" not in str(caught.value)
    saved = json.loads((tmp_path / "config.json").read_text())
    assert saved["steps"] == 7
    with claim(tmp_path, other, {}, accept_changes=True):
        pass  # whoever has made sure that it can go on saves it
    assert json.loads((tmp_path / "config.json").read_text())["steps"] == 7


@pytest.mark.parametrize("text", ["{", "[1]", "null", '{"name": "npm"}'])
@pytest.mark.parametrize("accept", [False, True])
def test_a_config_that_is_not_ours_is_refused(tmp_path, text, accept):
    (tmp_path / "config.json").write_text(text)
    message = "is unreadable|is not the config of a run"
    with (
        pytest.raises(ValueError, match=message),
        claim(tmp_path, recipe(), {}, accept_changes=accept),
    ):
        pass


def test_what_a_kill_leaves_is_not_foreign(tmp_path):
    (tmp_path / ".config-abc.json").write_text("{")
    with claim(tmp_path, recipe(), {}):
        pass


def test_other_weights_under_the_same_name_are_noticed(tmp_path):
    with claim(tmp_path, recipe(), {"init_weights": "abc"}):
        save_config(tmp_path, recipe(), {"init_weights": "abc"})
    with (
        pytest.raises(ValueError, match=r"sha256\.init_weights was 'abc', now 'def'"),
        claim(tmp_path, recipe(), {"init_weights": "def"}),
    ):
        pass


def test_other_code_in_the_config_file_is_noticed(tmp_path):
    save_config(tmp_path, recipe(), {"config": "abc"})
    with (
        pytest.raises(ValueError, match=r"sha256\.config was 'abc', now 'def'"),
        claim(tmp_path, recipe(), {"config": "def"}),
    ):
        pass
    history = save_config(tmp_path, recipe(), {"config": "def"}, step=3)
    assert history == [{"step": 3, "before": {"sha256.config": "abc"}}]


@pytest.mark.parametrize("hashes", [({}, {"config": "a"}), ({"config": "a"}, {})])
def test_a_run_without_the_hash_of_its_file_goes_on(tmp_path, hashes):
    before, now = hashes
    save_config(tmp_path, recipe(), before)
    with claim(tmp_path, recipe(), now):
        assert save_config(tmp_path, recipe(), now, step=3) == []


@pytest.mark.parametrize(
    ("kept", "words"),
    [
        (".saved", "has a log up to step 7, but no checkpoint any more"),
        ("weights.safetensors", r"has weights\.safetensors and a log up to step 7"),
    ],
)
def test_a_run_that_has_lost_its_checkpoints_is_refused(tmp_path, kept, words):
    save_config(tmp_path, recipe(), {})
    (tmp_path / "metrics.jsonl").write_text('{"step": 7}\n')
    check_fresh(tmp_path)  # killed before its first one
    (tmp_path / kept).touch()
    with pytest.raises(ValueError, match=words):
        check_fresh(tmp_path)


def test_a_folder_that_was_emptied_but_for_hidden_files_is_a_new_one(tmp_path):
    (tmp_path / ".saved").touch()
    with claim(tmp_path, recipe(), {}):
        check_fresh(tmp_path)
        save_config(tmp_path, recipe(), {})
        check_fresh(tmp_path)


@pytest.mark.parametrize(
    ("name", "before", "now"),
    [("clip_norm", 0.0, 0.5), ("weight_decay", 0.0, 0.5), ("ema_decay", 0.999, 0.0)],
)
def test_what_a_checkpoint_cannot_go_on_with_is_refused(tmp_path, name, before, now):
    save_config(tmp_path, recipe(), {"init_weights": "abc"})
    clipped = recipe(optimizer={name: now})
    with claim(tmp_path, clipped, {"init_weights": "def"}, accept_changes=True):
        pass  # nothing is lost yet
    (tmp_path / "checkpoints" / "3").mkdir(parents=True)
    words = rf"cannot go on with this: optimizer\.{name} was {before}, now {now}"
    for accept in (False, True):
        with (
            pytest.raises(ValueError, match=words) as caught,
            claim(tmp_path, clipped, {"init_weights": "def"}, accept_changes=accept),
        ):
            pass
        assert "sha256.init_weights was 'abc', now 'def'" in str(caught.value)
        assert "--accept_changes" not in str(caught.value)
    slower = recipe(optimizer={"learning_rate": 1e-5})
    with claim(tmp_path, slower, {"init_weights": "abc"}, accept_changes=True):
        pass


def test_a_start_that_is_cut_off_between_two_files_leaves_a_folder_to_go_on_in(
    tmp_path, monkeypatch
):
    whole, written = workdir._write, []

    def fail(path, content):
        if written:
            raise OSError("no space left")
        written.append(path)
        whole(path, content)

    monkeypatch.setattr(workdir, "_write", fail)
    start = {"sha256": "abc", "step": 3}
    with pytest.raises(OSError, match="no space"):
        save_config(tmp_path, recipe(), {"init_weights": "abc"}, start=start)
    with claim(tmp_path, recipe(), {"init_weights": "abc"}):
        pass


def test_a_field_that_no_file_can_hold_is_named_first(tmp_path, monkeypatch):
    class Plain(Network):
        act: object = nn.relu

    monkeypatch.setattr(base, "_PRESETS", dict(base._PRESETS))
    base.register("plain", Plain)
    plain = from_mapping(make_config("plain"))
    with (
        pytest.raises(
            ValueError, match=r"model\.act must be a number, .* got .*custom_jvp"
        ),
        claim(tmp_path / "run", plain, {}),
    ):
        pass
    assert not (tmp_path / "run").exists()
