"""The paper's light SEVNet by its recipe: 16.4 M parameters, 200 000 steps.

python train.py --config configs/sevnet_lw.py --workdir runs/sevnet_lw
"""

from ml_collections import ConfigDict

from sevnet_jax.training.recipe import make_config


def get_config() -> ConfigDict:
    return make_config("sevnet_lw", data={"source": "tfds:div2k"})
