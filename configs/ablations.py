"""A row of the paper's ablation table, at the paper's size or at smaller ones.

python train.py --config configs/ablations.py:2f --workdir runs/2f
python train.py --config configs/ablations.py:2f,sevnet_xs --config.data.source=FOLDER \
    --workdir runs/2f_xs
python train.py --config configs/ablations.py:2f_wrapped,sevnet_xs \
    --config.data.source=FOLDER --workdir runs/2f_w
python eval.py equivariance --config configs/ablations.py:2f,sevnet_s

The small sizes train on drawn images unless a source is given. studies/ablation/run.py
trains and scores all rows, one after the other.
"""

from ml_collections import ConfigDict

from studies.ablation.rows import make_ablation


def get_config(row: str = "1a") -> ConfigDict:
    row, _, preset = row.partition(",")
    return make_ablation(row, preset or "sevnet")
