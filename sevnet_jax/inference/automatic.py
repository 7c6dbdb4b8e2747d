"""The bundled weights, chosen for each image by what it is."""

import dataclasses
import threading
from pathlib import Path
from typing import Any

import numpy as np

from sevnet_jax.inference.choose import Choice, choose
from sevnet_jax.inference.denoiser import Denoiser, Progress, check_image
from sevnet_jax.weights import Weights, join, list_bundled, load_denoiser, load_named

# What restores a kind of image, and what translates the noise of cameras for it.
WEIGHTS = {"colour": "sevnet_s", "grey": "sevnet_s_grey"}
TRANSLATORS = {"colour": "translator_s"}


def load(
    name_or_path: str | Path | None = None, *, translator: str | Path | None = None
) -> "Denoiser | AutoDenoiser":
    """Returns a denoiser.

    Without arguments, one that chooses among the bundled weights for each image. With
    the name of bundled weights, a file or a run, one that uses these. A translator, by
    name or file, turns the noise of cameras into noise that the weights can remove;
    without weights, those that it was trained for are taken.
    """
    given = load_denoiser(name_or_path) if name_or_path else None
    if translator:
        found = load_named(translator)
        return Denoiser(join(found, given) if given else _join_bundled(found))
    return Denoiser(given) if given else AutoDenoiser()


def _join_bundled(translator: Weights) -> Weights:
    """Both, if a bundled denoiser is the one that the translator was trained for."""
    wanted = translator.provenance.get("denoiser_sha256")
    bundled = (load_named(name) for name in list_bundled())
    fitting = next((found for found in bundled if found.sha256 == wanted), None)
    # If none is, `join` says so.
    return join(translator, fitting or load_named(WEIGHTS["colour"]))


def _open(kind: str, noise: str) -> Denoiser:
    if noise == "camera":
        return load(translator=TRANSLATORS[kind])  # type: ignore[return-value]
    return Denoiser(load_denoiser(WEIGHTS[kind]))


class AutoDenoiser:
    """Restores images of any kind; nothing has to be known of them or their noise."""

    def __init__(self) -> None:
        self._opened: dict[tuple[str, str], Denoiser] = {}
        self._lock = threading.Lock()

    @property
    def weights(self) -> Weights:
        """What restores colour images with white noise."""
        return self._find("colour", "white").weights

    def choose(
        self,
        image: np.ndarray,
        *,
        noise: str = "auto",
        channels: str = "auto",
        clipped: bool | str = "auto",
    ) -> Choice:
        """Returns what would be done to an image [H, W] or [H, W, C], and why."""
        image = image[..., None] if image.ndim == 2 else image
        choice = choose(image, noise, channels, clipped)
        if choice.noise == "camera" and self._find_kind(choice) not in TRANSLATORS:
            return dataclasses.replace(
                choice, noise="white", note="no translator for grey"
            )
        return choice

    def find_denoiser(self, choice: Choice) -> Denoiser:
        """Returns what restores images of that choice."""
        return self._find(self._find_kind(choice), choice.noise)

    def _find(self, kind: str, noise: str) -> Denoiser:
        """Read when it is needed, and once, also if several threads need it."""
        with self._lock:
            if (kind, noise) not in self._opened:
                self._opened[kind, noise] = _open(kind, noise)
            return self._opened[kind, noise]

    def _find_kind(self, choice: Choice) -> str:
        return "colour" if choice.kind == "colour" else "grey"

    def __call__(
        self,
        image: np.ndarray,
        *,
        noise: str = "auto",
        channels: str = "auto",
        clipped: bool | str = "auto",
        progress: Progress = iter,
        **options: Any,
    ) -> np.ndarray:
        """Returns the restored image, of the shape and type of `image`.

        `image` is [H, W], [H, W, C] or a batch [N, H, W, C]. Three equal channels are
        grey; 2 and 4 channels have alpha, which stays as it is; more than 4 are
        restored one by one, as are all with `channels="independent"`. `noise` is
        "white", "camera" (correlated between pixels), or "auto": measured. Types and
        further options are those of `Denoiser`.
        """
        image = np.asarray(image)
        check_image(image, image.shape[-1] if image.ndim > 2 else 1)
        if image.ndim == 4:
            options |= {"noise": noise, "channels": channels, "clipped": clipped}
            pages = [self(page, **options) for page in progress(image)]
            return np.stack(pages) if pages else image.copy()
        choice = self.choose(image, noise=noise, channels=channels, clipped=clipped)
        options |= {"clipped": choice.clipped, "progress": progress}
        denoiser = self.find_denoiser(choice)
        if choice.kind == "independent":
            planes = [denoiser(p, **options) for p in np.moveaxis(image, -1, 0)]
            return np.stack(planes, -1)
        if choice.kind == "grey" and image.ndim == 3 and image.shape[-1] > 2:
            result = image.copy()
            result[..., :3] = denoiser(image[..., :1], **options)
            return result
        return denoiser(image, **options)
