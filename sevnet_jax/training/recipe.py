"""How to train: every key of a config; by default the paper's, and averaged weights."""

import dataclasses
import difflib
from collections.abc import Callable, Mapping
from typing import Any

from ml_collections import ConfigDict

from sevnet_jax.config import build_model
from sevnet_jax.data import noise, sources
from sevnet_jax.evaluation import metrics
from sevnet_jax.models import (
    ABLATIONS,
    NormalizationWrapper,
    SEVNet,
    create_model,
    layers,
)
from sevnet_jax.training import losses

SCHEDULES = ("step", "cosine", "constant")


@dataclasses.dataclass(frozen=True)
class Recipe:
    """One training run. The defaults are the paper's, on drawn images."""

    # Name and fields, see `models.create_model`.
    model: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    # Data; see data/pipeline.py.
    source: str = "dead_leaves"  # folder, tfds:NAME, dead_leaves, or "A=3,B=1"
    noise: str = "gaussian:5-20"
    batch_size: int = 4  # over all devices
    patch_size: int = 128
    clip: bool = False
    downscale_probability: float = 0.0
    downscale_factors: tuple[int, ...] = (2,)
    cache_bytes: int = sources.CACHE_BYTES
    seed: int = 0  # of the weights and the data

    # Optimisation.
    init_weights: str = ""  # a weights file to start from; empty: random weights
    init_sha256: str = ""  # which ones they are; filled in by the run, as the next one
    denoiser_sha256: str = ""
    steps: int = 200_000
    epochs: int = 0  # if not 0, takes the place of `steps`
    loss: str = "l1"
    denoiser: str = ""  # weights that stay as they are; the model translates for them
    noise_weight: float = 0.05  # with a denoiser: of the translated noise's distance
    spectrum_weight: float = 0.002  # from a white Gaussian, and of its spectrum's part
    learning_rate: float = 2e-4
    schedule: str = "step"
    warmup_steps: int = 0  # linear, from 0
    decay_every: float = 0.2  # "step": part of the run after which the rate is
    decay_factor: float = 0.5  # multiplied by this
    final_factor: float = 0.01  # "cosine": where the rate ends, of its peak
    b1: float = 0.9
    b2: float = 0.999
    weight_decay: float = 0.0  # decoupled from the gradient
    clip_norm: float = 0.0  # of the whole gradient; 0: as it is
    accumulation: int = 1  # parts of a batch that follow one another, to save memory
    ema_decay: float = 0.999  # of the averaged weights that are kept; 0: no average
    max_skipped: int = 20  # steps without a finite gradient in a row that end the run

    # What is watched and kept.
    log_every: int = 100
    validation_every: int = 2000
    validation_source: str = "dead_leaves:1"
    validation_noises: tuple[str, ...] = ("gaussian:20", "speckle:90", "mixture")
    validation_images: int = 8
    validation_size: int = 128
    checkpoint_every: int = 1000
    keep_last: int = 3
    keep_every: int = 0  # also every so many steps; 0: none

    def __post_init__(self):
        for name in _WHOLE_POSITIVE:
            _require(self, name, lambda v: v >= 1, "1 or more")
        for name in ("epochs", "warmup_steps", "keep_every", "weight_decay"):
            _require(self, name, lambda v: v >= 0, "0 or more")
        _require(self, "learning_rate", lambda v: 0 < v < float("inf"), "positive")
        for name in ("clip_norm", "final_factor", "noise_weight", "spectrum_weight"):
            _require(self, name, lambda v: 0 <= v < float("inf"), "0 or more")
        for name in ("b1", "b2", "ema_decay"):
            _require(self, name, lambda v: 0 <= v < 1, "at least 0 and below 1")
        for name in ("decay_every", "decay_factor"):
            _require(self, name, lambda v: 0 < v <= 1, "above 0 and at most 1")
        if self.batch_size % self.accumulation:
            raise ValueError(
                f"batch_size {self.batch_size} is not a multiple of accumulation "
                f"{self.accumulation}"
            )
        if not self.validation_noises:
            raise ValueError("validation_noises must name one noise or more")
        smallest = metrics.WINDOW_TAPS
        _require(self, "validation_size", lambda v: v >= smallest, f">= {smallest}")
        layers.choose(dict.fromkeys(SCHEDULES), self.schedule, "schedule")
        layers.choose(losses.LOSSES, self.loss, "loss")
        for law in (self.noise, *self.validation_noises):
            noise.parse(law)
        self.build_model()

    def build_model(self) -> SEVNet | NormalizationWrapper:
        return build_model({"model": self.model})


