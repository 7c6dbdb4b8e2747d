"""All settings of a training run; by default the paper's, plus averaged weights."""

import dataclasses
import difflib
from collections.abc import Callable, Mapping
from typing import Any

from ml_collections import ConfigDict

from sevnet_jax import metrics
from sevnet_jax.config import build_model
from sevnet_jax.data import noise
from sevnet_jax.data.config import Data
from sevnet_jax.models import Network, NormalizationWrapper, create_model, layers
from sevnet_jax.models.base import list_fields
from sevnet_jax.training import losses

SCHEDULES = ("step", "cosine", "constant")
MAX_SEED = 2**31


@dataclasses.dataclass(frozen=True)
class Optimizer:
    """Adam, its learning rate over the run, and the average of the weights."""

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

    def __post_init__(self):
        for name in ("accumulation", "max_skipped"):
            _require(self, name, lambda v: v >= 1, "1 or more")
        for name in ("warmup_steps", "weight_decay", "clip_norm", "final_factor"):
            _require(self, name, lambda v: 0 <= v < float("inf"), "0 or more")
        _require(self, "learning_rate", lambda v: 0 < v < float("inf"), "positive")
        for name in ("b1", "b2", "ema_decay"):
            _require(self, name, lambda v: 0 <= v < 1, "at least 0 and below 1")
        for name in ("decay_every", "decay_factor"):
            _require(self, name, lambda v: 0 < v <= 1, "above 0 and at most 1")
        layers.choose(dict.fromkeys(SCHEDULES), self.schedule, "schedule")


@dataclasses.dataclass(frozen=True)
class Watch:
    """What is said, scored and kept on the way."""

    log_every: int = 100
    validate_every: int = 2000
    source: str = "dead_leaves:1"  # of images to score, other than those trained on
    noises: tuple[str, ...] = ("gaussian:20", "speckle:90", "mixture")
    images: int = 8
    size: int = 128
    checkpoint_every: int = 1000
    keep_last: int = 3
    keep_every: int = 0  # also every so many steps; 0: none

    def __post_init__(self):
        for name in ("log_every", "validate_every", "images", "checkpoint_every"):
            _require(self, name, lambda v: v >= 1, "1 or more")
        _require(self, "keep_last", lambda v: v >= 1, "1 or more")
        _require(self, "keep_every", lambda v: v >= 0, "0 or more")
        smallest = metrics.WINDOW_TAPS
        _require(self, "size", lambda v: v >= smallest, f">= {smallest}")
        if not self.noises:
            raise ValueError("noises must name at least one noise")
        for law in self.noises:
            noise.parse(law)


@dataclasses.dataclass(frozen=True)
class Recipe:
    """One training run. The defaults are the paper's, on drawn images."""

    # Name and fields, see `models.create_model`.
    model: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    data: Data = dataclasses.field(default_factory=Data)
    optimizer: Optimizer = dataclasses.field(default_factory=Optimizer)
    watch: Watch = dataclasses.field(default_factory=Watch)

    seed: int = 0  # of the weights and the data
    steps: int = 200_000
    epochs: int = 0  # if not 0, takes the place of `steps`
    loss: str = "l1"
    init_weights: str = ""  # a weights file to start from; empty: random weights
    denoiser: str = ""  # weights that stay as they are; the model translates for them
    noise_weight: float = 0.05  # with a denoiser: of the translated noise's distance
    spectrum_weight: float = 0.002  # from a white Gaussian, and of its spectrum's part

    def __post_init__(self):
        _require(self, "seed", lambda v: 0 <= v < MAX_SEED, f"0..{MAX_SEED - 1}")
        _require(self, "steps", lambda v: v >= 1, "1 or more")
        _require(self, "epochs", lambda v: v >= 0, "0 or more")
        for name in ("noise_weight", "spectrum_weight"):
            _require(self, name, lambda v: 0 <= v < float("inf"), "0 or more")
        layers.choose(losses.LOSSES, self.loss, "loss")
        parts = self.optimizer.accumulation
        if self.data.batch_size % parts:
            raise ValueError(
                f"data.batch_size {self.data.batch_size} is not a multiple of "
                f"optimizer.accumulation {parts}"
            )
        if self.denoiser and self.noise_weight and parts > 1:
            raise ValueError(
                "the distance of noise from white noise is one of the whole batch: "
                "with a denoiser, optimizer.accumulation must be 1, or noise_weight 0"
            )
        self.build_model()

    def build_model(self) -> Network:
        return build_model({"model": self.model})


