import dataclasses

import pytest

from sevnet_jax.config import load_config
from sevnet_jax.training.command import change
from sevnet_jax.training.recipe import (
    SECTIONS,
    Recipe,
    from_mapping,
    make_config,
    to_config,
)
from studies.ablation.rows import ABLATIONS

PAPER = {  # the paper's settings
    "data": {
        "batch_size": 4,
        "patch_size": 128,
        "noise": "gaussian:5-20",
        "clip": False,
    },
    "optimizer": {
        "learning_rate": 2e-4,
        "schedule": "step",
        "decay_every": 0.2,
        "decay_factor": 0.5,
        "b1": 0.9,
        "b2": 0.999,
    },
}


@pytest.mark.parametrize("name", ["sevnet", "sevnet_lw", "unet_relu"])
def test_presets_follow_the_paper(project, name):
    config = load_config(str(project / f"configs/{name}.py"))
    for section, values in PAPER.items():
        assert {key: config[section][key] for key in values} == values
    assert (config.steps, config.loss) == (200_000, "l1")
    assert config.model.name == name


@pytest.mark.parametrize("row", ABLATIONS)
def test_every_ablation_row_is_a_recipe(project, row):
    """What it builds is tested beside the configs."""
    config = load_config(f"{project}/configs/ablations.py:{row}")
    assert to_config(from_mapping(config)).to_dict() == config.to_dict()


def test_small_rows_are_trained_alike(project):
    configs = [
        load_config(f"{project}/configs/ablations.py:{row},sevnet_s").to_dict()
        for row in ABLATIONS
    ]
    for config in configs:
        config.pop("model")
    assert all(config == configs[0] for config in configs)


def test_config_and_recipe_are_the_same():
    recipe = from_mapping(make_config("sevnet_s", {"width": 8}, steps=7))
    assert from_mapping(to_config(recipe)) == recipe
    assert recipe.steps == 7
    assert recipe.build_model().width == 8


def test_unknown_key_is_named_with_its_neighbour():
    with pytest.raises(ValueError, match=r"'stps'; did you mean steps"):
        make_config("sevnet_s", stps=8)
    with pytest.raises(ValueError, match=r"'data.bach_size'; did you mean data.batch"):
        make_config("sevnet_s", data={"bach_size": 8})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("batch_size", "data.batch_size"),
        ("learning_rate", "optimizer.learning_rate"),
        ("validation_size", "watch.size"),
        ("validation_every", "watch.validate_every"),
    ],
)
def test_flat_keys_are_answered_with_their_new_names(old, new):
    with pytest.raises(ValueError, match=f"unknown key '{old}'; it is now {new}"):
        make_config("sevnet_s", **{old: 8})


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"data": {"batch_size": 0}}, r"data.batch_size must be 1..1048576, got 0"),
        (
            {"data": {"batch_size": "8"}},
            "data.batch_size must have the type of its default, 4",
        ),
        ({"data": {"clip": 1}}, "data.clip must have the type of its default, False"),
        ({"data": {"noise": "salt"}}, "unknown noise 'salt'"),
        ({"data": 3}, "data is a mapping, got 3"),
        ({"steps": True}, "steps must have the type"),
        ({"seed": -1}, "seed must be 0.."),
        ({"optimizer": {"learning_rate": -1.0}}, "learning_rate must be positive"),
        ({"optimizer": {"ema_decay": 1.0}}, "ema_decay must be at least 0 and below 1"),
        ({"optimizer": {"decay_every": 0.0}}, "decay_every must be above 0"),
        ({"optimizer": {"schedule": "linear"}}, "unknown schedule 'linear'; choose"),
        ({"optimizer": {"accumulation": 3}}, "multiple of optimizer.accumulation 3"),
        ({"loss": "l3"}, "unknown loss 'l3'; choose from l1"),
        ({"watch": {"noises": ("pepper",)}}, "unknown noise 'pepper'"),
        ({"watch": {"noises": ()}}, "watch.noises must name at least one"),
        ({"watch": {"noises": (1,)}}, "watch.noises must have the type"),
        ({"watch": {"size": 10}}, "watch.size must be >= 11"),
    ],
)
def test_wrong_values_are_named(keys, message):
    with pytest.raises(ValueError, match=message):
        make_config("sevnet_s", **keys)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"steps": 3}, "no model.name"),
        ({"model": 3}, "model must have"),
        (7, "a mapping"),
    ],
)
def test_what_is_no_config_is_refused(config, message):
    with pytest.raises(ValueError, match=message):
        from_mapping(config)


@pytest.mark.parametrize("section", ["", *SECTIONS])
def test_every_number_is_checked(section):
    """No field can be set to NaN unnoticed."""
    for field in dataclasses.fields(SECTIONS.get(section, Recipe)):
        if isinstance(field.default, float):
            keys = {field.name: float("nan")}
            with pytest.raises(ValueError, match=field.name):
                make_config("sevnet_s", **({section: keys} if section else keys))


def test_each_default_is_said_once():
    """A key of the recipe stands in one section only."""
    names = [f.name for kind in (Recipe, *SECTIONS.values())
             for f in dataclasses.fields(kind) if f.name != "source"]  # fmt: skip
    assert len(names) == len(set(names))


def test_another_model_has_its_own_fields():
    config = make_config("sevnet_s").to_dict()
    change(config, {"model.name": "unet_relu_s", "model.blocks": "(1, 1)"})
    assert config["model"] == {"name": "unet_relu_s", "blocks": (1, 1)}
    config = make_config("sevnet_s").to_dict()
    change(config, {"model.name": "sevnet_s", "model.width": "32"})
    assert config["model"]["width"] == 32
    assert "blocks" in config["model"]


def test_fields_that_another_model_drops_are_named(caplog):
    caplog.set_level("INFO")
    grey = {"channels": 1, "width": 8, "wrapped": True}
    config = make_config("sevnet_s", grey).to_dict()
    change(config, {"model.name": "sevnet_lw", "model.width": "16"})
    dropped = "dropped: centre='none', channels=1, wrapped=True"
    assert caplog.messages == [f"model.name is now sevnet_lw; {dropped}"]
    caplog.clear()
    change(make_config("sevnet_s").to_dict(), {"model.name": "sevnet_lw"})
    assert not caplog.messages


def test_a_translator_is_not_trained_in_parts():
    changes = {"optimizer": {"accumulation": 2}, "denoiser": "sevnet_s"}
    with pytest.raises(ValueError, match="accumulation must be 1"):
        make_config("sevnet_s", **changes)
    make_config("sevnet_s", **changes, noise_weight=0.0)
