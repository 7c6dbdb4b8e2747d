"""A row of the paper's ablation table, at the paper's size or at the small one.

python train.py --config configs/ablations.py:2f --workdir runs/2f
python train.py --config configs/ablations.py:2f,sevnet_s --workdir runs/2f_s
python eval.py equivariance --config configs/ablations.py:2f,sevnet_s
"""

from ml_collections import ConfigDict

from sevnet_jax.models import ABLATIONS
from sevnet_jax.training.recipe import SMALL, make_config


def get_config(row: str = "1a") -> ConfigDict:
    row, _, preset = row.partition(",")
    if row not in ABLATIONS:
        raise ValueError(f"unknown row {row!r}; choose from {', '.join(ABLATIONS)}")
    keys = SMALL if preset == "sevnet_s" else {"source": "tfds:div2k"}
    return make_config(preset or "sevnet", ABLATIONS[row], **keys)
