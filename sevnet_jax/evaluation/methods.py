"""What is scored: weights of ours, classical denoisers, or any function.

A classical denoiser is told the noise's true level; a network is told nothing.
"""

import dataclasses
import importlib
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sevnet_jax.inference.denoiser import DEFAULT, Denoiser, load

WEIGHTS_FILE = "weights.safetensors"  # of a run's folder

# The weight of total variation and the width of non-local means, of sigma: on crops of
# DIV2K, gaussian 10 and 20 and speckle 90, the best or near it of 0.4 to 1 for both.
TUNED = 0.6

# (noisy float32 [H, W, 3], rms of the noise in [0, 1]) -> the same shape
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
) -> list[Method]:
    """Returns the named methods; without any, the bundled weights.

    With a translator, each of the weights is there alone and behind it.
    """
    if not weights and (translator or not others):
        weights = [DEFAULT]
    methods = [open_classical(name) for name in others or ()]
    for name in weights or ():
        methods.append(open_weights(name))
        if translator:
            methods.append(open_weights(name, translator))
    names = [method.name for method in methods]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"two methods are called {name!r}; name each once")
    return methods


def open_weights(name: str, translator: str | None = None) -> Method:
    """Returns weights by their name, file, or the folder of the run that made them."""
    path = _find_file(name)
    label = path.parent.name if path.name == WEIGHTS_FILE else path.stem
    if translator:
        translator = _find_file(translator)
        label += f" after {translator.stem}"
    restore = load(path, translator=translator)
    provenance = {
        "weights_sha256": restore.weights.sha256,
        "model": dict(restore.weights.config),
        "training": dict(restore.weights.provenance),
    }
    return Method(label, lambda noisy, _: restore(noisy), provenance, restore)


def _find_file(name: str) -> Path:
    """The weights in a run's folder; a file or a name stays as it is."""
    path = Path(name)
    if not path.is_dir():
        return path
    if not (path / WEIGHTS_FILE).is_file():
        raise ValueError(
            f"the run {name!r} has no {WEIGHTS_FILE}; is it finished? Its last step "
            "writes them"
        )
    return path / WEIGHTS_FILE


def open_classical(name: str) -> Method:
    """Returns a method by its name in METHODS, or by `module:function`."""
    if ":" in name:
        function = _import(name)
        return Method(name, lambda noisy, _: function(noisy), {"function": name})
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
    if packages:
        provenance["told"] = "the rms of the noise in each image"
    return Method(name, METHODS[name], provenance)


def _import(name: str) -> Callable[[np.ndarray], np.ndarray]:
    module_name, _, attribute = name.partition(":")
    # As `python -m` has it: a module in the folder one stands in can be named.
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        function = getattr(importlib.import_module(module_name), attribute)
    except Exception as error:  # importing runs anybody's code
        raise ValueError(f"cannot import {name!r}: {error}") from error
    if not callable(function):
        raise ValueError(f"{name!r} is no function but {type(function).__name__}")
    return function


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
        convert2ycbcr=True,
        channel_axis=-1,
    )
    return restored * span + low


def run_bm3d(noisy: np.ndarray, sigma: float) -> np.ndarray:
    """Returns the result of colour BM3D (Dabov et al. 2007) by its authors' package."""
    import bm3d

    return bm3d.bm3d_rgb(noisy, sigma)


EVAL_HINT = "pip install -r requirements/eval.txt"
METHODS: dict[str, Restore] = {
    "noisy": keep_noisy,
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
