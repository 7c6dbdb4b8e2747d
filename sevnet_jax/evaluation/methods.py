"""What a table scores: weights, classical denoisers, or any function.

Classical denoisers are told the true noise level; networks are told nothing.
"""

import dataclasses
import functools
import hashlib
import importlib
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sevnet_jax import metrics
from sevnet_jax.inference.automatic import CAMERA, WEIGHTS, AutoDenoiser
from sevnet_jax.inference.denoiser import Denoiser
from sevnet_jax.weights import (
    FILE,
    Weights,
    find_bundled,
    find_file,
    join,
    load_denoiser,
    load_named,
)

DEFAULT = "sevnet_s"  # trained as in the paper
# The weight of total variation and the width of non-local means, of sigma: on crops of
# DIV2K, gaussian 10 and 20 and speckle 90, the best or near it of 0.4 to 1 for both.
TUNED = 0.6

# Elsewhere than on a CPU, float32 products may be rounded to fewer bits.
PRECISION = "highest"

# (noisy float32 [H, W, C], rms of the noise in [0, 1]) -> the same shape
Restore = Callable[[np.ndarray, float], np.ndarray]


@dataclasses.dataclass(frozen=True)
class Method:
    """A row of a table: its name, what it does, and where it comes from."""

    name: str
    restore: Restore
    provenance: Mapping[str, Any]
    denoiser: Denoiser | None = None  # of weights


def open_methods(
    weights: Sequence[str] | None = None,
    others: Sequence[str] | None = None,
    translator: str | None = None,
    clipped: bool = False,
) -> list[Method]:
    """Returns the named methods; without any, the bundled weights.

    Weights may be given with the label to show, LABEL=WEIGHTS. A translator comes after
    the weights that it was trained for, with them. With `clipped`, all of these are
    there once more, with clipping undone.
    """
    if not weights and (translator or not others):
        weights = [DEFAULT]
    methods = [open_classical(name) for name in others or ()]
    given = [split_label(text) for text in weights or ()]
    loaded = [load_denoiser(name) for _, name in given]
    short = label_weights([name for _, name in given])
    labels = [label or own for (label, _), own in zip(given, short, strict=True)]
    for own, label in zip(loaded, labels, strict=True):
        methods.append(_wrap(own, label))
    if translator:
        found = load_named(translator)
        wanted = found.provenance.get("denoiser_sha256")
        hashes = [own.sha256 for own in loaded]
        # If it is none's, `join` says so of the first.
        place = hashes.index(wanted) if wanted in hashes else 0
        (label,) = label_weights([translator])
        both = join(found, loaded[place])
        methods.append(_wrap(both, f"{labels[place]} after {label}"))
    if clipped:
        methods += [_undo_clipping(method) for method in methods if method.denoiser]
    names = [method.name for method in methods]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"two methods are called {name!r}; name each once")
    return methods


def find_channels(methods: Sequence[Method], grey: bool = False) -> int:
    """Returns of how many channels the images must be for all of these methods."""
    found = {m.denoiser.weights.model.channels for m in methods if m.denoiser}
    if grey:
        found.add(1)
    if len(found) > 1:
        counts = " and ".join(map(str, sorted(found)))
        raise ValueError(
            f"cannot score images of {counts} channels together; run the command once "
            "for each"
        )
    return found.pop() if found else 3


def split_label(text: str) -> tuple[str, str]:
    """Returns LABEL and WEIGHTS of LABEL=WEIGHTS; a path may have such a name too."""
    label, equals, name = text.partition("=")
    return (label, name) if equals and not Path(text).exists() else ("", text)


def label_weights(names: Sequence[str]) -> list[str]:
    """Returns a short name for each: of the file or the run, and its folder if need be.

    s0/1a and s1/1a keep their folders, runs/1a and runs/2f do not.
    """
    bundled = find_bundled()  # before folders of these names, as in `load_named`
    paths = [Path(name) if name in bundled else find_file(name) for name in names]
    places = [
        path.parent.resolve() if path.name == FILE else path.with_suffix("")
        for path in paths
    ]
    labels = [place.name for place in places]
    return [
        label if labels.count(label) == 1 else "/".join(place.parts[-2:])
        for place, label in zip(places, labels, strict=True)
    ]


def _wrap(weights: Weights, label: str) -> Method:
    restore = Denoiser(weights, precision=PRECISION)
    provenance = {
        "weights_sha256": weights.sha256,
        "model": dict(weights.config),
        "training": dict(weights.provenance),
        "precision": PRECISION,
    }
    return Method(label, lambda noisy, _: restore(noisy), provenance, restore)


def _undo_clipping(method: Method) -> Method:
    """The same method with the step after it that the paper's has not."""
    denoiser = method.denoiser
    assert denoiser is not None
    provenance = {**method.provenance, "clipping": "undone"}
    return dataclasses.replace(
        method,
        name=f"{method.name}, clipping undone",
        restore=lambda noisy, _: denoiser(noisy, clipped=is_within_range(noisy)),
        provenance=provenance,
    )


