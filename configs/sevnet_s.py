"""The small SEVNet for CPUs, on drawn images unless a source is given.

python train.py --config configs/sevnet_s.py --workdir runs/s
python train.py --config configs/sevnet_s.py --config.source=FOLDER --workdir runs/s

On two CPU cores a run of 8000 steps took 1.2 hours, and on Kodak24 gave 32.85 dB at
gaussian 20 and 26.11 dB at speckle 90: docs/weights.md.
"""

from ml_collections import ConfigDict

from sevnet_jax.training.recipe import SMALL, make_config


def get_config() -> ConfigDict:
    return make_config("sevnet_s", **SMALL)
