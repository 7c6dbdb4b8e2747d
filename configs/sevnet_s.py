"""The small SEVNet for CPUs, on drawn images unless a source is given, by stages.

python train.py --config configs/sevnet_s.py --config.data.source=FOLDER \
    --workdir runs/s
python train.py --config configs/sevnet_s.py:second --config.init_weights=runs/s \
    --config.data.source=FOLDER --workdir runs/s2

The first stage has many small patches, with which training soon leaves the plateau of
linear filters. The second has large patches, in which the network sees less border.
The stages wide and grey continue from its weights; wide_second, wide_third and
wide_fourth each from those of the one before; camera from those of wide_third,
camera_second from those of camera, grey_camera from those of grey:

python train.py --config configs/sevnet_s.py:wide --config.init_weights=runs/s2 \
    --config.data.source=FOLDER --workdir runs/wide

On two CPU cores, first took 1.2 hours and second 1.1: 32.85 and 33.16 dB on Kodak24 at
gaussian 20. The four parts of wide took 1.0, 1.7, 1.9 and 0.8 hours: 33.11, 33.17,
33.30 and 33.34 dB. camera and camera_second took 0.8 hours each: 37.87 and 37.93 dB on
PolyU. grey took 1.2 hours: 28.81 dB at sigma 25 on 12 images of CBSD68; grey_camera
0.5: 32.70 dB on 16 held-out crops under isp. docs/weights.md has all scores.
"""

from ml_collections import ConfigDict

from sevnet_jax.training.recipe import make_config

OPTIMIZER = {
    "schedule": "cosine",
    "clip_norm": 0.1,  # gradients have 0.01 to 0.02; at 1 and lr 2e-3 one run diverged
}
# With `decibels`, each level of the noise counts the same; gradients have 10 to 30.
DECIBELS = {**OPTIMIZER, "clip_norm": 20.0, "learning_rate": 7e-4, "warmup_steps": 200}
STAGES = {
    "first": {
        "steps": 8000,
        "data": {"batch_size": 16, "patch_size": 48, "downscale_probability": 0.2},
        "optimizer": {**OPTIMIZER, "learning_rate": 1.5e-3, "warmup_steps": 500},
    },
    "second": {
        "seed": 1,
        "steps": 3000,
        "data": {"batch_size": 6, "patch_size": 128, "downscale_probability": 0.2},
        "optimizer": {**OPTIMIZER, "learning_rate": 1e-3, "warmup_steps": 200},
    },
    # Weights for people: all levels of white noise, in colour and in grey.
    "wide": {
        "seed": 2,
        "steps": 2600,
        "data": {
            "noise": "gaussian:0-75",
            "batch_size": 6,
            "downscale_probability": 0.2,
        },
        "optimizer": {**OPTIMIZER, "learning_rate": 1e-3, "warmup_steps": 200},
    },
}
STAGES["wide_second"] = {**STAGES["wide"], "seed": 6, "steps": 4700}
# The levels that photos have most often come half again as often.
STAGES["wide_third"] = {
    **STAGES["wide"],
    "seed": 8,
    "steps": 10000,
    "data": {
        **STAGES["wide"]["data"],
        "noise": "one_of:gaussian:0-75+gaussian:0-75+gaussian:5-35",
    },
}
STAGES["wide_fourth"] = {**STAGES["wide_third"], "seed": 11, "steps": 7000}
STAGES["grey"] = {**STAGES["wide"], "seed": 3, "steps": 1900}
# Weights for noise that is not white: of cameras, JPEG files, enlarged images and film,
# with white noise and none among them, which they must do well on too.
NOT_WHITE = (
    "isp",
    "isp_wide",
    "isp_wide",
    "enlarged:isp",
    "enlarged:isp_wide",
    "jpeg:enlarged:isp_wide",
    "smoothed:isp",
    "jpeg:smoothed:isp_wide",
    "jpeg:enlarged:shared:0-50",
    "jpeg:gaussian:0-50",
    "shared:0-50",
    "gaussian:0-50",
    "gaussian:0",
)
STAGES["camera"] = {
    "seed": 9,
    "steps": 8000,
    "loss": "decibels",
    "data": {
        "noise": f"one_of:{'+'.join(NOT_WHITE)}",
        "batch_size": 6,
        # Half of the photos are soft, as those of cameras are at their full size.
        "downscale_probability": 0.2,
        "enlarge_probability": 0.5,
    },
    "optimizer": DECIBELS,
    "watch": {"noises": ("isp", "isp_wide", "jpeg:gaussian:20", "gaussian:0")},
}
STAGES["camera_second"] = {
    **STAGES["camera"],
    "seed": 13,
    "data": {
        **STAGES["camera"]["data"],
        "noise": f"one_of:{'+'.join((*NOT_WHITE, 'gaussian:0', 'gaussian:0-10'))}",
    },
}
STAGES["grey_camera"] = {**STAGES["camera"], "seed": 10, "steps": 3500}


def get_config(stage: str = "first") -> ConfigDict:
    if stage not in STAGES:
        raise ValueError(f"unknown stage {stage!r}; choose from {', '.join(STAGES)}")
    channels = 1 if stage.startswith("grey") else 3
    return make_config("sevnet_s", {"channels": channels}, **STAGES[stage])
