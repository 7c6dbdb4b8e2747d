"""Restores a picture file. The command and the web page both use this."""

import collections
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sevnet_jax import images
from sevnet_jax.inference.automatic import AutoDenoiser
from sevnet_jax.inference.choose import Choice, find_kind
from sevnet_jax.inference.denoiser import Denoiser, Progress, blend
from sevnet_jax.inference.program import SYMMETRIES

LARGE = 2_000_000  # pixels to restore, from which on one waits for a while


@dataclasses.dataclass(frozen=True)
class Restored:
    """A picture, and its pixels restored in full: any strength is a blend of both."""

    picture: images.Picture
    pixels: np.ndarray
    notes: tuple[str, ...]  # what was chosen, and what is worth saying

    def write(self, target: Path, strength: float = 1.0) -> None:
        """Writes the picture with its bit depth and metadata."""
        blended = blend(self.picture.pixels, self.pixels, strength)
        images.write_picture(target, blended, self.picture)


def restore_file(
    denoiser: Denoiser | AutoDenoiser,
    source: Path,
    target: Path,
    *,
    max_pixels: int,
    noise: str = "auto",
    channels: str = "auto",
    clipped: bool | str = "auto",
    announce: Callable[[Denoiser, int], object] = lambda *_: None,
    progress: Progress = iter,
    **options: Any,
) -> Restored:
    """Returns what `source` becomes, if a file like `target` can hold it.

    `announce` is called with the denoiser before the work begins, and with how many
    pixels it will see: channels that are restored one by one count each, and of a
    stack, all pages count as the first.
    `noise` and `channels` are for a denoiser that chooses; `options` are `Denoiser`'s.
    """
    picture = images.read_picture(source, max_pixels)
    pixels = picture.pixels
    images.check_target(target, pixels, picture)
    notes = [picture.note] if picture.note else []
    count = pixels.shape[-1] if pixels.ndim > 2 else 1
    wanted = (
        None if isinstance(denoiser, AutoDenoiser) else denoiser.weights.model.channels
    )
    if count in (2, 4) and not picture.last_is_alpha and channels == "auto":
        bands = picture.tiff["photometric"] == "minisblack"  # as of a microscope
        if bands and wanted is None:
            channels = "independent"
        elif count != wanted:
            notes.append("its last channel as it is")
    if isinstance(denoiser, AutoDenoiser):
        if count > 4:
            channels = "independent"  # in files, they are the last axis for certain
        said: dict[str, Any] = {
            "noise": noise,
            "channels": channels,
            "clipped": clipped,
        }
        first = pixels[0] if pixels.ndim == 4 else pixels
        choice = denoiser.choose(first, **said)
        used, passes = denoiser.find_denoiser(choice), choice.passes
    else:
        used, passes = denoiser, len(denoiser.choose_channels(count))
        if denoiser.weights.model.channels == 3 and is_grey(pixels):
            notes.append("grey, and these weights are for colour: they remove little")
    announce(used, pixels.size // count * passes)
    options["progress"] = progress
    if not isinstance(denoiser, AutoDenoiser):
        restored = denoiser(pixels, clipped=clipped, **options)
    elif pixels.ndim == 4:
        restored, choices = restore_pages(denoiser, pixels, said, **options)
        notes.append(describe_choices(choices))
    else:
        restored = denoiser.restore(pixels, choice, **options)
        notes.append(str(choice))
    return Restored(picture, restored, tuple(notes))


def restore_pages(
    denoiser: AutoDenoiser,
    pages: np.ndarray,
    said: Mapping[str, Any],
    *,
    progress: Progress = iter,
    **options: Any,
) -> tuple[np.ndarray, list[Choice]]:  # [N, H, W, C] -> the same
    """Restores each page as it needs, given what was said; returns what was chosen."""
    restored, choices = [], []
    for page in progress(pages):
        choices.append(denoiser.choose(page, **said))
        restored.append(denoiser.restore(page, choices[-1], **options))
    return np.stack(restored), choices


def describe_choices(choices: Sequence[Choice]) -> str:
    """Returns what was chosen, and for one page why."""
    if len(choices) == 1:
        return str(choices[0])
    counts = collections.Counter(choice.what for choice in choices)
    return "; ".join(
        f"{count} page{'s' * (count > 1)}: {what}" for what, count in counts.items()
    )


def is_grey(pixels: np.ndarray) -> bool:  # [H, W], [H, W, C] or [N, H, W, C]
    """Whether a picture has one channel, or three equal ones."""
    return pixels.ndim == 2 or find_kind(pixels) == "grey"


def estimate_wait(denoiser: Denoiser, count: int, ensemble: bool) -> str:
    """Returns how long many pixels will take; nothing for few."""
    if count < LARGE:
        return ""
    size, each = f"{count / 1e6:.0f} megapixels", denoiser.seconds_per_pixel
    if each is None:
        return size
    return f"{size}, about {each * count * (SYMMETRIES if ensemble else 1):.0f} s"


def describe(error: Exception) -> str:
    """Returns what went wrong in one sentence."""
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
        return "it does not fit into memory"
    plain = isinstance(error, ValueError | OSError)
    text = str(error) if plain else f"{type(error).__name__}: {error}"
    return " ".join(text.split())
