"""The rows of the ablation: what each changes, and how it is trained."""

from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

from sevnet_jax.models import Network, NormalizationWrapper, SEVNet, create_model
from sevnet_jax.training.recipe import make_config

OURS = "1a"
# What each row of the paper's ablation table changes in row 1a.
ABLATIONS: Mapping[str, Mapping[str, str]] = {
    "1a": {},
    "1b": {"normalization": "cs"},
    "1c": {"normalization": "cs_half"},
    "1d": {"gate": "elu"},
    "1e": {"gate": "gelu"},
    "1f": {"normalization": "none", "gate": "elu"},
    "1g": {"normalization": "none", "gate": "gelu"},
    "1h": {"normalization": "hnm_scale_free"},
    "2a": {"gate": "none"},
    "2b": {"gate": "relu"},
    "2c": {"gate": "igm_single"},
    "2d": {"normalization": "layer_norm"},
    "2e": {"normalization": "layer_norm", "gate": "relu"},
    "2f": {"normalization": "layer_norm", "gate": "gelu"},
    "unscaled": {"gate": "igm_unscaled"},
    "pre_ln": {
        "pre_normalization": "layer_norm",
        "normalization": "none",
        "gate": "relu",
    },
}
DESCRIPTIONS = {
    "1a": "(ours)",
    "1b": "HNM -> CS",
    "1c": "CS, no NSM",
    "1d": "IGM -> ELU",
    "1e": "IGM -> GELU",
    "1f": "no HNM, ELU",
    "1g": "no HNM, GELU",
    "1h": "scale-free affine",
    "2a": "no IGM",
    "2b": "IGM -> ReLU",
    "2c": "single scaling",
    "2d": "HNM -> LN",
    "2e": "LN, ReLU",
    "2f": "LN, GELU",
    "unscaled": "IGM without scaling",
    "pre_ln": "LN before, ReLU",
    "unet_relu": "(baseline)",
    "1a_wrapped": "(ours)",
    "2f_wrapped": "LN, GELU",
    "1a_narrow": "ours, half as wide",
    "1a_stage1": "ours, trained on",
    "1a_stage2": "ours, trained on further",
    "1a_stage3": "ours, trained on furthest",
}
HOMOGENEOUS = ("1a", "1b", "1c", "2a", "2b", "2c", "unet_relu")  # by their blocks
BROKEN = (
    *("1d", "1e", "1f", "1g", "1h", "2d", "2e", "2f"),
    *("unscaled", "pre_ln"),
)
# Equally large, homogeneous, trained equally long: they tell what chance does. Wrapped,
# 1a is the same function.
REFERENCE = (*HOMOGENEOUS, "1a_wrapped")
DESIGN = ("normalization", "gate", "pre_normalization", "expansion")
# What small networks are trained with, equal for all rows; the smallest are within a
# quarter of an hour on two cores.
SMALL: Mapping[str, Any] = {
    "steps": 8000,
    "data": {"batch_size": 16, "patch_size": 48},
    "optimizer": {
        "learning_rate": 1.5e-3,
        "schedule": "cosine",
        "warmup_steps": 500,
        "clip_norm": 0.1,
    },
}
SMALLEST: Mapping[str, Any] = {
    "steps": 6000,
    "data": {**SMALL["data"], "batch_size": 8},
    "optimizer": {**SMALL["optimizer"], "warmup_steps": 300},
}
WRAPPED = "_wrapped"  # behind a row's name: in a NormalizationWrapper
BASELINES = {
    "sevnet": "unet_relu",
    "sevnet_s": "unet_relu_s",
    "sevnet_xs": "unet_relu_xs",
}


def make_ablation(row: str, preset: str = "sevnet", **keys) -> ConfigDict:
    """Returns the recipe of a row of the ablation, at a preset's size.

    Rows are those of ABLATIONS, the baseline unet_relu, and any of these
    with "_wrapped" behind it.
    """
    bare = row.removesuffix(WRAPPED)
    if bare == "unet_relu" and preset in BASELINES:
        preset, changes = BASELINES[preset], {}
    elif bare in ABLATIONS:
        changes = ABLATIONS[bare]
    else:
        raise ValueError(
            f"unknown row {row!r} of {preset}; choose from {', '.join(ABLATIONS)}, "
            f"unet_relu for {' and '.join(BASELINES)}, each also as ROW{WRAPPED}"
        )
    recipes = {"s": SMALL, "xs": SMALLEST}
    paper = {"data": {"source": "tfds:div2k"}}
    shared = recipes.get(preset.rpartition("_")[2], paper)
    config = make_config(preset, {**changes, "wrapped": row != bare}, **shared)
    config.update(keys)
    return config


def identify(model: Network) -> str:
    """Returns the row that a model is, at whatever size, or "other"."""
    if isinstance(model, NormalizationWrapper):
        row = f"{identify(model.inner)}_wrapped"
        return row if row in DESCRIPTIONS else "other"
    rows = {row: SEVNet(**changes) for row, changes in ABLATIONS.items()}
    rows["unet_relu"] = create_model("unet_relu")
    for row, known in rows.items():
        wanted = [getattr(known, field) for field in DESIGN]
        if [getattr(model, field, None) for field in DESIGN] == wanted:
            return row
    return "other"
