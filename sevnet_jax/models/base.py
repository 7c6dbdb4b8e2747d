"""The contract that all networks follow, and the registry of their names.

A network is a Flax module from [B, H, W, C] to [B, H, W, C], for any H and W. It has
the properties of `Network`, whose defaults are safe for every network:

    class Blur(Network):
        reach = 1

        @nn.compact
        def __call__(self, x):
            return nn.Conv(x.shape[-1], (3, 3), use_bias=False)(x)

    register("blur", Blur)
"""

import dataclasses
import difflib
import math
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jax import Array

from sevnet_jax.models import ops


class Network(nn.Module):
    """The contract: data pipeline, training, tiles, tables and files rely on it."""

    @property
    def channels(self) -> int:
        """Channels of the images, in and out. Mostly a field of the module."""
        return 3

    @property
    def multiple(self) -> int:
        """What heights and widths are padded to multiples of, inside the network.

        At the bottom and right, by `ops.pad_to_multiple`: a network with a finite reach
        must pad so, or have 1 here, for its tiles to equal the whole.
        """
        return 1

    @property
    def reach(self) -> int | None:
        """How many pixels around an aligned block its output depends on.

        Aligned: the block lies on multiples of `multiple`, as this number does. None:
        it depends on the whole image, which then cannot be cut into tiles.
        """
        return None

    @property
    def told(self) -> tuple[str, ...]:
        """What a tile must know of its whole image: "centre", or that and "spread".

        The centre is the mean over all pixels and channels, the spread their standard
        deviation.
        """
        return ()

    @property
    def keeps_the_law(self) -> bool:
        """Whether f(kx) = k f(x) for k > 0; if not, black must be 0 and white 1."""
        return False

    def restore_tile(self, x: Array) -> Array:  # [B, H, W, C] -> [B, H, W, C]
        """Restores a tile whose values are already freed of centre and spread."""
        check_tiles(self)
        return self(x)

    def with_fields(self, **fields: Any) -> Self:
        """Returns the same network with other fields."""
        check_fields(type(self), fields)
        network = self.clone(**_freeze(fields))
        _check_values(network)
        return network

    def check_input(self, x: Array) -> None:
        """Raises ValueError unless `x` is a batch of images for this network."""
        ops.check_images(x)
        if x.shape[-1] != self.channels:
            raise ValueError(
                f"this model takes {self.channels} channels last, got {x.shape}; set "
                f"channels={x.shape[-1]} or move the channel axis"
            )


@dataclasses.dataclass(frozen=True)
class Preset:
    """A named network: its class, some of its fields, and its family."""

    network: type[Network]
    family: str
    fields: Mapping[str, Any]


_PRESETS: dict[str, Preset] = {}


def register(
    name: str, network: type[Network], family: str | None = None, **fields: Any
) -> None:
    """Makes a class of networks, with some fields set, known by a name."""
    check_fields(network, fields)
    family = family or network.__name__.lower()
    _PRESETS[name] = Preset(network, family, fields)


def list_models(family: str | None = None) -> list[str]:
    """Returns the names that `create_model` knows, all or those of one family."""
    families = {preset.family for preset in _PRESETS.values()}
    if family is not None and family not in families:
        raise ValueError(
            f"unknown family {family!r}; choose from {', '.join(sorted(families))}"
        )
    return sorted(
        name
        for name, preset in _PRESETS.items()
        if family is None or preset.family == family
    )


def create_model(
    name: str, *, wrapped: bool | Sequence[float] = False, **changes: Any
) -> Network:
    """Returns the network `name` with some fields changed, for example `channels=1`.

    `wrapped` puts it into a NormalizationWrapper, which centres in its place; two
    numbers are the mean and the deviation that the wrapper gives to its images.
    """
    from sevnet_jax.models.wrapper import NormalizationWrapper  # which is a Network

    if name not in list_models():
        raise ValueError(
            f"unknown model {name!r}; choose from {', '.join(list_models())}"
        )
    preset = _PRESETS[name]
    check_fields(preset.network, changes)
    fields = {**preset.fields, **_freeze(changes)}
    if wrapped and "centre" in list_fields(preset.network):
        fields = {"centre": "none", **fields}
    network = preset.network(**fields)
    _check_values(network)
    return NormalizationWrapper(network, *_read_units(wrapped)) if wrapped else network


