import dataclasses

import pytest

from sevnet_jax.config import load_config
from sevnet_jax.models import ABLATIONS
from sevnet_jax.training.recipe import Recipe, from_mapping, make_config, to_config

PAPER = {  # SPEC section 5
    "batch_size": 4,
    "patch_size": 128,
    "noise": "gaussian:5-20",
    "steps": 200_000,
    "learning_rate": 2e-4,
    "schedule": "step",
    "decay_every": 0.2,
    "decay_factor": 0.5,
    "b1": 0.9,
    "b2": 0.999,
    "loss": "l1",
    "clip": False,
}


@pytest.mark.parametrize("name", ["sevnet", "sevnet_lw", "unet_relu"])
def test_presets_follow_the_paper(project, name):
    config = load_config(str(project / f"configs/{name}.py"))
    assert {key: config[key] for key in PAPER} == PAPER
    assert config.model.name == name


@pytest.mark.parametrize("preset", ["", ",sevnet_s"])
@pytest.mark.parametrize("row", ABLATIONS)
def test_every_ablation_row_is_a_recipe(project, row, preset):
    config = load_config(f"{project}/configs/ablations.py:{row}{preset}")
    model = from_mapping(config).build_model()
    for field, value in ABLATIONS[row].items():
        assert getattr(model, field) == value


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
    with pytest.raises(ValueError, match="'bach_size'; did you mean batch_size"):
        make_config("sevnet_s", bach_size=8)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"batch_size": 0}, "batch_size must be 1 or more, got 0"),
        ({"batch_size": "8"}, "batch_size must be like 4"),
        ({"clip": 1}, "clip must be like False"),
        ({"steps": True}, "steps must be like"),
        ({"learning_rate": -1.0}, "learning_rate must be positive"),
        ({"learning_rate": float("nan")}, "learning_rate must be positive"),
        ({"ema_decay": 1.0}, "ema_decay must be at least 0 and below 1"),
        ({"decay_every": 0.0}, "decay_every must be above 0"),
        ({"schedule": "linear"}, "unknown schedule 'linear'; choose from step"),
        ({"loss": "l3"}, "unknown loss 'l3'; choose from l1"),
        ({"noise": "salt"}, "noise 'salt' is not known"),
        ({"validation_noises": ("pepper",)}, "noise 'pepper' is not known"),
        ({"validation_noises": ()}, "validation_noises must name one"),
        ({"validation_noises": (1,)}, "validation_noises must be like"),
        ({"validation_size": 10}, "validation_size must be >= 11"),
        ({"accumulation": 3}, "not a multiple of accumulation 3"),
    ],
)
def test_wrong_values_are_named(keys, message):
    with pytest.raises(ValueError, match=message):
        make_config("sevnet_s", **keys)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"steps": 3}, "no model.name"),
        ({"model": 3}, "model must be"),
        (7, "a mapping"),
    ],
)
def test_what_is_no_config_is_refused(config, message):
    with pytest.raises(ValueError, match=message):
        from_mapping(config)


def test_every_number_is_checked():
    """No field can be set to NaN unnoticed."""
    for field in dataclasses.fields(Recipe):
        if isinstance(field.default, float):
            if field.name == "downscale_probability":
                continue  # checked by the pipeline's own config
            with pytest.raises(ValueError, match=field.name):
                make_config("sevnet_s", **{field.name: float("nan")})
