"""Converts the originals' hyper-parameters and weights into ours.

    network = build("restormer", {"dim": 48, "LayerNorm_type": "BiasFree"})
    variables = convert(network, {"patch_embed.proj.weight": array, ...})

A parameter's path, joined by dots, is its official key. Its last part gives the layout:
`kernel` is an official weight with the axes of a convolution or linear map reordered,
and `scale` is the weight of a norm. All others keep their official name and layout.
Axes of length 1 do not matter.
"""

import contextlib
import dataclasses
import fnmatch
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import numpy as np
from flax import traverse_util

from sevnet_jax.models.base import (
    Network,
    create_model,
    find_shapes,
    fits,
    list_models,
)

WRAPPERS = ("params_ema", "params", "state_dict")  # where files keep a network's state
Reader = Callable[[Any], Mapping[str, Any]]  # an official value -> fields
SHOWN = 3  # names in a message


@dataclasses.dataclass(frozen=True)
class Original:
    """What `declare` was told of an original."""

    network: type[Network]
    fields: Mapping[str, str | Reader]
    same: Mapping[str, str]
    fixed: Mapping[str, Any]
    unused: tuple[str, ...]
    ignored: tuple[str, ...]
    prefixes: tuple[str, ...]
    levels_vary: bool


_ORIGINALS: dict[str, Original] = {}


def declare(
    name: str,
    network: type[Network],
    *,
    fields: Mapping[str, str | Reader],
    same: Mapping[str, str] | None = None,
    fixed: Mapping[str, Any] | None = None,
    unused: Iterable[str] = (),
    ignored: Iterable[str] = (),
    prefixes: Iterable[str] = (),
    levels_vary: bool = True,
) -> None:
    """Makes an original known: what its hyper-parameters are to the fields of ours.

    `fields` gives for each the field, or a function from its value to fields. One in
    `same` must equal another or be None, one in `fixed` must have that value (what else
    it could have we did not build), one in `unused` may have any. `ignored` are
    patterns of official keys that are no parameters in use, `prefixes` what keys may
    start with besides `module.`. Unless `levels_vary`, a list has as many entries as by
    default: the original would not look at more.
    """
    _ORIGINALS[name] = Original(
        network,
        fields,
        same or {},
        fixed or {},
        (*unused, "seed"),
        tuple(ignored),
        ("module.", *prefixes),
        levels_vary,
    )


def read_norm(value: str) -> dict[str, bool]:
    """Fields of Restormer's two norms, by their official names."""
    choices = {"WithBias": True, "BiasFree": False}
    if value not in choices:
        raise ValueError(f"LayerNorm_type is WithBias or BiasFree, got {value!r}")
    return {"centred": choices[value]}


def read_patches(shape: Any) -> dict[str, int]:
    """Field of the shape of training patches, [B, C, H, W], or of their side."""
    match shape:
        case int(side) if side > 0:
            return {"train_size": side}
        case (_, _, int(height), int(width)) if height == width > 0:
            return {"train_size": height}
    raise ValueError(
        f"training patches are squares such as (1, 3, 256, 256), got {shape!r}"
    )


# What the NAF family has for its pooling over boxes, by the names in use.
POOLING: Mapping[str, Reader] = {
    "train_size": read_patches,
    "tlc_train_size": read_patches,
}
POOLING_FIXED = {"tlc_base_factor": 1.5}


def list_originals() -> list[str]:
    """Returns the names that `build` knows."""
    return sorted(_ORIGINALS)


def build(name: str, config: Mapping[str, Any]) -> Network:
    """Returns the network of official hyper-parameters.

    `name` is an original, or a preset of one; what is left out is as it has it. Names
    with a leading underscore are notes.
    """
    start = _ORIGINALS[name].network() if name in _ORIGINALS else create_model(name)
    original = _find_original(start)
    kinds = {field.name: field.type for field in dataclasses.fields(original.network)}
    fields: dict[str, Any] = {}
    for key, value in config.items():
        if key.startswith("_") or key in original.unused:
            continue
        value = _freeze(value)
        if key in original.fixed:
            fixed = _freeze(original.fixed[key])
            # Official files have null for no name too.
            allowed = [None, fixed] if fixed == "" else [fixed]
        elif key in original.same:
            partner = original.same[key]
            as_it_is = getattr(start, str(original.fields[partner]))
            allowed = [None, _freeze(config.get(partner, as_it_is))]
        elif key in original.fields:
            target = original.fields[key]
            if not isinstance(target, str):
                try:
                    fields.update(target(value))
                except TypeError:
                    message = f"{name} has no {key} such as {value!r}"
                    raise ValueError(message) from None
                continue
            default = getattr(original.network, target)
            if not _fits(value, kinds[target]):
                kind = f"{key} of {name} is of the kind of {default!r}"
                raise ValueError(f"{kind}, got {value!r}")
            varies = original.levels_vary or not isinstance(default, tuple)
            if not varies and len(value) != len(default):
                count = f"{key} of {name} has {len(default)} entries"
                raise ValueError(f"{count}, got {value!r}")
            fields[target] = value
            continue
        else:
            has = ", ".join([*original.fields, *original.same, *original.fixed])
            raise ValueError(f"{name} has no hyper-parameter {key!r}; it has {has}")
        if value not in allowed:
            only = f"{key}={allowed[-1]!r} only"
            raise ValueError(f"{name} is built here with {only}, got {value!r}")
    return start.with_fields(**fields)