def _read_units(wrapped: bool | Sequence[float]) -> tuple[float, float]:
    """The mean and the deviation of the images that a wrapper gives to its network."""
    if wrapped is True:
        return 0.0, 1.0
    try:
        mean, deviation = map(float, wrapped)  # type: ignore[arg-type]
        if math.isfinite(mean) and 0 < deviation < math.inf:
            return mean, deviation
    except (TypeError, ValueError):
        pass
    raise ValueError(
        "wrapped must be True, False, or a mean and a positive deviation such as "
        f"(0.45, 0.25); got {wrapped!r}"
    )


def _freeze(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields with tuples for lists, which files have, and NumPy's numbers as plain.

    A field must be hashable, and a config of fields is written as JSON.
    """
    return {name: _freeze_value(value) for name, value in fields.items()}


def _freeze_value(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(map(_freeze_value, value))
    return value.item() if isinstance(value, np.generic) else value


def _check_values(network: nn.Module) -> None:
    """Raises ValueError at a field whose value is not of the annotated kind."""
    for field in dataclasses.fields(network):
        value = getattr(network, field.name)
        # A default is right, whatever its annotation says.
        if value is not field.default and not fits(value, field.type):
            kind = field.type.__name__ if type(field.type) is type else field.type
            title = f"{field.name} of this {type(network).__name__}"
            raise ValueError(f"{title} must be {kind}, got {value!r}")


def fits(value: Any, kind: Any) -> bool:
    """Whether a value is of a kind: int, float, bool, str, or a tuple or union of them.

    Of any other kind, such as a class or a callable, every value is.
    """
    parts = [part for part in typing.get_args(kind) if part is not ...]
    origin = typing.get_origin(kind)
    if origin in (types.UnionType, typing.Union):
        return any(fits(value, part) for part in parts)
    if origin is tuple:
        return isinstance(value, tuple) and all(
            any(fits(entry, part) for part in parts) for entry in value
        )
    if kind not in (int, float, bool, str, tuple, types.NoneType):
        return True
    if isinstance(value, bool):  # which is an int to Python
        return kind is bool
    return isinstance(value, (int, float) if kind is float else kind)


def list_fields(network: type[nn.Module]) -> list[str]:
    """Returns the names of a network's own fields."""
    names = [field.name for field in dataclasses.fields(network)]
    return [name for name in names if name not in ("parent", "name")]


def check_tiles(model: Network) -> None:
    """Raises ValueError if a network is told what it does not know how to use."""
    if model.told and type(model).restore_tile is Network.restore_tile:
        raise ValueError(
            f"{type(model).__name__} is told the {' and '.join(model.told)} of whole "
            "images, so it must define restore_tile, which does not take out its "
            "tile's own"
        )
    inner = getattr(model, "inner", None)  # of a wrapper, which asks it for tiles
    if isinstance(inner, Network):
        check_tiles(inner)


def find_shapes(model: Network) -> dict[str, Any]:
    """Returns the shapes and types of a network's variables; nothing is computed.

    ValueError if its fields, each of its kind, do not go together.
    """
    try:
        side = model.multiple
        image = jax.ShapeDtypeStruct((1, side, side, model.channels), jnp.float32)
        # The key is made inside: outside, that would be compiled.
        return dict(jax.eval_shape(lambda x: model.init(jax.random.key(0), x), image))
    # Wherever such numbers meet. What is left out is a fault of the code.
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        title = f"the fields of this {type(model).__name__} do not go together"
        reason = " ".join(str(error).split())
        raise ValueError(f"{title}: {reason}") from error


def check_fields(network: type[nn.Module], fields: Iterable[str]) -> None:
    """Raises ValueError at a name that is no field, with the ones it may mean."""
    known = list_fields(network)
    for field in fields:
        if field not in known:
            near = difflib.get_close_matches(field, known, n=3) or known or ["none"]
            raise ValueError(
                f"unknown model field {field!r}; did you mean {', '.join(near)}?"
            )
