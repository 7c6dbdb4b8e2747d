"""The bundled samples, restored: scores in a table, and one picture."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from sevnet_jax.data import images
from sevnet_jax.evaluation import metrics, sheet
from sevnet_jax.evaluation.report import format_table
from sevnet_jax.evaluation.sheet import Panel

NOISY = "_noisy_"  # NAME_noisy_LAW.png beside NAME_clean.png
CAMERA = "isp"  # the noise that a translator is for


def find_samples(folder: Path) -> list[tuple[str, str, Path, Path]]:
    """Returns name, noise, noisy and clean file of each sample."""
    found = []
    for noisy in sorted(folder.glob(f"*{NOISY}*.png")):
        name, law = noisy.stem.split(NOISY)
        clean = folder / f"{name}_clean.png"
        if not clean.is_file():
            raise ValueError(f"{noisy} has no {clean.name} beside it")
        found.append((name, law.replace("-", ":"), noisy, clean))
    if not found:
        raise ValueError(f"no samples in {str(folder)!r}")
    return found


def run(
    denoise: Callable[[np.ndarray], np.ndarray],
    denoise_real: Callable[[np.ndarray], np.ndarray],
    folder: Path,
    out: Path,
) -> str:
    """Writes the picture, returns the table."""
    rows, pictures = [], []
    for name, law, noisy_file, clean_file in find_samples(folder):
        noisy, clean = (images.read_named(p) for p in (noisy_file, clean_file))
        restored = (denoise_real if law == CAMERA else denoise)(noisy)
        before, after = (metrics.psnr(image, clean) for image in (noisy, restored))
        ssims = (metrics.ssim(image, clean) for image in (noisy, restored))
        rows.append(
            [name, law, f"{before:.2f}", f"{after:.2f}", *(f"{s:.3f}" for s in ssims)]
        )
        pictures.append((law, before, after, noisy, restored))
    draw(pictures, out)
    header = [
        "sample",
        "noise",
        "noisy dB",
        "restored dB",
        "noisy SSIM",
        "restored SSIM",
    ]
    return format_table(header, rows)


def draw(pictures: list[tuple], out: Path) -> None:
    """Writes a column for each sample: noisy above, restored below."""
    above = [Panel(f"{law}, {before:.1f} dB", n) for law, before, _, n, _ in pictures]
    below = [Panel(f"restored, {after:.1f} dB", r) for _, _, after, _, r in pictures]
    sheet.draw([above, below], out)
