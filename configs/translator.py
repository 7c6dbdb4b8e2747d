"""A translator of camera noise for a frozen denoiser: the small one, or the paper's.

python train.py --config configs/translator.py --config.data.source=FOLDER \
    --workdir runs/t
python train.py --config configs/translator.py:sevnet --config.denoiser=FILE \
    --workdir runs/t_sevnet

docs/weights.md has the time and scores of the small one.
"""

from ml_collections import ConfigDict

from sevnet_jax.training.recipe import make_config

WATCH = {"noises": ("isp", "gaussian:20")}


def get_config(size: str = "small") -> ConfigDict:
    if size == "small":
        return make_config(
            "translator_s",
            denoiser="sevnet_s",
            steps=4000,
            data={
                "noise": "isp",
                "batch_size": 8,
                "patch_size": 64,
                "downscale_probability": 0.5,
            },
            optimizer={
                "learning_rate": 1e-3,
                "schedule": "cosine",
                "clip_norm": 0.1,
                "warmup_steps": 200,
            },
            watch=WATCH,
        )
    if size == "sevnet":  # 250 epochs of DIV2K, as the paper has it
        return make_config(
            "translator",
            denoiser="FILE",
            steps=50_000,
            data={"source": "tfds:div2k", "noise": "isp"},
            optimizer={"learning_rate": 1e-4},
            watch=WATCH,
        )
    raise ValueError(f"unknown size {size!r}; choose from small, sevnet")
