"""The small SEVNet for CPUs, on drawn images unless a source is given.

python train.py --config configs/sevnet_s.py --workdir runs/s
python train.py --config configs/sevnet_s.py --config.source=FOLDER --workdir runs/s
"""

from ml_collections import ConfigDict

from sevnet_jax.training.recipe import SMALL, make_config


def get_config() -> ConfigDict:
    return make_config("sevnet_s", **SMALL)