def _freeze(value: Any) -> Any:
    return tuple(map(_freeze, value)) if isinstance(value, list | tuple) else value


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value is of a kind; nothing that counts is negative."""
    entries = value if isinstance(value, tuple) else (value,)
    return fits(value, kind) and not any(
        isinstance(entry, int | float) and entry < 0 for entry in entries
    )


def convert(
    network: Network | str,
    state: Mapping[str, Any],
    config: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Returns the Flax variables of a network, from {official key: array}.

    The network is one that was built, a preset's name, or the name of an original with
    its `config`. Keys that are missing, left over or misshapen are refused.
    """
    if isinstance(network, str):
        network = create_model(network) if config is None else build(network, config)
    state = unwrap(network, state)
    paths = match(network, {key: np.shape(value) for key, value in state.items()})
    arrays = {
        path: _turn(np.asarray(state[key], np.float32), path, shape)
        for key, (path, shape) in paths.items()
    }
    return traverse_util.unflatten_dict(arrays)


def unwrap(network: Network, state: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the state inside what files put around it, without prefixes of keys."""
    for wrapper in WRAPPERS:
        if isinstance(state.get(wrapper), Mapping):
            return unwrap(network, state[wrapper])
    bare = dict(state)
    for prefix in _find_original(network).prefixes:
        bare = {key.removeprefix(prefix): value for key, value in bare.items()}
    return bare


def find_presets(network: Network, state: Mapping[str, Any]) -> list[str]:
    """Returns the presets of the same original that the weights fit."""
    shapes = {key: np.shape(value) for key, value in unwrap(network, state).items()}
    found = []
    for name in list_models("rival"):
        preset = create_model(name)
        if type(preset) is type(network):
            with contextlib.suppress(ValueError):
                match(preset, shapes)
                found.append(name)
    return found


def list_keys(network: Network) -> dict[str, tuple[int, ...]]:
    """Returns the official keys of a network's parameters, and their shapes."""
    return {
        _name_key(path): _official_shape(path, leaf.shape)
        for path, leaf in _list_parameters(network).items()
    }


def match(
    network: Network, shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, tuple[tuple[str, ...], tuple[int, ...]]]:
    """Returns for each official key in use our path and shape; ValueError at a misfit.

    Costs no memory, however large the network.
    """
    original = _find_original(network)
    expected = {
        _name_key(path): (path, leaf.shape)
        for path, leaf in _list_parameters(network).items()
    }
    found = {
        key: shape
        for key, shape in shapes.items()
        if key in expected or not _is_ignored(key, original.ignored)
    }
    title = type(network).__name__
    faults = []
    if missing := [key for key in expected if key not in found]:
        faults.append(f"the weights of this {title} lack {_show(missing)}")
    if extra := [key for key in found if key not in expected]:
        faults.append(f"this {title} has no {_show(extra)}, but the weights do")
    if faults:
        raise ValueError("; ".join(faults))
    for key, (path, shape) in expected.items():
        wanted = _official_shape(path, shape)
        if _squeeze(found[key]) != _squeeze(wanted):
            raise ValueError(
                f"{key} has the shape {tuple(found[key])}, this {title} takes {wanted}"
            )
    return expected


def _find_original(network: Network) -> Original:
    for original in _ORIGINALS.values():
        if type(network) is original.network:
            return original
    known = ", ".join(list_models("rival"))
    raise ValueError(f"{type(network).__name__} has no original; these have: {known}")


@functools.lru_cache(maxsize=4)  # of networks, which take seconds to trace
def _list_parameters(network: Network) -> Mapping[tuple[str, ...], Any]:
    return traverse_util.flatten_dict(find_shapes(network))


def _name_key(path: tuple[str, ...]) -> str:
    *modules, leaf = path[1:]  # without "params"
    return ".".join([*modules, {"kernel": "weight", "scale": "weight"}.get(leaf, leaf)])


def _official_shape(path: tuple[str, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    if path[-1] != "kernel":
        return shape
    return (*shape[:-3:-1], *shape[:-2])  # outputs, inputs, then the sides


def _turn(array: np.ndarray, path: tuple[str, ...], shape: tuple[int, ...]) -> Any:
    """The official array in our layout and shape."""
    array = array.reshape(_official_shape(path, shape))
    if path[-1] == "kernel":
        array = np.moveaxis(array, (1, 0), (-2, -1))
    return jax.device_put(array)  # jnp.asarray would compile for every shape


def _squeeze(shape: Iterable[int]) -> list[int]:
    return [side for side in shape if side != 1]


def _is_ignored(key: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(key, pattern) for pattern in patterns)


def _show(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
