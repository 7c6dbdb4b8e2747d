"""A row of the paper's ablation table, at the paper's size or at the small one.

python eval.py equivariance --config configs/ablations.py:2f
python eval.py equivariance --config configs/ablations.py:2f,sevnet_s
"""

from ml_collections import ConfigDict

from sevnet_jax.models import ABLATIONS


def get_config(row: str = "1a") -> ConfigDict:
    row, _, preset = row.partition(",")
    if row not in ABLATIONS:
        raise ValueError(f"unknown row {row!r}; choose from {', '.join(ABLATIONS)}")
    return ConfigDict({"model": {"name": preset or "sevnet", **ABLATIONS[row]}})