SECTIONS = {"data": Data, "optimizer": Optimizer, "watch": Watch}
# Keys that had other names before recipes had sections.
_RENAMED = {
    "validation_every": "watch.validate_every",
    **{f"validation_{n}": f"watch.{n}" for n in ("source", "noises", "images", "size")},
}


def find_new_name(key: str) -> str | None:
    """Returns where a key of a flat config stands now; None if it is not known."""
    if key in _RENAMED:
        return _RENAMED[key]
    for section, kind in SECTIONS.items():
        if key in [field.name for field in dataclasses.fields(kind)]:
            return f"{section}.{key}"
    return None


def make_config(
    model: str, changes: Mapping[str, Any] | None = None, **keys: Any
) -> ConfigDict:
    """Returns the recipe as a ConfigDict, for the files in configs/.

    `changes` are fields of the model, `keys` are keys of the recipe; `data`,
    `optimizer` and `watch` are mappings.
    """
    built = create_model(model, **(changes or {}))
    wrapped = isinstance(built, NormalizationWrapper)
    network = built.inner if wrapped else built
    fields = {name: getattr(network, name) for name in list_fields(type(network))}
    fields["wrapped"] = (changes or {}).get("wrapped", False)
    return to_config(from_mapping({"model": {"name": model, **fields}, **keys}))


def to_config(recipe: Recipe) -> ConfigDict:
    """Returns the recipe with all its keys."""
    return ConfigDict(dataclasses.asdict(recipe))


def from_mapping(config: Mapping[str, Any]) -> Recipe:
    """Returns the recipe of a config; an unknown key is named with its neighbours."""
    if not isinstance(config, Mapping | ConfigDict):
        raise ValueError(f"a config is a mapping, got {type(config).__name__}")
    values = config.to_dict() if isinstance(config, ConfigDict) else dict(config)
    for section, kind in SECTIONS.items():
        if section in values:
            values[section] = _build(kind, values[section], f"{section}.")
    return _build(Recipe, values)


def _build(kind: type, values: Mapping[str, Any], prefix: str = "") -> Any:
    if not isinstance(values, Mapping):
        raise ValueError(f"{prefix[:-1]} is a mapping, got {values!r}")
    fields = {field.name: field for field in dataclasses.fields(kind)}
    checked = {}
    for key, value in values.items():
        if key not in fields:
            raise ValueError(_describe_unknown(key, prefix, [*fields]))
        checked[key] = tuple(value) if isinstance(value, list) else value
        if key not in SECTIONS:
            _check_type(prefix + key, fields[key], checked[key])
    try:
        return kind(**checked)
    except ValueError as error:
        raise ValueError(f"{prefix}{error}") from None


def _describe_unknown(key: str, prefix: str, known: list[str]) -> str:
    moved = None if prefix else find_new_name(key)
    if moved:
        return f"unknown key {key!r}; it is now {moved}"
    names = [prefix + name for name in known]
    if not prefix:
        names += [f"{s}.{f.name}" for s, kind in SECTIONS.items()
                  for f in dataclasses.fields(kind)]  # fmt: skip
    lasts = {name.rpartition(".")[2]: name for name in reversed(names)}
    near = difflib.get_close_matches(key, lasts, n=3)
    meant = [lasts[last] for last in near] or names
    return f"unknown key {prefix + key!r}; did you mean {', '.join(meant)}?"


def _check_type(name: str, field: dataclasses.Field, value: Any) -> None:
    default: Any = {} if name == "model" else field.default
    wanted = (int, float) if isinstance(default, float) else (type(default),)
    fits = isinstance(value, wanted) and isinstance(value, bool) <= (wanted == (bool,))
    if fits and isinstance(value, tuple):
        fits = all(type(item) is type(default[0]) for item in value)
    if not fits:
        raise ValueError(
            f"{name} must have the type of its default, {default!r}; got {value!r} "
            f"({type(value).__name__})"
        )


def _require(section: Any, name: str, holds: Callable, what: str) -> None:
    value = getattr(section, name)
    if not holds(value):
        raise ValueError(f"{name} must be {what}, got {value!r}")
