"""The small SEVNet for CPUs: 3.3 M parameters, 204 kMACs a pixel.

python eval.py equivariance --config configs/sevnet_s.py
"""

from ml_collections import ConfigDict


def get_config() -> ConfigDict:
    return ConfigDict({"model": {"name": "sevnet_s"}})