_WHOLE_POSITIVE = (
    "batch_size",
    "patch_size",
    "steps",
    "accumulation",
    "max_skipped",
    "log_every",
    "validation_every",
    "validation_images",
    "validation_size",
    "checkpoint_every",
    "keep_last",
)


# What the small network is trained with, to be equal for all rows of an ablation.
SMALL: Mapping[str, Any] = {
    "batch_size": 16,
    "patch_size": 48,
    "steps": 8000,
    "learning_rate": 1.5e-3,
    "schedule": "cosine",
    "warmup_steps": 500,
    "clip_norm": 0.1,  # gradients have 0.01 to 0.02; at 1 and lr 2e-3 one run diverged
}
# All rows of the ablation, each with the same: a quarter of an hour on two cores.
SMALLEST: Mapping[str, Any] = {
    **SMALL,
    "batch_size": 8,
    "steps": 6000,
    "warmup_steps": 300,
}
WRAPPED = "_wrapped"  # behind a row's name: in a NormalizationWrapper
BASELINES = {
    "sevnet": "unet_relu",
    "sevnet_s": "unet_relu_s",
    "sevnet_xs": "unet_relu_xs",
}


def make_config(model: str, changes: Mapping[str, Any] | None = None, **keys):
    """Returns the recipe as a ConfigDict, for the files in configs/.

    `changes` are fields of the model, `keys` are keys of the recipe.
    """
    built = create_model(model, **(changes or {}))
    wrapped = isinstance(built, NormalizationWrapper)
    network = built.inner if wrapped else built
    fields = {
        field.name: getattr(network, field.name)
        for field in dataclasses.fields(network)
        if field.name not in ("parent", "name")
    }
    fields["wrapped"] = wrapped
    return to_config(from_mapping({"model": {"name": model, **fields}, **keys}))


def make_ablation(row: str, preset: str = "sevnet", **keys) -> ConfigDict:
    """Returns the recipe of a row of the ablation, at a preset's size.

    Rows are those of `models.ABLATIONS`, the baseline unet_relu, and any of these
    with "_wrapped" behind it.
    """
    bare = row.removesuffix(WRAPPED)
    if bare == "unet_relu" and preset in BASELINES:
        preset, changes = BASELINES[preset], {}
    elif bare in ABLATIONS:
        changes = ABLATIONS[bare]
    else:
        raise ValueError(
            f"unknown row {row!r} of {preset}; choose from {', '.join(ABLATIONS)}, "
            f"unet_relu for {' and '.join(BASELINES)}, each also as ROW{WRAPPED}"
        )
    recipes = {"s": SMALL, "xs": SMALLEST}
    shared = recipes.get(preset.rpartition("_")[2], {"source": "tfds:div2k"})
    return make_config(
        preset, {**changes, "wrapped": row != bare}, **{**shared, **keys}
    )


def to_config(recipe: Recipe) -> ConfigDict:
    """Returns the recipe with all its keys."""
    return ConfigDict(dataclasses.asdict(recipe))


def from_mapping(config: Mapping[str, Any]) -> Recipe:
    """Returns the recipe of a config; an unknown key is named with its neighbours."""
    known = [field.name for field in dataclasses.fields(Recipe)]
    if not isinstance(config, Mapping | ConfigDict):
        raise ValueError(f"a config is a mapping, got {type(config).__name__}")
    values = config.to_dict() if isinstance(config, ConfigDict) else dict(config)
    for key in values:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=3) or known
            raise ValueError(f"unknown key {key!r}; did you mean {', '.join(near)}?")
    for field in dataclasses.fields(Recipe):
        if field.name in values:
            if isinstance(values[field.name], list):
                values[field.name] = tuple(values[field.name])
            _check_type(field, values[field.name])
    return Recipe(**values)


def _check_type(field: dataclasses.Field, value: Any) -> None:
    default = {} if field.name == "model" else field.default
    wanted = (int, float) if isinstance(default, float) else (type(default),)
    fits = isinstance(value, wanted) and isinstance(value, bool) <= (wanted == (bool,))
    if fits and isinstance(value, tuple):
        fits = all(type(item) is type(default[0]) for item in value)
    if not fits:
        raise ValueError(
            f"{field.name} must be like {default!r}, got {value!r} "
            f"({type(value).__name__})"
        )


def _require(recipe: Recipe, name: str, holds: Callable, what: str) -> None:
    value = getattr(recipe, name)
    if not holds(value):
        raise ValueError(f"{name} must be {what}, got {value!r}")
