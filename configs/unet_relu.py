"""The paper's Baseline, a bias-free U-Net with ReLU: 32.6 M parameters.

python train.py --config configs/unet_relu.py --workdir runs/unet_relu
"""

from ml_collections import ConfigDict

from sevnet_jax.training.recipe import make_config


def get_config() -> ConfigDict:
    return make_config("unet_relu", data={"source": "tfds:div2k"})
