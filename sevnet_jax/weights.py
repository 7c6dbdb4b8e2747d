"""Weights in one safetensors file, with the model's config and their provenance.

Nothing in such a file can run code. Its content is checked before it is used.
"""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import safetensors
from flax import traverse_util
from safetensors.numpy import save_file

from sevnet_jax.config import ClashError, recall
from sevnet_jax.files import write_atomically
from sevnet_jax.models import Network, Translated, create_model
from sevnet_jax.models.base import find_shapes

FORMAT = "sevnet_jax 1"
FILE = "weights.safetensors"  # in the folder of a run


@dataclasses.dataclass(frozen=True)
class Weights:
    """A model, its parameters, and how they were made."""

    model: Network
    params: Any
    config: Mapping[str, Any]  # of the model: name and fields
    provenance: Mapping[str, Any]
    sha256: str  # of all of it


def save_weights(
    path: str | Path,
    params: Any,
    model_config: Mapping[str, Any],
    provenance: Mapping[str, Any],
) -> None:
    """Writes the file in one go; parameters that are not finite are refused."""
    arrays = {
        name: np.asarray(value)
        for name, value in traverse_util.flatten_dict(dict(params), sep="/").items()
    }
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise ValueError(f"{name} is not finite; such weights are not saved")
    metadata = {
        "format": FORMAT,
        "model": json.dumps(model_config),
        "provenance": json.dumps(provenance),
    }
    metadata["sha256"] = _digest(arrays, metadata)

    def write(temporary: Path) -> None:
        try:
            save_file(arrays, temporary, metadata)
        except safetensors.SafetensorError as error:  # also that of a full disk
            raise OSError(f"cannot write {path}: {error}") from error

    write_atomically(path, write)


def load_weights(path: str | Path) -> Weights:
    """Reads and checks such a file; a ValueError says what is wrong with it.

    Parts of the config that they were trained with are made known (see config.py).
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"there is no weights file {str(path)!r}")
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != FORMAT:  # whatever its tensors are
                raise ValueError(f"{path} was not written by sevnet_jax")
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except safetensors.SafetensorError as error:
        raise ValueError(
            f"{path} is not a complete safetensors file: {error}"
        ) from None
    wanted = metadata.pop("sha256", None)
    digest = _digest(arrays, metadata)
    if digest != wanted:
        raise ValueError(f"{path} is damaged: its content does not match its sha256")
    failed = ""
    try:
        config = json.loads(metadata["model"])
        provenance = json.loads(metadata["provenance"])
        try:
            recall(provenance.get("config"))
        except ClashError:
            raise
        except ValueError as error:  # most weights need nothing of their config
            failed = f"; {error}"
        model = create_model(**config)
    except ClashError:  # its parts are not those it was trained with
        raise
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        hint = _name_config(metadata)
        raise ValueError(
            f"{path} uses an unknown model: {error}{failed}{hint}"
        ) from None
    params = traverse_util.unflatten_dict(arrays, sep="/")
    check_fit(path, params, model)
    params = jax.device_put(params)  # jnp.asarray would compile for every shape
    return Weights(model, params, config, provenance, digest)


def _name_config(metadata: Mapping[str, str]) -> str:
    """A hint at the config that may define what is not known."""
    try:
        name = json.loads(metadata["provenance"])["config"]["file"]
    except (KeyError, ValueError, TypeError):
        return ""
    return f"; if the config {name} defines it, add --parts with that file"


def find_file(name_or_path: str | Path) -> Path:
    """Returns the weights in a run's folder; a file or a name stays as it is."""
    path = Path(name_or_path)
    if not path.is_dir():
        return path
    if not (path / FILE).is_file():
        raise ValueError(
            f"the run {str(path)!r} has no {FILE}; is it finished? Its last step "
            "writes this file"
        )
    return path / FILE


def find_bundled() -> dict[str, Traversable]:
    """Returns the weights files that came with the package, by their names."""
    folder = resources.files("sevnet_jax") / "bundled"
    return {
        Path(file.name).stem: file
        for file in (folder.iterdir() if folder.is_dir() else ())
        if file.name.endswith(".safetensors")
    }


