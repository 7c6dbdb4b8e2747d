"""A tiny network on drawn images, to check the installation. A minute, no data.

python train.py --config configs/smoke.py --workdir runs/smoke
"""

from ml_collections import ConfigDict

from sevnet_jax.training.recipe import make_config


def get_config() -> ConfigDict:
    return make_config(
        "sevnet_s",
        {"width": 8, "blocks": (1,), "bottleneck": 1},
        steps=40,
        data={"batch_size": 8, "patch_size": 32},
        optimizer={"learning_rate": 2e-3, "schedule": "cosine"},
        watch={
            "log_every": 10,
            "validate_every": 20,
            "images": 2,
            "size": 64,
            "checkpoint_every": 10,
        },
    )
