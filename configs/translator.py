"""A translator of camera noise for a frozen denoiser: the small one, or the paper's.

python train.py --config configs/translator.py --config.data.source=FOLDER \
    --workdir runs/t
python train.py --config configs/translator.py:second --config.init_weights=runs/t \
    --config.data.source=FOLDER --workdir runs/t2

The first stage learns from strong camera noise. The second learns from all levels of
camera noise, and from white noise and clean images, which it should leave alone.
docs/weights.md has the time and scores of both. The paper's translator:

python train.py --config configs/translator.py:sevnet --config.denoiser=FILE \
    --workdir runs/t_sevnet
"""

from ml_collections import ConfigDict

from sevnet_jax.training.recipe import make_config

OPTIMIZER = {"schedule": "cosine", "clip_norm": 0.1, "warmup_steps": 200}
DATA = {"downscale_probability": 0.5}
ANY = "one_of:isp_wide+isp_wide+isp_wide+isp+gaussian:0-50+gaussian:0-15+gaussian:0"
STAGES = {
    "first": {
        "steps": 4000,
        "data": {"noise": "isp", "batch_size": 8, "patch_size": 64, **DATA},
        "optimizer": {**OPTIMIZER, "learning_rate": 1e-3},
        "watch": {"noises": ("isp", "gaussian:20")},
    },
    "second": {
        "seed": 1,
        "steps": 2000,
        "data": {"noise": ANY, "batch_size": 6, "patch_size": 96, **DATA},
        "optimizer": {**OPTIMIZER, "learning_rate": 5e-4},
        "watch": {"noises": ("isp", "isp_wide", "gaussian:20", "gaussian:0")},
    },
}


def get_config(stage: str = "first") -> ConfigDict:
    if stage == "sevnet":  # 250 epochs of DIV2K, as the paper has it
        return make_config(
            "translator",
            denoiser="FILE",
            steps=50_000,
            data={"source": "tfds:div2k", "noise": "isp"},
            optimizer={"learning_rate": 1e-4},
            watch=STAGES["first"]["watch"],
        )
    if stage not in STAGES:
        raise ValueError(
            f"unknown stage {stage!r}; choose from {', '.join(STAGES)}, sevnet"
        )
    return make_config("translator_s", denoiser="sevnet_s", **STAGES[stage])
