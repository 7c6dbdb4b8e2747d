"""SEVNet at the paper's size and by its recipe: 31.3 M parameters, 200 000 steps.

python train.py --config configs/sevnet.py --workdir runs/sevnet
python train.py --config configs/sevnet.py --config.data.source=FOLDER \
    --workdir runs/sevnet
"""

from ml_collections import ConfigDict

from sevnet_jax.training.recipe import make_config


def get_config() -> ConfigDict:
    return make_config("sevnet", data={"source": "tfds:div2k"})