def is_within_range(noisy: np.ndarray) -> bool:
    """Whether noise may have been clipped: gaussian noise in tables is not."""
    return bool(noisy.min() >= 0 and noisy.max() <= 1)


def run_automatic(noisy: np.ndarray, _: float) -> np.ndarray:
    """Returns what denoise.py makes of the image: bundled weights that it chooses.

    Noise that leaves [0, 1] is left in floats; all else is seen as a file of 8 bits.
    """
    denoise = _open_automatic()
    if not is_within_range(noisy):
        return denoise(noisy)
    return denoise(metrics.to_rgb8(noisy)) / np.float32(255)


@functools.cache
def _open_automatic() -> AutoDenoiser:
    return AutoDenoiser(precision=PRECISION)


def open_classical(name: str) -> Method:
    """Returns a method by its name in METHODS, or by `module:function`."""
    if ":" in name:
        function, source = _import(name)
        provenance: dict[str, Any] = {"function": name, "source_sha256": source}
        return Method(name, lambda noisy, _: function(noisy), provenance)
    if name not in METHODS:
        raise ValueError(
            f"unknown method {name!r}; choose from {', '.join(METHODS)}, or "
            "module:function of your own"
        )
    packages = PACKAGES.get(name, ())
    versions = {}
    for package in packages:
        try:
            module = importlib.import_module(package)
        except ImportError:
            hint = "pip install bm3d" if package == "bm3d" else EVAL_HINT
            raise ValueError(f"method {name!r} needs {package}: {hint}") from None
        versions[package] = getattr(module, "__version__", "?")
    provenance = {"method": name, "versions": versions}
    if name == "auto":
        chosen = (*WEIGHTS.values(), *CAMERA.values())
        provenance["weights_sha256"] = {w: load_named(w).sha256 for w in chosen}
        provenance["precision"] = PRECISION
    if packages:
        provenance["told"] = "the rms of the noise in each image"
    return Method(name, METHODS[name], provenance)


def _import(name: str) -> tuple[Callable[[np.ndarray], np.ndarray], str | None]:
    """The function, and the sha256 of the file that its module is in."""
    module_name, _, attribute = name.partition(":")
    # As `python -m` has it: a module in the folder one stands in can be named.
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
        function = getattr(module, attribute)
    except Exception as error:  # importing runs anybody's code
        raise ValueError(f"cannot import {name!r}: {error}") from error
    if not callable(function):
        raise ValueError(f"{name!r} is not a function but {type(function).__name__}")
    file = getattr(module, "__file__", None)
    if not file:
        return function, None
    return function, hashlib.sha256(Path(file).read_bytes()).hexdigest()


def keep_noisy(noisy: np.ndarray, _: float) -> np.ndarray:
    """Returns the image as it is."""
    return noisy


def run_nlm(noisy: np.ndarray, sigma: float) -> np.ndarray:
    """Returns the result of non-local means (Buades et al. 2005)."""
    from skimage import restoration

    return restoration.denoise_nl_means(
        noisy,
        patch_size=5,
        patch_distance=6,
        h=TUNED * sigma,
        sigma=sigma,
        fast_mode=True,
        channel_axis=-1,
    )


def run_tv(noisy: np.ndarray, sigma: float) -> np.ndarray:
    """Returns the image smoothed by total variation (Chambolle 2004)."""
    from skimage import restoration

    if sigma == 0:
        return noisy
    return restoration.denoise_tv_chambolle(
        noisy, weight=TUNED * sigma, channel_axis=-1
    )


def run_wavelet(noisy: np.ndarray, sigma: float) -> np.ndarray:
    """Returns the result of BayesShrink (Chang et al. 2000) on wavelets of YCbCr."""
    from skimage import restoration

    if sigma == 0:
        return noisy
    # Unclipped noise leaves [0, 1], where the conversion of colours is defined.
    low, high = float(noisy.min()), float(noisy.max())
    span = max(high - low, math.ulp(1.0))
    restored = restoration.denoise_wavelet(
        (noisy - low) / span,
        sigma=sigma / span,
        convert2ycbcr=noisy.shape[-1] == 3,
        channel_axis=-1,
    )
    return restored * span + low


def run_bm3d(noisy: np.ndarray, sigma: float) -> np.ndarray:
    """Returns the result of BM3D (Dabov et al. 2007) by its authors' package."""
    import bm3d

    if noisy.shape[-1] == 1:
        return np.reshape(bm3d.bm3d(noisy[..., 0], sigma), noisy.shape)
    return bm3d.bm3d_rgb(noisy, sigma)


EVAL_HINT = 'pip install "sevnet_jax[eval]"'
METHODS: dict[str, Restore] = {
    "noisy": keep_noisy,
    "auto": run_automatic,
    "nlm": run_nlm,
    "tv": run_tv,
    "wavelet": run_wavelet,
    "bm3d": run_bm3d,
}
PACKAGES = {
    "nlm": ("skimage",),
    "tv": ("skimage",),
    "wavelet": ("skimage", "pywt"),
    "bm3d": ("bm3d",),
}