def load_named(name_or_path: str | Path) -> Weights:
    """Returns the weights of a name that came with the package, a file, or a run."""
    bundled = find_bundled()
    name = str(name_or_path)
    if name not in bundled:  # a folder of such a name is ./NAME
        name = str(find_file(name_or_path))
    if name in bundled:
        with resources.as_file(bundled[name]) as path:
            return load_weights(path)
    if not Path(name).is_file():
        raise ValueError(
            f"there are no weights {name!r}; give a file, a run's folder or one of: "
            f"{', '.join(sorted(bundled)) or 'none came with this package'}"
        )
    return load_weights(name)


def load_denoiser(name_or_path: str | Path) -> Weights:
    """Returns weights as `load_named` does; a translator's are refused."""
    weights = load_named(name_or_path)
    if "denoiser_sha256" in weights.provenance:
        raise ValueError(
            f"{name_or_path} is a translator, which restores nothing by itself; pass "
            "it as --translator"
        )
    return weights


def load_partner(translator: Weights) -> Weights:
    """Returns the bundled denoiser that a translator was trained for."""
    wanted = find_wanted(translator)
    for file in find_bundled().values():
        with resources.as_file(file) as path:
            with safetensors.safe_open(path, framework="numpy") as opened:
                found = opened.metadata()["sha256"]
            if found == wanted:
                return load_weights(path)
    raise ValueError(
        f"the translator was trained for the denoiser {wanted[:12]}, which did not "
        "come with this package; pass it as --weights"
    )


def find_wanted(translator: Weights) -> str:
    """Returns the sha256 of the denoiser that a translator was trained for."""
    wanted = translator.provenance.get("denoiser_sha256")
    if wanted is None:
        raise ValueError("these weights are not a translator")
    return wanted


def join(translator: Weights, denoiser: Weights) -> Weights:
    """Returns both as one: D(T(y)). They must have been trained for each other."""
    wanted = find_wanted(translator)
    if wanted != denoiser.sha256:
        raise ValueError(
            f"the translator was trained for the denoiser {wanted[:12]}, not for "
            f"{denoiser.sha256[:12]}"
        )
    return Weights(
        Translated.of(translator.model, denoiser.model),
        Translated.join(translator.params, denoiser.params),
        {
            "name": f"{denoiser.config['name']} after {translator.config['name']}",
            "translator": dict(translator.config),
            "denoiser": dict(denoiser.config),
        },
        {
            "translator": {"sha256": translator.sha256, **translator.provenance},
            "denoiser": {"sha256": denoiser.sha256, **denoiser.provenance},
        },
        hashlib.sha256((translator.sha256 + denoiser.sha256).encode()).hexdigest(),
    )


def check_fit(path: str | Path, params: Any, model: Network) -> None:
    """Raises ValueError unless names, shapes and types are the model's, all finite."""
    arrays = traverse_util.flatten_dict(dict(params), sep="/")
    try:
        expected = traverse_util.flatten_dict(find_shapes(model), sep="/")
    except ValueError as error:  # fields that do not go together
        raise ValueError(f"{path} uses an unknown model: {error}") from None
    for name in sorted({*arrays, *expected}):
        if name not in arrays:
            raise ValueError(f"{path} lacks {name}")
        if name not in expected:
            raise ValueError(f"{path} contains {name}, which the model does not have")
        found, wanted = arrays[name], expected[name]
        if found.shape != wanted.shape or found.dtype != wanted.dtype:
            raise ValueError(
                f"{path}: {name} is {found.dtype} {found.shape}, the model has "
                f"{wanted.dtype} {wanted.shape}"
            )
        if not np.isfinite(found).all():
            raise ValueError(f"{path}: {name} holds values that are not finite")


def _digest(arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> str:
    """The sha256 of all texts, names, types, shapes and values."""
    digest = hashlib.sha256(json.dumps(dict(metadata), sort_keys=True).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
