"""SEVNet at the paper's size: 31.3 M parameters, 158.9 GMACs at 256x256.

python eval.py equivariance --config configs/sevnet.py
"""

from ml_collections import ConfigDict


def get_config() -> ConfigDict:
    return ConfigDict({"model": {"name": "sevnet"}})
