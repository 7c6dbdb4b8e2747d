"""A translator of camera noise for a frozen denoiser: the small one, or the paper's.

python train.py --config configs/translator.py --config.data.source=FOLDER \
    --workdir runs/t

29 minutes on two CPU cores with other work beside; on PolyU 37.58 dB, the denoiser
alone 36.15 (docs/weights.md: the weights that ship). The paper's:

python train.py --config configs/translator.py:sevnet --config.denoiser=FILE \
    --workdir runs/t_sevnet
"""

from ml_collections import ConfigDict

from sevnet_jax.training.recipe import make_config

WATCH = {"noises": ("isp", "gaussian:20")}


def get_config(denoiser: str = "sevnet_s") -> ConfigDict:
    if denoiser == "sevnet_s":
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
                "warmup_steps": 200,
                "clip_norm": 0.1,
            },
            watch=WATCH,
        )
    if denoiser != "sevnet":
        raise ValueError(f"unknown denoiser {denoiser!r}; choose sevnet_s or sevnet")
    # 250 epochs of DIV2K, as the paper has it.
    return make_config(
        "translator",
        denoiser="FILE",
        steps=50_000,
        data={"source": "tfds:div2k", "noise": "isp"},
        optimizer={"learning_rate": 1e-4},
        watch=WATCH,
    )
