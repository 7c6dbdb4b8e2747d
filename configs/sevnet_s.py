"""The small SEVNet for CPUs, on drawn images unless a source is given, in two stages.

python train.py --config configs/sevnet_s.py --config.source=FOLDER --workdir runs/s
python train.py --config configs/sevnet_s.py:second --config.init_weights=runs/s \
    --config.source=FOLDER --workdir runs/s2

Small patches first, since many of them leave the plateau of linear filters soon; then
large ones, which the network sees more of than of their borders. What both stages took
and gave: docs/weights.md.
"""

from ml_collections import ConfigDict

from sevnet_jax.training.recipe import SMALL, make_config

# Of the bundled weights: a fifth of the patches at half size.
SHARED = {**SMALL, "downscale_probability": 0.2}
SECOND = {
    "seed": 1,
    "batch_size": 6,
    "patch_size": 128,
    "steps": 3000,
    "learning_rate": 1e-3,
    "warmup_steps": 200,
}


def get_config(stage: str = "first") -> ConfigDict:
    stages = {"first": {}, "second": SECOND}
    if stage not in stages:
        raise ValueError(f"unknown stage {stage!r}; choose from {', '.join(stages)}")
    return make_config("sevnet_s", **{**SHARED, **stages[stage]})
