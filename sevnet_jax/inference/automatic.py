"""Chooses among the bundled weights for each image."""

import threading
from pathlib import Path
from typing import Any

import numpy as np

from sevnet_jax.inference.choose import Choice, choose
from sevnet_jax.inference.denoiser import Denoiser, Progress, check_image, to_array
from sevnet_jax.weights import Weights, join, load_denoiser, load_named, load_partner

# What restores images with white noise, and all others, by their kind.
WEIGHTS = {"colour": "sevnet_s_wide", "grey": "sevnet_s_grey"}
CAMERA = {"colour": "sevnet_s_camera", "grey": "sevnet_s_grey_camera"}
TRANSLATOR = "translator_s"  # the paper's way, for the weights of the paper's tables


def load(
    name_or_path: str | Path | None = None, *, translator: str | Path | None = None
) -> "Denoiser | AutoDenoiser":
    """Returns a denoiser.

    Without arguments, it chooses among the bundled weights for each image. With the
    name of bundled weights, a file or a run, it uses these. A translator, by name or
    file, turns camera noise into noise that the weights can remove; if no weights are
    given, those that the translator was trained for are used.
    """
    if not name_or_path and not translator:
        return AutoDenoiser()
    return Denoiser(load_weights(name_or_path, translator))


def load_weights(
    name_or_path: str | Path | None = None, translator: str | Path | None = None
) -> Weights:
    """Returns the weights of a denoiser, or of a translator and its denoiser.

    A translator finds the denoiser that it was trained for, if that is a bundled one.
    """
    if not translator:
        return load_denoiser(name_or_path or WEIGHTS["colour"])
    first = load_named(translator)
    given = load_denoiser(name_or_path) if name_or_path else load_partner(first)
    return join(first, given)


class AutoDenoiser:
    """Restores images of any kind, without being told anything about their noise."""

    def __init__(self, precision: str | None = None) -> None:
        """`precision` is that of products, as of `Denoiser`."""
        self._precision = precision
        self._opened: dict[str, Denoiser] = {}
        self._lock = threading.Lock()

    @property
    def weights(self) -> Weights:
        """What restores colour images with white noise."""
        return self._find(WEIGHTS["colour"]).weights

    def choose(
        self,
        image: np.ndarray,
        *,
        noise: str = "auto",
        channels: str = "auto",
        clipped: bool | str = "auto",
    ) -> Choice:
        """Returns what would be done to an image [H, W] or [H, W, C], and why."""
        image = to_array(image)
        if image.ndim not in (2, 3):
            raise ValueError(
                "one image is chosen for at a time, [H, W] or [H, W, C]; got "
                f"{image.shape}"
            )
        check_image(image, image.shape[-1])
        first = image.ndim == 3 and image.shape[0] <= 4 < image.shape[-1]
        if first and channels == "auto":
            raise ValueError(
                f"channels come last, [H, W, C]; got {image.shape}: give "
                "np.moveaxis(image, 0, -1), or channels='independent' if it is so"
            )
        image = image[..., None] if image.ndim == 2 else image
        return choose(image, noise, channels, clipped)

    def find_denoiser(self, choice: Choice) -> Denoiser:
        """Returns the denoiser for images of that choice."""
        kind = "colour" if choice.kind == "colour" else "grey"
        return self._find((CAMERA if choice.noise == "camera" else WEIGHTS)[kind])

    def _find(self, name: str) -> Denoiser:
        """Read when it is needed, and once, also if several threads need it."""
        with self._lock:
            if name not in self._opened:
                weights = load_weights(name)
                self._opened[name] = Denoiser(weights, precision=self._precision)
            return self._opened[name]

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

        `image` is [H, W], [H, W, C] or a batch [N, H, W, C]; C is 1 in one of grey
        images. Three equal channels are grey. The last of 2 or 4 channels is alpha,
        which stays as it is. More than 4 channels are restored one by one, and so are
        all with `channels="independent"`. `noise` is "white", "camera" (any other), or
        "auto" (measured, in each of such channels). Where it is camera noise, fine
        texture is kept unless `keep_texture` is False. Types and further options are
        those of `Denoiser`.
        """
        image = to_array(image)
        check_image(image, image.shape[-1] if image.ndim else 1)
        if image.ndim == 4:
            options |= {"noise": noise, "channels": channels, "clipped": clipped}
            pages = [self(page, **options) for page in progress(image)]
            return np.stack(pages) if pages else image.copy()
        choice = self.choose(image, noise=noise, channels=channels, clipped=clipped)
        return self.restore(image, choice, progress=progress, **options)

    def restore(self, image: np.ndarray, choice: Choice, **options: Any) -> np.ndarray:
        """Returns the restored image, [H, W] or [H, W, C], given what was chosen."""
        image = to_array(image)
        if choice.kind == "independent":
            result = np.empty_like(image)
            for i, part in enumerate(choice.parts):
                restore = self.find_denoiser(part)
                plane = restore(image[..., i], **_settle(part, options))
                result[..., i] = plane
            return result
        denoiser = self.find_denoiser(choice)
        options = _settle(choice, options)
        if choice.kind == "grey" and image.ndim == 3 and image.shape[-1] > 2:
            result = image.copy()
            result[..., :3] = denoiser(image[..., :1], **options)
            return result
        return denoiser(image, **options)


def _settle(choice: Choice, options: dict[str, Any]) -> dict[str, Any]:
    """What a denoiser is told of a choice, and of what a user said besides."""
    keep_texture = choice.noise == "camera"
    return {"keep_texture": keep_texture} | options | {"clipped": choice.clipped}
